"""The responses of the attention views are what the model computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from text_models import SOURCE, text_model
from tiny_workspace import opened_run, unfinished_run, workspace

from seq2see.core.errors import UserError
from seq2see.data.examples import Example
from seq2see.explorer import inputs
from seq2see.explorer.inputs import TraceRequest
from seq2see.explorer.schemas import MAX_SHOWN_TOKENS
from seq2see.explorer.views import attention as view
from seq2see.explorer.workspace import Workspace
from seq2see.inspection.attention_measures import alignment_error, entropy, max_pooled_maps, patch_distance
from seq2see.metrics.alignment import GoldAlignment
from seq2see.tasks.model import trace_batch, trace_text

TEXTS = {"r1": SOURCE, "r2": SOURCE, "r3": "我有一支笔", "r4": "我有[MASK]支笔"}
TEXT_RUNS = pytest.mark.parametrize("run", TEXTS)
ALL_RUNS = pytest.mark.parametrize("run", [*TEXTS, "r5"])


@pytest.fixture(scope="module")
def opened() -> Workspace:
    return workspace()


def fields_of(run: str, **fields) -> dict:
    return {"run": run, "text": TEXTS.get(run, ""), **fields}


def layers_of(opened: Workspace, run: str) -> list[dict]:
    return view.list_layers(opened, TraceRequest(**fields_of(run)))["layers"]


@TEXT_RUNS
def test_every_attention_layer_is_listed_with_the_tokens_of_its_rows_and_columns(opened: Workspace, run: str):
    info = view.list_layers(opened, TraceRequest(**fields_of(run)))
    target = None if opened.run(run).model.has_source else ""
    signals = trace_text(opened.run(run).model, TEXTS[run], target).of("attention")
    assert [each["name"] for each in info["layers"]] == [each.name for each in signals]
    for layer, signal in zip(info["layers"], signals, strict=True):
        assert (layer["heads"], *layer["map_shape"]) == signal.values.shape
        assert len(info["tokens"][layer["rows"]]) == layer["map_shape"][0]
        assert len(info["special"][layer["columns"]]) == layer["map_shape"][1]
        assert (layer["rows"] == "labels") == signal.is_cross_attention


def test_the_tokens_of_an_image_are_patches(opened: Workspace):
    info = view.list_layers(opened, TraceRequest(**fields_of("r5")))
    assert info["tokens"]["source"] == ["class", "1,1", "1,2", "2,1", "2,2"]
    assert info["special"]["source"] == [True, False, False, False, False]
    assert info["grid"] == (2, 2)


@ALL_RUNS
def test_heads_rows_and_fused_heads_are_the_weights_of_the_model(opened: Workspace, run: str):
    model = opened.run(run).model
    batch = inputs.named_batch(opened, TraceRequest(**fields_of(run)))
    signals = trace_batch(model, batch).of("attention")
    layer, values = len(signals) - 1, signals[-1].values
    head = len(values) - 1
    assert np.array_equal(
        view.head(opened, view.HeadRequest(**fields_of(run, layer=layer, head=head))).array, values[head]
    )
    fused = view.head(opened, view.HeadRequest(**fields_of(run, layer=layer, heads="mean"))).array
    assert fused == pytest.approx(values.mean(0))
    row = view.row(opened, view.AttentionRowRequest(**fields_of(run, layer=layer, row=1))).array
    assert np.array_equal(row, values[:, 1])
    small = view.thumbnails(opened, view.LayerRequest(**fields_of(run, layer=layer))).array
    assert np.array_equal(small, max_pooled_maps(values, view.THUMBNAIL_SIZE))
    info = view.measures(opened, view.LayerRequest(**fields_of(run, layer=layer)))
    assert info["entropy"] == pytest.approx(entropy(values).mean(-1))
    assert (info["distance"] is None) == signals[-1].is_cross_attention
    assert np.diag(info["similarity"]) == pytest.approx(1)
    assert info["alignment_error"] is None
    if run == "r5":
        assert info["distance"] == pytest.approx(patch_distance(values, (2, 2)).mean(-1))


@ALL_RUNS
def test_the_weights_of_a_head_are_computed_from_its_parts(opened: Workspace, run: str):
    """The computation of the page, in numpy."""
    for layer, info in enumerate(layers_of(opened, run)):
        names = ("query", "key", "value", "attention_mask", "attention_bias", "score_vector", "attention")
        parts = {
            name: view.part(
                opened, view.HeadPartRequest(**fields_of(run, layer=layer, head=info["heads"] - 1, part=name))
            ).array
            for name in names
        }
        if info["score_function"] == "additive":
            scores = np.tanh(parts["query"][:, None] + parts["key"][None]) @ parts["score_vector"]
        else:
            assert not parts["score_vector"].size
            scores = parts["query"] @ parts["key"].T / np.sqrt(info["head_dim"])
        exponentials = np.exp(scores - scores.max()) * parts["attention_mask"]
        assert exponentials / exponentials.sum(-1, keepdims=True) == pytest.approx(parts["attention"], abs=1e-5)
        assert not parts["attention_bias"].size
        assert len(parts["value"]) == info["map_shape"][1]


def test_large_attention_weights_are_cached_layer_by_layer(monkeypatch):
    opened = workspace()
    full, _ = inputs.attention_weights(opened, TraceRequest(**fields_of("r3")), 1)
    assert len(full.of("attention")) == 2
    monkeypatch.setattr(inputs, "MAX_ATTENTION_BYTES", 300)
    opened = workspace()
    single, found = inputs.attention_weights(opened, TraceRequest(**fields_of("r3")), 1)
    assert len(single.of("attention")) == 1
    assert np.array_equal(found.values, full.of("attention")[1].values)


def test_a_text_above_the_maximum_length_is_an_error(opened: Workspace):
    text = (TEXTS["r3"] * MAX_SHOWN_TOKENS)[:MAX_SHOWN_TOKENS]
    head = view.HeadRequest(run="r3", text=text, layer=1, head=1)
    assert view.head(opened, head).array.shape == (MAX_SHOWN_TOKENS, MAX_SHOWN_TOKENS)
    small = view.thumbnails(opened, view.LayerRequest(run="r3", text=text, layer=1)).array
    assert small.shape == (2, view.THUMBNAIL_SIZE, view.THUMBNAIL_SIZE)
    with pytest.raises(UserError, match="1,001 tokens"):
        view.list_layers(opened, TraceRequest(run="r3", text=text + "我"))
    with pytest.raises(UserError, match="1,001 tokens"):
        view.list_layers(opened, TraceRequest(run="r1", text=SOURCE, target=text))


@pytest.mark.parametrize("fields", [{"layer": 99}, {"layer": 6}, {"layer": 0, "head": 9}])
def test_a_missing_layer_head_or_row_is_an_error(opened: Workspace, fields: dict):
    assert len(inputs.attention_layers(opened, TraceRequest(**fields_of("r1")))) == 6
    with pytest.raises(UserError):
        view.head(opened, view.HeadRequest(**fields_of("r1", **fields)))
    with pytest.raises(UserError):
        view.part(opened, view.HeadPartRequest(**fields_of("r1", **fields), part="key"))
    with pytest.raises(UserError):
        view.row(opened, view.AttentionRowRequest(**fields_of("r1", layer=0, row=99)))


def test_the_cache_key_contains_every_field_of_the_input():
    request = TraceRequest(run="r1", text="a")
    changes = {"run": "r2", "text": "b", "target": "c", "number": 3, "pixels": "AAAA"}
    assert changes.keys() == TraceRequest.model_fields.keys()
    keys = {inputs._key(request.model_copy(update={name: value})) for name, value in changes.items()}
    assert len(keys | {inputs._key(request)}) == 6


def linked(source: str, target: str) -> Example:
    """A pair of sentences with three words each, aligned in reverse order."""
    source_words, target_words = tuple(source), tuple(target.split())
    links = ((0, 2), (1, 1), (2, 0))
    return Example(source, target, links, source_words=source_words, target_words=target_words)


@pytest.fixture
def pocket(tmp_path: Path) -> Workspace:
    """A run with two sentences of the pocket corpus and a model with random weights."""
    examples = [linked("你有书", "ab cd ef"), linked("我有笔", "a bc d")]
    run = opened_run("r1", "pocket", text_model("transformer"))
    run.folder, run.test_examples = unfinished_run(tmp_path), examples
    return Workspace({"r1": run})


def test_a_known_gold_alignment_is_listed_and_heads_have_an_alignment_error(pocket: Workspace):
    examples = view.examples(pocket, view.ExamplesRequest(run="r1"))["examples"]
    assert [(each["source"], each["gold"]) for each in examples] == [("你有书", True), ("我有笔", True)]
    fields = {"run": "r1", "text": "我有笔", "target": "a bc d"}
    info = view.list_layers(pocket, TraceRequest(**fields))
    assert info["gold"]["links"] == ((0, 2), (1, 1), (2, 0))
    assert info["gold"]["source_words"] == [0, 1, 2, None]
    assert len(info["gold"]["target_words"]) == len(info["tokens"]["labels"]) == 7
    layer = next(index for index, each in enumerate(info["layers"]) if each["is_cross_attention"])
    errors = view.measures(pocket, view.LayerRequest(**fields, layer=layer))["alignment_error"]
    weights = trace_text(pocket.run("r1").model, "我有笔", "a bc d").of("attention")[layer].values
    words = (info["gold"]["source_words"], info["gold"]["target_words"])
    assert errors == [alignment_error(each, *words, GoldAlignment.of(info["gold"]["links"])) for each in weights]
    assert view.measures(pocket, view.LayerRequest(**fields, layer=0))["alignment_error"] is None
    assert view.list_layers(pocket, TraceRequest(**fields | {"target": "a bc"}))["gold"] is None


def test_a_run_without_data_has_a_default_example(opened: Workspace):
    assert view.examples(opened, view.ExamplesRequest(run="r1"))["examples"][0]["source"] == "I have a pen"
    assert view.examples(opened, view.ExamplesRequest(run="r5")) == {"examples": []}


def test_a_masked_language_model_can_be_traced_with_a_text_without_masks(opened: Workspace):
    info = view.list_layers(opened, TraceRequest(run="r4", text="我有一支笔"))
    assert info["tokens"]["source"] == ["<bos>", *"我有一支笔", "<eos>"]
