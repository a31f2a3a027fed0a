"""Watching changes nothing, sees everything, and leaves nothing behind."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from seq2see.core.batch import Batch, Images, Sequences, Videos, WordSequences
from seq2see.inspection.trace import ALL_KINDS, BY_HAND, RecordedSignal, Trace, _stream_points, trace
from seq2see.layers.attention import Attention
from seq2see.layers.recurrent_attention import MemoryAttention
from seq2see.layers.recurrent_cells import RecurrentCell
from seq2see.models.build import fresh_model
from seq2see.models.embedding_model import EmbeddingModel
from seq2see.models.image_settings import ImageSource, VideoSource
from seq2see.models.ngram_lm import NgramSettings
from seq2see.models.settings import Series
from seq2see.recipes.registry import RECIPES
from tiny_models import FAMILIES, ngram_model, perturbed_model

SOURCE, TARGET = [[3, 4, 5, 6, 2], [7, 8, 2]], [[1, 3, 4], [1, 5, 6]]
SMALL = {"width": 16, "depth": 2, "heads": 2, "kv_heads": 0, "embedding_width": None, "dropout": 0.0}
"""Of every stack, where it has such a setting."""


def batch() -> Batch:
    labels = torch.tensor([[3, 4, 2], [5, 6, 2]])
    return Batch(Sequences.of(SOURCE), Sequences.of(TARGET), labels, torch.arange(2))


def looks_across(name: str) -> bool:
    return getattr(FAMILIES[name].decoder, "attention", "") not in ("none", "context-vector")


def is_watched(model: nn.Module) -> bool:
    """Whether a probe or a hook is on any part, or has left anything there."""
    return any("probe" in vars(part) or part._forward_hooks for part in model.modules())


def small(name: str, **changes) -> nn.Module:
    """A recipe's own model, as small as it can be."""
    model = RECIPES[name]().with_(**changes).model
    if isinstance(model.decoder, NgramSettings):
        return ngram_model(model.decoder.order, model.decoder.smoothing)
    for stack in ("encoder", "decoder"):
        settings = getattr(model, stack)
        # A ResNet has other measures, and is small enough.
        fits = {key: value for key, value in SMALL.items() if key in type(settings).model_fields} if settings else {}
        if settings is not None and settings.kind != "resnet":
            model = model.model_copy(update={stack: settings.model_copy(update=fits)})
    return fresh_model(model, (20, 20), "xavier", seed=1).eval()


def example(name: str) -> Batch:
    """Something that a recipe's model can read, in one row."""
    settings = RECIPES[name]().model
    draw = torch.Generator().manual_seed(2)
    labels, one = torch.zeros(1, 4, dtype=torch.long), torch.zeros(1, dtype=torch.long)
    ids = Sequences.of([[1, 5, 6, 7]])
    source = target = None
    if settings.generates or isinstance(settings.target, Series):
        target = ids
    if isinstance(settings.target, Series):
        target = Sequences(torch.randn(1, 4, generator=draw), torch.tensor([4]))
    if isinstance(settings.source, ImageSource):
        shape = (settings.source.channels, settings.source.image_size, settings.source.image_size)
        frames = (3, *shape) if isinstance(settings.source, VideoSource) else shape
        pixels = torch.randint(0, 256, (1, *frames), generator=draw, dtype=torch.uint8)
        source = Videos(pixels) if isinstance(settings.source, VideoSource) else Images(pixels)
    elif settings.source is not None:
        source = WordSequences(ids.values, ids.lengths, torch.tensor([[0, 1, 1, 0]]))
    return Batch(source, target, labels, one)


@pytest.mark.parametrize("name", RECIPES)
@torch.inference_mode()
def test_every_recipes_model_gives_the_same_traced_and_untraced_bit_for_bit(name: str):
    model, read = small(name), example(name)
    before = model(read)
    with trace(model, ALL_KINDS) as seen:
        watched = model(read)
    assert torch.equal(before, watched)
    assert not is_watched(model)
    (logits,) = seen.of("logits")
    assert torch.equal(logits.values, before)
    layers = [part for part in model.modules() if isinstance(part, Attention | MemoryAttention)]
    assert len(seen.of("attention")) == len(layers)
    assert len({each.name for each in seen.of("hidden")}) == sum(
        isinstance(part, RecurrentCell) for part in model.modules()
    )
    record = seen.to_record("x", {})
    assert all(each.values.dtype == "float32" for each in record.signals)


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_rows_of_different_length_are_watched_together(name: str):
    model = perturbed_model(FAMILIES[name])
    before = model(batch())
    with trace(model, ALL_KINDS) as seen:
        watched = model(batch())
    assert torch.equal(before, watched)
    assert torch.equal(before, model(batch()))
    assert any(each.is_cross_attention for each in seen.of("attention")) == looks_across(name)


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_nothing_is_watched_any_more_afterwards(name: str):
    model = perturbed_model(FAMILIES[name])
    with pytest.raises(RuntimeError, match="in the middle: True"), trace(model, ALL_KINDS) as seen:
        raise RuntimeError(f"in the middle: {is_watched(model)}")
    assert not seen.signals
    assert not is_watched(model)


@pytest.mark.parametrize("name", [name for name in FAMILIES if looks_across(name)])
@torch.no_grad()
def test_weights_are_shares_of_the_real_source(name: str):
    with trace(model := perturbed_model(FAMILIES[name])) as seen:
        model(batch())
    for each in seen.of("attention"):
        if each.is_cross_attention:
            assert each.values.shape[0::2] == (2, 3)
            torch.testing.assert_close(each.values.sum(-1), torch.ones(each.values.shape[:3]))
            assert (each.values[1, :, :, 3:] == 0).all()


@pytest.mark.parametrize("name", [name for name in FAMILIES if looks_across(name)])
@torch.no_grad()
def test_stepping_shows_the_same_look_across_as_reading(name: str):
    """Three steps are joined to the map that one pass over all three tokens shows."""
    model = perturbed_model(FAMILIES[name])
    with trace(model) as read:
        model(batch())
    state = model.start(Sequences.of(SOURCE), 2, 3)
    with trace(model) as stepped:
        for time in range(3):
            _, state = model.step(torch.tensor(TARGET)[:, time : time + 1], state)
    read, stepped = ([each for each in seen.of("attention") if each.is_cross_attention] for seen in (read, stepped))
    assert [each.name for each in read] == [each.name for each in stepped]
    for one, other in zip(read, stepped, strict=True):
        torch.testing.assert_close(one.values, other.values, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["write-llama", "write-alibi", "pocket-transformer", "fill", "classify-image"])
@torch.no_grad()
def test_what_is_shown_of_a_head_gives_its_weights(name: str):
    """Turned by rotary positions, leaning by ALiBi, masked: softmax(q · k / √size + lean) over what is allowed."""
    with trace(model := small(name), BY_HAND) as seen:
        model(example(name))
    for layer in seen.of("attention"):
        found = {kind: seen.signals.get((layer.name, kind, "")) for kind in BY_HAND}
        queries, keys = found["query"].values, found["key"].values
        scores = queries @ keys.mT / queries.size(-1) ** 0.5
        if found["attention_bias"] is not None:
            scores = scores + found["attention_bias"].values
        scores = scores.masked_fill(found["attention_mask"].values == 0, -torch.inf)
        torch.testing.assert_close(scores.softmax(-1), layer.values, atol=1e-6, rtol=0)
    assert bool(seen.of("attention_bias")) == (name == "write-alibi")


@torch.no_grad()
def test_what_a_cell_that_reads_backwards_shows_lies_in_the_order_of_the_text():
    model = perturbed_model(FAMILIES["recurrent, every step"])
    one = Batch(Sequences.of(SOURCE[:1]), Sequences.of(TARGET[:1]), torch.tensor([[3, 4, 2]]), torch.arange(1))
    with trace(model, ("hidden", "stream", "gate")) as seen:
        model(one)
    record = seen.to_record("x", {})
    ahead, back = (record.find(f"encoder.reader.{way}.1", "hidden").values for way in ("ahead", "back"))
    (read,) = record.of("stream", "source")
    assert np.array_equal(read.values, np.concatenate([ahead, back], axis=-1))
    # The LSTM's own equation holds between what is shown of it: h = o · tanh(c).
    signals = record.find("encoder.reader.back.1", "gate", "output").values
    cell = record.find("encoder.reader.back.1", "hidden", "cell").values
    assert signals * np.tanh(cell) == pytest.approx(back, abs=1e-6)


@torch.no_grad()
def test_only_what_is_named_is_watched():
    model = perturbed_model(FAMILIES["transformer, pre-norm"])
    with trace(model, ALL_KINDS, part_names=["decoder.blocks.1.look_across"]) as seen:
        model(batch())
    assert {each.name for each in seen.signals.values()} == {"decoder.blocks.1.look_across"}


def test_a_record_is_of_one_example():
    model = fresh_model(FAMILIES["transformer, pre-norm"], (20, 20), "xavier", seed=1).eval()
    with trace(model) as seen, torch.no_grad():
        model(batch())
    with pytest.raises(ValueError, match="2 were read"):
        seen.to_record("two", {})


def test_only_what_is_wanted_is_kept_and_no_gradients_with_it():
    model = fresh_model(FAMILIES["transformer, pre-norm"], (20, 20), "xavier", seed=1).eval()
    with trace(model, ("query", "stream")) as seen:
        model(batch())
    assert {each.kind for each in seen.signals.values()} == {"query", "stream"}
    assert not any(part.requires_grad for each in seen.signals.values() for part in each.parts)


@pytest.mark.parametrize("name", ["write-alibi", "write-gru"])
@torch.no_grad()
def test_steps_of_every_kind_are_joined_in_time(name: str):
    """Keys and values are shown whole at every step, so the last has all of them; all else is one place a step."""
    model, ids = small(name), torch.tensor([[1, 5, 6, 7]])
    with trace(model, ALL_KINDS) as read:
        model(example(name))
    state = model.start(None, 1, 4)
    with trace(model, ALL_KINDS) as stepped:
        for time in range(4):
            _, state = model.step(ids[:, time : time + 1], state)
    looks = {"attention", "query", "key", "value", "attention_mask", "attention_bias"}
    wanted = {"logits"} | (looks if name == "write-alibi" else {"hidden", "gate"})
    assert {each.kind for each in stepped.signals.values()} >= wanted
    for key, one in stepped.signals.items():
        torch.testing.assert_close(one.values, read.signals[key].values, atol=1e-5, rtol=1e-5)


def test_what_is_shown_is_worked_out_without_gradients():
    seen, asked = Trace(ALL_KINDS), []
    seen.add(RecordedSignal("x", "query", "source"), lambda: asked.append(torch.is_grad_enabled()) or torch.ones(1))
    assert asked == [False]


def test_numbers_of_tokens_are_no_vectors():
    with trace(model := ngram_model(2, "kneser-ney"), ("embedding", "logits")) as seen:
        model(Batch(None, Sequences.of(TARGET), torch.zeros(2, 3, dtype=torch.long), torch.arange(2)))
    assert {each.kind for each in seen.signals.values()} == {"logits"}


@pytest.mark.parametrize(
    ("name", "side"),
    [("translate", "target"), ("write", "target"), ("fill", "source"), ("tag", "source"), ("classify-text", "pooled")],
)
def test_answers_are_of_what_is_written_or_of_what_is_read_or_of_all(name: str, side: str):
    with trace(model := small(name), ("logits",)) as seen, torch.no_grad():
        model(example(name))
    assert [each.side for each in seen.of("logits")] == [side]


def test_who_sums_a_image_up_looks_at_it():
    model = small("classify-image", **{"target.pooling": "map"})
    with trace(model) as seen, torch.no_grad():
        model(example("classify-image"))
    last = seen.of("attention")[-1]
    assert (last.name.split(".")[0], last.side, last.key_side) == ("pool", "pooled", "source")


def test_what_a_text_means_is_of_all_of_it():
    model = EmbeddingModel(nn.Identity(), nn.Identity())
    assert [(template.name, template.side) for template, _ in _stream_points(model) if template.kind == "logits"] == [
        ("head", "pooled")
    ]
