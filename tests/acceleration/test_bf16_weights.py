"""bf16 copies of weights: linear layers read the copies, the optimizer updates the float32 weights."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional
from torch.testing import assert_close

from seq2see.acceleration.bf16_weights import Bf16Weights
from seq2see.models.embeddings_and_heads import TiedHead


class Tied(nn.Module):
    """An embedding, linear layers of which two share a matrix, and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 8)
        self.layer, self.norm, self.head = nn.Linear(8, 8), nn.LayerNorm(8), TiedHead(self.table)
        self.again = nn.Linear(8, 8)
        self.again.weight = self.layer.weight
        self.fixed = nn.Linear(8, 8).requires_grad_(False)
        self.odd = nn.Linear(8, 3)

    def loss(self, tokens: torch.Tensor) -> torch.Tensor:
        """Each token is the label of itself."""
        with torch.autocast("cpu", dtype=torch.bfloat16):
            vectors = self.fixed(self.norm(self.again(self.layer(self.table(tokens)))))
            loss = functional.cross_entropy(self.head(vectors).float(), tokens, reduction="sum")
            return loss + self.odd(vectors).float().square().sum()


def test_in_a_step_linear_layers_have_bf16_weights_and_outside_nothing_has_changed():
    model = Tied()
    weights, values = dict(model.named_parameters()), copy.deepcopy(model.state_dict())
    bf16_weights = Bf16Weights(model)
    with bf16_weights.activate():
        in_bf16 = (model.layer.weight, model.layer.bias, model.again.bias, model.odd.weight)
        in_float32 = (model.table.weight, model.norm.weight, model.fixed.weight, model.odd.bias)
        dtypes = [{weight.dtype for weight in weights_of_kind} for weights_of_kind in (in_bf16, in_float32)]
        assert dtypes == [{torch.bfloat16}, {torch.float32}]
        assert model.again.weight is model.layer.weight
    assert all(weights[name] is weight for name, weight in model.named_parameters())
    assert all(torch.equal(values[name], value) for name, value in model.state_dict().items())
    assert model.again.weight is model.layer.weight


def test_gradients_are_stored_and_those_of_several_micro_batches_add_up():
    model, tokens = Tied(), torch.tensor([1, 2, 3, 3])
    bf16_weights = Bf16Weights(model)
    for micro_batch in (tokens, tokens[:2]):
        with bf16_weights.activate():
            model.loss(micro_batch).backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters()}
    model.zero_grad()
    model.loss(torch.tensor([1, 2, 3, 3])).backward()
    model.loss(torch.tensor([1, 2])).backward()
    for name, weight in model.named_parameters():
        if not weight.requires_grad:
            assert gradients[name] is None
            continue
        assert gradients[name].dtype == torch.float32
        assert_close(gradients[name], weight.grad, rtol=0.05, atol=0.05 * float(weight.grad.abs().max()), msg=name)


def test_a_step_reads_the_weights_of_its_first_moment():
    model = Tied()
    bf16_weights = Bf16Weights(model)
    with torch.no_grad():
        model.layer.weight.add_(1)
    with bf16_weights.activate():
        read = model.layer.weight.detach().clone()
    assert torch.equal(read, model.layer.weight.bfloat16())


def test_weights_that_other_code_modified_are_copied_again():
    model = Tied()
    bf16_weights = Bf16Weights(model)
    bf16_weights.flat_bf16.fill_(7.0)
    bf16_weights.refresh_if_modified()
    assert (bf16_weights.flat_bf16 == 7).all()  # no other code has, and the optimizer refreshes the copies itself
    with torch.no_grad():
        model.layer.weight.fill_(3.0)
    bf16_weights.refresh_if_modified()
    assert torch.equal(bf16_weights.flat_bf16, bf16_weights.master.bfloat16())
    assert (bf16_weights.copies["layer.weight"] == 3).all()


def test_matrices_come_before_weights_without_weight_decay():
    bf16_weights = Bf16Weights(Tied())
    dims = [weight.dim() for weight in bf16_weights.weights.values()]
    assert dims == sorted(dims, reverse=True)
    assert bf16_weights.matrix_numel == 11 * 8 + 8 * 8 + 8 * 3
