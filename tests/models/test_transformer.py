"""The Transformer: padding, decoder states, parts, and its number of parameters."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from seq2see.core.batch import Sequences, clone_state, pick_rows
from seq2see.layers.attention import KeyValueCache
from seq2see.layers.masks import AttentionMask
from seq2see.layers.norms_and_dropout import Dropout, DropPath
from seq2see.models.encoder_model import EncoderOutput
from seq2see.models.gpt import GPTDecoder
from seq2see.models.transformer import (
    BlockState,
    TransformerDecoder,
    TransformerEncoder,
    TransformerSettings,
    TransformerState,
)
from tiny_stacks import NORM_ORDERS, WIDTH, padded_batch, perturb, random_memory, settings
from ways import fast, plain

NORMS = ["layer", "rms", "batch", "power"]


def with_nan_padding(sequences: Sequences, more: int) -> torch.Tensor:
    """More padding, all of it NaN."""
    values = nn.functional.pad(sequences.values, (0, 0, 0, more))
    valid = Sequences(values, sequences.lengths).valid
    return values.masked_fill(~valid[..., None], float("nan"))


# Padding


@pytest.mark.parametrize("norm_order", NORM_ORDERS)
@pytest.mark.parametrize("norm", NORMS)
def test_the_encoder_ignores_padding_even_if_it_is_nan(norm, norm_order):
    encoder, source = perturb(TransformerEncoder(settings(norm=norm, norm_order=norm_order))), padded_batch([4, 1, 3])
    memory = encoder(source)
    again = encoder(Sequences(with_nan_padding(source, 3).requires_grad_(), source.lengths))
    assert_close(again.unpad(), memory.unpad(), rtol=0, atol=1e-10)
    assert_close(again.pooled, memory.pooled, rtol=0, atol=1e-10)
    (again.unpad().sum() + again.pooled.sum()).backward()
    assert all(weight.grad.isfinite().all() for weight in encoder.parameters())


@pytest.mark.parametrize("norm_order", NORM_ORDERS)
@pytest.mark.parametrize("norm", NORMS)
def test_the_decoder_ignores_padding_of_both_sides_even_if_it_is_nan(norm, norm_order):
    decoder = perturb(TransformerDecoder(settings(norm=norm, norm_order=norm_order), 5))
    target, memory = padded_batch([4, 1, 3]), random_memory([2, 3, 1], 5)
    hidden = decoder(target, memory)
    dirty = EncoderOutput(with_nan_padding(memory, 2), memory.lengths, memory.pooled)
    again = decoder(Sequences(with_nan_padding(target, 2), target.lengths), dirty)
    assert_close(again[:, :4][target.valid], hidden[target.valid], rtol=0, atol=1e-10)
    again[:, :4][target.valid].sum().backward()
    assert all(weight.grad.isfinite().all() for weight in decoder.parameters())
    state, stepped = decoder.start(dirty, rows=3, max_length=4), []
    for vector in target.values.split(1, dim=1):
        new, state = decoder.step(vector, state)
        stepped.append(new)
    assert_close(torch.cat(stepped, dim=1)[target.valid], hidden[target.valid], rtol=0, atol=1e-10)


@pytest.mark.parametrize("norm", ["batch", "power"])
@pytest.mark.parametrize("norm_order", NORM_ORDERS)
def test_batch_statistics_ignore_padding(norm, norm_order):
    def stacks() -> tuple[TransformerEncoder, TransformerDecoder]:
        torch.manual_seed(1)
        shape = settings(norm=norm, norm_order=norm_order, dropout=0.0)
        return TransformerEncoder(shape).double(), TransformerDecoder(shape, WIDTH).double()

    source, target, results = padded_batch([4, 1, 3]), padded_batch([2, 5, 1]), []
    for more in (0, 3):
        encoder, decoder = stacks()
        memory = encoder(Sequences(with_nan_padding(source, more), source.lengths))
        hidden = decoder(Sequences(with_nan_padding(target, more), target.lengths), memory)
        statistics = [*encoder.buffers(), *decoder.buffers()]
        results.append([memory.unpad(), hidden[:, :5][target.valid], *statistics])
    for one, other in zip(*results, strict=True):
        assert_close(other, one, rtol=0, atol=1e-10)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("norm_order", NORM_ORDERS)
def test_an_unpadded_stack_computes_the_same(norm, norm_order):
    """Outputs, gradients and running statistics of an unpadded and of a padded stack are equal."""
    source, target, results = padded_batch([4, 1, 3]), padded_batch([2, 5, 1]), []
    for way in (fast, plain):
        torch.manual_seed(1)
        shape = settings(norm=norm, norm_order=norm_order, dropout=0.0)
        encoder, decoder = way(TransformerEncoder(shape).double()), way(TransformerDecoder(shape, WIDTH).double())
        memory = encoder(source)
        hidden = decoder(target, memory)
        (hidden[target.valid].square().sum() + memory.pooled.sum()).backward()
        stacks = (encoder, decoder)
        gradients = [weight.grad for stack in stacks for weight in stack.parameters()]
        statistics = [statistic for stack in stacks for statistic in stack.buffers()]
        results.append([memory.unpad(), memory.pooled, hidden[target.valid], *gradients, *statistics])
    for unpadded, padded in zip(*results, strict=True):
        assert_close(unpadded, padded, rtol=1e-9, atol=1e-10)


def test_padding_is_not_computed_on_a_cpu():
    encoder, decoder = (
        fast(stack.double()) for stack in (TransformerEncoder(settings()), TransformerDecoder(settings(), WIDTH))
    )
    shapes = []
    for layer in (part for stack in (encoder, decoder) for part in stack.modules() if isinstance(part, nn.Linear)):
        layer.register_forward_hook(lambda layer, inputs, output: shapes.append(tuple(inputs[0].shape[:2])))
    memory = encoder(padded_batch([4, 1, 3]))
    assert set(shapes) == {(1, 8)}
    shapes.clear()
    hidden = decoder(padded_batch([2, 5, 1, 2][:3]), memory)
    assert set(shapes) == {(1, 8)}
    assert hidden.shape == (3, 5, WIDTH)
    assert hidden[0, 2:].count_nonzero() == 0


def test_a_row_with_an_empty_source_gives_no_nan():
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
        for norm_order in NORM_ORDERS:
            decoder = perturb(TransformerDecoder(settings(norm=norm, norm_order=norm_order), 5))
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


def concatenate_states(first: TransformerState, second: TransformerState) -> TransformerState:
    """Two states of one row each as one state of two rows."""

    def cat(left, right):
        return torch.cat([left, right])

    blocks = tuple(
        BlockState(
            KeyValueCache(cat(a.past.keys_values, b.past.keys_values)),
            (cat(a.memory[0], b.memory[0]), cat(a.memory[1], b.memory[1])),
        )
        for a, b in zip(first.blocks, second.blocks, strict=True)
    )
    mask, cache_lengths = (
        cat(first.cross_attention_mask.mask, second.cross_attention_mask.mask),
        cat(first.cache_lengths, second.cache_lengths),
    )
    return TransformerState(blocks, cache_lengths, AttentionMask(mask))


def test_rows_of_one_state_may_have_different_cache_lengths():
    decoder = perturb(TransformerDecoder(settings(), 5))
    target, memory = padded_batch([5, 5]), random_memory([4, 2], 5)
    hidden = decoder(target, memory)
    states = []
    for row, length in ((0, 1), (1, 3)):
        alone = pick_rows(memory, torch.tensor([row]))
        states.append(decoder.step(target.values[row : row + 1, :length], decoder.start(alone, 1, 5))[1])
    state = concatenate_states(*states)
    assert state.cache_lengths.tolist() == [1, 3]
    new = torch.stack([target.values[0, 1:3], target.values[1, 3:5]])
    stepped, state = decoder.step(new, state)
    assert_close(stepped, torch.stack([hidden[0, 1:3], hidden[1, 3:5]]), rtol=0, atol=1e-10)
    assert state.cache_lengths.tolist() == [3, 5]


# Parts


def test_every_part_of_a_block_gets_gradients():
    encoder, decoder = (
        TransformerEncoder(settings()).double(),
        TransformerDecoder(settings(), WIDTH).double(),
    )
    source = padded_batch([4, 2, 3])
    decoder(padded_batch([4, 2, 3]), encoder(source)).sum().backward()
    for stack in (encoder, decoder):
        for name, weight in stack.named_parameters():
            assert weight.grad is not None, name
    # Biases of keys shift all scores of a query alike, which the softmax ignores; all other gradients must not be zero.
    encoder.zero_grad()
    encoder(source).unpad().square().sum().backward()
    for name, weight in encoder.named_parameters():
        assert weight.grad.count_nonzero() > 0, name


def test_no_two_parts_share_weights():
    for stack in (TransformerEncoder(settings()), TransformerDecoder(settings(), 5)):
        ids = [id(weight) for _, weight in stack.named_parameters(remove_duplicate=False)]
        assert len(ids) == len(set(ids))


def test_dropout_has_the_rate_of_the_settings():
    encoder, source = TransformerEncoder(settings(dropout=0.3)).double(), padded_batch([4, 2, 3])
    assert not torch.equal(encoder(source).values, encoder(source).values)
    assert [part.p for part in encoder.modules() if type(part) is Dropout] == [0.3] * 4
    encoder.eval()
    assert torch.equal(encoder(source).values, encoder(source).values)


@pytest.mark.parametrize("norm_order", NORM_ORDERS)
def test_the_base_model_has_the_number_of_parameters_of_the_paper(norm_order):
    width, depth, feed_forward_width = 512, 6, 2048
    attention = 4 * (width * width + width)  # queries, keys, values, output, with biases
    feed_forward = 2 * width * feed_forward_width + feed_forward_width + width
    norm = 2 * width
    final_norm = norm if norm_order == "pre" else 0
    encoder = depth * (attention + feed_forward + 2 * norm) + final_norm
    decoder = depth * (2 * attention + feed_forward + 3 * norm) + final_norm
    table = 37_000 * width  # one for source, target and output
    assert encoder + decoder + table == 63_082_496 + 2 * final_norm  # the paper rounds to 65 million
    base = TransformerSettings(width=width, depth=depth, heads=8, norm_order=norm_order)
    with torch.device("meta"):
        parts = [TransformerEncoder(base), TransformerDecoder(base, width)]
    counts = [sum(weight.numel() for weight in part.parameters()) for part in parts]
    assert counts == [encoder, decoder]


def test_the_feed_forward_width_is_that_of_the_settings():
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
    assert_close(torch.cat(stepped, dim=1)[target.valid].float(), whole[target.valid].float(), rtol=0, atol=0.1)
    hidden.float().sum().backward()
    assert all(weight.grad is not None for weight in encoder.parameters())


def test_norms_biases_and_rope_theta_are_those_of_the_settings():
    changed = settings(norm_eps=0.5, bias=False, rope_theta=100.0, mlp_ratio=2.6)
    block = TransformerEncoder(changed, "rotary").blocks[0]
    assert block.feed_forward_residual.norm.eps == block.self_attention_residual.norm.eps == 0.5
    assert block.self_attention.out_proj.bias is None
    assert block.self_attention.qkv_proj.bias is None
    size = WIDTH // changed.heads
    assert_close(block.self_attention.relative_positions.frequencies, 100.0 ** (-torch.arange(0, size, 2) / size))
    assert block.feed_forward.up_proj.out_features == round(2.6 * WIDTH)


# Stochastic depth


def test_the_drop_path_rate_grows_with_the_depth_of_the_block():
    shape = settings(depth=4, drop_path=0.2)
    for stack in (TransformerEncoder(shape), TransformerDecoder(shape, 5), GPTDecoder(shape)):
        for block, rate in zip(stack.blocks, (0.05, 0.1, 0.15, 0.2), strict=True):
            rates = [part.p for part in block.modules() if isinstance(part, DropPath)]
            assert rates == pytest.approx([rate] * len(rates))
            assert len(rates) >= 2
    assert not any(isinstance(part, DropPath) for part in TransformerEncoder(settings()).modules())


def test_a_row_that_skips_every_sublayer_is_unchanged():
    encoder = TransformerEncoder(settings(depth=1, drop_path=0.999, norm_order="post", norm="layer"))
    encoder.blocks[0].self_attention_residual.norm = encoder.blocks[0].feed_forward_residual.norm = IdentityNorm()
    vectors = torch.randn(5, 3, WIDTH)
    source = Sequences(vectors, torch.full((5,), 3))
    assert torch.equal(encoder.train()(source).values, vectors)
    assert not torch.equal(encoder.eval()(source).values, vectors)


class IdentityNorm(nn.Module):
    """Replaces a norm."""

    def forward(self, vectors, valid):
        return vectors
