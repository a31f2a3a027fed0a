"""Models of series: the forward pass equals stepping, and a forecast is autoregressive."""

from __future__ import annotations

import pytest
import torch

from seq2see.core.batch import Batch, Sequences
from seq2see.core.errors import UserError
from seq2see.core.settings import read_tree
from seq2see.models.build import fresh_model
from seq2see.models.settings import ModelSettings, Series
from seq2see.tasks.forecast import forecast
from seq2see.training.objectives import NextValue

DECODERS = {
    "linear": {"kind": "mlp", "width": 1, "context": 3, "depth": 0},
    "mlp": {"kind": "mlp", "width": 4, "context": 3, "hidden": 5},
    "gru": {"kind": "recurrent", "width": 8, "attention": "none"},
    "gpt": {"kind": "transformer", "width": 8, "heads": 2, "depth": 2},
}


def model(name: str):
    settings = read_tree(ModelSettings, {"target": {"kind": "series"}, "decoder": DECODERS[name]})
    return fresh_model(settings, (1, 1), "xavier", 1).eval()


def numbers(rows: int = 3, time: int = 9) -> torch.Tensor:
    return torch.randn(rows, time, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", DECODERS)
@torch.no_grad()
def test_stepping_equals_the_forward_pass(name):
    series_model, values = model(name), numbers()
    lengths = torch.full((3,), 9)
    whole = series_model(Batch(None, Sequences(values, lengths), values, torch.arange(3)))
    assert whole.shape == (3, 9, 1)
    state, steps = series_model.start(None, 3, 9), []
    for chunk in values.split([4, 1, 4], dim=1):
        new, state = series_model.step(chunk, state)
        steps.append(new)
    torch.testing.assert_close(torch.cat(steps, dim=1), whole, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", DECODERS)
@torch.no_grad()
def test_a_forecast_is_autoregressive(name):
    series_model, values = model(name), numbers()
    predictions = forecast(series_model, values, 5)
    for step in range(5):
        batch = Batch(None, Sequences(values, torch.full((3,), values.size(1))), values, torch.arange(3))
        next_value = series_model(batch)[:, -1]
        torch.testing.assert_close(next_value, predictions[:, step : step + 1], rtol=1e-4, atol=1e-5)
        values = torch.cat([values, next_value], dim=1)


def test_the_loss_is_the_squared_error_of_the_labels_that_are_numbers():
    hidden = torch.tensor([[[1.0], [2.0], [5.0]]], requires_grad=True)
    labels = torch.tensor([[0.5, float("nan"), 3.0]])
    loss = NextValue().loss(Sequences(hidden, torch.tensor([3])), lambda vectors: vectors, labels)
    assert loss.item() == pytest.approx(0.25 + 4)
    loss.backward()
    assert hidden.grad.flatten().tolist() == [1.0, 0.0, 4.0]


@pytest.mark.parametrize(
    "tree, message",
    [
        ({"target": {"kind": "series"}}, r"needs \[decoder\]"),
        ({"target": {"kind": "series"}, "decoder": {"kind": "ngram"}}, "cannot be counted"),
        (
            {"source": {}, "encoder": {"kind": "transformer"}, "target": {"kind": "series"}}
            | {"decoder": {"kind": "transformer"}},
            r"no \[source\]",
        ),
    ],
)
def test_a_series_refuses_parts_that_it_cannot_have(tree, message):
    with pytest.raises(UserError, match=message):
        read_tree(ModelSettings, tree)
    assert Series().context_length > 1
