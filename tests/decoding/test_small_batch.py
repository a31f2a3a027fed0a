"""A twin that steps a few rows by kernels of its own says what its model says.

Without a GPU triton interprets the kernels, which is slow but the same arithmetic (conftest.py).
"""

from __future__ import annotations

import copy

import pytest
import torch

from seq2see.core.batch import Sequences
from seq2see.core.rows import clone_state, tensors_of
from seq2see.decoding.beam import BeamSampler
from seq2see.decoding.engine import Limits, decode
from seq2see.decoding.samplers import GreedySampler
from seq2see.models.settings import ModelSettings, TextTarget, TokenEmbeddingSettings
from tiny_models import FAMILIES, perturbed_model, sources, tiny_model, transformer

pytestmark = pytest.mark.triton

DEVICE, NEAR = ("cuda", 1e-4) if torch.cuda.is_available() else ("cpu", 1e-5)
WITH_TWIN = [
    "transformer, pre-norm", "transformer, post-norm", "convolutional to transformer", "recurrent to transformer"
]  # fmt: skip


def writes(
    head: str = "free", suppress_tokens: tuple[int, ...] = (), embedding: TokenEmbeddingSettings | None = None, **changes
) -> ModelSettings:
    """GPT, or something near it."""
    target = TextTarget(
        embedding=embedding or TokenEmbeddingSettings(positions="learned"), head=head, suppress_tokens=suppress_tokens
    )
    return ModelSettings(decoder=transformer(**changes), target=target)


GPTS = {
    "pre-norm": writes(activation="gelu-tanh"),
    "post-norm": writes(
        activation="gelu", norm_order="post", embedding=TokenEmbeddingSettings(positions="none", scale=False)
    ),
    "few positions": writes(
        head="untied-no-bias", embedding=TokenEmbeddingSettings(positions="learned", max_positions=3, scale=False)
    ),
    "tokens are missing": writes(suppress_tokens=(1, 5), embedding=TokenEmbeddingSettings()),
}
OTHERS = {
    "rms norm": writes(norm="rms"),
    "swiglu": writes(activation="swiglu"),
    "rotary": writes(embedding=TokenEmbeddingSettings(positions="rotary")),
    "alibi": writes(embedding=TokenEmbeddingSettings(positions="alibi")),
    "shared keys": writes(kv_heads=1),
}


@pytest.fixture(autouse=True)
def few_programs(monkeypatch):
    """An interpreter walks through one program after another."""
    from seq2see.kernels import fused_linear

    monkeypatch.setattr(fused_linear, "PROGRAMS", 4)


def twin_of(model):
    from seq2see.decoding.small_batch import make_small_batch_model

    return make_small_batch_model(model)


def here(model):
    """A copy where the kernels run; the tiny models are shared by all tests."""
    return copy.deepcopy(model).to(DEVICE)


def read_both(model, source, rows, lots):
    """Logits of both, after reading the same tokens in lots of so many at a time."""
    model, source = here(model), source and source.to(DEVICE)
    optimized_model = twin_of(model)
    assert optimized_model is not model
    with torch.inference_mode():
        states = [each.start(source, rows, 9) for each in (model, optimized_model)]
        for new in lots:
            tokens = torch.randint(3, 11, (rows, new), device=DEVICE)
            logits = []
            for number, each in enumerate((model, optimized_model)):
                scores, states[number] = each.step(tokens, states[number])
                logits.append(scores)
            yield logits, states


@pytest.mark.parametrize("name", WITH_TWIN)
def test_one_token_of_a_few_rows(name):
    for (plain, optimized), states in read_both(tiny_model(name), sources([4, 2, 5], seed=3), 3, [1, 1, 2, 1]):
        torch.testing.assert_close(optimized, plain, rtol=0, atol=NEAR)
        for one, other in zip(*map(tensors_of, states), strict=True):  # what is remembered is the same, too
            torch.testing.assert_close(one, other, rtol=0, atol=NEAR)


@pytest.mark.parametrize("name", GPTS)
def test_one_token_of_gpt(name):
    for (plain, optimized), _ in read_both(perturbed_model(GPTS[name]), None, 2, [1, 3, 1, 1]):
        torch.testing.assert_close(optimized, plain, rtol=1e-6, atol=NEAR)


@pytest.mark.parametrize("name", WITH_TWIN[:2])
@pytest.mark.parametrize("chooser", [GreedySampler(), BeamSampler(3)], ids=["greedy", "beam"])
def test_one_sentence_gets_the_same_answers(name, sampler):
    model, source = here(tiny_model(name)), sources([5], seed=3).to(DEVICE)
    mine, theirs = (decode(each, source, sampler, Limits(5)) for each in (twin_of(model), model))
    assert [each.tokens for each in mine[0]] == [each.tokens for each in theirs[0]]


def test_gpt_goes_on_from_a_prefix_with_the_same_tokens():
    model, prefix = here(perturbed_model(GPTS["pre-norm"])), Sequences.of([[7, 8, 9], [5]]).to(DEVICE)
    mine, theirs = (decode(each, None, GreedySampler(), Limits(5), prefix=prefix) for each in (twin_of(model), model))
    assert [row[0].tokens for row in mine] == [row[0].tokens for row in theirs]


@pytest.mark.parametrize("rows, new, is_taken", [(4, 1, True), (5, 1, False), (2, 2, False)])
def test_many_rows_and_several_tokens_are_left_to_the_model(rows, new, is_taken, monkeypatch):
    model, source = here(tiny_model("transformer, pre-norm")), sources([3] * rows).to(DEVICE)
    optimized_model, own, asked = twin_of(model), model.step, []
    monkeypatch.setattr(model, "step", lambda tokens, state: asked.append(tokens.shape) or own(tokens, state))
    with torch.inference_mode():
        optimized_model.step(torch.full((rows, new), 5, device=DEVICE), optimized_model.start(source, rows, 4))
    assert asked == ([] if is_taken else [(rows, new)])


@pytest.mark.parametrize("name", OTHERS)
def test_what_the_kernels_do_not_know_stays_as_it_is(name):
    model = perturbed_model(OTHERS[name])
    assert twin_of(model) is model


def test_only_transformers_have_a_twin():
    assert {name for name in FAMILIES if twin_of(tiny_model(name)) is not tiny_model(name)} == set(WITH_TWIN)


def test_what_counts_in_float64_stays_as_it_is():
    model = tiny_model("transformer, pre-norm", torch.float64)
    assert twin_of(model) is model


def test_a_frontend_or_a_head_of_another_kind_stays_as_it_is():
    model = perturbed_model(FAMILIES["transformer, pre-norm"])
    for name in ("head", "target"):
        own = getattr(model, name)
        other = type("Other", (type(own),), {})
        own.__class__ = other
        assert twin_of(model) is model
        own.__class__ = other.__bases__[0]
    assert twin_of(model) is not model


def test_weights_that_lie_otherwise_stay_as_they_are():
    model = perturbed_model(FAMILIES["transformer, pre-norm"])
    up_proj = model.decoder.blocks[1].feed_forward.up_proj
    up_proj.weight = torch.nn.Parameter(up_proj.weight.detach().mT.contiguous().mT)
    assert twin_of(model) is model


def test_keys_and_values_of_a_source_are_laid_in_one_piece_once():
    optimized_model, source = twin_of(tiny_model("transformer, pre-norm")), sources([4, 2], seed=3)
    with torch.inference_mode():
        found = optimized_model.start(source, 2, 6).decoder.blocks
        plain = optimized_model.model.start(source, 2, 6).decoder.blocks
    for block, other in zip(found, plain, strict=True):
        assert all(part.is_contiguous() for part in block.memory)
        assert all(map(torch.equal, block.memory, other.memory))


def test_a_forked_state_goes_its_own_way():
    optimized_model, token = twin_of(here(tiny_model("transformer, pre-norm"))), torch.tensor([[5]], device=DEVICE)
    with torch.inference_mode():
        _, state = optimized_model.step(token, optimized_model.start(sources([3]).to(DEVICE), 1, 6))
        other = clone_state(state)
        expected, _ = optimized_model.step(token + 2, other)
        again, _ = optimized_model.step(token + 2, state)
    assert torch.equal(again, expected)
