"""A trace does not change the outputs, records all signals, and removes its hooks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from seq2see.core.batch import Batch, Images, Sequences, Videos, WordSequences
from seq2see.core.seeds import seed_torch
from seq2see.inspection.trace import ALL_KINDS, ATTENTION_INPUTS, RecordedSignal, Trace, _stream_points, trace
from seq2see.layers.attention import Attention
from seq2see.layers.initialization import initialize
from seq2see.layers.recurrent_attention import MemoryAttention
from seq2see.layers.recurrent_cells import RecurrentCell
from seq2see.models.build import fresh_model
from seq2see.models.dual_encoder import DualEncoder
from seq2see.models.encoder_model import EmbeddingModel
from seq2see.models.image_settings import ImageSource, VideoSource
from seq2see.models.ngram_lm import NgramSettings
from seq2see.models.settings import Series
from seq2see.models.sound_settings import Sound
from seq2see.recipes.registry import RECIPES
from tiny_models import FAMILIES, ngram_model, perturbed_model, untrained_model

SOURCE, TARGET = [[3, 4, 5, 6, 2], [7, 8, 2]], [[1, 3, 4], [1, 5, 6]]
SMALL = {"width": 16, "depth": 2, "heads": 2, "kv_heads": 0, "embedding_width": None, "dropout": 0.0}
"""The sizes of every encoder and decoder that has these settings."""


def batch() -> Batch:
    labels = torch.tensor([[3, 4, 2], [5, 6, 2]])
    return Batch(Sequences.of(SOURCE), Sequences.of(TARGET), labels, torch.arange(2))


def has_cross_attention(name: str) -> bool:
    return getattr(FAMILIES[name].decoder, "attention", "") not in ("none", "context-vector")


def has_hooks(model: nn.Module) -> bool:
    """Whether any module has a hook."""
    return any("hook" in vars(part) or part._forward_hooks for part in model.modules())


def small(name: str, **changes) -> nn.Module:
    """The model that the task of a recipe builds, with small sizes."""
    recipe = RECIPES[name]().with_(**changes)
    model = recipe.model
    if isinstance(model.decoder, NgramSettings):
        return ngram_model(model.decoder.order, model.decoder.smoothing)
    for stack in ("encoder", "decoder"):
        settings = getattr(model, stack)
        # A ResNet has other settings, and is small enough.
        sizes = {key: value for key, value in SMALL.items() if key in type(settings).model_fields} if settings else {}
        if settings is not None and settings.kind != "resnet":
            model = model.model_copy(update={stack: settings.model_copy(update=sizes)})
    seed_torch(1, "weights")
    module = untrained_model(recipe.task, model, 20)
    initialize(module, "xavier")
    return module.eval()


def example(name: str) -> Batch:
    """A batch of one random example for the model of a recipe."""
    settings = RECIPES[name]().model
    draw = torch.Generator().manual_seed(2)
    labels, one = torch.zeros(1, 4, dtype=torch.long), torch.zeros(1, dtype=torch.long)
    ids = Sequences.of([[1, 5, 6, 7]])
    source = target = None
    if settings.decoder is not None:  # a text, or the labels of a transducer
        target = ids
    if isinstance(settings.target, Series):
        target = Sequences(torch.randn(1, 4, generator=draw), torch.tensor([4]))
    if isinstance(settings.source, ImageSource):
        shape = (settings.source.channels, settings.source.image_size, settings.source.image_size)
        frames = (3, *shape) if isinstance(settings.source, VideoSource) else shape
        pixels = torch.randint(0, 256, (1, *frames), generator=draw, dtype=torch.uint8)
        source = Videos(pixels) if isinstance(settings.source, VideoSource) else Images(pixels)
    elif isinstance(settings.source, Sound):
        source = Sequences(torch.randn(1, 9, settings.source.bands, generator=draw), torch.tensor([9]))
    elif settings.source is not None:
        source = WordSequences(ids.values, ids.lengths, torch.tensor([[0, 1, 1, 0]]))
    return Batch(source, target, labels, one)


@pytest.mark.parametrize("name", RECIPES)
@torch.inference_mode()
def test_the_outputs_of_every_recipes_model_are_equal_with_and_without_a_trace(name: str):
    model, batch = small(name), example(name)
    before = model(batch)
    with trace(model, ALL_KINDS) as activations:
        traced = model(batch)
    assert torch.equal(before, traced)
    assert not has_hooks(model)
    (logits,) = activations.of("logits")
    assert torch.equal(logits.values, before)
    layers = [part for part in model.modules() if isinstance(part, Attention | MemoryAttention)]
    assert len(activations.of("attention")) == len(layers)
    assert len({each.name for each in activations.of("hidden")}) == sum(
        isinstance(part, RecurrentCell) for part in model.modules()
    )
    record = activations.to_record("x", {})
    assert all(each.values.dtype == "float32" for each in record.signals)


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_batches_with_padding_can_be_traced(name: str):
    model = perturbed_model(FAMILIES[name])
    before = model(batch())
    with trace(model, ALL_KINDS) as activations:
        traced = model(batch())
    assert torch.equal(before, traced)
    assert torch.equal(before, model(batch()))
    assert any(each.is_cross_attention for each in activations.of("attention")) == has_cross_attention(name)


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_hooks_are_removed_after_an_error(name: str):
    model = perturbed_model(FAMILIES[name])
    with pytest.raises(RuntimeError, match="in the middle: True"), trace(model, ALL_KINDS) as activations:
        raise RuntimeError(f"in the middle: {has_hooks(model)}")
    assert not activations.signals
    assert not has_hooks(model)


@pytest.mark.parametrize("name", [name for name in FAMILIES if has_cross_attention(name)])
@torch.no_grad()
def test_weights_sum_to_one_and_are_zero_on_padding(name: str):
    with trace(model := perturbed_model(FAMILIES[name])) as activations:
        model(batch())
    for each in activations.of("attention"):
        if each.is_cross_attention:
            assert each.values.shape[0::2] == (2, 3)
            torch.testing.assert_close(each.values.sum(-1), torch.ones(each.values.shape[:3]))
            assert (each.values[1, :, :, 3:] == 0).all()


@pytest.mark.parametrize("name", [name for name in FAMILIES if has_cross_attention(name)])
@torch.no_grad()
def test_the_cross_attention_of_steps_is_that_of_one_forward_pass(name: str):
    """The maps of three steps are concatenated to the map of one pass over all three tokens."""
    model = perturbed_model(FAMILIES[name])
    with trace(model) as parallel:
        model(batch())
    state = model.start(Sequences.of(SOURCE), 2, 3)
    with trace(model) as stepped:
        for time in range(3):
            _, state = model.step(torch.tensor(TARGET)[:, time : time + 1], state)
    expected, found = (
        [each for each in activations.of("attention") if each.is_cross_attention] for activations in (parallel, stepped)
    )
    assert [each.name for each in expected] == [each.name for each in found]
    for first, second in zip(expected, found, strict=True):
        torch.testing.assert_close(first.values, second.values, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["write-llama", "write-alibi", "pocket-transformer", "fill", "classify-image"])
@torch.no_grad()
def test_the_weights_of_a_head_are_computed_from_its_recorded_inputs(name: str):
    """With rotary positions, ALiBi and masks: softmax(q · k / √size + bias) over the unmasked keys."""
    with trace(model := small(name), ATTENTION_INPUTS) as activations:
        model(example(name))
    for layer in activations.of("attention"):
        found = {kind: activations.signals.get((layer.name, kind, "")) for kind in ATTENTION_INPUTS}
        queries, keys = found["query"].values, found["key"].values
        scores = queries @ keys.mT / queries.size(-1) ** 0.5
        if found["attention_bias"] is not None:
            scores = scores + found["attention_bias"].values
        scores = scores.masked_fill(found["attention_mask"].values == 0, -torch.inf)
        torch.testing.assert_close(scores.softmax(-1), layer.values, atol=1e-6, rtol=0)
    assert bool(activations.of("attention_bias")) == (name == "write-alibi")


@torch.no_grad()
def test_the_signals_of_a_backward_cell_are_in_the_order_of_the_text():
    model = perturbed_model(FAMILIES["recurrent, every step"])
    example = Batch(Sequences.of(SOURCE[:1]), Sequences.of(TARGET[:1]), torch.tensor([[3, 4, 2]]), torch.arange(1))
    with trace(model, ("hidden", "stream", "gate")) as activations:
        model(example)
    record = activations.to_record("x", {})
    forward, backward = (
        record.find(f"encoder.stack.{cells}.1", "hidden").values for cells in ("forward_cells", "backward_cells")
    )
    (stream,) = record.of("stream", "source")
    assert np.array_equal(stream.values, np.concatenate([forward, backward], axis=-1))
    # The recorded signals of an LSTM satisfy its equation: h = o · tanh(c).
    gate = record.find("encoder.stack.backward_cells.1", "gate", "output").values
    cell = record.find("encoder.stack.backward_cells.1", "hidden", "cell").values
    assert gate * np.tanh(cell) == pytest.approx(backward, abs=1e-6)


@torch.no_grad()
def test_only_named_modules_are_recorded():
    model = perturbed_model(FAMILIES["transformer, pre-norm"])
    with trace(model, ALL_KINDS, module_names=["decoder.blocks.1.cross_attention"]) as activations:
        model(batch())
    assert {each.name for each in activations.signals.values()} == {"decoder.blocks.1.cross_attention"}


def test_a_record_is_of_one_example():
    model = fresh_model(FAMILIES["transformer, pre-norm"], (20, 20), "xavier", seed=1).eval()
    with trace(model) as activations, torch.no_grad():
        model(batch())
    with pytest.raises(ValueError, match="the batch has 2"):
        activations.to_record("two", {})


def test_only_requested_kinds_are_recorded_and_without_gradients():
    model = fresh_model(FAMILIES["transformer, pre-norm"], (20, 20), "xavier", seed=1).eval()
    with trace(model, ("query", "stream")) as activations:
        model(batch())
    assert {each.kind for each in activations.signals.values()} == {"query", "stream"}
    assert not any(step.requires_grad for each in activations.signals.values() for step in each.values_by_step)


@pytest.mark.parametrize("name", ["write-alibi", "write-gru"])
@torch.no_grad()
def test_steps_of_every_kind_are_concatenated_in_time(name: str):
    """Keys and values are recorded in full at every step, so the last step has all; other kinds have one position."""
    model, ids = small(name), torch.tensor([[1, 5, 6, 7]])
    with trace(model, ALL_KINDS) as parallel:
        model(example(name))
    state = model.start(None, 1, 4)
    with trace(model, ALL_KINDS) as stepped:
        for time in range(4):
            _, state = model.step(ids[:, time : time + 1], state)
    attention = {"attention", "query", "key", "value", "attention_mask", "attention_bias"}
    expected = {"logits"} | (attention if name == "write-alibi" else {"hidden", "gate"})
    assert {each.kind for each in stepped.signals.values()} >= expected
    for key, signal in stepped.signals.items():
        torch.testing.assert_close(signal.values, parallel.signals[key].values, atol=1e-5, rtol=1e-5)


def test_recorded_values_are_computed_without_gradients():
    activations, grad_modes = Trace(ALL_KINDS), []
    activations.add(
        RecordedSignal("x", "query", "source"), lambda: grad_modes.append(torch.is_grad_enabled()) or torch.ones(1)
    )
    assert grad_modes == [False]


def test_token_ids_are_not_recorded():
    with trace(model := ngram_model(2, "kneser-ney"), ("embedding", "logits")) as activations:
        model(Batch(None, Sequences.of(TARGET), torch.zeros(2, 3, dtype=torch.long), torch.arange(2)))
    assert {each.kind for each in activations.signals.values()} == {"logits"}


@pytest.mark.parametrize(
    ("name", "side"),
    [("translate", "target"), ("write", "target"), ("fill", "source"), ("tag", "source"), ("classify-text", "pooled")],
)
def test_the_side_of_logits_depends_on_the_task(name: str, side: str):
    with trace(model := small(name), ("logits",)) as activations, torch.no_grad():
        model(example(name))
    assert [each.side for each in activations.of("logits")] == [side]


def test_attention_pooling_attends_from_the_pooled_vector_to_the_image():
    model = small("classify-image", **{"target.pooling": "map"})
    with trace(model) as activations, torch.no_grad():
        model(example("classify-image"))
    last = activations.of("attention")[-1]
    assert (last.name.split(".")[0], last.side, last.key_side) == ("pooling", "pooled", "source")


def test_the_output_of_an_embedding_model_and_of_a_dual_encoder_is_pooled():
    for model in (EmbeddingModel(nn.Identity(), nn.Identity()), DualEncoder(nn.Identity(), nn.Identity(), 7)):
        points = [template for template, _ in _stream_points(model) if template.kind == "logits"]
        assert [(each.name, each.side) for each in points] == [("head", "pooled")]
