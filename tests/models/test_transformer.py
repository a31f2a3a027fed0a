"""The Transformer: padding, states, parts, and its size on paper."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from seq2see.core.batch import Sequences
from seq2see.core.rows import clone_state, pick_rows
from seq2see.layers.attention import KeyValueCache
from seq2see.layers.dropout import Dropout, DropPath
from seq2see.layers.masks import AttentionMask
from seq2see.layers.unpadding import PaddedLayout, choose_layout
from seq2see.models import transformer
from seq2see.models.encoder_output import EncoderOutput
from seq2see.models.gpt import GPTDecoder
from seq2see.models.transformer import (
    BlockState,
    TransformerDecoder,
    TransformerEncoder,
    TransformerSettings,
    TransformerState,
)
from tiny_stacks import NORM_ORDERS, WIDTH, padded_batch, perturb, random_memory, settings

NORMS = ["layer", "rms", "batch", "power"]


def spoilt(sequences: Sequences, more: int) -> torch.Tensor:
    """More padding, and NaN in all of it."""
    values = nn.functional.pad(sequences.values, (0, 0, 0, more))
    real = Sequences(values, sequences.lengths).real
    return values.masked_fill(~real[..., None], float("nan"))


# Padding


@pytest.mark.parametrize("order", NORM_ORDERS)
@pytest.mark.parametrize("norm", NORMS)
def test_the_encoder_ignores_padding_even_if_it_is_nan(norm, order):
    encoder, source = perturb(TransformerEncoder(settings(norm=norm, norm_order=order))), padded_batch([4, 1, 3])
    memory = encoder(source)
    again = encoder(Sequences(spoilt(source, 3).requires_grad_(), source.lengths))
    assert_close(again.unpad(), memory.unpad(), rtol=0, atol=1e-10)
    assert_close(again.pooled, memory.pooled, rtol=0, atol=1e-10)
    (again.unpad().sum() + again.pooled.sum()).backward()
    assert all(weight.grad.isfinite().all() for weight in encoder.parameters())


@pytest.mark.parametrize("order", NORM_ORDERS)
@pytest.mark.parametrize("norm", NORMS)
def test_the_decoder_ignores_padding_of_both_sides_even_if_it_is_nan(norm, order):
    decoder = perturb(TransformerDecoder(settings(norm=norm, norm_order=order), 5))
    target, memory = padded_batch([4, 1, 3]), random_memory([2, 3, 1], 5)
    hidden = decoder(target, memory)
    dirty = EncoderOutput(spoilt(memory, 2), memory.lengths, memory.pooled)
    again = decoder(Sequences(spoilt(target, 2), target.lengths), dirty)
    assert_close(again[:, :4][target.real], hidden[target.real], rtol=0, atol=1e-10)
    again[:, :4][target.real].sum().backward()
    assert all(weight.grad.isfinite().all() for weight in decoder.parameters())
    state, stepped = decoder.start(dirty, rows=3, max_length=4), []
    for vector in target.values.split(1, dim=1):
        new, state = decoder.step(vector, state)
        stepped.append(new)
    assert_close(torch.cat(stepped, dim=1)[target.real], hidden[target.real], rtol=0, atol=1e-10)


@pytest.mark.parametrize("norm", ["batch", "power"])
@pytest.mark.parametrize("order", NORM_ORDERS)
def test_statistics_of_a_batch_leave_padding_out(norm, order):
    def stacks() -> tuple[TransformerEncoder, TransformerDecoder]:
        torch.manual_seed(1)
        shape = settings(norm=norm, norm_order=order, dropout=0.0)
        return TransformerEncoder(shape).double(), TransformerDecoder(shape, WIDTH).double()

    source, target, found = padded_batch([4, 1, 3]), padded_batch([2, 5, 1]), []
    for more in (0, 3):
        encoder, decoder = stacks()
        memory = encoder(Sequences(spoilt(source, more), source.lengths))
        hidden = decoder(Sequences(spoilt(target, more), target.lengths), memory)
        statistics = [*encoder.buffers(), *decoder.buffers()]
        found.append([memory.unpad(), hidden[:, :5][target.real], *statistics])
    for one, other in zip(*found, strict=True):
        assert_close(other, one, rtol=0, atol=1e-10)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("order", NORM_ORDERS)
def test_without_padding_on_the_way_everything_is_the_same(monkeypatch, norm, order):
    """Outputs, gradients and running statistics of a stack that works on one line, and of one that works on rows."""
    source, target, found = padded_batch([4, 1, 3]), padded_batch([2, 5, 1]), []
    for layout in (choose_layout, lambda sequences: PaddedLayout()):
        monkeypatch.setattr(transformer, "choose_layout", layout)
        torch.manual_seed(1)
        shape = settings(norm=norm, norm_order=order, dropout=0.0)
        encoder, decoder = TransformerEncoder(shape).double(), TransformerDecoder(shape, WIDTH).double()
        memory = encoder(source)
        hidden = decoder(target, memory)
        (hidden[target.real].square().sum() + memory.pooled.sum()).backward()
        stacks = (encoder, decoder)
        gradients = [weight.grad for stack in stacks for weight in stack.parameters()]
        statistics = [statistic for stack in stacks for statistic in stack.buffers()]
        found.append([memory.unpad(), memory.pooled, hidden[target.real], *gradients, *statistics])
    for line, rows in zip(*found, strict=True):
        assert_close(line, rows, rtol=1e-9, atol=1e-10)


def test_padding_is_not_computed_on_a_cpu():
    encoder, decoder = TransformerEncoder(settings()).double(), TransformerDecoder(settings(), WIDTH).double()
    seen = []
    for layer in (part for stack in (encoder, decoder) for part in stack.modules() if isinstance(part, nn.Linear)):
        layer.register_forward_hook(lambda layer, given, answer: seen.append(tuple(given[0].shape[:2])))
    memory = encoder(padded_batch([4, 1, 3]))
    assert set(seen) == {(1, 8)}
    seen.clear()
    hidden = decoder(padded_batch([2, 5, 1, 2][:3]), memory)
    assert set(seen) == {(1, 8)}
    assert hidden.shape == (3, 5, WIDTH)
    assert hidden[0, 2:].count_nonzero() == 0


def test_a_row_without_any_source_is_no_nan():
    encoder = perturb(TransformerEncoder(settings()))
    decoder = perturb(TransformerDecoder(settings(), WIDTH))
    memory = encoder(Sequences(torch.randn(2, 3, WIDTH).double(), torch.tensor([3, 0])))
    assert memory.pooled[1].count_nonzero() == 0
    target = padded_batch([2, 2])
    assert decoder(target, memory).isfinite().all()
    assert decoder.step(target.values, decoder.start(memory, 2, 2))[0].isfinite().all()


# State


def test_stepping_equals_reading_whole_at_every_split_for_every_norm():
    for norm in NORMS:
        for order in NORM_ORDERS:
            decoder = perturb(TransformerDecoder(settings(norm=norm, norm_order=order), 5))
            target, memory = padded_batch([6, 6, 6]), random_memory([4, 2, 3], 5)
            hidden = decoder(target, memory)
            for split in range(1, 6):
                first, state = decoder.step(target.values[:, :split], decoder.start(memory, 3, 6))
                assert state.cache_lengths.tolist() == [split] * 3
                rest, _ = decoder.step(target.values[:, split:], state)
                assert_close(torch.cat([first, rest], dim=1), hidden, rtol=0, atol=1e-10)


def test_rows_of_a_state_can_be_picked_and_forked():
    decoder = perturb(TransformerDecoder(settings(), 5))
    target, memory = padded_batch([5, 5, 5]), random_memory([4, 2, 3], 5)
    hidden = decoder(target, memory)
    _, state = decoder.step(target.values[:, :3], decoder.start(memory, 3, 5))
    copy, rows = clone_state(state), torch.tensor([2, 0, 0])
    picked, _ = decoder.step(target.values[rows, 3:], pick_rows(state, rows))
    assert_close(picked, hidden[rows, 3:], rtol=0, atol=1e-10)
    decoder.step(torch.randn(3, 2, WIDTH).double(), copy)  # writes into the copy alone
    again, _ = decoder.step(target.values[:, 3:], state)
    assert_close(again, hidden[:, 3:], rtol=0, atol=1e-10)


def side_by_side(first: TransformerState, second: TransformerState) -> TransformerState:
    """Two states of one row each as one of two rows."""

    def join(left, right):
        return torch.cat([left, right])

    blocks = tuple(
        BlockState(
            KeyValueCache(join(a.past.keys_values, b.past.keys_values)),
            (join(a.memory[0], b.memory[0]), join(a.memory[1], b.memory[1])),
        )
        for a, b in zip(first.blocks, second.blocks, strict=True)
    )
    real, cache_lengths = (
        join(first.cross_attention_mask.mask, second.cross_attention_mask.mask),
        join(first.cache_lengths, second.cache_lengths),
    )
    return TransformerState(blocks, cache_lengths, AttentionMask(real))


def test_rows_of_one_state_may_stand_at_different_times():
    decoder = perturb(TransformerDecoder(settings(), 5))
    target, memory = padded_batch([5, 5]), random_memory([4, 2], 5)
    hidden = decoder(target, memory)
    states = []
    for row, read in ((0, 1), (1, 3)):
        alone = pick_rows(memory, torch.tensor([row]))
        states.append(decoder.step(target.values[row : row + 1, :read], decoder.start(alone, 1, 5))[1])
    state = side_by_side(*states)
    assert state.cache_lengths.tolist() == [1, 3]
    new = torch.stack([target.values[0, 1:3], target.values[1, 3:5]])
    stepped, state = decoder.step(new, state)
    assert_close(stepped, torch.stack([hidden[0, 1:3], hidden[1, 3:5]]), rtol=0, atol=1e-10)
    assert state.cache_lengths.tolist() == [3, 5]


# Parts


def test_every_part_of_a_block_is_wired_in():
    encoder, decoder = (
        TransformerEncoder(settings()).double(),
        TransformerDecoder(settings(), WIDTH).double(),
    )
    source = padded_batch([4, 2, 3])
    decoder(padded_batch([4, 2, 3]), encoder(source)).sum().backward()
    for stack in (encoder, decoder):
        for name, weight in stack.named_parameters():
            assert weight.grad is not None, name
    # Keys' biases move all scores of a query alike, which the softmax does not see; all else must learn.
    encoder.zero_grad()
    encoder(source).unpad().square().sum().backward()
    for name, weight in encoder.named_parameters():
        assert weight.grad.count_nonzero() > 0, name


def test_weights_are_shared_by_no_two_parts():
    for stack in (TransformerEncoder(settings()), TransformerDecoder(settings(), 5)):
        places = [id(weight) for _, weight in stack.named_parameters(remove_duplicate=False)]
        assert len(places) == len(set(places))


def test_dropout_is_where_the_settings_put_it():
    encoder, source = TransformerEncoder(settings(dropout=0.3)).double(), padded_batch([4, 2, 3])
    assert not torch.equal(encoder(source).values, encoder(source).values)
    assert [part.p for part in encoder.modules() if type(part) is Dropout] == [0.3] * 4
    encoder.eval()
    assert torch.equal(encoder(source).values, encoder(source).values)


@pytest.mark.parametrize("order", NORM_ORDERS)
def test_the_base_model_of_the_paper_has_the_size_on_paper(order):
    width, depth, wide = 512, 6, 2048
    attention = 4 * (width * width + width)  # queries, keys, values, output, with biases
    think = width * wide + wide + wide * width + width
    norm = 2 * width
    ending = norm if order == "pre" else 0
    encoder = depth * (attention + think + 2 * norm) + ending
    decoder = depth * (2 * attention + think + 3 * norm) + ending
    table = 37_000 * width  # one for source, target and output
    assert encoder + decoder + table == 63_082_496 + 2 * ending  # the paper rounds to 65 million
    base = TransformerSettings(width=width, depth=depth, heads=8, norm_order=order)
    with torch.device("meta"):
        parts = [TransformerEncoder(base), TransformerDecoder(base, width)]
    counts = [sum(weight.numel() for weight in part.parameters()) for part in parts]
    assert counts == [encoder, decoder]


def test_the_feed_forward_part_is_as_wide_as_the_settings_say():
    for stack in (TransformerEncoder(settings(mlp_ratio=3)), TransformerDecoder(settings(mlp_ratio=3), WIDTH)):
        assert all(block.feed_forward.up_proj.out_features == 3 * WIDTH for block in stack.blocks)
    assert TransformerEncoder(settings()).blocks[0].feed_forward.up_proj.out_features == 4 * WIDTH


def test_training_and_stepping_work_in_bf16():
    encoder, decoder = TransformerEncoder(settings()), TransformerDecoder(settings(), WIDTH)
    target, source = (
        Sequences(each.values.float(), each.lengths) for each in (padded_batch([4, 2, 3]), padded_batch([3, 3, 2]))
    )
    with torch.autocast("cpu", dtype=torch.bfloat16):
        memory = encoder(source)
        hidden = decoder(target, memory)
        decoder.eval()
        whole = decoder(target, memory)
        state, stepped = decoder.start(memory, rows=3, max_length=4), []
        for vector in target.values.split(1, dim=1):
            new, state = decoder.step(vector, state)
            stepped.append(new)
    assert_close(torch.cat(stepped, dim=1)[target.real].float(), whole[target.real].float(), rtol=0, atol=0.1)
    hidden.float().sum().backward()
    assert all(weight.grad is not None for weight in encoder.parameters())


def test_norms_matrices_and_rotary_base_are_those_of_the_settings():
    changed = settings(norm_eps=0.5, bias=False, rope_theta=100.0, mlp_ratio=2.6)
    block = TransformerEncoder(changed, "rotary").blocks[0]
    assert block.feed_forward_residual.norm.eps == block.self_attention_residual.norm.eps == 0.5
    assert block.self_attention.out_proj.bias is None
    assert block.self_attention.qkv_proj.bias is None
    size = WIDTH // changed.heads
    assert_close(block.self_attention.relative_positions.frequencies, 100.0 ** (-torch.arange(0, size, 2) / size))
    assert block.feed_forward.up_proj.out_features == round(2.6 * WIDTH)


# Depth by chance


def test_the_higher_a_block_stands_the_more_often_it_is_left_out():
    shape = settings(depth=4, drop_path=0.2)
    for stack in (TransformerEncoder(shape), TransformerDecoder(shape, 5), GPTDecoder(shape)):
        for block, share in zip(stack.blocks, (0.05, 0.1, 0.15, 0.2), strict=True):
            found = [part.p for part in block.modules() if isinstance(part, DropPath)]
            assert found == pytest.approx([share] * len(found))
            assert len(found) >= 2
    assert {part.p for part in TransformerEncoder(settings()).modules() if isinstance(part, DropPath)} == {0.0}


def test_a_row_that_goes_around_every_part_comes_out_as_it_went_in():
    encoder = TransformerEncoder(settings(depth=1, drop_path=0.999, norm_order="post", norm="layer"))
    encoder.blocks[0].self_attention_residual.norm = encoder.blocks[0].feed_forward_residual.norm = Untouched()
    vectors = torch.randn(5, 3, WIDTH)
    source = Sequences(vectors, torch.full((5,), 3))
    assert torch.equal(encoder.train()(source).values, vectors)
    assert not torch.equal(encoder.eval()(source).values, vectors)


class Untouched(nn.Module):
    """Stands for a norm."""

    def forward(self, vectors, real):
        return vectors
