"""Models and optimizers are converted to named tensors and back, exactly, ties included."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from seq2see.core.errors import UserError
from seq2see.models.build import load_named_tensors, named_tensors
from seq2see.training.checkpoints import load_optimizer_state_dict, newest_checkpoint, optimizer_state_dict, save
from seq2see.training.optimizers import BETAS, EPSILON, SGD, Adam, AdamW, Muon, Optimizer, OptimizerSettings


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


OPTIMIZERS = {
    "plain sgd": SGD(),
    "sgd": SGD(momentum=0.9),
    "adam": Adam(),
    "adamw": AdamW(),
    "muon": Muon(),
}


def built(settings: OptimizerSettings, model: nn.Module, prefix: str = "") -> Optimizer:
    return settings.build({f"{prefix}{name}": weight for name, weight in model.named_parameters()}, 0.01)


def train(model: nn.Module, optimizer: Optimizer, first: int, last: int) -> None:
    for step in range(first, last):
        tokens = torch.tensor([[step % 5, (step * step) % 5, 1]])
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten().roll(-1)).backward()
        optimizer.step(torch.ones(()), torch.zeros(()))


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_restored_run_continues_as_the_uninterrupted_one(tmp_path, kind):
    model = Tied()
    optimizer = built(OPTIMIZERS[kind], model, "decoder.blocks.0.")
    train(model, optimizer, 0, 4)
    tensors, options = optimizer_state_dict(optimizer)
    save(tmp_path, 4, {"model": named_tensors(model), "optimizer": tensors}, {"optimizer": options}, keep=1)
    train(model, optimizer, 4, 9)

    other = Tied()
    restored = built(OPTIMIZERS[kind], other, "decoder.blocks.0.")
    checkpoint = newest_checkpoint(tmp_path, print)
    load_named_tensors(other, checkpoint.tensors("model"))
    load_optimizer_state_dict(restored, checkpoint.tensors("optimizer"), checkpoint.state["optimizer"])
    train(other, restored, 4, 9)
    for name, weight in model.named_parameters():
        assert torch.equal(weight, dict(other.named_parameters())[name])
    expected, found = optimizer_state_dict(optimizer)[0], optimizer_state_dict(restored)[0]
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[key], found[key]) for key in expected)


def test_the_state_is_named_after_its_weight():
    model = nn.Linear(2, 3)
    optimizer = built(AdamW(), model)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step(torch.ones(()), torch.zeros(()))
    tensors, options = optimizer_state_dict(optimizer)
    assert sorted(tensors) == [f"{w}/{k}" for w in ("bias", "weight") for k in ("exp_avg", "exp_avg_sq", "step")]
    # The gradient of the bias is 1, so its first moment is 1 - 0.9.
    assert tensors["bias/exp_avg"].tolist() == pytest.approx([0.1, 0.1, 0.1])
    assert options == {"kind": "AdamW"}


def test_what_is_restored_keeps_its_address():
    """A CUDA graph that was captured before reads it there."""
    model = nn.Linear(2, 3)
    optimizer, other = built(SGD(momentum=0.5), model), built(SGD(momentum=0.5), model)
    before = optimizer_state_dict(optimizer)[0]
    tensors = {name: torch.ones_like(tensor) for name, tensor in optimizer_state_dict(other)[0].items()}
    load_optimizer_state_dict(optimizer, tensors, {"kind": "SGD"})
    assert all(
        tensor is before[name] and bool((tensor == 1).all())
        for name, tensor in optimizer_state_dict(optimizer)[0].items()
    )


@pytest.mark.parametrize(
    ("settings", "build"),
    [
        (SGD(momentum=0.9), lambda weights: torch.optim.SGD(weights, lr=0.01, momentum=0.9, fused=True)),
        (Adam(), lambda weights: torch.optim.Adam(weights, lr=0.01, betas=BETAS, eps=EPSILON, fused=True)),
        (AdamW(weight_decay=0.0), lambda weights: torch.optim.AdamW(weights, 0.01, BETAS, EPSILON, 0.0, fused=True)),
    ],
)
def test_the_state_of_torchs_optimizer_of_that_name_is_accepted(settings, build):
    """Runs of earlier versions can be resumed: their checkpoints hold this."""
    model, other = nn.Linear(3, 3), nn.Linear(3, 3)
    theirs, actual = build(model.parameters()), built(settings, other)
    names = {weight: name for name, weight in model.named_parameters()}

    def step(model):
        model.zero_grad()
        model(torch.tensor([[0.5, -1.0, 2.0]])).square().sum().backward()

    for _ in range(3):
        step(model)
        theirs.step()
    tensors = {f"{names[each]}/{kind}": value for each, state in theirs.state.items() for kind, value in state.items()}
    load_named_tensors(other, named_tensors(model))
    load_optimizer_state_dict(actual, tensors, {"kind": type(theirs).__name__, "groups": [{"lr": 0.01}], "state": {}})
    for _ in range(3):
        step(model)
        theirs.step()
        step(other)
        actual.step(torch.ones(()), torch.zeros(()))
    assert torch.equal(model.weight, other.weight)
    assert torch.equal(model.bias, other.bias)


def test_another_optimizer_is_refused():
    model, fewer = nn.Linear(2, 3), nn.Linear(2, 3, bias=False)
    tensors, options = optimizer_state_dict(built(Adam(), model))
    with pytest.raises(UserError, match=r"is Adam, .* is SGD"):
        load_optimizer_state_dict(built(SGD(), model), tensors, options)
    with pytest.raises(UserError, match=r"is Adam, .* is AdamW"):
        load_optimizer_state_dict(built(AdamW(), model), tensors, options)
    with pytest.raises(UserError, match="'bias/exp_avg' is unexpected"):
        load_optimizer_state_dict(built(Adam(), fewer), tensors, options)
    with pytest.raises(UserError, match="'bias/exp_avg' is missing"):
        load_optimizer_state_dict(built(Adam(), model), optimizer_state_dict(built(Adam(), fewer))[0], options)
    with pytest.raises(UserError, match="strange/exp_avg"):
        load_optimizer_state_dict(built(Adam(), model), tensors | {"strange/exp_avg": torch.ones(1)}, options)


def test_a_state_of_another_shape_is_refused_and_nothing_is_copied():
    model = nn.Linear(2, 3)
    optimizer = built(Adam(), model)
    tensors = {name: torch.ones_like(tensor) for name, tensor in optimizer_state_dict(optimizer)[0].items()}
    with pytest.raises(UserError, match="'bias/exp_avg_sq' is 4 of float32"):
        load_optimizer_state_dict(optimizer, tensors | {"bias/exp_avg_sq": torch.ones(4)}, {"kind": "Adam"})
    assert not any(tensor.any() for tensor in optimizer_state_dict(optimizer)[0].values())


def test_a_tied_weight_is_stored_once_and_stays_tied():
    model, other = Tied(), Tied()
    tensors = named_tensors(model)
    assert list(tensors) == ["steps", "embedding.weight", "middle.weight", "middle.bias"]
    load_named_tensors(other, {name: tensor.clone() for name, tensor in tensors.items()})
    assert other.head.weight is other.embedding.weight
    assert torch.equal(other.head.weight, model.embedding.weight)
    with torch.no_grad():
        other.head.weight[0, 0] = 17
    assert other.embedding.weight[0, 0] == 17
    assert model.embedding.weight[0, 0] != 17


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda tensors: tensors.pop("middle.bias"), "'middle.bias' is missing"),
        (lambda tensors: tensors.update({"head.weight": torch.ones(5, 3)}), "'head.weight' is unexpected"),
        (lambda tensors: tensors.update({"middle.bias": torch.ones(4)}), "'middle.bias' is 4 of float32"),
        (lambda tensors: tensors.update({"steps": torch.ones(())}), "'steps' is a single number of float32"),
    ],
)
def test_a_model_accepts_only_its_own_weights_or_none(change, words):
    model = Tied()
    before = {name: tensor.clone() for name, tensor in named_tensors(model).items()}
    tensors = {name: torch.zeros_like(tensor) for name, tensor in before.items()}
    change(tensors)
    with pytest.raises(UserError, match=words):
        load_named_tensors(model, tensors)
    assert all(torch.equal(tensor, before[name]) for name, tensor in named_tensors(model).items())


def test_of_many_that_are_wrong_one_is_named_and_the_others_are_counted():
    with pytest.raises(UserError, match="'weight' is missing") as caught:
        load_named_tensors(nn.Linear(3, 2), {})
    assert caught.value.hint == "The same holds for 1 more."
    with pytest.raises(UserError, match="'bias' is missing") as caught:
        load_named_tensors(nn.Linear(3, 2), {"weight": torch.zeros(2, 3)})
    assert caught.value.hint == ""
