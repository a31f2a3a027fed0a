"""What the views about attention are told is what the model computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benches import bench, opened_run, unfinished
from writers import SOURCE, writer

from seq2see.core.errors import UserError
from seq2see.explorer import records
from seq2see.explorer.bench import Bench
from seq2see.explorer.messages import MOST_TOKENS
from seq2see.explorer.records import AboutInput
from seq2see.explorer.views import attention as view
from seq2see.inspection.measures import alignment_error, entropy, patch_distance, pooled
from seq2see.metrics.alignment import Gold
from seq2see.sources.examples import Example
from seq2see.workbench.look import look

TEXTS = {"r1": SOURCE, "r2": SOURCE, "r3": "我有一支笔", "r4": "我有[MASK]支笔"}
EVERY = pytest.mark.parametrize("run", TEXTS)
WEIGHTS = pytest.mark.parametrize("run", [*TEXTS, "r5"])


@pytest.fixture(scope="module")
def on() -> Bench:
    return bench()


def about(run: str, **more) -> dict:
    return {"run": run, "text": TEXTS.get(run, ""), **more}


def layers_of(on: Bench, run: str) -> list[dict]:
    return view.listed(on, AboutInput(**about(run)))["layers"]


@EVERY
def test_every_attention_is_listed_with_the_tokens_of_its_rows_and_columns(on: Bench, run: str):
    told = view.listed(on, AboutInput(**about(run)))
    target = None if on.run(run).model.reads else ""
    signals = look(on.run(run).model, TEXTS[run], target).of("attention")
    assert [each["name"] for each in told["layers"]] == [each.name for each in signals]
    for layer, signal in zip(told["layers"], signals, strict=True):
        assert (layer["heads"], *layer["cells"]) == signal.values.shape
        assert len(told["tokens"][layer["rows"]]) == layer["cells"][0]
        assert len(told["special"][layer["columns"]]) == layer["cells"][1]
        assert (layer["rows"] == "written") == signal.across


def test_a_picture_has_patches_for_tokens(on: Bench):
    told = view.listed(on, AboutInput(**about("r5")))
    assert told["tokens"]["source"] == ["class", "1,1", "1,2", "2,1", "2,2"]
    assert told["special"]["source"] == [True, False, False, False, False]
    assert told["grid"] == (2, 2)


@WEIGHTS
def test_one_head_one_row_and_all_heads_fused_are_the_models_weights(on: Bench, run: str):
    model = on.run(run).model
    given = records.reading(on, AboutInput(**about(run)))
    signals = records.look_at(model, given).of("attention")
    layer, values = len(signals) - 1, signals[-1].values
    head = len(values) - 1
    assert np.array_equal(view.head(on, view.HeadAsked(**about(run, layer=layer, head=head))).array, values[head])
    fused = view.head(on, view.HeadAsked(**about(run, layer=layer, heads="mean"))).array
    assert fused == pytest.approx(values.mean(0))
    row = view.row(on, view.RowAsked(**about(run, layer=layer, row=1))).array
    assert np.array_equal(row, values[:, 1])
    small = view.thumbnails(on, view.LayerAsked(**about(run, layer=layer))).array
    assert np.array_equal(small, pooled(values, view.THUMBNAIL))
    told = view.measures(on, view.LayerAsked(**about(run, layer=layer)))
    assert told["entropy"] == pytest.approx(entropy(values).mean(-1))
    assert (told["distance"] is None) == signals[-1].across
    assert np.diag(told["similarity"]) == pytest.approx(1)
    assert told["alignment_error"] is None
    if run == "r5":
        assert told["distance"] == pytest.approx(patch_distance(values, (2, 2)).mean(-1))


@WEIGHTS
def test_the_parts_of_a_head_give_its_weights(on: Bench, run: str):
    """What the page computes by hand, here in numpy."""
    for layer, told in enumerate(layers_of(on, run)):
        names = ("query", "key", "value", "allowed", "lean", "vector", "attention")
        parts = {
            name: view.part(on, view.PartAsked(**about(run, layer=layer, head=told["heads"] - 1, part=name))).array
            for name in names
        }
        if told["formula"] == "additive":
            scores = np.tanh(parts["query"][:, None] + parts["key"][None]) @ parts["vector"]
        else:
            assert not parts["vector"].size
            scores = parts["query"] @ parts["key"].T / np.sqrt(told["size"])
        powers = np.exp(scores - scores.max()) * parts["allowed"]
        assert powers / powers.sum(-1, keepdims=True) == pytest.approx(parts["attention"], abs=1e-5)
        assert not parts["lean"].size
        assert len(parts["value"]) == told["cells"][1]


def test_what_is_too_much_to_keep_is_kept_layer_by_layer(monkeypatch):
    on = bench()
    whole, _ = records.attention(on, AboutInput(**about("r3")), 1)
    assert len(whole.of("attention")) == 2
    monkeypatch.setattr(records, "MOST_BYTES", 300)
    on = bench()
    one, found = records.attention(on, AboutInput(**about("r3")), 1)
    assert len(one.of("attention")) == 1
    assert np.array_equal(found.values, whole.of("attention")[1].values)


def test_a_long_text_is_refused_and_one_that_is_just_short_enough_is_shown(on: Bench):
    text = (TEXTS["r3"] * MOST_TOKENS)[:MOST_TOKENS]
    head = view.HeadAsked(run="r3", text=text, layer=1, head=1)
    assert view.head(on, head).array.shape == (MOST_TOKENS, MOST_TOKENS)
    small = view.thumbnails(on, view.LayerAsked(run="r3", text=text, layer=1)).array
    assert small.shape == (2, view.THUMBNAIL, view.THUMBNAIL)
    with pytest.raises(UserError, match="1,001 tokens"):
        view.listed(on, AboutInput(run="r3", text=text + "我"))
    with pytest.raises(UserError, match="1,001 tokens"):
        view.listed(on, AboutInput(run="r1", text=SOURCE, target=text))


@pytest.mark.parametrize("wrong", [{"layer": 99}, {"layer": 6}, {"layer": 0, "head": 9}])
def test_what_there_is_not_is_refused(on: Bench, wrong: dict):
    assert len(records.layers(on, AboutInput(**about("r1")))) == 6
    with pytest.raises(UserError):
        view.head(on, view.HeadAsked(**about("r1", **wrong)))
    with pytest.raises(UserError):
        view.part(on, view.PartAsked(**about("r1", **wrong), part="key"))
    with pytest.raises(UserError):
        view.row(on, view.RowAsked(**about("r1", layer=0, row=99)))


def test_what_is_kept_is_kept_for_everything_that_is_given():
    one = AboutInput(run="r1", text="a")
    others = {"run": "r2", "text": "b", "target": "c", "number": 3, "pixels": "AAAA"}
    assert others.keys() == AboutInput.model_fields.keys()
    keys = {records._key(one.model_copy(update={name: value})) for name, value in others.items()}
    assert len(keys | {records._key(one)}) == 6


def linked(source: str, target: str) -> Example:
    """Three words each, which translate each other in the other order."""
    words, others = tuple(source), tuple(target.split())
    return Example(source, target, ((0, 2), (1, 1), (2, 0)), source_words=words, target_words=others)


@pytest.fixture
def pocket(tmp_path: Path) -> Bench:
    """A run of the pocket corpus, of which there are two sentences, with a model of random weights."""
    two = [linked("你有书", "ab cd ef"), linked("我有笔", "a bc d")]
    run = opened_run("r1", "pocket", writer("transformer"))
    run.folder, run.tested_on = unfinished(tmp_path), two
    return Bench({"r1": run})


def test_where_the_true_alignment_is_known_it_is_told_and_heads_are_scored_by_it(pocket: Bench):
    offered = view.offered(pocket, view.ExamplesAsked(run="r1"))["examples"]
    assert [(each["source"], each["gold"]) for each in offered] == [("你有书", True), ("我有笔", True)]
    asked = {"run": "r1", "text": "我有笔", "target": "a bc d"}
    told = view.listed(pocket, AboutInput(**asked))
    assert told["gold"]["links"] == ((0, 2), (1, 1), (2, 0))
    assert told["gold"]["source_words"] == [0, 1, 2, None]
    assert len(told["gold"]["target_words"]) == len(told["tokens"]["written"]) == 7
    across = next(place for place, each in enumerate(told["layers"]) if each["across"])
    errors = view.measures(pocket, view.LayerAsked(**asked, layer=across))["alignment_error"]
    weights = look(pocket.run("r1").model, "我有笔", "a bc d").of("attention")[across].values
    words = (told["gold"]["source_words"], told["gold"]["target_words"])
    assert errors == [alignment_error(each, *words, Gold.of(told["gold"]["links"])) for each in weights]
    assert view.measures(pocket, view.LayerAsked(**asked, layer=0))["alignment_error"] is None
    assert view.listed(pocket, AboutInput(**asked | {"target": "a bc"}))["gold"] is None


def test_a_run_without_data_offers_what_its_samples_show(on: Bench):
    assert view.offered(on, view.ExamplesAsked(run="r1"))["examples"][0]["source"] == "I have a pen"
    assert view.offered(on, view.ExamplesAsked(run="r5")) == {"examples": []}


def test_a_text_without_a_blank_can_be_looked_into_by_a_model_that_fills_blanks(on: Bench):
    told = view.listed(on, AboutInput(run="r4", text="我有一支笔"))
    assert told["tokens"]["source"] == ["<bos>", *"我有一支笔", "<eos>"]
