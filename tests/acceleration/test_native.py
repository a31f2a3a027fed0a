"""The C++ version gives the logits of the model: for every variant, in every precision, in every batch."""

from __future__ import annotations

import copy
import gc
import os
import signal
import threading
import weakref
from functools import cache, partial

import pytest
import torch
from torch import Tensor, nn

from seq2see.acceleration.native import NativeModel, make_native_model, native_unsupported_reason
from seq2see.core.batch import Sequences, clone_state, pick_rows, repeat_rows
from seq2see.decoding.beam import BeamSampler
from seq2see.decoding.engine import Limits, decode
from seq2see.decoding.samplers import GreedySampler
from seq2see.models.build import fresh_model
from seq2see.models.embeddings_and_heads import TiedHead
from seq2see.models.seq2seq import Seq2Seq
from seq2see.models.settings import ModelSettings, Text, TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from tiny_models import tiny_model
from ways import fast

SOURCE_SIZE, TARGET_SIZE = 71, 131

# (norm, norm_order, positions, head, vocabulary): each value occurs at least twice, in different combinations.
VARIANTS = [
    ("layer", "pre", "sinusoidal", "tied", "shared"),
    ("layer", "post", "learned", "untied", "separate"),
    ("layer", "pre", "none", "untied", "shared"),
    ("rms", "pre", "learned", "tied", "separate"),
    ("rms", "post", "sinusoidal", "untied", "shared"),
    ("layer", "post", "none", "tied", "separate"),
]


@cache
def model_of(norm, norm_order, positions, head, vocabulary) -> Seq2Seq:
    """Heads of 38 numbers, or of 6 and 10; 131 tokens: nothing is a multiple of 16."""
    embedding = TokenEmbeddingSettings(positions=positions)
    part = partial(TransformerSettings, heads=2, norm=norm, norm_order=norm_order)
    widths = (76, 76) if vocabulary == "shared" else (12, 20)
    settings = ModelSettings(
        source=Text(embedding=embedding),
        target=TextTarget(embedding=embedding, head=head, vocabulary=vocabulary),
        encoder=part(width=widths[0], depth=2),
        decoder=part(width=widths[1], depth=3),
    )
    model = fresh_model(settings, (SOURCE_SIZE if vocabulary == "separate" else TARGET_SIZE, TARGET_SIZE), "xavier", 1)
    random = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.2 * torch.randn(weight.shape, generator=random)
    return model.eval()


@cache
def native_model_of(variant: tuple[str, ...], precision: str, threads: int = 1) -> NativeModel:
    model = model_of(*variant)
    return make_native_model(model, precision, threads) or pytest.skip(str(native_unsupported_reason(model)))


def random_sources(lengths: list[int], seed: int = 0) -> Sequences:
    random = torch.Generator().manual_seed(seed)
    return Sequences.of([torch.randint(3, SOURCE_SIZE, (length,), generator=random).tolist() for length in lengths])


def random_tokens(rows: int, times: int, seed: int = 1) -> Tensor:
    return torch.randint(0, TARGET_SIZE, (rows, times), generator=torch.Generator().manual_seed(seed))


def read(model, source: Sequences, tokens: Tensor, chunk_sizes: list[int]) -> Tensor:
    """The logits when the tokens are read in chunks of these sizes."""
    with torch.no_grad():
        state, logits = model.start(source, *tokens.shape), []
        for chunk in tokens.split(chunk_sizes, dim=1):
            scores, state = model.step(chunk, state)
            logits.append(scores)
    return torch.cat(logits, dim=1)


def int8_linear(weight: Tensor, bias: Tensor | None, vectors: Tensor) -> Tensor:
    """The definition: integers up to 127, a scale for each output channel and for each vector."""

    def quantized(numbers: Tensor) -> tuple[Tensor, Tensor]:
        scales = numbers.abs().amax(-1, keepdim=True) / 127
        scales[scales == 0] = 1
        return (numbers / scales).round().double(), scales

    weights, channel_scales = quantized(weight)
    inputs, row_scales = quantized(vectors)
    output = (inputs @ weights.mT).float() * row_scales * channel_scales.squeeze(-1)
    return output if bias is None else output + bias


def int8_definition(model: Seq2Seq) -> Seq2Seq:
    """The model with all large linear layers in int8; a number that is rounded otherwise makes a large difference."""
    model = fast(copy.deepcopy(model))
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.forward = partial(int8_linear, module.weight, module.bias)
        elif isinstance(module, TiedHead):
            module.forward = partial(int8_linear, module.table.weight, None)
    return model


@pytest.mark.parametrize("variant", VARIANTS, ids="-".join)
class TestVariants:
    source, tokens = random_sources([5, 1, 19]), random_tokens(3, 21)

    def test_float32_equals_the_model(self, variant):
        expected = read(model_of(*variant), self.source, self.tokens, [21])
        for chunk_sizes in ([1] * 21, [17, 1, 3]):
            torch.testing.assert_close(
                read(native_model_of(variant, "float32"), self.source, self.tokens, chunk_sizes),
                expected,
                rtol=1e-5,
                atol=1e-4,
            )

    def test_int8_equals_its_definition(self, variant):
        expected = read(int8_definition(model_of(*variant)), self.source, self.tokens, [21])
        outputs = read(native_model_of(variant, "int8"), self.source, self.tokens, [20, 1])
        torch.testing.assert_close(outputs, expected, rtol=1e-5, atol=1e-4)
        plain = read(model_of(*variant), self.source, self.tokens, [21])
        assert (plain - expected).abs().max() > 1e-2  # so that the test can distinguish them

    def test_bf16_is_near_the_model(self, variant):
        expected = read(model_of(*variant), self.source, self.tokens, [21])
        outputs = read(native_model_of(variant, "bf16"), self.source, self.tokens, [20, 1])
        error = (outputs - expected).abs()
        assert 0 < error.mean() < 0.01 * expected.abs().mean() + 0.01
        assert error.max() < 0.1 * expected.abs().max()


@pytest.mark.parametrize("precision", ["float32", "bf16", "int8"])
class TestNeighbors:
    variant = VARIANTS[0]

    def test_a_row_is_the_same_to_the_last_bit_in_any_batch_and_with_any_threads(self, precision):
        lengths = [7, 3, 18, 1, 9, 4, 12, 2, 30, 6, 11, 5, 8]
        source, tokens = random_sources(lengths), random_tokens(len(lengths), 5)
        together = read(native_model_of(self.variant, precision), source, tokens, [1] * 5)
        for threads in (1, 2, 3):
            model = native_model_of(self.variant, precision, threads)
            assert torch.equal(read(model, source, tokens, [1] * 5), together)
            for rows in ([0], [12], [3, 5], [8, 2, 9, 1], list(range(7))):
                part = Sequences(source.values[rows], source.lengths[rows])
                assert torch.equal(read(model, part, tokens[rows], [2, 3]), together[rows])

    def test_beams_share_their_source_and_can_be_reordered(self, precision):
        model, source, tokens = native_model_of(self.variant, precision), random_sources([6, 4]), random_tokens(6, 9)
        _, state = model.step(tokens[[0, 3], :4], model.start(source, 2, 9))
        state = pick_rows(repeat_rows(state, 3), torch.tensor([0, 0, 2, 4, 3, 5]))
        _, state = model.step(tokens[:, 4:6], state)
        order = torch.tensor([2, 0, 0, 5, 3, 4])
        scores, _ = model.step(tokens[order, 6:], pick_rows(state, order))
        same_past = torch.cat([tokens[[0, 0, 0, 3, 3, 3], :4], tokens[order, 4:]], dim=1)
        rows = [0, 0, 0, 1, 1, 1]
        expected = read(model, Sequences(source.values[rows], source.lengths[rows]), same_past, [9])
        assert torch.equal(scores, expected[:, 6:])

    def test_cloned_states_append_alternately_without_side_effects(self, precision):
        model, source = native_model_of(self.variant, precision), random_sources([6, 4])
        branches = [random_tokens(2, 8, seed) for seed in (1, 2)]
        branches[1][:, :3] = branches[0][:, :3]
        _, state = model.step(branches[0][:, :3], model.start(source, 2, 8))
        states, results = [state, clone_state(state)], [[], []]
        for time in range(3, 8):
            for i in (0, 1):
                scores, states[i] = model.step(branches[i][:, time : time + 1], states[i])
                results[i].append(scores)
        for i in (0, 1):
            assert torch.equal(torch.cat(results[i], dim=1), read(model, source, branches[i], [8])[:, 3:])


class TestNativeModel:
    variant = VARIANTS[1]

    def test_it_decodes_like_the_model(self):
        model, source = model_of(*self.variant), random_sources([5, 1, 19, 7])
        for sampler in (GreedySampler(), BeamSampler(3)):
            expected = decode(model, source, sampler, Limits(12))
            outputs = decode(native_model_of(self.variant, "float32", 2), source, sampler, Limits(12))
            assert [[a.tokens for a in row] for row in outputs] == [[a.tokens for a in row] for row in expected]

    @pytest.mark.parametrize("threads", [1, 2, 3])
    def test_scores_are_log_probabilities(self, threads):
        optimized_model, source, tokens = (
            native_model_of(self.variant, "float32", threads),
            random_sources([5, 1, 19]),
            random_tokens(3, 2),
        )
        scores, state = optimized_model.step_log_probabilities(tokens, optimized_model.start(source, 3, 2))
        logits = read(optimized_model, source, tokens, [2])
        torch.testing.assert_close(scores, logits.log_softmax(-1), rtol=1e-6, atol=1e-6)
        assert state.cache_length.tolist() == [2, 2, 2]

    def test_log_probabilities_of_a_large_vocabulary_are_summed_in_blocks(self):
        width = TransformerSettings(width=8, depth=1, heads=2)
        settings = ModelSettings(source=Text(), target=TextTarget(), encoder=width, decoder=width)
        model = fresh_model(settings, (71, 5003), "xavier", 1).eval()
        source, tokens, outputs = random_sources([5, 4]), random_tokens(2, 1), []
        with torch.no_grad():
            model.target.table.weight[4500] *= 40  # the largest score is in the last block
        for threads in (1, 2, 3):
            optimized_model = make_native_model(model, "float32", threads) or pytest.skip("no compiler")
            outputs.append(optimized_model.step_log_probabilities(tokens, optimized_model.start(source, 2, 1))[0])
        expected = read(model, source, tokens, [1]).log_softmax(-1)
        torch.testing.assert_close(outputs[0], expected, rtol=1e-5, atol=1e-4)
        assert torch.equal(outputs[0], outputs[1])
        assert torch.equal(outputs[0], outputs[2])

    def test_it_contains_a_copy_of_the_weights(self):
        model = copy.deepcopy(model_of(*self.variant))
        optimized_model = make_native_model(model, "float32", 1) or pytest.skip("no compiler")
        source, tokens = random_sources([4]), random_tokens(1, 5)
        with torch.no_grad():
            for weight in model.parameters():
                weight.zero_()
        assert torch.equal(
            read(optimized_model, source, tokens, [5]),
            read(native_model_of(self.variant, "float32"), source, tokens, [5]),
        )

    def test_a_source_without_tokens_is_supported(self):
        source = Sequences(torch.zeros(2, 3, dtype=torch.long), torch.tensor([0, 3]))
        tokens = random_tokens(2, 4)
        scores = read(native_model_of(self.variant, "float32"), source, tokens, [4])
        expected = read(model_of(*self.variant), source, tokens, [4])
        torch.testing.assert_close(scores, expected, rtol=1e-5, atol=1e-4)

    @pytest.mark.parametrize("token", [-1, TARGET_SIZE])
    def test_a_token_out_of_range_is_an_error(self, token):
        optimized_model = native_model_of(self.variant, "float32")
        with pytest.raises(IndexError, match="no such token"):
            optimized_model.step(torch.tensor([[token]]), optimized_model.start(random_sources([4]), 1, 5))
        with pytest.raises(IndexError, match="no such token"):
            optimized_model.start(Sequences.of([[token]]), 1, 5)
        with pytest.raises(IndexError):
            optimized_model.start(Sequences(torch.tensor([[5]]), torch.tensor([2])), 1, 5)

    def test_more_tokens_than_the_cache_capacity_are_an_error(self):
        optimized_model = native_model_of(self.variant, "float32")
        _, state = optimized_model.step(random_tokens(1, 3), optimized_model.start(random_sources([4]), 1, 5))
        with pytest.raises(IndexError, match="cache is full"):
            optimized_model.step(random_tokens(1, 3), state)

    def test_a_state_keeps_its_native_model_alive(self):
        source, tokens = random_sources([4]), random_tokens(1, 5)
        expected = read(native_model_of(self.variant, "float32"), source, tokens, [5])
        optimized_model = make_native_model(model_of(*self.variant), "float32", 2)
        state, reference = optimized_model.start(source, 1, 5), weakref.ref(optimized_model)
        del optimized_model
        gc.collect()
        assert torch.equal(state.cache.model.step(tokens, state)[0], expected)
        del state
        gc.collect()
        assert reference() is None

    def test_a_forked_process_computes_without_the_threads_of_its_parent(self):
        source, tokens = random_sources([4, 9, 3, 7]), random_tokens(4, 5)
        optimized_model = native_model_of(self.variant, "float32", 3)
        expected = read(optimized_model, source, tokens, [1] * 5)
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # otherwise a missing thread would block the test forever
            os._exit(0 if torch.equal(read(optimized_model, source, tokens, [1] * 5), expected) else 1)
        assert os.waitpid(child, 0)[1] == 0

    def test_several_threads_may_use_one_native_model(self):
        source, tokens = random_sources([5, 9]), random_tokens(2, 20)
        for threads in (1, 2):
            optimized_model = native_model_of(self.variant, "int8", threads)
            expected, outputs = read(optimized_model, source, tokens, [1] * 20), []
            workers = [
                threading.Thread(target=lambda: outputs.append(read(optimized_model, source, tokens, [1] * 20)))  # noqa: B023
                for _ in range(4)
            ]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            assert len(outputs) == 4
            assert all(torch.equal(each, expected) for each in outputs)

    def test_the_position_cache_grows_with_longer_texts(self):
        model = model_of(*self.variant)
        optimized_model = make_native_model(model, "float32", 1) or pytest.skip("no compiler")
        for length in (3, 70, 150):
            source, tokens = random_sources([length, 2]), random_tokens(2, length)
            expected = read(model, source, tokens, [length])
            torch.testing.assert_close(read(optimized_model, source, tokens, [length]), expected, rtol=1e-3, atol=1e-3)

    @pytest.mark.parametrize("norm", ["layer", "rms"])
    def test_the_epsilon_of_a_norm_is_that_of_the_model(self, norm):
        part = TransformerSettings(width=12, depth=1, heads=2, norm=norm, norm_eps=0.5)
        shape = ModelSettings(source=Text(), target=TextTarget(), encoder=part, decoder=part)
        model = fresh_model(shape, (TARGET_SIZE, TARGET_SIZE), "xavier", 1).eval()
        optimized_model = make_native_model(model, "float32", 1) or pytest.skip("no compiler")
        both = [read(each, random_sources([4, 9]), random_tokens(2, 5), [5]) for each in (model, optimized_model)]
        torch.testing.assert_close(*both, rtol=1e-3, atol=1e-4)

    def test_nan_stays_nan(self):
        model = copy.deepcopy(model_of(*self.variant))
        with torch.no_grad():
            model.target.table.weight[7] = torch.nan
        for precision in ("float32", "bf16", "int8"):
            optimized_model = make_native_model(model, precision, 1) or pytest.skip("no compiler")
            scores = read(optimized_model, random_sources([4, 4]), torch.tensor([[5], [7]]), [1])
            assert scores[0].isfinite().all()
            assert scores[1].isnan().all()


class TestUnsupported:
    @pytest.mark.parametrize(
        "name, reason",
        [
            ("transformer, batch norm", "MaskedBatchNorm"),
            ("recurrent to transformer", "its encoder is a RecurrentEncoder"),
            ("transformer to recurrent", "its decoder is a RecurrentDecoder"),
        ],
    )
    def test_unsupported_families_are_named(self, name, reason):
        assert reason in native_unsupported_reason(tiny_model(name))
        assert make_native_model(tiny_model(name), "float32", 1) is None

    @pytest.mark.parametrize(
        "changes, positions, reason",
        [
            ({"activation": "gelu-tanh"}, "sinusoidal", "feed_forward is a GeluTanhFeedForward"),
            ({"activation": "swiglu"}, "sinusoidal", "feed_forward is a GatedFeedForward"),
            ({"bias": False}, "sinusoidal", "out_proj.bias is a NoneType"),
            ({"kv_heads": 1}, "sinusoidal", "is a GroupedSelfAttention"),
            ({}, "rotary", "relative_positions is a RotaryPositions"),
            ({}, "alibi", "relative_positions is a AlibiPositions"),
        ],
    )
    def test_unsupported_parts_are_named(self, changes, positions, reason):
        part = TransformerSettings(width=8, depth=1, heads=2, **changes)
        text = {"embedding": TokenEmbeddingSettings(positions=positions)}
        shape = ModelSettings(source=Text(**text), target=TextTarget(**text), encoder=part, decoder=part)
        model = fresh_model(shape, (9, 9), "xavier", 1)
        assert reason in native_unsupported_reason(model)
        assert make_native_model(model, "float32", 1) is None

    def test_subclasses_of_the_model_are_not_supported(self):
        class Other(Seq2Seq):
            pass

        model = model_of(*VARIANTS[0])
        other = Other(model.source, model.encoder, model.target, model.decoder, model.head)
        assert "no plain sequence-to-sequence model" in native_unsupported_reason(other)

    def test_heads_above_the_maximum_size_are_not_supported(self):
        wide = TransformerSettings(width=144, depth=1, heads=1)
        model = fresh_model(
            ModelSettings(source=Text(), target=TextTarget(), encoder=wide, decoder=wide), (9, 9), "xavier", 1
        )
        assert "144 numbers" in native_unsupported_reason(model)

    def test_an_environment_variable_switches_it_off(self, monkeypatch):
        monkeypatch.setenv("SEQ2SEE_NATIVE", "0")
        assert "SEQ2SEE_NATIVE=0" in native_unsupported_reason(model_of(*VARIANTS[0]))
        assert make_native_model(model_of(*VARIANTS[0]), "float32", 1) is None
