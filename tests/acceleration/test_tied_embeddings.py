"""An embedding that is tied to the head, in bf16: lookups read the weight, the head reads the copy.

Without a GPU a trainer makes no copies by itself, so they are added here; the arithmetic is the same.
"""

from __future__ import annotations

import copy
import math
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from seq2see.acceleration.async_weight_grad import AsyncWeightGrads, cast_weight, grad_sink_of
from seq2see.acceleration.bf16_weights import Bf16Weights, attach
from seq2see.acceleration.chunked_cross_entropy import ChunkedCrossEntropy
from seq2see.acceleration.swaps import Conditions, accelerate
from seq2see.acceleration.trainer import AcceleratedTrainer
from seq2see.core.batch import Batch, Sequences
from seq2see.models.build import fresh_model
from seq2see.models.embeddings_and_heads import MaskedLMHead, SuppressTokensHead, TiedHead, UntiedHead
from seq2see.models.settings import ModelSettings, TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.training.checkpoints import resume, save_trainer
from seq2see.training.objectives import NextToken
from seq2see.training.optimizers import AdamW, Constant, ExponentialMovingAverage
from seq2see.training.settings import Training

WORDS, WIDTH = 24, 16
LOW = torch.bfloat16
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]
KERNELS = "cuda" if torch.cuda.is_available() else "cpu"
SIZES = {"cpu": WORDS, "cuda": 3000}  # on a GPU a vocabulary that is large enough for the kernels
HEADS = {
    "tied": TiedHead,
    "with a bias": MaskedLMHead,
    "partial": lambda table: SuppressTokensHead(TiedHead(table), table.num_embeddings, (1, 2)),
    "free": UntiedHead,
}


class LanguageModel(nn.Module):
    """Two embeddings, of which one may be tied to the head and is looked up twice, and a linear layer."""

    def __init__(self, head: str = "tied", padding: int | None = None, words: int = WORDS):
        super().__init__()
        self.table, self.positions = nn.Embedding(words, WIDTH, padding_idx=padding), nn.Embedding(8, WIDTH)
        self.layer, self.head = nn.Linear(WIDTH, WIDTH), HEADS[head](self.table)

    def loss(self, tokens: Tensor, times: float = 1.0, chunked: ChunkedCrossEntropy | None = None) -> Tensor:
        """Each token predicts the next one from its embedding, its position and the previous token."""
        positions = torch.arange(tokens.size(1), device=tokens.device)
        vectors = self.table(tokens) + self.positions(positions) + self.table(tokens.roll(1, 1))
        weight, bias = self.head.weight_and_bias()
        chunked = chunked or ChunkedCrossEntropy()
        loss = chunked.loss(self.layer(vectors).flatten(0, 1)[None], weight, bias, tokens.roll(-1, 1).flatten())
        return loss if times == 1 else times * loss


def learn(
    model: LanguageModel, bf16_weights: Bf16Weights, batches: list[Tensor], times: float = 1.0
) -> dict[str, Tensor]:
    """The gradients of a few micro-batches, from `grad` or from the flat gradient."""
    chunked = ChunkedCrossEntropy(async_grads=bf16_weights.async_grads)
    for tokens in batches:
        with bf16_weights.activate(), torch.autocast(tokens.device.type, dtype=LOW):
            chunked.run_backward(model.loss(tokens, times, chunked))
    grads = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    assert bf16_weights.gradient is None or not grads.keys() & bf16_weights.weights.keys()  # or two updates
    return grads | ({} if bf16_weights.gradient is None else bf16_weights.unflatten(bf16_weights.gradient))


def near(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert actual.keys() == expected.keys()
    for name, gradient in expected.items():
        assert float((actual[name].float() - gradient).norm() / gradient.norm()) < 0.02, name


def exact(model: LanguageModel, batches: list[Tensor], times: float = 1.0) -> dict[str, Tensor]:
    """The gradients in float32, by autograd alone."""
    model = copy.deepcopy(model)
    for tokens in batches:
        model.loss(tokens, times).backward()
    return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


def random_tokens(count: int, device: str = "cpu") -> list[Tensor]:
    return [torch.randint(0, SIZES[device], (3, 8), device=device) for _ in range(count)]


def test_lookups_read_the_weight_and_the_head_its_copy():
    model = LanguageModel()
    bf16_weights, weight = Bf16Weights(model), model.table.weight
    async_grads = bf16_weights.async_grads
    with bf16_weights.activate():
        assert model.table.weight is weight is model.head.weight_and_bias()[0]
        assert torch.equal(model.table(torch.tensor([5])), weight[[5]])
        assert cast_weight(async_grads, weight, LOW) is bf16_weights.copies["table.weight"]
        assert cast_weight(async_grads, weight, torch.float64).dtype == torch.float64
        assert cast_weight(async_grads, model.positions.weight, LOW).data_ptr() != bf16_weights.flat_bf16.data_ptr()
    assert torch.equal(cast_weight(async_grads, weight, LOW), weight.bfloat16())
    assert cast_weight(async_grads, weight, LOW) is not bf16_weights.copies["table.weight"]


def test_the_loss_is_that_of_the_copy():
    model, (tokens,) = LanguageModel(), random_tokens(1)
    bf16_weights = Bf16Weights(model)
    bf16_weights.fused = True  # so that the copy is not refreshed
    bf16_weights.copies["table.weight"].detach().zero_()
    with bf16_weights.activate(), torch.autocast("cpu", dtype=LOW):
        loss = model.loss(tokens, 1.0, ChunkedCrossEntropy(async_grads=bf16_weights.async_grads)).detach()
    assert float(loss) == pytest.approx(24 * math.log(WORDS), rel=1e-5)


@pytest.mark.parametrize("head, copied", [("tied", True), ("with a bias", True), ("partial", True), ("free", False)])
def test_only_embeddings_of_heads_are_copied_and_only_in_uncompiled_models(head, copied):
    model = LanguageModel(head)
    assert ("table.weight" in Bf16Weights(model).weights) == copied
    assert "positions.weight" not in Bf16Weights(model).weights
    assert "table.weight" not in Bf16Weights(model, compiled=True).weights
    model.table.weight.requires_grad_(False)
    assert "table.weight" not in Bf16Weights(model).weights


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("device", DEVICES)
def test_gradients_of_both_uses_are_summed(device, head, count, fused):
    model, batches = LanguageModel(head, words=SIZES[device]).to(device), random_tokens(count, device)
    expected = exact(model, batches)
    bf16_weights = Bf16Weights(model)
    bf16_weights.fused = fused
    near(learn(model, bf16_weights, batches), expected)
    assert bf16_weights.fused == fused
    if fused and count == 1:
        assert bf16_weights.gradient.dtype == LOW


@pytest.mark.triton
@pytest.mark.parametrize("first", ["head", "lookup"])
def test_rows_are_added_in_bf16_whichever_use_comes_first(first):
    """As on a GPU with a large vocabulary, where a kernel adds the rows of tokens."""
    from seq2see.acceleration.row_sums import sort_tokens

    async_grads, table = AsyncWeightGrads(torch.device(KERNELS)), nn.Embedding(WORDS, WIDTH)
    draw = partial(torch.randn, device=KERNELS)
    grad, hidden, rows = draw(5, WORDS).to(LOW), draw(5, WIDTH).to(LOW), draw(6, WIDTH)
    tokens, target = torch.tensor([3, 3, 9, 0, 3, 23], device=KERNELS), draw(WORDS, WIDTH).to(LOW).fill_(torch.nan)
    with async_grads.activate([], {id(table.weight): target}):
        grad_sink = grad_sink_of(async_grads, table.weight)
        uses = [
            lambda: grad_sink.weight_grad(grad, hidden),
            lambda: grad_sink.embedding_grad(rows, tokens, WORDS, sort_tokens(tokens)),
        ]
        for use in uses if first == "head" else reversed(uses):
            use()
    expected = (grad.float().mT @ hidden.float()).index_add(0, tokens, rows)
    assert_close(async_grads.computed_grads[id(table.weight)].float(), expected, rtol=0.02, atol=0.02)
    assert async_grads.computed_grads[id(table.weight)] is target


@pytest.mark.parametrize("fused", [True, False])
def test_gradients_of_autograd_for_an_embedding_are_added(fused):
    """Lookups in an embedding with padding are left to autograd, and so is a head that computes all logits."""

    class AllLogits(LanguageModel):
        def loss(self, tokens: Tensor, times: float = 1.0, chunked: ChunkedCrossEntropy | None = None) -> Tensor:
            return super().loss(tokens, times, chunked) + 0.1 * self.head(self.positions.weight).float().square().sum()

    model, batches = AllLogits(padding=0), random_tokens(2)
    expected = exact(model, batches)
    bf16_weights = Bf16Weights(model)
    bf16_weights.fused = fused
    near(learn(model, bf16_weights, batches), expected)


@pytest.mark.parametrize("fused", [True, False])
def test_a_loss_times_two_has_gradients_times_two(fused):
    model, batches = LanguageModel("with a bias"), random_tokens(1)
    expected = exact(model, batches, 2.0)
    bf16_weights = Bf16Weights(model)
    bf16_weights.fused = fused
    near(learn(model, bf16_weights, batches, 2.0), expected)


@pytest.mark.parametrize("fused", [True, False])
def test_an_embedding_that_a_step_does_not_use_has_no_gradient_and_one_that_is_looked_up_has(fused):
    model = LanguageModel()
    bf16_weights = Bf16Weights(model)
    bf16_weights.fused = fused
    with bf16_weights.activate():
        model.layer(torch.ones(2, WIDTH, dtype=LOW)).sum().backward()
    assert model.table.weight.grad is None
    assert float(model.layer.bias.grad.sum()) == 2 * WIDTH
    model.zero_grad()
    with bf16_weights.activate():
        model.layer(model.table(torch.tensor([3, 3]))).sum().backward()
    grad = model.table.weight.grad
    assert_close(grad[3], 2 * model.layer.weight.sum(0), rtol=0.02, atol=0.02)
    assert not grad[:3].any()
    assert not grad[4:].any()


# A whole training


def batch_at(step: int) -> Batch:
    """Rows that count up by one or by two, which a model can tell apart."""
    rng = torch.Generator().manual_seed(step)
    starts, strides = torch.randint(0, WORDS, (2, 16), generator=rng)
    rows = (starts[:, None] + (1 + strides[:, None] % 2) * torch.arange(10)) % WORDS
    return Batch(None, Sequences(rows[:, :-1], torch.full((16,), 9)), rows[:, 1:], starts)


def trainer(kind: str, **changes) -> AcceleratedTrainer:
    """A small GPT; `kind` is a precision, or "fused" or "single" for bf16 copies and the way Adam updates them."""
    stack = TransformerSettings(width=WIDTH, depth=1, heads=2, dropout=0.0)
    settings = ModelSettings(target=TextTarget(embedding=TokenEmbeddingSettings(positions="learned")), decoder=stack)
    model = fresh_model(settings, (WORDS, WORDS), "xavier", seed=1)
    common = {"steps": 30, "learning_rate": 1e-2, "schedule": Constant(), "optimizer": AdamW(weight_decay=0.1)}
    common["precision"] = "float32" if kind == "float32" else "bf16"
    device = torch.device(KERNELS if kind == "fused" else "cpu")
    one = AcceleratedTrainer(model, NextToken(), Training(**common | changes), device)
    one._run_step = one.uncaptured_step  # without a CUDA graph, which calls no Python
    if kind in ("fused", "single") and one.bf16_weights is None:  # on a GPU the trainer creates them
        one.bf16_weights = Bf16Weights(model)
        one.optimizer.learning_rate = one.optimizer.learning_rate.float()  # kernels read float32
        if kind == "fused":
            attach(one.optimizer, one.bf16_weights)
        one.cross_entropy = ChunkedCrossEntropy(async_grads=one.bf16_weights.async_grads)
        accelerate(model, Conditions("cpu", True, "bf16"), one.bf16_weights.async_grads)
    return one


def train(one: AcceleratedTrainer, steps: int) -> list[dict[str, float]]:
    metrics = []
    for _ in range(steps):
        if one.bf16_weights:
            one.bf16_weights.refresh()  # the interpreter of kernels rounds down, which no GPU does
        metrics.append(one.train_step(batch_at(one.step + 1)))
    return metrics


KINDS = ["single", pytest.param("fused", marks=pytest.mark.triton)]


@pytest.mark.parametrize("kind", KINDS)
def test_after_thirty_steps_the_loss_is_that_of_float32(kind):
    exactly, actual = (train(trainer(each), 30) for each in ("float32", kind))
    assert exactly[-1]["loss"] < 0.8 * exactly[0]["loss"]
    for step in (0, 9, 29):
        assert actual[step]["loss"] == pytest.approx(exactly[step]["loss"], rel=5e-3)
    assert actual[0]["grad_norm"] == pytest.approx(exactly[0]["grad_norm"], rel=1e-2)


def test_a_trainer_never_scales_gradients(monkeypatch):
    monkeypatch.setattr("seq2see.acceleration.async_weight_grad.GradSink.scale_grad", None)
    train(trainer("single"), 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "changes", [{"accumulate": 4}, {"max_grad_norm": 0.1}, {"optimizer": AdamW(weight_decay=5.0)}], ids=str
)
def test_micro_batches_clipping_and_weight_decay_are_those_of_float32(kind, changes):
    exactly, actual = (trainer(each, **changes) for each in ("float32", kind))
    tables = [one.weights["target.table.weight"] for one in (actual, exactly)]
    before = tables[1].detach().clone()
    for one in (exactly, actual):
        train(one, 3)
    moved, expected = (table.detach().cpu() - before for table in tables)
    assert float((moved - expected).norm() / expected.norm()) < 0.05


@pytest.mark.parametrize("kind", KINDS if KERNELS == "cpu" else ["single"])  # a GPU adds in any order
def test_a_resumed_training_continues_as_if_nothing_had_happened(kind, tmp_path: Path):
    one = trainer(kind, average=ExponentialMovingAverage(decay=0.9))
    train(one, 2)
    save_trainer(one, tmp_path, {})
    other = trainer(kind, average=ExponentialMovingAverage(decay=0.9))
    assert resume(other, tmp_path, {}, print)
    assert train(one, 2) == train(other, 2)
    assert all(torch.equal(weight, other.weights[name]) for name, weight in one.weights.items())
    assert all(torch.equal(average, other.average[name]) for name, average in one.average.items())
    assert not torch.equal(one.average["target.table.weight"], one.weights["target.table.weight"])
    for state, by_name in one.optimizer.state.items():
        assert torch.equal(by_name["target.table.weight"], other.optimizer.state[state]["target.table.weight"])


@pytest.mark.triton
def test_the_copy_of_an_embedding_follows_every_change_of_the_weight():
    one = trainer("fused")
    copied, copies = one.bf16_weights.copies["target.table.weight"], []
    async_grads = one.bf16_weights.async_grads
    one.model.target.register_forward_hook(
        lambda *_: copies.append(cast_weight(async_grads, one.model.head.weight_and_bias()[0], LOW).clone())
    )
    one.train_step(batch_at(1))
    assert_close(copied.float(), one.weights["target.table.weight"], rtol=2**-7, atol=0)  # rounded down
    one.load_weights({"target.table.weight": torch.ones(WORDS, WIDTH)})
    one.train_step(batch_at(2))
    assert len(copies) == 2
    assert bool((copies[1] == 1).all())
    assert one.bf16_weights.fused
