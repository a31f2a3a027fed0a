"""What a row gets does not depend on padding, on its neighbors, or on their order.

Invariants I1, I3, I4 and I5, for every family of models.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2see.core.batch import Sequences
from seq2see.core.rows import pick_rows
from seq2see.models.encoder_output import EncoderOutput
from seq2see.training.objectives import NextToken
from tiny_models import (
    FAMILIES,
    PRECISIONS,
    assert_same,
    few_examples,
    lengths,
    pad_further,
    pairs,
    single_rows,
    tiny_model,
)

every_family = pytest.mark.parametrize("name", FAMILIES)
seeds = st.integers(0, 999)


def real_logits(model, batch) -> torch.Tensor:
    """The logits at real positions, row after row."""
    return model(batch)[batch.target.real]


@every_family
@few_examples()
@given(rows=lengths, seed=seeds, more=st.integers(0, 4), precision=PRECISIONS, data=st.data())
def test_padding_of_any_amount_and_content_changes_nothing(name, rows, seed, more, precision, data):
    model, batch = tiny_model(name, precision[0]), pairs(rows, seed=seed)
    source = pad_further(batch.source, more, data.draw(st.integers(0, 10)))
    target = pad_further(batch.target, data.draw(st.integers(0, 4)), data.draw(st.integers(0, 12)))
    padded = replace(batch, source=source, target=target)
    expected = real_logits(model, batch)
    assert_same(real_logits(model, padded), expected, precision[1])


@every_family
@few_examples()
@given(rows=lengths, seed=seeds, filling=st.integers(0, 10))
def test_the_content_of_padding_changes_not_one_bit(name, rows, seed, filling):
    model, batch = tiny_model(name), pairs(rows, seed=seed)
    one = replace(batch, source=pad_further(batch.source, 2, 0), target=pad_further(batch.target, 2, 0))
    other = replace(batch, source=pad_further(batch.source, 2, filling), target=pad_further(batch.target, 2, filling))
    assert torch.equal(real_logits(model, one), real_logits(model, other))


@every_family
@few_examples()
@given(rows=lengths, seed=seeds)
def test_not_even_nan_in_the_padding_of_vectors_gets_through(name, rows, seed):
    model, batch = tiny_model(name), pairs(rows, seed=seed)

    def hidden(filling: float) -> torch.Tensor:
        memory = model.encoder(pad_further(model.source(batch.source), 2, filling))
        values = pad_further(Sequences(memory.values, memory.lengths), 1, filling).values
        target = pad_further(model.target(batch.target), 2, filling)
        found = model.decoder(target, EncoderOutput(values, memory.lengths, memory.pooled))
        return found[target.real]

    clean, spoilt = hidden(0.0), hidden(float("nan"))
    assert torch.equal(spoilt, clean)
    model.zero_grad()
    spoilt.sum().backward()
    assert all(weight.grad is None or weight.grad.isfinite().all() for weight in model.parameters())


@every_family
@few_examples()
@given(rows=lengths, seed=seeds, precision=PRECISIONS)
def test_a_row_in_a_batch_is_the_row_alone(name, rows, seed, precision):
    model, batch = tiny_model(name, precision[0]), pairs(rows, seed=seed)
    alone = torch.cat([model(row)[0] for row in single_rows(batch)])
    assert_same(real_logits(model, batch), alone, precision[1])


@every_family
@few_examples()
@given(rows=lengths, seed=seeds, precision=PRECISIONS, data=st.data())
def test_the_order_of_rows_is_the_order_of_answers(name, rows, seed, precision, data):
    model, batch = tiny_model(name, precision[0]), pairs(rows, seed=seed)
    order = torch.tensor(data.draw(st.permutations(range(len(rows)))))
    logits, moved = model(batch), model(pick_rows(batch, order))
    real = batch.target.real[order]
    assert_same(moved[real], logits[order][real], precision[1])


@every_family
@few_examples()
@given(rows=lengths, seed=seeds, label_smoothing=st.sampled_from([0.0, 0.2]))
def test_the_loss_of_a_batch_is_the_sum_of_its_rows_alone(name, rows, seed, label_smoothing):
    model, batch, objective = (
        tiny_model(name, torch.float64),
        pairs(rows, seed=seed),
        NextToken(label_smoothing=label_smoothing),
    )

    def loss(some) -> float:
        return objective.loss(model.hidden(some), model.head, some.labels).item()

    assert loss(batch) == pytest.approx(sum(loss(row) for row in single_rows(batch)), rel=1e-5)
