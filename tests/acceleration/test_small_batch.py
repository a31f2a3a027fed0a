"""The version with fused kernels for small batches gives the logits of the model.

Without a GPU triton interprets the kernels, which is slow but the same arithmetic (conftest.py).
"""

from __future__ import annotations

import copy

import pytest
import torch

from seq2see.core.batch import Sequences, clone_state, tensors_of
from seq2see.decoding.beam import BeamSampler
from seq2see.decoding.engine import Limits, decode
from seq2see.decoding.samplers import GreedySampler
from seq2see.models.settings import ModelSettings, TextTarget, TokenEmbeddingSettings
from tiny_models import FAMILIES, perturbed_model, sources, tiny_model, transformer

pytestmark = pytest.mark.triton

DEVICE, TOLERANCE = ("cuda", 1e-4) if torch.cuda.is_available() else ("cpu", 1e-5)
SUPPORTED = [
    "transformer, pre-norm", "transformer, post-norm", "convolutional to transformer", "recurrent to transformer"
]  # fmt: skip


def gpt_settings(
    head: str = "untied",
    suppress_tokens: tuple[int, ...] = (),
    embedding: TokenEmbeddingSettings | None = None,
    **changes,
) -> ModelSettings:
    """A GPT, or a variant of it."""
    target = TextTarget(
        embedding=embedding or TokenEmbeddingSettings(positions="learned"), head=head, suppress_tokens=suppress_tokens
    )
    return ModelSettings(decoder=transformer(**changes), target=target)


GPTS = {
    "pre-norm": gpt_settings(activation="gelu-tanh"),
    "post-norm": gpt_settings(
        activation="gelu", norm_order="post", embedding=TokenEmbeddingSettings(positions="none", scale=False)
    ),
    "few positions": gpt_settings(
        head="untied-no-bias", embedding=TokenEmbeddingSettings(positions="learned", max_positions=3, scale=False)
    ),
    "tokens are missing": gpt_settings(suppress_tokens=(1, 5), embedding=TokenEmbeddingSettings()),
}
UNSUPPORTED = {
    "rms norm": gpt_settings(norm="rms"),
    "swiglu": gpt_settings(activation="swiglu"),
    "rotary": gpt_settings(embedding=TokenEmbeddingSettings(positions="rotary")),
    "alibi": gpt_settings(embedding=TokenEmbeddingSettings(positions="alibi")),
    "shared keys": gpt_settings(kv_heads=1),
}


@pytest.fixture(autouse=True)
def fewer_programs(monkeypatch):
    """The interpreter runs programs one after another."""
    from seq2see.acceleration import small_batch_kernels

    monkeypatch.setattr(small_batch_kernels, "MIN_PROGRAMS", 4)


def small_batch_model_of(model):
    from seq2see.acceleration.small_batch import make_small_batch_model

    return make_small_batch_model(model)


def on_device(model):
    """A copy on the device of the kernels; the tiny models are shared by all tests."""
    return copy.deepcopy(model).to(DEVICE)


def read_both(model, source, rows, chunk_sizes):
    """Logits and states of both models after each chunk of random tokens."""
    model, source = on_device(model), source and source.to(DEVICE)
    optimized_model = small_batch_model_of(model)
    assert optimized_model is not model
    with torch.inference_mode():
        states = [each.start(source, rows, 9) for each in (model, optimized_model)]
        for new in chunk_sizes:
            tokens = torch.randint(3, 11, (rows, new), device=DEVICE)
            logits = []
            for number, each in enumerate((model, optimized_model)):
                scores, states[number] = each.step(tokens, states[number])
                logits.append(scores)
            yield logits, states


@pytest.mark.parametrize("name", SUPPORTED)
def test_one_token_of_a_few_rows(name):
    for (plain, optimized), states in read_both(tiny_model(name), sources([4, 2, 5], seed=3), 3, [1, 1, 2, 1]):
        torch.testing.assert_close(optimized, plain, rtol=0, atol=TOLERANCE)
        for one, other in zip(*map(tensors_of, states), strict=True):  # the states are equal, too
            torch.testing.assert_close(one, other, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", GPTS)
def test_one_token_of_gpt(name):
    for (plain, optimized), _ in read_both(perturbed_model(GPTS[name]), None, 2, [1, 3, 1, 1]):
        torch.testing.assert_close(optimized, plain, rtol=1e-6, atol=TOLERANCE)


@pytest.mark.parametrize("name", SUPPORTED[:2])
@pytest.mark.parametrize("sampler", [GreedySampler(), BeamSampler(3)], ids=["greedy", "beam"])
def test_one_sentence_gets_the_same_hypotheses(name, sampler):
    model, source = on_device(tiny_model(name)), sources([5], seed=3).to(DEVICE)
    actual, expected = (decode(each, source, sampler, Limits(5)) for each in (small_batch_model_of(model), model))
    assert [each.tokens for each in actual[0]] == [each.tokens for each in expected[0]]


def test_gpt_continues_a_prefix_with_the_same_tokens():
    model, prefix = on_device(perturbed_model(GPTS["pre-norm"])), Sequences.of([[7, 8, 9], [5]]).to(DEVICE)
    actual, expected = (
        decode(each, None, GreedySampler(), Limits(5), prefix=prefix) for each in (small_batch_model_of(model), model)
    )
    assert [row[0].tokens for row in actual] == [row[0].tokens for row in expected]


@pytest.mark.parametrize("rows, new, is_fused", [(4, 1, True), (5, 1, True), (2, 2, False)])
def test_several_tokens_use_the_model(rows, new, is_fused, monkeypatch):
    model, source = on_device(tiny_model("transformer, pre-norm")), sources([3] * rows).to(DEVICE)
    optimized_model, step, shapes = small_batch_model_of(model), model.step, []
    monkeypatch.setattr(model, "step", lambda tokens, state: shapes.append(tokens.shape) or step(tokens, state))
    with torch.inference_mode():
        optimized_model.step(torch.full((rows, new), 5, device=DEVICE), optimized_model.start(source, rows, 4))
    assert shapes == ([] if is_fused else [(rows, new)])


@pytest.mark.parametrize("name", SUPPORTED)
def test_one_token_of_many_rows_without_the_kernels_for_few(name, monkeypatch):
    from seq2see.acceleration import small_batch

    calls, lengths = [], [4, 2, 5, 1, 3, 5]
    monkeypatch.setattr(small_batch, "fused_linear", lambda *inputs: calls.append(inputs))
    for (plain, optimized), states in read_both(tiny_model(name), sources(lengths, seed=3), 6, [1, 1, 2, 1]):
        torch.testing.assert_close(optimized, plain, rtol=0, atol=TOLERANCE)
        for one, other in zip(*map(tensors_of, states), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=TOLERANCE)
    assert not calls


@pytest.mark.parametrize("name", GPTS)
def test_one_token_of_gpt_with_many_rows(name):
    for (plain, optimized), _ in read_both(perturbed_model(GPTS[name]), None, 5, [1, 3, 1]):
        torch.testing.assert_close(optimized, plain, rtol=1e-6, atol=TOLERANCE)


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_models_are_returned_unchanged(name):
    model = perturbed_model(UNSUPPORTED[name])
    assert small_batch_model_of(model) is model


def test_only_transformers_are_supported():
    assert {name for name in FAMILIES if small_batch_model_of(tiny_model(name)) is not tiny_model(name)} == set(
        SUPPORTED
    )


def test_float64_models_are_returned_unchanged():
    model = tiny_model("transformer, pre-norm", torch.float64)
    assert small_batch_model_of(model) is model


def test_models_with_another_embedding_or_head_are_returned_unchanged():
    model = perturbed_model(FAMILIES["transformer, pre-norm"])
    for name in ("head", "target"):
        module = getattr(model, name)
        subclass = type("Subclass", (type(module),), {})
        module.__class__ = subclass
        assert small_batch_model_of(model) is model
        module.__class__ = subclass.__bases__[0]
    assert small_batch_model_of(model) is not model


def test_models_with_noncontiguous_weights_are_returned_unchanged():
    model = perturbed_model(FAMILIES["transformer, pre-norm"])
    up_proj = model.decoder.blocks[1].feed_forward.up_proj
    up_proj.weight = torch.nn.Parameter(up_proj.weight.detach().mT.contiguous().mT)
    assert small_batch_model_of(model) is model


def test_keys_and_values_of_a_source_are_made_contiguous_once():
    optimized_model, source = small_batch_model_of(tiny_model("transformer, pre-norm")), sources([4, 2], seed=3)
    with torch.inference_mode():
        blocks = optimized_model.start(source, 2, 6).decoder.blocks
        original_blocks = optimized_model.model.start(source, 2, 6).decoder.blocks
    for block, other in zip(blocks, original_blocks, strict=True):
        assert all(tensor.is_contiguous() for tensor in block.memory)
        assert all(map(torch.equal, block.memory, other.memory))


def test_a_cloned_state_is_independent():
    optimized_model, token = (
        small_batch_model_of(on_device(tiny_model("transformer, pre-norm"))),
        torch.tensor([[5]], device=DEVICE),
    )
    with torch.inference_mode():
        _, state = optimized_model.step(token, optimized_model.start(sources([3]).to(DEVICE), 1, 6))
        other = clone_state(state)
        expected, _ = optimized_model.step(token + 2, other)
        output, _ = optimized_model.step(token + 2, state)
    assert torch.equal(output, expected)
