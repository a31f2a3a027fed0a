"""A model as blocks: what is told of its parts agrees with the model itself, and with torch's own counter."""

from __future__ import annotations

from threading import Thread

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from seq2see.core.batch import Batch, Pictures, Sequences
from seq2see.inspection.architecture import Block, blocks_of
from seq2see.models.build import fresh_model
from seq2see.models.picture_settings import Picture
from seq2see.recipes.table import RECIPES
from tiny_models import pairs, tiny


def flops(model, batch) -> int:
    """Where torch can count: its fused kernel for attention on a CPU is a closed book to it, and that for LSTMs too,
    which is only there for 32 bits."""
    from torch.utils.flop_counter import FlopCounterMode  # it takes seconds to come up

    with torch.no_grad(), FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model(batch)
    return counter.get_total_flops()


def every(block: Block) -> list[Block]:
    return [block, *(each for part in block.parts for each in every(part))]


def named(block: Block, name: str) -> Block:
    return next(each for each in every(block) if each.name == name)


def test_operations_by_hand():
    root = blocks_of(tiny("transformer, pre-norm"), pairs([5], [3]))
    look = named(root, "encoder.blocks.0.look")
    assert look.operations == 5 * 8 * 24 + 5 * 8 * 8 + 2 * 5 * 5 * 8  # Q, K and V; the output; Q Kᵀ and times V
    assert named(root, "encoder.blocks.0.think").operations == 2 * 5 * 8 * 32
    assert named(root, "head").operations == 4 * 8 * 13
    cell = named(blocks_of(tiny("recurrent, bilinear"), pairs([5], [3])), "decoder.stack.cells.0")
    assert cell.operations == 4 * (4 * 8 * 8 + 4 * 8 * 8)  # four times, four gates, from the input and from the state


@pytest.mark.long
@pytest.mark.parametrize(
    "family",
    ["transformer, pre-norm", "recurrent, additive", "recurrent, dot", "recurrent, bilinear",
     "convolutional to transformer"],
)  # fmt: skip
def test_operations_are_those_that_torch_counts(family):
    model, batch = tiny(family, torch.float64), pairs([5], [3])
    assert 2 * blocks_of(model, batch).operations == flops(model, batch)  # a multiply-add is two operations


@pytest.mark.long
@pytest.mark.parametrize("name", ["classify-image", "classify-image-resnet", "fill", "write-llama"])
def test_so_are_those_of_pictures_readers_and_writers(name):
    settings = RECIPES[name]().model
    model = fresh_model(settings, (50, 50), "xavier", 1).eval().requires_grad_(False)
    ids = Sequences.of([[1, 7, 8, 9, 2]])
    picture = isinstance(settings.source, Picture)
    source = Pictures(torch.zeros(1, settings.source.channels, 32, 32)) if picture else ids
    batch = Batch(source if settings.source else None, ids, ids.values, torch.zeros(1, dtype=torch.long))
    assert 2 * blocks_of(model, batch).operations == flops(model, batch)


def test_watching_changes_nothing_and_leaves_nothing_behind():
    model, batch = tiny("recurrent, dot"), pairs([5], [3])
    before = model(batch)
    held = {name: (len(part._forward_hooks), sorted(vars(part))) for name, part in model.named_modules()}
    blocks_of(model, batch)
    assert held == {name: (len(part._forward_hooks), sorted(vars(part))) for name, part in model.named_modules()}
    assert torch.equal(model(batch), before)


def test_whoever_else_uses_the_model_meanwhile_is_not_counted():
    model, batch, longer = tiny("transformer, pre-norm"), pairs([5], [3]), pairs([6], [6])
    alone = blocks_of(model, batch)

    def meanwhile(part, given):
        hook.remove()
        other = Thread(target=lambda: model(longer))
        other.start()
        other.join()

    hook = model.head.register_forward_pre_hook(meanwhile)
    assert blocks_of(model, batch) == alone


def test_shapes_are_those_that_passed():
    root = blocks_of(tiny("recurrent, additive"), pairs([5], [3]))
    assert (root.given, root.gives) == ([(1, 5), (1, 4)], [(1, 4, 13)])
    cell = named(root, "decoder.stack.cells.0")
    assert (cell.kind, cell.calls) == ("GRUCell", 4)  # who looks before each token reads one at a time
    assert cell.given[0] == (1, 1, 16)  # the token's vector, and the context beside it
    assert named(root, "decoder.look.attention").gives == [(1, 1, 8), (1, 1, 5)]


def test_parameters_of_a_shared_table_are_counted_once():
    model = tiny("transformer, pre-norm")
    root = blocks_of(model, pairs([2]))
    assert root.parameters == sum(each.numel() for each in model.parameters())
    table, again = named(root, "target.table"), named(root, "head.table")
    assert (table.shared, again.shared) == (False, True)
    assert sum(part.parameters for part in root.parts) == root.parameters + table.parameters
