"""What the views about attention are told is what the model computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from text_models import SOURCE, text_model
from tiny_workspace import opened_run, unfinished_run, workspace

from seq2see.core.errors import UserError
from seq2see.explorer import traces
from seq2see.explorer.schemas import MAX_SHOWN_TOKENS
from seq2see.explorer.traces import TraceRequest
from seq2see.explorer.views import attention as view
from seq2see.explorer.workspace import Workspace
from seq2see.inspection.attention_measures import alignment_error, entropy, max_pooled_maps, patch_distance
from seq2see.metrics.alignment import GoldAlignment
from seq2see.runs.tracing import look
from seq2see.sources.examples import Example

TEXTS = {"r1": SOURCE, "r2": SOURCE, "r3": "我有一支笔", "r4": "我有[MASK]支笔"}
EVERY = pytest.mark.parametrize("run", TEXTS)
WEIGHTS = pytest.mark.parametrize("run", [*TEXTS, "r5"])


@pytest.fixture(scope="module")
def on() -> Workspace:
    return workspace()


def about(run: str, **more) -> dict:
    return {"run": run, "text": TEXTS.get(run, ""), **more}


def layers_of(on: Workspace, run: str) -> list[dict]:
    return view.list_layers(on, TraceRequest(**about(run)))["lens"]


@EVERY
def test_every_attention_is_listed_with_the_tokens_of_its_rows_and_columns(on: Workspace, run: str):
    told = view.list_layers(on, TraceRequest(**about(run)))
    target = None if on.run(run).model.has_source else ""
    signals = look(on.run(run).model, TEXTS[run], target).of("attention")
    assert [each["name"] for each in told["lens"]] == [each.name for each in signals]
    for layer, signal in zip(told["lens"], signals, strict=True):
        assert (layer["heads"], *layer["cells"]) == signal.values.shape
        assert len(told["tokens"][layer["rows"]]) == layer["cells"][0]
        assert len(told["special"][layer["columns"]]) == layer["cells"][1]
        assert (layer["rows"] == "target_tokens") == signal.across


def test_a_image_has_patches_for_tokens(on: Workspace):
    told = view.list_layers(on, TraceRequest(**about("r5")))
    assert told["tokens"]["source"] == ["class", "1,1", "1,2", "2,1", "2,2"]
    assert told["special"]["source"] == [True, False, False, False, False]
    assert told["grid"] == (2, 2)


@WEIGHTS
def test_one_head_one_row_and_all_heads_fused_are_the_models_weights(on: Workspace, run: str):
    model = on.run(run).model
    given = traces.reading(on, TraceRequest(**about(run)))
    signals = traces.look_at(model, given).of("attention")
    layer, values = len(signals) - 1, signals[-1].values
    head = len(values) - 1
    assert np.array_equal(view.head(on, view.HeadRequest(**about(run, layer=layer, head=head))).array, values[head])
    fused = view.head(on, view.HeadRequest(**about(run, layer=layer, heads="mean"))).array
    assert fused == pytest.approx(values.mean(0))
    row = view.row(on, view.AttentionRowRequest(**about(run, layer=layer, row=1))).array
    assert np.array_equal(row, values[:, 1])
    small = view.thumbnails(on, view.LayerRequest(**about(run, layer=layer))).array
    assert np.array_equal(small, max_pooled_maps(values, view.THUMBNAIL_SIZE))
    told = view.measures(on, view.LayerRequest(**about(run, layer=layer)))
    assert told["entropy"] == pytest.approx(entropy(values).mean(-1))
    assert (told["distance"] is None) == signals[-1].across
    assert np.diag(told["similarity"]) == pytest.approx(1)
    assert told["alignment_error"] is None
    if run == "r5":
        assert told["distance"] == pytest.approx(patch_distance(values, (2, 2)).mean(-1))


@WEIGHTS
def test_the_parts_of_a_head_give_its_weights(on: Workspace, run: str):
    """What the page computes by hand, here in numpy."""
    for layer, told in enumerate(layers_of(on, run)):
        names = ("query", "key", "value", "attention_mask", "attention_bias", "score_vector", "attention")
        parts = {
            name: view.part(
                on, view.HeadPartRequest(**about(run, layer=layer, head=told["heads"] - 1, part=name))
            ).array
            for name in names
        }
        if told["score_function"] == "additive":
            scores = np.tanh(parts["query"][:, None] + parts["key"][None]) @ parts["score_vector"]
        else:
            assert not parts["score_vector"].size
            scores = parts["query"] @ parts["key"].T / np.sqrt(told["size"])
        powers = np.exp(scores - scores.max()) * parts["attention_mask"]
        assert powers / powers.sum(-1, keepdims=True) == pytest.approx(parts["attention"], abs=1e-5)
        assert not parts["attention_bias"].size
        assert len(parts["value"]) == told["cells"][1]


def test_what_is_too_much_to_keep_is_kept_layer_by_layer(monkeypatch):
    on = workspace()
    whole, _ = traces.attention(on, TraceRequest(**about("r3")), 1)
    assert len(whole.of("attention")) == 2
    monkeypatch.setattr(traces, "MAX_ATTENTION_BYTES", 300)
    on = workspace()
    one, found = traces.attention(on, TraceRequest(**about("r3")), 1)
    assert len(one.of("attention")) == 1
    assert np.array_equal(found.values, whole.of("attention")[1].values)


def test_a_long_text_is_refused_and_one_that_is_just_short_enough_is_shown(on: Workspace):
    text = (TEXTS["r3"] * MAX_SHOWN_TOKENS)[:MAX_SHOWN_TOKENS]
    head = view.HeadRequest(run="r3", text=text, layer=1, head=1)
    assert view.head(on, head).array.shape == (MAX_SHOWN_TOKENS, MAX_SHOWN_TOKENS)
    small = view.thumbnails(on, view.LayerRequest(run="r3", text=text, layer=1)).array
    assert small.shape == (2, view.THUMBNAIL_SIZE, view.THUMBNAIL_SIZE)
    with pytest.raises(UserError, match="1,001 tokens"):
        view.list_layers(on, TraceRequest(run="r3", text=text + "我"))
    with pytest.raises(UserError, match="1,001 tokens"):
        view.list_layers(on, TraceRequest(run="r1", text=SOURCE, target=text))


@pytest.mark.parametrize("wrong", [{"layer": 99}, {"layer": 6}, {"layer": 0, "head": 9}])
def test_what_there_is_not_is_refused(on: Workspace, wrong: dict):
    assert len(traces.layers(on, TraceRequest(**about("r1")))) == 6
    with pytest.raises(UserError):
        view.head(on, view.HeadRequest(**about("r1", **wrong)))
    with pytest.raises(UserError):
        view.part(on, view.HeadPartRequest(**about("r1", **wrong), part="key"))
    with pytest.raises(UserError):
        view.row(on, view.AttentionRowRequest(**about("r1", layer=0, row=99)))


def test_what_is_kept_is_kept_for_everything_that_is_given():
    one = TraceRequest(run="r1", text="a")
    others = {"run": "r2", "text": "b", "target": "c", "number": 3, "pixels": "AAAA"}
    assert others.keys() == TraceRequest.model_fields.keys()
    keys = {traces._key(one.model_copy(update={name: value})) for name, value in others.items()}
    assert len(keys | {traces._key(one)}) == 6


def linked(source: str, target: str) -> Example:
    """Three words each, which translate each other in the other order."""
    words, others = tuple(source), tuple(target.split())
    return Example(source, target, ((0, 2), (1, 1), (2, 0)), source_words=words, target_words=others)


@pytest.fixture
def pocket(tmp_path: Path) -> Workspace:
    """A run of the pocket corpus, of which there are two sentences, with a model of random weights."""
    two = [linked("你有书", "ab cd ef"), linked("我有笔", "a bc d")]
    run = opened_run("r1", "pocket", text_model("transformer"))
    run.folder, run.test_examples = unfinished_run(tmp_path), two
    return Workspace({"r1": run})


def test_where_the_true_alignment_is_known_it_is_told_and_heads_are_scored_by_it(pocket: Workspace):
    offered = view.offered(pocket, view.ExamplesRequest(run="r1"))["examples"]
    assert [(each["source"], each["gold"]) for each in offered] == [("你有书", True), ("我有笔", True)]
    asked = {"run": "r1", "text": "我有笔", "target": "a bc d"}
    told = view.list_layers(pocket, TraceRequest(**asked))
    assert told["gold"]["links"] == ((0, 2), (1, 1), (2, 0))
    assert told["gold"]["source_words"] == [0, 1, 2, None]
    assert len(told["gold"]["target_words"]) == len(told["tokens"]["target_tokens"]) == 7
    across = next(place for place, each in enumerate(told["lens"]) if each["cross"])
    errors = view.measures(pocket, view.LayerRequest(**asked, layer=across))["alignment_error"]
    weights = look(pocket.run("r1").model, "我有笔", "a bc d").of("attention")[across].values
    words = (told["gold"]["source_words"], told["gold"]["target_words"])
    assert errors == [alignment_error(each, *words, GoldAlignment.of(told["gold"]["links"])) for each in weights]
    assert view.measures(pocket, view.LayerRequest(**asked, layer=0))["alignment_error"] is None
    assert view.list_layers(pocket, TraceRequest(**asked | {"target": "a bc"}))["gold"] is None


def test_a_run_without_data_offers_what_its_samples_show(on: Workspace):
    assert view.offered(on, view.ExamplesRequest(run="r1"))["examples"][0]["source"] == "I have a pen"
    assert view.offered(on, view.ExamplesRequest(run="r5")) == {"examples": []}


def test_a_text_without_a_blank_can_be_looked_into_by_a_model_that_fills_blanks(on: Workspace):
    told = view.list_layers(on, TraceRequest(run="r4", text="我有一支笔"))
    assert told["tokens"]["source"] == ["<bos>", *"我有一支笔", "<eos>"]
