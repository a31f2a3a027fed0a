"""Settings: changes by path, TOML, and errors with the closest valid name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
from pydantic import AfterValidator, Field

from seq2see.core.errors import UserError
from seq2see.core.settings import Settings, default_kind, descriptions, parse_assignment, read_toml, read_tree, walk


class Boat(Settings):
    """A boat."""

    kind: Literal["boat"] = "boat"
    length: int = 3
    """How long it is."""
    oars: int = 2
    """How many oars."""


class Train(Settings):
    """A train."""

    kind: Literal["train"] = "train"
    length: int = 100
    """How long it is."""
    wagons: int = 9
    """How many wagons."""


def _heavy(weight: int) -> int:
    if weight < 5:
        raise ValueError("it is too light")
    return weight


class Trip(Settings):
    """A trip."""

    name: str
    """What it is called."""
    vehicle: Annotated[Boat | Train, Field(discriminator="kind")] = Boat()
    spare: Boat = Boat(oars=1)
    stops: tuple[str, ...] = ()
    """Where it stops."""
    price: float | None = None
    """What it costs."""


def test_a_setting_is_changed_by_its_path_and_the_original_stays():
    trip = Trip(name="a")
    changed = trip.with_(**{"vehicle.oars": 4, "name": "b"})
    assert changed.vehicle == Boat(oars=4)
    assert changed.name == "b"
    assert trip.vehicle == Boat()


def test_a_change_of_kind_keeps_common_settings_and_drops_the_others():
    trip = Trip(name="a", vehicle=Boat(length=7, oars=8)).with_(**{"vehicle.wagons": 5, "vehicle.kind": "train"})
    assert trip.vehicle == Train(length=7, wagons=5)


class Kite(Settings):
    """A kite, whose length is no number."""

    kind: Literal["kite"] = "kite"
    length: Literal["short", "long"] = "short"
    """How long its line is."""


class Toy(Settings):
    """A toy."""

    thing: Annotated[Boat | Kite, Field(discriminator="kind")] = Boat()


def test_a_setting_of_the_same_name_and_another_type_is_not_kept():
    assert Toy(thing=Boat(length=7)).with_(**{"thing.kind": "kite"}).thing == Kite()
    assert Toy(thing=Kite(length="long")).with_(**{"thing.kind": "boat"}).thing == Boat()


class Sledge(Settings):
    """A sledge, whose length is another matter than that of a boat."""

    not_carried: ClassVar[frozenset[str]] = frozenset({"length"})

    kind: Literal["sledge"] = "sledge"
    length: int = 1
    seats: int = 2


class WinterToy(Settings):
    thing: Annotated[Boat | Sledge, Field(discriminator="kind")] = Boat()


def test_a_field_that_a_class_does_not_carry_takes_its_default_in_both_directions():
    assert WinterToy(thing=Boat(length=7)).with_(**{"thing.kind": "sledge"}).thing == Sledge()
    assert WinterToy(thing=Sledge(length=7)).with_(**{"thing.kind": "boat"}).thing == Boat()
    assert WinterToy(thing=Sledge(length=7)).with_(**{"thing.kind": "sledge"}).thing == Sledge(length=7)


def test_a_whole_node_can_be_set():
    assert Trip(name="a").with_(vehicle=Train(wagons=1)).vehicle == Train(wagons=1)


def test_nothing_can_be_assigned():
    with pytest.raises(Exception, match="frozen"):
        Trip(name="a").name = "b"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vehicle.oras": 1}, "vehicle: There is no setting 'oras'. Did you mean 'oars'?"),
        ({"vehikle.oars": 1}, "There is no setting 'vehikle'. Did you mean 'vehicle'?"),
        ({"vehicle.wagons": 1}, "vehicle: There is no setting 'wagons'."),
        ({"vehicle.kind": "trian"}, "vehicle: There is no kind 'trian'. Did you mean 'train'?"),
        ({"name.first": 1}, "'name' has no settings inside it."),
        ({"vehicle.oars": "two"}, "'vehicle.oars' cannot be 'two'"),
        ({"spare.oars": "two"}, "'spare.oars' cannot be 'two'"),
    ],
)
def test_a_wrong_change_is_a_one_sentence_error(changes: dict[str, object], message: str):
    with pytest.raises(UserError) as caught:
        Trip(name="a").with_(**changes)
    assert message in str(caught.value)


def test_toml_and_back(tmp_path: Path):
    trip = Trip(name="湖", vehicle=Train(wagons=2), stops=("甲", "b"))
    (tmp_path / "trip.toml").write_text(trip.toml(), encoding="utf-8")
    assert read_toml(Trip, tmp_path / "trip.toml") == trip


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (
            {"name": "a", "vehicle": {"kind": "train", "wagos": 1}},
            "There is no setting 'wagos'. Did you mean 'wagons'?",
        ),
        ({"name": "a", "spare": {"oras": 1}}, "spare: There is no setting 'oras'. Did you mean 'oars'?"),
        ({}, "The setting 'name' is missing."),
        ({"name": "a", "nmae": "b"}, "There is no setting 'nmae'. Did you mean 'name'?"),
    ],
)
def test_a_wrong_tree_is_a_one_sentence_error(tree: dict[str, object], message: str):
    with pytest.raises(UserError) as caught:
        read_tree(Trip, tree)
    assert message in str(caught.value)


def test_the_error_for_invalid_toml_names_the_file(tmp_path: Path):
    (tmp_path / "x.toml").write_text("a = ")
    with pytest.raises(UserError, match=r"x\.toml: This is not valid TOML"):
        read_toml(Trip, tmp_path / "x.toml")


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("a.b=3", "a.b", 3),
        ("a=1e-3", "a", 1e-3),
        ("a=true", "a", True),
        ("a=word", "a", "word"),
        ('a="3"', "a", "3"),
        ('a=["x", "y"]', "a", ["x", "y"]),
        ("a=b=c", "a", "b=c"),
        ("a = 3", "a", 3),
        ("a.kind = word", "a.kind", "word"),
        ("a=", "a", ""),
    ],
)
def test_assignments_are_read_as_toml_or_as_a_word(text: str, path: str, value: object):
    assert parse_assignment(text) == (path, value)


@pytest.mark.parametrize("text", ["training.steps", "=200", ""])
def test_an_invalid_assignment_is_an_error(text: str):
    with pytest.raises(UserError, match=f"'{text}' is not a setting.*path=value"):
        parse_assignment(text)


class Ferry(Settings):
    """A ferry."""

    vehicle: Annotated[Boat | Train, Field(discriminator="kind"), default_kind("train")] = Boat()
    spare: Boat | None = None
    anchor: Annotated[int, AfterValidator(_heavy)] = 9


def test_a_missing_kind_is_the_default_one():
    assert read_tree(Ferry, {"vehicle": {"length": 5}}).vehicle == Train(length=5)
    assert read_tree(Ferry, {"vehicle": {"kind": "boat", "length": 5}}).vehicle == Boat(length=5)


def test_an_empty_node_has_no_settings():
    with pytest.raises(UserError, match=r"This recipe has no spare, so 'spare\.oars' cannot be set\."):
        Ferry().with_(**{"spare.oars": 3})
    assert Ferry().with_(spare=Boat(oars=3)).spare == Boat(oars=3)
    assert "spare" not in [path for path, *_ in walk(Ferry())]


def test_the_error_of_a_validator_names_its_setting():
    with pytest.raises(UserError) as caught:
        read_tree(Ferry, {"anchor": 1})
    assert str(caught.value) == "anchor: it is too light."


def test_every_setting_is_listed_with_its_docstring():
    rows = {path: (value, docstring) for path, value, docstring in walk(Trip(name="a"))}
    assert rows["vehicle"] == (Boat, "A boat.")
    assert rows["vehicle.oars"] == (2, "How many oars.")
    assert rows["spare.oars"] == (1, "How many oars.")
    assert rows["price"] == (None, "What it costs.")


class Sailing(Boat):
    """A boat that the wind moves."""

    length: int = 9
    """How long it is above the water."""
    sails: int = 1
    """How many sails, and:

    how large.
    """
    oars: int = 0
    flag: str = ""


def test_docstrings_are_inherited_and_parsed_at_the_first_call():
    # Parsing the source when a class is defined would slow down every import.
    assert all(field.description is None for field in Sailing.model_fields.values())
    expected = {
        "length": "How long it is above the water.",
        "oars": "How many oars.",
        "sails": "How many sails, and:\n\nhow large.",
    }
    assert descriptions(Sailing) == expected


def test_without_its_source_a_class_has_no_docstrings():
    namespace: dict[str, Any] = {"Settings": Settings}
    exec("class NoSource(Settings):\n    size: int = 1\n    'A docstring.'", namespace)
    assert descriptions(namespace["NoSource"]) == {}
    assert [*walk(namespace["NoSource"]())] == [("size", 1, "")]
