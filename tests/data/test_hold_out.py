"""Train, valid and test: they share no source, and where texts are linked neither side."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as some

from seq2see.core.errors import UserError
from seq2see.data.examples import Example
from seq2see.data.hold_out import connected_components, hold_out, hold_out_components


def numbered(count, times=1):
    return [Example(f"s{number}", f"t{again}") for number in range(count) for again in range(times)]


@pytest.mark.parametrize("count, held", [(3, 1), (19, 1), (50, 2), (200, 10), (20_100, 1000)])
def test_five_per_cent_are_held_out_at_least_one_and_at_most_a_thousand(count, held):
    splits = hold_out(numbered(count))
    assert {name: len(split) for name, split in splits.items()} == {
        "train": count - 2 * held,
        "valid": held,
        "test": held,
    }


@given(some.lists(some.tuples(some.sampled_from("abcdefgh"), some.sampled_from("xyz")), min_size=3, max_size=60))
def test_no_example_is_lost_and_no_source_is_in_two_splits(pairs):
    examples = [Example(*pair, location=f"f:{number}") for number, pair in enumerate(pairs)]
    if len({example.source for example in examples}) < 3:
        with pytest.raises(UserError, match="at least 3"):
            hold_out(examples)
        return
    splits = hold_out(examples)
    assert all(splits.values())
    assert sorted(chain(*splits.values()), key=examples.index) == examples
    sources = [{example.source for example in split} for split in splits.values()]
    assert sum(map(len, sources)) == len(set.union(*sources))
    assert all(split == sorted(split, key=examples.index) for split in splits.values())


def test_a_rare_label_stays_in_training():
    rare = [Example(f"r{number}", f"rare {number}") for number in range(40)]
    twice = [Example(f"p{number}", f"pair {number // 2}") for number in range(40)]
    examples = [*numbered(100), *rare, *twice]
    splits = hold_out(examples, labels=lambda example: (example.target,))
    assert {example.target for example in splits["train"]} == {example.target for example in examples}
    assert (len(splits["valid"]), len(splits["test"])) == (9, 9)


def test_labels_that_all_stay_in_training_anyway_change_nothing():
    examples = [Example(f"s{number}", f"t{number % 7}") for number in range(300)]
    assert hold_out(examples, labels=lambda example: (example.target,)) == hold_out(examples)


@pytest.mark.parametrize("same", [0, 3])
def test_labels_that_nearly_all_occur_once_are_refused(same):
    examples = [Example(f"s{number}", f"t{max(number, same)}") for number in range(100)]
    with pytest.raises(
        UserError, match=rf"Of 100 different examples only {same + 1 if same else 0} share .* Add examples"
    ):
        hold_out(examples, labels=lambda example: (example.target,))
    given = hold_out(examples, numbered(2), numbered(3), allow_overlap=True, labels=lambda example: (example.target,))
    assert given["train"] == examples  # nothing has to be held out


@pytest.mark.parametrize(("alone", "refused"), [(51, True), (50, False)])
def test_half_of_the_labels_must_be_shared(alone, refused):
    examples = [Example(f"s{number}", f"t{min(number, alone)}") for number in range(100)]
    with pytest.raises(UserError, match="Of 100 different examples only 49") if refused else nullcontext():
        hold_out(examples, labels=lambda example: (example.target,))


def many(source, times, labels):
    return [Example(source, label) for label in labels] * times


def test_where_no_source_fits_the_smallest_that_can_be_spared_is_held_out():
    examples = many("x", 10, ["x"]) + many("a", 11, ["a"]) + many("b", 12, ["a"]) + many("c", 13, ["a"])
    splits = hold_out(examples, labels=lambda example: (example.target,))
    assert [{example.source for example in splits[name]} for name in ("test", "valid")] == [{"a"}, {"b"}]


def test_a_group_of_one_split_is_not_spared_for_the_other():
    # When b is tested on, a is the only one left with the label a.
    examples = many("b", 20, ["a"]) + many("a", 11, ["a", "b"]) + many("c", 24, ["b"])
    splits = hold_out(examples, labels=lambda example: (example.target,))
    assert [{example.source for example in splits[name]} for name in ("test", "valid")] == [{"b"}, {"c"}]


def test_equal_sources_of_several_labels_spare_them_all_or_stay():
    examples = [Example(f"s{number}", label) for number in range(9) for label in ("a", "b")] + [Example("s4", "c")]
    splits = hold_out(examples, labels=lambda example: (example.target,))
    assert "c" in {example.target for example in splits["train"]}
    assert len(splits["valid"]) == len(splits["test"]) == 2


def test_the_splits_depend_on_the_texts_alone():
    examples = numbered(100)
    one, other = hold_out(examples), hold_out(examples[::-1])
    assert {name: set(split) for name, split in one.items()} == {name: set(split) for name, split in other.items()}
    # Fixed once and for all: another version of seq2see must test on the same examples.
    assert [example.source for example in one["test"]] == ["s66", "s72", "s73", "s80", "s94"]
    assert [example.source for example in one["valid"]] == ["s6", "s24", "s76", "s81", "s87"]


def test_more_data_moves_nothing_between_valid_and_test():
    small, large = hold_out(numbered(400)), hold_out(numbered(500))
    sources = {name: {example.source for example in split} for name, split in large.items()}
    assert not {example.source for example in small["valid"]} & sources["test"]
    assert not {example.source for example in small["test"]} & sources["valid"]


def test_sources_with_many_targets_do_not_overfill_a_split():
    splits = hold_out(numbered(100, times=7))
    assert len(splits["valid"]) == len(splits["test"]) == 35
    splits = hold_out(numbered(3, times=10))
    assert [len(split) for split in splits.values()] == [10, 10, 10]


@pytest.mark.parametrize("examples", [[], numbered(1), numbered(2), numbered(2, times=50)])
def test_fewer_than_three_sources_are_a_clear_error(examples):
    with pytest.raises(UserError, match="at least 3 are needed"):
        hold_out(examples)


def test_given_files_are_used_as_they_are():
    valid, test = [Example("v", "1")], [Example("t", "1")]
    examples = numbered(40)
    assert hold_out(examples, valid, test) == {"train": examples, "valid": valid, "test": test}
    splits = hold_out(examples, test=test)
    assert (len(splits["train"]), len(splits["valid"]), splits["test"]) == (38, 2, test)
    splits = hold_out(examples, valid)
    assert (len(splits["train"]), splits["valid"], len(splits["test"])) == (38, valid, 2)
    assert hold_out(numbered(1), valid, test)["train"] == numbered(1)


def test_a_test_source_among_the_training_data_is_an_error_unless_allowed():
    train = [Example("a", "b", location="train.tsv:1"), Example("c", "d", location="train.tsv:2")]
    test = [Example("x", "y", location="test.tsv:1"), Example("c", "e", location="test.tsv:2")]
    with pytest.raises(UserError) as caught:
        hold_out(train, [Example("v", "w")], test)
    assert caught.value.location == "test.tsv:2"
    assert "1 of 2 test sources" in caught.value.message
    assert "train.tsv:2" in caught.value.message
    assert hold_out(train, [Example("v", "w")], test, allow_overlap=True)["train"] == train


def test_the_first_of_equal_training_sources_is_reported():
    train = [Example("c", target, location=f"train.tsv:{number}") for number, target in enumerate("def", 1)]
    with pytest.raises(UserError, match=r"the first is at train\.tsv:1\."):
        hold_out(train, [Example("v", "w")], [Example("c", "e")])


def test_held_out_validation_sources_must_not_be_test_sources():
    examples = numbered(40)
    validated = hold_out(examples, test=[Example("t", "1")])["valid"]
    with pytest.raises(UserError, match="2 of 2 test sources are also in the training data"):
        hold_out(examples, test=validated)


def turned(examples):
    return [replace(example, source=example.target, target=example.source) for example in examples]


def test_pairs_that_share_a_text_are_one_group_however_long_the_chain():
    # a-1, b-1, b-2, c-2 hang together by 1, b and 2; d-4 stands alone.
    pairs = [("a", "1"), ("d", "4"), ("c", "2"), ("b", "1"), ("b", "2")]
    assert connected_components([Example(*pair) for pair in pairs]) == ["1", "4", "1", "1", "1"]


def test_case_and_punctuation_make_no_difference_but_letters_and_digits_do():
    pairs = [("Stop!", "停！"), ("stop", "站住。"), ("Stops.", "停下"), ("Room 1.", "一"), ("Room 2.", "二")]
    assert connected_components([Example(*pair) for pair in pairs]) == ["stop", "stop", "stops", "room1", "room2"]
    assert connected_components([Example("?", "？"), Example("!", "！")]) == [
        "?",
        "!",
    ]  # nothing but signs: as they are


WORDS = some.integers(0, 40).map(lambda number: f"w{number}")


@given(some.lists(some.tuples(WORDS, WORDS.map("t{}".format)), min_size=40, max_size=80))
def test_neither_side_of_a_held_out_pair_is_in_training_and_the_direction_does_not_matter(pairs):
    examples = [Example(*pair, location=f"f:{number}") for number, pair in enumerate(pairs)]
    if len(set(connected_components(examples))) < 3:
        with pytest.raises(UserError, match="at least 3"):
            hold_out_components(examples)
        return
    splits = hold_out_components(examples)
    assert sorted(chain(*splits.values()), key=examples.index) == examples
    for side in ("source", "target"):
        texts = [{getattr(example, side) for example in split} for split in splits.values()]
        assert sum(map(len, texts)) == len(set.union(*texts))
    assert hold_out_components(turned(examples)) == {name: turned(split) for name, split in splits.items()}


def test_the_splits_of_components_are_fixed_once_and_for_all():
    examples = [Example(f"s{number}", f"t{number // 2}") for number in range(100)]
    splits = hold_out_components(examples)
    # Pairs go by twos, so of the five that are wanted four fit.
    assert {name: len(split) for name, split in splits.items()} == {"train": 92, "valid": 4, "test": 4}
    assert [example.source for example in splits["test"]] == ["s66", "s67", "s72", "s73"]
    assert [example.source for example in splits["valid"]] == ["s6", "s7", "s76", "s77"]
