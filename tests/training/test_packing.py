"""Models and optimisers go to named tensors and back, exactly, ties and all."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from seq2see.core.errors import UserError
from seq2see.models.packing import pack_model, unpack_model
from seq2see.training.checkpoints import newest, save
from seq2see.training.packing import pack_optimiser, unpack_optimiser


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.middle = nn.Linear(3, 3)
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("steps", torch.tensor(2))

    def forward(self, tokens):
        return self.head(self.middle(self.embedding(tokens)).tanh())


OPTIMISERS = {
    "plain sgd": lambda weights: torch.optim.SGD(weights, lr=0.1),
    "sgd": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9),
    "adam": lambda weights: torch.optim.Adam(weights, lr=0.01, betas=(0.9, 0.98), amsgrad=True),
    "adamw": lambda weights: torch.optim.AdamW(weights, lr=0.01, fused=True),
}


def train(model, optimiser, first: int, last: int) -> None:
    for step in range(first, last):
        tokens = torch.tensor([[step % 5, (step * step) % 5, 1]])
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten().roll(-1)).backward()
        optimiser.step()


def two_groups(model):
    weights = list(model.parameters())
    return [{"params": weights[:2]}, {"params": weights[2:], "lr": 0.003}]


@pytest.mark.parametrize("kind", OPTIMISERS)
def test_a_restored_run_goes_on_as_the_uninterrupted_one(tmp_path, kind):
    model = Tied()
    optimiser = OPTIMISERS[kind](two_groups(model))
    train(model, optimiser, 0, 4)
    tensors, options = pack_optimiser(optimiser, dict(model.named_parameters()))
    save(tmp_path, 4, {"model": pack_model(model), "optimiser": tensors}, {"optimiser": options}, keep=1)
    train(model, optimiser, 4, 9)

    other = Tied()
    other_optimiser = OPTIMISERS[kind](two_groups(other))
    checkpoint = newest(tmp_path, print)
    unpack_model(other, checkpoint.tensors("model"))
    unpack_optimiser(
        other_optimiser,
        dict(other.named_parameters()),
        checkpoint.tensors("optimiser"),
        checkpoint.state["optimiser"],
    )
    train(other, other_optimiser, 4, 9)
    for name, weight in model.named_parameters():
        assert torch.equal(weight, dict(other.named_parameters())[name])
    assert same(optimiser.state_dict(), other_optimiser.state_dict())


def same(one, other) -> bool:
    """Equal to the last bit and of the same types, through dictionaries and lists."""
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return (
            type(one) is type(other)
            and len(one) == len(other)
            and all(same(a, b) for a, b in zip(one, other, strict=True))
        )
    return type(one) is type(other) and one == other


def test_memory_is_named_after_its_weight():
    model = nn.Linear(2, 3)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.5)
    model(torch.ones(1, 2)).sum().backward()
    optimiser.step()
    tensors, options = pack_optimiser(optimiser, dict(model.named_parameters()))
    assert sorted(tensors) == [f"{w}/{k}" for w in ("bias", "weight") for k in ("exp_avg", "exp_avg_sq", "step")]
    # The gradient of the bias is 1, so its first moment is 1 - 0.9.
    assert tensors["bias/exp_avg"].tolist() == pytest.approx([0.1, 0.1, 0.1])
    assert json.loads(json.dumps(options))["groups"][0]["params"] == ["weight", "bias"]


def test_what_is_not_a_tensor_comes_back_too():
    model = nn.Linear(2, 3)
    names = dict(model.named_parameters())
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    optimiser.state[model.weight] = {"momentum_buffer": None}
    tensors, options = pack_optimiser(optimiser, names)
    assert tensors == {}
    restored = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.5)
    unpack_optimiser(restored, names, tensors, json.loads(json.dumps(options)))
    assert restored.state_dict()["state"] == {0: {"momentum_buffer": None}}
    assert restored.param_groups[0]["lr"] == 0.1


def test_memory_follows_the_name_when_the_order_changes():
    model = nn.Linear(3, 3)
    names = dict(model.named_parameters())
    optimiser = torch.optim.SGD([model.weight, model.bias], lr=0.1, momentum=0.9)
    model(torch.ones(1, 3)).sum().backward()
    optimiser.step()
    restored = torch.optim.SGD([model.bias, model.weight], lr=0.1, momentum=0.9)
    unpack_optimiser(restored, names, *pack_optimiser(optimiser, names))
    buffer = restored.state[model.weight]["momentum_buffer"]
    assert torch.equal(buffer, optimiser.state[model.weight]["momentum_buffer"])
    assert buffer is not optimiser.state[model.weight]["momentum_buffer"]


def test_another_optimiser_is_refused():
    model, fewer = nn.Linear(2, 3), nn.Linear(2, 3, bias=False)
    packed = pack_optimiser(torch.optim.Adam(model.parameters()), dict(model.named_parameters()))

    def restore(optimiser, module=model, packed=packed):
        unpack_optimiser(optimiser, dict(module.named_parameters()), *packed)

    with pytest.raises(UserError, match=r"is Adam, .* is SGD"):
        restore(torch.optim.SGD(model.parameters()))
    with pytest.raises(UserError, match="1 groups of weights instead of 2"):
        restore(torch.optim.Adam([{"params": [model.weight]}, {"params": [model.bias]}]))
    with pytest.raises(UserError, match="weight 'bias' has no place"):
        restore(torch.optim.Adam(fewer.parameters()), fewer)
    with pytest.raises(UserError, match="strange/exp_avg"):
        restore(torch.optim.Adam(model.parameters()), model, ({"strange/exp_avg": torch.ones(1)}, packed[1]))


def test_a_tied_weight_is_stored_once_and_stays_tied():
    model, other = Tied(), Tied()
    packed = pack_model(model)
    assert list(packed) == ["steps", "embedding.weight", "middle.weight", "middle.bias"]
    unpack_model(other, {name: tensor.clone() for name, tensor in packed.items()})
    assert other.head.weight is other.embedding.weight
    assert torch.equal(other.head.weight, model.embedding.weight)
    with torch.no_grad():
        other.head.weight[0, 0] = 17
    assert other.embedding.weight[0, 0] == 17
    assert model.embedding.weight[0, 0] != 17


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda packed: packed.pop("middle.bias"), "'middle.bias' is missing"),
        (lambda packed: packed.update({"head.weight": torch.ones(5, 3)}), "'head.weight' has no place"),
        (lambda packed: packed.update({"middle.bias": torch.ones(4)}), "'middle.bias' is 4 of float32"),
        (lambda packed: packed.update({"steps": torch.ones(())}), "'steps' is a single number of float32"),
    ],
)
def test_a_model_takes_only_its_own_weights_or_none(change, words):
    model = Tied()
    before = {name: tensor.clone() for name, tensor in pack_model(model).items()}
    packed = {name: torch.zeros_like(tensor) for name, tensor in before.items()}
    change(packed)
    with pytest.raises(UserError, match=words):
        unpack_model(model, packed)
    assert all(torch.equal(tensor, before[name]) for name, tensor in pack_model(model).items())


def test_a_run_from_a_gpu_goes_on_without_one():
    # There the rate lies beside the weights, and a CUDA graph may record the optimiser; here neither is so.
    model = nn.Linear(2, 3)
    names = dict(model.named_parameters())
    there = torch.optim.AdamW(model.parameters(), lr=torch.tensor(0.25), fused=True)
    model(torch.ones(1, 2)).sum().backward()
    there.step()
    there.param_groups[0]["capturable"] = True
    tensors, options = pack_optimiser(there, names)
    here = torch.optim.AdamW(model.parameters(), lr=0.5, fused=True)
    unpack_optimiser(here, names, tensors, json.loads(json.dumps(options)))
    assert (here.param_groups[0]["lr"], here.param_groups[0]["capturable"]) == (0.25, False)
    again = torch.optim.AdamW(model.parameters(), lr=torch.tensor(0.5), fused=True)
    unpack_optimiser(again, names, tensors, json.loads(json.dumps(options)))
    assert torch.equal(again.param_groups[0]["lr"], torch.tensor(0.25))
