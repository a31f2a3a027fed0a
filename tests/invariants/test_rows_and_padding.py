"""The results of a row do not depend on padding, on the other rows, or on their order.

Invariants I1, I3, I4 and I5, for every family of models.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2see.core.batch import Sequences, pick_rows
from seq2see.models.encoder_model import EncoderOutput
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


def valid_logits(model, batch) -> torch.Tensor:
    """The logits at valid positions, row after row."""
    return model(batch)[batch.target.valid]


@every_family
@few_examples()
@given(rows=lengths, seed=seeds, extra=st.integers(0, 4), precision=PRECISIONS, data=st.data())
def test_padding_of_any_amount_and_content_changes_nothing(name, rows, seed, extra, precision, data):
    model, batch = tiny_model(name, precision[0]), pairs(rows, seed=seed)
    source = pad_further(batch.source, extra, data.draw(st.integers(0, 10)))
    target = pad_further(batch.target, data.draw(st.integers(0, 4)), data.draw(st.integers(0, 12)))
    padded = replace(batch, source=source, target=target)
    expected = valid_logits(model, batch)
    assert_same(valid_logits(model, padded), expected, precision[1])


@every_family
@few_examples()
@given(rows=lengths, seed=seeds, fill_value=st.integers(0, 10))
def test_the_values_of_padding_change_no_bit(name, rows, seed, fill_value):
    model, batch = tiny_model(name), pairs(rows, seed=seed)
    first = replace(batch, source=pad_further(batch.source, 2, 0), target=pad_further(batch.target, 2, 0))
    second = replace(
        batch, source=pad_further(batch.source, 2, fill_value), target=pad_further(batch.target, 2, fill_value)
    )
    assert torch.equal(valid_logits(model, first), valid_logits(model, second))


@every_family
@few_examples()
@given(rows=lengths, seed=seeds)
def test_nan_in_the_padding_of_vectors_has_no_influence(name, rows, seed):
    model, batch = tiny_model(name), pairs(rows, seed=seed)

    def hidden(fill_value: float) -> torch.Tensor:
        memory = model.encoder(pad_further(model.source(batch.source), 2, fill_value))
        values = pad_further(Sequences(memory.values, memory.lengths), 1, fill_value).values
        target = pad_further(model.target(batch.target), 2, fill_value)
        output = model.decoder(target, EncoderOutput(values, memory.lengths, memory.pooled))
        return output[target.valid]

    clean, with_nan = hidden(0.0), hidden(float("nan"))
    assert torch.equal(with_nan, clean)
    model.zero_grad()
    with_nan.sum().backward()
    assert all(weight.grad is None or weight.grad.isfinite().all() for weight in model.parameters())


@every_family
@few_examples()
@given(rows=lengths, seed=seeds, precision=PRECISIONS)
def test_a_row_in_a_batch_is_the_row_alone(name, rows, seed, precision):
    model, batch = tiny_model(name, precision[0]), pairs(rows, seed=seed)
    alone = torch.cat([model(row)[0] for row in single_rows(batch)])
    assert_same(valid_logits(model, batch), alone, precision[1])


@every_family
@few_examples()
@given(rows=lengths, seed=seeds, precision=PRECISIONS, data=st.data())
def test_the_order_of_rows_is_the_order_of_outputs(name, rows, seed, precision, data):
    model, batch = tiny_model(name, precision[0]), pairs(rows, seed=seed)
    order = torch.tensor(data.draw(st.permutations(range(len(rows)))))
    logits, permuted = model(batch), model(pick_rows(batch, order))
    valid = batch.target.valid[order]
    assert_same(permuted[valid], logits[order][valid], precision[1])


@every_family
@few_examples()
@given(rows=lengths, seed=seeds, label_smoothing=st.sampled_from([0.0, 0.2]))
def test_the_loss_of_a_batch_is_the_sum_of_the_losses_of_its_rows(name, rows, seed, label_smoothing):
    model, batch, objective = (
        tiny_model(name, torch.float64),
        pairs(rows, seed=seed),
        NextToken(label_smoothing=label_smoothing),
    )

    def loss(part) -> float:
        return objective.loss(model.hidden(part), model.head, part.labels).item()

    assert loss(batch) == pytest.approx(sum(loss(row) for row in single_rows(batch)), rel=1e-5)
