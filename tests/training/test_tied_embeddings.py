"""A table of vectors that is also the head's matrix, in 16 bits: look-ups read the weight, the head reads the copy.

Without a GPU a trainer makes no copies by itself, so they are given to it here; the arithmetic is the same.
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

from seq2see.core.batch import Batch, Sequences
from seq2see.kernels.async_layers import cast_weight
from seq2see.kernels.async_weight_grad import AsyncWeightGrads, grad_sink_of
from seq2see.models.build import fresh_model
from seq2see.models.heads import MaskedLMHead, SuppressTokensHead, TiedHead, UntiedHead
from seq2see.models.settings import ModelSettings, TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.training.averaging import ExponentialMovingAverage
from seq2see.training.bf16_weights import Bf16Weights
from seq2see.training.chunked_cross_entropy import chunked_loss, run_backward
from seq2see.training.loop import Trainer
from seq2see.training.objectives import NextToken
from seq2see.training.optimizer_settings import AdamW
from seq2see.training.resume import resume, save_trainer
from seq2see.training.schedules import Constant
from seq2see.training.settings import Training

WORDS, WIDTH = 24, 16
LOW = torch.bfloat16
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]
KERNELS = "cuda" if torch.cuda.is_available() else "cpu"
SIZES = {"cpu": WORDS, "cuda": 3000}  # on a GPU so many words that there are kernels for them
HEADS = {
    "tied": TiedHead,
    "with a bias": MaskedLMHead,
    "partial": lambda table: SuppressTokensHead(TiedHead(table), table.num_embeddings, (1, 2)),
    "free": UntiedHead,
}


class Speaker(nn.Module):
    """Two tables, of which one may be the head too and is looked up twice, and a product."""

    def __init__(self, head: str = "tied", padding: int | None = None, words: int = WORDS):
        super().__init__()
        self.table, self.grads = nn.Embedding(words, WIDTH, padding_idx=padding), nn.Embedding(8, WIDTH)
        self.layer, self.head = nn.Linear(WIDTH, WIDTH), HEADS[head](self.table)

    def loss(self, tokens: Tensor, times: float = 1.0) -> Tensor:
        """Each token is asked to be the next one, seen its place and the token before."""
        places = torch.arange(tokens.size(1), device=tokens.device)
        vectors = self.table(tokens) + self.grads(places) + self.table(tokens.roll(1, 1))
        weight, bias = self.head.weight_and_bias()
        loss = chunked_loss(self.layer(vectors).flatten(0, 1)[None], weight, bias, tokens.roll(-1, 1).flatten())
        return loss if times == 1 else times * loss


def learn(model: Speaker, bf16_weights: Bf16Weights, batches: list[Tensor], times: float = 1.0) -> dict[str, Tensor]:
    """The gradients of a few pieces of a batch, each weight's own or its part of all."""
    for tokens in batches:
        with bf16_weights.activate(), torch.autocast(tokens.device.type, dtype=LOW):
            run_backward(model.loss(tokens, times))
    found = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    assert bf16_weights.gradient is None or not found.keys() & bf16_weights.weights.keys()  # or it would be moved twice
    return found | ({} if bf16_weights.gradient is None else bf16_weights.unflatten(bf16_weights.gradient))


def near(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        assert float((found[name].float() - gradient).norm() / gradient.norm()) < 0.02, name


def exact(model: Speaker, batches: list[Tensor], times: float = 1.0) -> dict[str, Tensor]:
    """The gradients in float32, by autograd alone."""
    model = copy.deepcopy(model)
    for tokens in batches:
        model.loss(tokens, times).backward()
    return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


def drawn(pieces: int, device: str = "cpu") -> list[Tensor]:
    return [torch.randint(0, SIZES[device], (3, 8), device=device) for _ in range(pieces)]


def test_look_ups_read_the_weight_and_the_head_its_copy():
    model = Speaker()
    bf16_weights, weight = Bf16Weights(model), model.table.weight
    with bf16_weights.activate():
        assert model.table.weight is weight is model.head.weight_and_bias()[0]
        assert torch.equal(model.table(torch.tensor([5])), weight[[5]])
        assert cast_weight(weight, LOW) is bf16_weights.copies["table.weight"]
        assert cast_weight(weight, torch.float64).dtype == torch.float64
        assert cast_weight(model.grads.weight, LOW).data_ptr() != bf16_weights.flat_bf16.data_ptr()
    assert torch.equal(cast_weight(weight, LOW), weight.bfloat16())
    assert cast_weight(weight, LOW) is not bf16_weights.copies["table.weight"]


def test_the_loss_is_that_of_the_copy():
    model, (tokens,) = Speaker(), drawn(1)
    bf16_weights = Bf16Weights(model)
    bf16_weights.fused = True  # so that nobody renews the copy
    bf16_weights.copies["table.weight"].detach().zero_()
    with bf16_weights.activate(), torch.autocast("cpu", dtype=LOW):
        loss = model.loss(tokens).detach()
    assert float(loss) == pytest.approx(24 * math.log(WORDS), rel=1e-5)


@pytest.mark.parametrize("head, copied", [("tied", True), ("with a bias", True), ("partial", True), ("free", False)])
def test_only_tables_of_heads_are_copied_and_only_where_somebody_is_asked(head, copied):
    model = Speaker(head)
    assert ("table.weight" in Bf16Weights(model).weights) == copied
    assert "grads.weight" not in Bf16Weights(model).weights
    assert "table.weight" not in Bf16Weights(model, compiled=True).weights
    model.table.weight.requires_grad_(False)
    assert "table.weight" not in Bf16Weights(model).weights


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("device", DEVICES)
def test_slopes_of_both_uses_meet(device, head, pieces, joined):
    model, batches = Speaker(head, words=SIZES[device]).to(device), drawn(pieces, device)
    expected = exact(model, batches)
    bf16_weights = Bf16Weights(model)
    bf16_weights.fused = joined
    near(learn(model, bf16_weights, batches), expected)
    assert bf16_weights.fused == joined
    if joined and pieces == 1:
        assert bf16_weights.gradient.dtype == LOW


@pytest.mark.triton
@pytest.mark.parametrize("first", ["head", "look-up"])
def test_rows_are_added_in_16_bits_whichever_use_comes_first(first):
    """As on a GPU with a large vocabulary: there the rows of tokens are added by a kernel."""
    from seq2see.kernels.embedding_grad import sort_tokens

    async_grads, table = AsyncWeightGrads(torch.device(KERNELS)), nn.Embedding(WORDS, WIDTH)
    draw = partial(torch.randn, device=KERNELS)
    grad, hidden, rows = draw(5, WORDS).to(LOW), draw(5, WIDTH).to(LOW), draw(6, WIDTH)
    tokens, place = torch.tensor([3, 3, 9, 0, 3, 23], device=KERNELS), draw(WORDS, WIDTH).to(LOW).fill_(torch.nan)
    with async_grads.activate([], {id(table.weight): place}):
        grad_sink = grad_sink_of(table.weight)
        uses = [
            lambda: grad_sink.weight_grad(grad, hidden),
            lambda: grad_sink.embedding_grad(rows, tokens, WORDS, sort_tokens(tokens)),
        ]
        for use in uses if first == "head" else reversed(uses):
            use()
    expected = (grad.float().mT @ hidden.float()).index_add(0, tokens, rows)
    assert_close(async_grads.found[id(table.weight)].float(), expected, rtol=0.02, atol=0.02)
    assert async_grads.found[id(table.weight)] is place


@pytest.mark.parametrize("joined", [True, False])
def test_what_autograd_finds_for_a_table_is_added(joined):
    """Look-ups of a table with padding are left to autograd, and so is a head that is asked for all scores."""

    class Asked(Speaker):
        def loss(self, tokens: Tensor, times: float = 1.0) -> Tensor:
            return super().loss(tokens, times) + 0.1 * self.head(self.grads.weight).float().square().sum()

    model, batches = Asked(padding=0), drawn(2)
    expected = exact(model, batches)
    bf16_weights = Bf16Weights(model)
    bf16_weights.fused = joined
    near(learn(model, bf16_weights, batches), expected)


@pytest.mark.parametrize("joined", [True, False])
def test_a_loss_times_two_has_slopes_times_two(joined):
    model, batches = Speaker("with a bias"), drawn(1)
    expected = exact(model, batches, 2.0)
    bf16_weights = Bf16Weights(model)
    bf16_weights.fused = joined
    near(learn(model, bf16_weights, batches, 2.0), expected)


@pytest.mark.parametrize("joined", [True, False])
def test_a_table_that_a_step_does_not_use_has_no_slope_and_one_that_is_looked_up_has(joined):
    model = Speaker()
    bf16_weights = Bf16Weights(model)
    bf16_weights.fused = joined
    with bf16_weights.activate():
        model.layer(torch.ones(2, WIDTH, dtype=LOW)).sum().backward()
    assert model.table.weight.grad is None
    assert float(model.layer.bias.grad.sum()) == 2 * WIDTH
    model.zero_grad()
    with bf16_weights.activate():
        model.layer(model.table(torch.tensor([3, 3]))).sum().backward()
    found = model.table.weight.grad
    assert_close(found[3], 2 * model.layer.weight.sum(0), rtol=0.02, atol=0.02)
    assert not found[:3].any()
    assert not found[4:].any()


# A whole training


def batch_at(step: int) -> Batch:
    """Rows that go up by one or by two, which a model is to tell apart."""
    draws = torch.Generator().manual_seed(step)
    starts, paces = torch.randint(0, WORDS, (2, 16), generator=draws)
    rows = (starts[:, None] + (1 + paces[:, None] % 2) * torch.arange(10)) % WORDS
    return Batch(None, Sequences(rows[:, :-1], torch.full((16,), 9)), rows[:, 1:], starts)


def trainer(kind: str, **changes) -> Trainer:
    """A pocket GPT; `kind` is a precision, or "joined" or "single" with copies and how Adam moves them."""
    stack = TransformerSettings(width=WIDTH, depth=1, heads=2, dropout=0.0)
    settings = ModelSettings(target=TextTarget(embedding=TokenEmbeddingSettings(positions="learned")), decoder=stack)
    model = fresh_model(settings, (WORDS, WORDS), "xavier", seed=1)
    common = {"steps": 30, "learning_rate": 1e-2, "schedule": Constant(), "optimizer": AdamW(weight_decay=0.1)}
    common["precision"] = "float32" if kind == "float32" else "bf16"
    location = torch.device(KERNELS if kind == "joined" else "cpu")
    one = Trainer(model, NextToken(), Training(**common | changes), location)
    one._run_step = one._step  # not as a graph, which calls no Python
    if kind in ("joined", "single") and one.bf16_weights is None:  # on a GPU it does that by itself
        one.bf16_weights = Bf16Weights(model)
        one.optimizer.learning_rate = one.optimizer.learning_rate.float()  # kernels read 32 bits
        if kind == "joined":
            one.optimizer.join(one.bf16_weights)
    return one


def train_step(one: Trainer, steps: int) -> list[dict[str, float]]:
    figures = []
    for _ in range(steps):
        if one.bf16_weights:
            one.bf16_weights.refresh()  # the interpreter of kernels rounds down, which no GPU does
        figures.append(one.train_step(batch_at(one.step + 1)))
    return figures


KINDS = ["single", pytest.param("joined", marks=pytest.mark.triton)]


@pytest.mark.parametrize("kind", KINDS)
def test_after_thirty_steps_the_loss_is_that_of_float32(kind):
    exactly, actual = (train_step(trainer(each), 30) for each in ("float32", kind))
    assert exactly[-1]["loss"] < 0.8 * exactly[0]["loss"]
    for step in (0, 9, 29):
        assert actual[step]["loss"] == pytest.approx(exactly[step]["loss"], rel=5e-3)
    assert actual[0]["grad_norm"] == pytest.approx(exactly[0]["grad_norm"], rel=1e-2)


def test_a_trainer_scales_nothing(monkeypatch):
    monkeypatch.setattr("seq2see.kernels.async_grads.GradSink.scale", None)
    train_step(trainer("single"), 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("changes", [{"accumulate": 4}, {"max_grad_norm": 0.1}, {"optimizer": AdamW(weight_decay=5.0)}], ids=str)
def test_pieces_clipping_and_shrinking_are_those_of_float32(kind, changes):
    exactly, actual = (trainer(each, **changes) for each in ("float32", kind))
    tables = [one.weights["target.table.weight"] for one in (actual, exactly)]
    before = tables[1].detach().clone()
    for one in (exactly, actual):
        train_step(one, 3)
    moved, expected = (table.detach().cpu() - before for table in tables)
    assert float((moved - expected).norm() / expected.norm()) < 0.05


@pytest.mark.parametrize("kind", KINDS if KERNELS == "cpu" else ["single"])  # a GPU adds in any order
def test_a_resumed_training_goes_on_as_if_nothing_had_happened(kind, tmp_path: Path):
    one = trainer(kind, average=ExponentialMovingAverage(weight_decay=0.9))
    train_step(one, 2)
    save_trainer(one, tmp_path, {})
    other = trainer(kind, average=ExponentialMovingAverage(weight_decay=0.9))
    assert resume(other, tmp_path, {}, print)
    assert train_step(one, 2) == train_step(other, 2)
    assert all(torch.equal(weight, other.weights[name]) for name, weight in one.weights.items())
    assert all(torch.equal(average, other.average[name]) for name, average in one.average.items())
    assert not torch.equal(one.average["target.table.weight"], one.weights["target.table.weight"])
    for what, remembered in one.optimizer.state.items():
        assert torch.equal(remembered["target.table.weight"], other.optimizer.state[what]["target.table.weight"])


@pytest.mark.triton
def test_the_copy_of_a_table_follows_whoever_moves_or_overwrites_it():
    one = trainer("joined")
    copied, seen = one.bf16_weights.copies["target.table.weight"], []
    one.model.target.register_forward_hook(
        lambda *_: seen.append(cast_weight(one.model.head.weight_and_bias()[0], LOW).clone())
    )
    one.train_step(batch_at(1))
    assert_close(copied.float(), one.weights["target.table.weight"], rtol=2**-7, atol=0)  # rounded down
    one.load_weights({"target.table.weight": torch.ones(WORDS, WIDTH)})
    one.train_step(batch_at(2))
    assert len(seen) == 2
    assert bool((seen[1] == 1).all())
    assert one.bf16_weights.fused
