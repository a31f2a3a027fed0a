"""Causality: the future never changes the past, and a state holds all of the past.

Invariants I6, I7 and I8, for every family of models; that recurrent layers process padded rows as torch's
do (I9) is tested with the layers.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2see.core.batch import Sequences
from tiny_models import (
    BOS,
    FAMILIES,
    PRECISIONS,
    TARGET_SIZE,
    assert_same,
    few_examples,
    full_logits,
    gated_cnn,
    pairs,
    perturbed_model,
    recurrent_decoder,
    recurrent_encoder,
    seq2seq_settings,
    sources,
    tiny_model,
    transformer,
)

every_family = pytest.mark.parametrize("name", FAMILIES)
seeds = st.integers(0, 999)


def random_tokens(seed: int, rows: int, times: int) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    tokens = torch.randint(3, TARGET_SIZE, (rows, times), generator=random)
    tokens[:, 0] = BOS
    return tokens


@every_family
@few_examples()
@given(seed=seeds, times=st.integers(2, 7), data=st.data())
def test_future_tokens_change_no_bit_of_the_past(name, seed, times, data):
    model, source = tiny_model(name, torch.float64), sources([3, 5], seed)
    position = data.draw(st.integers(1, times - 1))
    tokens, other = random_tokens(seed, 2, times), random_tokens(seed + 1, 2, times)
    changed = torch.cat([tokens[:, :position], other[:, position:]], dim=1)
    assert torch.equal(
        full_logits(model, source, changed)[:, :position], full_logits(model, source, tokens)[:, :position]
    )


@every_family
@few_examples()
@given(seed=seeds, times=st.integers(2, 6), data=st.data())
def test_the_past_has_no_gradient_towards_the_future(name, seed, times, data):
    model, batch = tiny_model(name), pairs([3, 5], seed=seed)
    position = data.draw(st.integers(0, times - 1))
    target = model.target(Sequences(random_tokens(seed, 2, times), torch.tensor([times, times])))
    vectors = target.values.detach().requires_grad_()
    hidden = model.decoder(Sequences(vectors, target.lengths), model.encode(batch.source))
    (gradients,) = torch.autograd.grad(model.head(hidden)[:, position].square().sum(), vectors)
    assert gradients[:, position + 1 :].count_nonzero() == 0
    # It does depend on all earlier positions; otherwise the assertion above would be trivial.
    assert (gradients[:, : position + 1].abs().sum(-1) > 0).all()


ENCODERS = {
    "transformer": (transformer(), range(7)),
    "recurrent, bidirectional": (recurrent_encoder("gru"), range(7)),
    "recurrent, unidirectional": (recurrent_encoder("gru", False), range(1)),
    "gated-cnn": (gated_cnn(), range(3)),  # two convolutions of size three cover two later positions
}


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_depends_on_both_directions_unless_unidirectional(name):
    settings, covered = ENCODERS[name]
    model = perturbed_model(seq2seq_settings(settings, recurrent_decoder("gru", "additive")))
    vectors = torch.randn(1, 7, 8, requires_grad=True)
    memory = model.encoder(Sequences(vectors, torch.tensor([7])))
    (gradients,) = torch.autograd.grad(memory.values[:, 0].square().sum(), vectors)
    assert gradients[0].abs().sum(-1).nonzero().flatten().tolist() == list(covered)
    memory = model.encoder(Sequences(vectors, torch.tensor([7])))
    (gradients,) = torch.autograd.grad(memory.pooled.square().sum(), vectors)
    assert (gradients[0].abs().sum(-1) > 0).all()


@every_family
@few_examples()
@given(seed=seeds, rows=st.lists(st.integers(1, 5), min_size=1, max_size=3), precision=PRECISIONS, data=st.data())
def test_incremental_decoding_matches_the_full_forward_pass(name, seed, rows, precision, data):
    model, source = tiny_model(name, precision[0]), sources(rows, seed)
    chunk_sizes = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    extra = data.draw(st.integers(0, 3))
    tokens = random_tokens(seed, len(rows), sum(chunk_sizes))
    state, logits = model.start(source, len(rows), sum(chunk_sizes) + extra), []
    for chunk in tokens.split(chunk_sizes, dim=1):
        new, state = model.step(chunk, state)
        logits.append(new)
    expected = full_logits(model, source, tokens)
    assert_same(torch.cat(logits, dim=1), expected, precision[1])


@every_family
def test_every_split_point_of_one_sentence(name):
    model, source, tokens = tiny_model(name, torch.float64), sources([4, 2]), random_tokens(5, 2, 6)
    expected = full_logits(model, source, tokens)
    for split in range(1, 6):
        first, state = model.step(tokens[:, :split], model.start(source, 2, 6))
        rest, _ = model.step(tokens[:, split:], state)
        logits = torch.cat([first, rest], dim=1)
        assert_same(logits, expected, 1e-12)
        assert torch.equal(logits.argmax(-1), expected.argmax(-1))
