"""A model as blocks: what is told of its parts agrees with the model itself, and with torch's own counter."""

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
    """Where torch can count: its fused kernel for attention on a CPU is a closed book to it, and that for LSTMs too,
    which is only there for 32 bits."""
    from torch.utils.flop_counter import FlopCounterMode  # it takes seconds to come up

    with torch.no_grad(), FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model(batch)
    return counter.get_total_flops()


def every(block: ModuleSummary) -> list[ModuleSummary]:
    return [block, *(each for part in block.children for each in every(part))]


def named(block: ModuleSummary, name: str) -> ModuleSummary:
    return next(each for each in every(block) if each.name == name)


def test_operations_by_hand():
    root = summarize_modules(tiny_model("transformer, pre-norm"), pairs([5], [3]))
    look = named(root, "encoder.blocks.0.look")
    assert look.macs == 5 * 8 * 24 + 5 * 8 * 8 + 2 * 5 * 5 * 8  # Q, K and V; the output; Q Kᵀ and times V
    assert named(root, "encoder.blocks.0.think").macs == 2 * 5 * 8 * 32
    assert named(root, "head").macs == 4 * 8 * 13
    cell = named(summarize_modules(tiny_model("recurrent, bilinear"), pairs([5], [3])), "decoder.stack.cells.0")
    assert cell.macs == 4 * (4 * 8 * 8 + 4 * 8 * 8)  # four times, four gates, from the input and from the state


@pytest.mark.long
@pytest.mark.parametrize(
    "family",
    ["transformer, pre-norm", "recurrent, additive", "recurrent, dot", "recurrent, bilinear",
     "convolutional to transformer"],
)  # fmt: skip
def test_operations_are_those_that_torch_counts(family):
    model, batch = tiny_model(family, torch.float64), pairs([5], [3])
    assert 2 * summarize_modules(model, batch).macs == flops(model, batch)  # a multiply-add is two operations


@pytest.mark.long
@pytest.mark.parametrize("name", ["classify-image", "classify-image-resnet", "fill", "write-llama"])
def test_so_are_those_of_images_readers_and_writers(name):
    settings = RECIPES[name]().model
    model = fresh_model(settings, (50, 50), "xavier", 1).eval().requires_grad_(False)
    ids = Sequences.of([[1, 7, 8, 9, 2]])
    image = isinstance(settings.source, ImageSource)
    source = Images(torch.zeros(1, settings.source.channels, 32, 32)) if image else ids
    batch = Batch(source if settings.source else None, ids, ids.values, torch.zeros(1, dtype=torch.long))
    assert 2 * summarize_modules(model, batch).macs == flops(model, batch)


def test_watching_changes_nothing_and_leaves_nothing_behind():
    model, batch = tiny_model("recurrent, dot"), pairs([5], [3])
    before = model(batch)
    held = {name: (len(part._forward_hooks), sorted(vars(part))) for name, part in model.named_modules()}
    summarize_modules(model, batch)
    assert held == {name: (len(part._forward_hooks), sorted(vars(part))) for name, part in model.named_modules()}
    assert torch.equal(model(batch), before)


def test_whoever_else_uses_the_model_meanwhile_is_not_counted():
    model, batch, longer = tiny_model("transformer, pre-norm"), pairs([5], [3]), pairs([6], [6])
    alone = summarize_modules(model, batch)

    def run_in_background(part, given):
        hook.remove()
        other = Thread(target=lambda: model(longer))
        other.start()
        other.join()

    hook = model.head.register_forward_pre_hook(run_in_background)
    assert summarize_modules(model, batch) == alone


def test_shapes_are_those_that_passed():
    root = summarize_modules(tiny_model("recurrent, additive"), pairs([5], [3]))
    assert (root.input_shapes, root.output_shapes) == ([(1, 5), (1, 4)], [(1, 4, 13)])
    cell = named(root, "decoder.stack.cells.0")
    assert (cell.kind, cell.calls) == ("GRUCell", 4)  # who looks before each token reads one at a time
    assert cell.input_shapes[0] == (1, 1, 16)  # the token's vector, and the context beside it
    assert named(root, "decoder.attention.attention").output_shapes == [(1, 1, 8), (1, 1, 5)]


def test_parameters_of_a_shared_table_are_counted_once():
    model = tiny_model("transformer, pre-norm")
    root = summarize_modules(model, pairs([2]))
    assert root.parameters == sum(each.numel() for each in model.parameters())
    table, again = named(root, "target.table"), named(root, "head.table")
    assert (table.shared, again.shared) == (False, True)
    assert sum(part.parameters for part in root.children) == root.parameters + table.parameters
