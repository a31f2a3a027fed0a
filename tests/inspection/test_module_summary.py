"""The summary of a model's modules agrees with the model itself, and with torch's own counter."""

from __future__ import annotations

from threading import Thread

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from seq2see.core.batch import Batch, Images, Sequences
from seq2see.inspection.module_summary import ModuleSummary, summarize_modules
from seq2see.models.build import fresh_model
from seq2see.models.image_settings import ImageSource
from seq2see.recipes.registry import RECIPES
from tiny_models import pairs, tiny_model


def flops(model, batch) -> int:
    """The operations that torch counts. It cannot count its fused CPU kernels for attention and for LSTMs (the latter
    exists for 32 bits only)."""
    from torch.utils.flop_counter import FlopCounterMode  # a slow import

    with torch.no_grad(), FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model(batch)
    return counter.get_total_flops()


def flatten(summary: ModuleSummary) -> list[ModuleSummary]:
    return [summary, *(each for child in summary.children for each in flatten(child))]


def find(root: ModuleSummary, name: str) -> ModuleSummary:
    return next(each for each in flatten(root) if each.name == name)


def test_multiply_adds_computed_by_hand():
    root = summarize_modules(tiny_model("transformer, pre-norm"), pairs([5], [3]))
    attention = find(root, "encoder.blocks.0.self_attention")
    assert attention.macs == 5 * 8 * 24 + 5 * 8 * 8 + 2 * 5 * 5 * 8  # Q, K and V; the output; Q Kᵀ and times V
    assert find(root, "encoder.blocks.0.feed_forward").macs == 2 * 5 * 8 * 32
    assert find(root, "head").macs == 4 * 8 * 13
    cell = find(summarize_modules(tiny_model("recurrent, bilinear"), pairs([5], [3])), "decoder.stack.cells.0")
    assert cell.macs == 4 * (4 * 8 * 8 + 4 * 8 * 8)  # four times, four gates, from the input and from the state


@pytest.mark.long
@pytest.mark.parametrize(
    "family",
    ["transformer, pre-norm", "recurrent, additive", "recurrent, dot", "recurrent, bilinear",
     "convolutional to transformer"],
)  # fmt: skip
def test_multiply_adds_are_those_that_torch_counts(family):
    model, batch = tiny_model(family, torch.float64), pairs([5], [3])
    assert 2 * summarize_modules(model, batch).macs == flops(model, batch)  # a multiply-add is two operations


@pytest.mark.long
@pytest.mark.parametrize("name", ["classify-image", "classify-image-resnet", "fill", "write-llama"])
def test_multiply_adds_of_other_models_are_those_that_torch_counts(name):
    settings = RECIPES[name]().model
    model = fresh_model(settings, (50, 50), "xavier", 1).eval().requires_grad_(False)
    ids = Sequences.of([[1, 7, 8, 9, 2]])
    image = isinstance(settings.source, ImageSource)
    source = Images(torch.zeros(1, settings.source.channels, 32, 32)) if image else ids
    batch = Batch(source if settings.source else None, ids, ids.values, torch.zeros(1, dtype=torch.long))
    assert 2 * summarize_modules(model, batch).macs == flops(model, batch)


def test_a_summary_does_not_change_the_model_and_removes_its_hooks():
    model, batch = tiny_model("recurrent, dot"), pairs([5], [3])
    before = model(batch)
    attributes = {name: (len(part._forward_hooks), sorted(vars(part))) for name, part in model.named_modules()}
    summarize_modules(model, batch)
    assert attributes == {name: (len(part._forward_hooks), sorted(vars(part))) for name, part in model.named_modules()}
    assert torch.equal(model(batch), before)


def test_the_calls_of_another_thread_are_not_counted():
    model, batch, longer = tiny_model("transformer, pre-norm"), pairs([5], [3]), pairs([6], [6])
    expected = summarize_modules(model, batch)

    def run_in_background(module, inputs):
        hook.remove()
        thread = Thread(target=lambda: model(longer))
        thread.start()
        thread.join()

    hook = model.head.register_forward_pre_hook(run_in_background)
    assert summarize_modules(model, batch) == expected


def test_shapes_are_those_of_the_inputs_and_outputs():
    root = summarize_modules(tiny_model("recurrent, additive"), pairs([5], [3]))
    assert (root.input_shapes, root.output_shapes) == ([(1, 5), (1, 4)], [(1, 4, 13)])
    cell = find(root, "decoder.stack.cells.0")
    assert (cell.kind, cell.calls) == ("GRUCell", 4)  # with attention before the cell, there is one call for each token
    assert cell.input_shapes[0] == (1, 1, 16)  # the token's vector and the context vector
    assert find(root, "decoder.cross_attention.attention").output_shapes == [(1, 1, 8), (1, 1, 5)]


def test_parameters_of_a_shared_table_are_counted_once():
    model = tiny_model("transformer, pre-norm")
    root = summarize_modules(model, pairs([2]))
    assert root.parameters == sum(each.numel() for each in model.parameters())
    table, tied = find(root, "target.table"), find(root, "head.table")
    assert (table.shared, tied.shared) == (False, True)
    assert sum(child.parameters for child in root.children) == root.parameters + table.parameters
