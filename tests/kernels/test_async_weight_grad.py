"""Slopes of weights that are computed beside the rest: they are those that autograd finds, and all are there in time.

Without a GPU there is no second stream, but the same sums go to the same places.
"""

from __future__ import annotations

import copy
import weakref
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2see.kernels.async_layers import split_heads_eagerly, split_projection
from seq2see.kernels.async_weight_grad import MAX_PENDING, MAX_STORED_SUMS, AsyncWeightGrads, grad_sink_of, plain_sum
from seq2see.training.bf16_weights import Bf16Weights
from seq2see.training.chunked_cross_entropy import chunked_loss, run_backward

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_gpu)]


class Reader(nn.Module):
    """A table that is also the head, a layer that is used twice, one without a bias, and a loss in chunks."""

    def __init__(self, words: int = 24, width: int = 16):
        super().__init__()
        self.table, self.grads = nn.Embedding(words, width), nn.Embedding(8, width)
        self.twice, self.plain = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.fixed = nn.Linear(width, width).requires_grad_(False)

    def hidden(self, tokens: Tensor) -> Tensor:
        vectors = self.table(tokens) + self.grads(torch.arange(tokens.size(1), device=tokens.device))
        vectors = self.fixed(self.twice(self.plain(vectors).relu()))
        return self.twice(vectors.relu())

    def loss(self, tokens: Tensor) -> Tensor:
        """Each token is asked to be the next one, which counts three times; two weights are used otherwise too."""
        hidden = self.hidden(tokens)
        others = functional.linear(hidden, self.plain.weight.to(hidden.dtype)).square().sum()
        others = others + (self.table.weight * torch.arange(16, device=tokens.device)).sum()
        return (
            3 * chunked_loss(hidden.flatten(0, 1)[None], self.table.weight, None, tokens.roll(-1, 1).flatten()) + others
        )


def gradients(model: nn.Module, compiled: bool, batches: list[Tensor]) -> dict[str, Tensor]:
    """What a few pieces of a batch add up to; in what is compiled everything is computed one after another."""
    bf16_weights = Bf16Weights(model, compiled)
    for tokens in batches:
        with bf16_weights.activate(), torch.autocast(tokens.device.type, dtype=torch.bfloat16):
            model.loss(tokens).backward()
    return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("pieces", [1, 2])
def test_they_are_the_gradients_that_autograd_finds(device, split_projection, monkeypatch):
    # Several chunks, so that what is read beside is written over by the next one.
    monkeypatch.setattr("seq2see.training.chunked_cross_entropy.CHUNK", {"cpu": 5, "cuda": 5})
    model = Reader().to(device)
    batches = [torch.randint(0, 24, (3, 8), device=device) for _ in range(split_projection)]
    theirs = gradients(copy.deepcopy(model), True, batches)
    actual = gradients(model, False, batches)
    assert actual.keys() == theirs.keys() == {name for name, _ in model.named_parameters() if "fixed" not in name}
    for name, gradient in actual.items():
        assert float((gradient - theirs[name]).norm() / theirs[name].norm()) < 0.02, name


@pytest.mark.parametrize("device", DEVICES)
def test_what_begins_with_the_loss_is_not_scaled(device, monkeypatch):
    scaled = []
    monkeypatch.setattr("seq2see.kernels.async_grads.GradSink.scale", lambda grad_sink, by: scaled.append(float(by)))
    model, tokens = Reader().to(device), torch.randint(0, 24, (3, 8), device=device)
    for times, expected in ((None, []), (2.0, [2.0])):
        bf16_weights = Bf16Weights(model)
        with bf16_weights.activate(), torch.autocast(device, dtype=torch.bfloat16):
            hidden = model.hidden(tokens).flatten(0, 1)[None]
            loss = chunked_loss(hidden, model.table.weight, None, tokens.flatten())
            run_backward(loss if times is None else times * loss)
        assert scaled == expected


def test_only_while_it_is_at_work_do_layers_leave_their_slopes_to_it():
    layer, async_grads = nn.Linear(8, 8), AsyncWeightGrads(torch.device("cpu"))
    places = {id(weight): torch.zeros_like(weight) for weight in layer.parameters()}
    x = torch.randn(4, 8)

    def fail() -> None:
        with async_grads.activate([layer], places):
            assert grad_sink_of(layer.weight).async_grads is async_grads
            assert grad_sink_of(layer.weight, torch.ones(1)) is None
            layer(x).sum().backward()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert layer.weight.grad is None
    assert grad_sink_of(layer.weight) is None
    torch.testing.assert_close(places[id(layer.weight)], torch.ones(4, 8).mT @ x)
    torch.testing.assert_close(places[id(layer.bias)], torch.full((8,), 4.0))
    layer(x).sum().backward()
    torch.testing.assert_close(layer.weight.grad, places[id(layer.weight)])


@needs_gpu
def test_many_layers_deep_and_recorded_they_are_right_at_every_repetition():
    torch.manual_seed(1)
    layers = nn.Sequential(*(nn.Linear(512, 512) for _ in range(24))).cuda()
    async_grads, xs = AsyncWeightGrads(torch.device("cuda")), torch.randn(2, 4096, 512, device="cuda")
    places = {id(weight): torch.zeros_like(weight) for weight in layers.parameters()}
    given, graph = xs[0].clone(), torch.cuda.CUDAGraph()

    def step() -> None:
        with async_grads.activate(list(layers), places):
            layers(given).square().sum().backward()

    with torch.cuda.stream(torch.cuda.Stream()):
        step()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        step()
    for x in (*xs, *xs):
        given.copy_(x)
        graph.replay()
        expected = torch.autograd.grad(layers(x).square().sum(), list(layers.parameters()))
        for weight, grad in zip(layers.parameters(), expected, strict=True):
            torch.testing.assert_close(places[id(weight)], grad, rtol=1e-3, atol=1e-3 * float(grad.abs().max()))


@pytest.mark.triton
@pytest.mark.parametrize("shape", [(1, 1), (100, 7), (1200, 520)])
def test_sums_over_rows(shape, monkeypatch):
    from seq2see.kernels import row_sums

    rows = torch.randn(shape, device="cuda" if torch.cuda.is_available() else "cpu")
    if rows.device.type == "cpu":
        monkeypatch.setattr(row_sums, "SLICES", 4)  # interpreted one after another
    torch.testing.assert_close(row_sums.summed(rows), rows.sum(0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
def test_a_table_gets_for_each_token_the_sum_over_its_vectors(stored):
    table, async_grads = nn.Embedding(4, 2), AsyncWeightGrads(torch.device("cpu"))
    places = {id(table.weight): torch.zeros(4, 2, dtype=stored)}
    with async_grads.activate([table], places):
        found = table(torch.tensor([[1, 3, 1]]))
        assert torch.equal(found, functional.embedding(torch.tensor([[1, 3, 1]]), table.weight))
        (found * torch.tensor([[[1.0], [10.0], [100.0]]])).sum().backward()
    assert places[id(table.weight)].tolist() == [[0, 0], [101, 101], [0, 0], [10, 10]]


@pytest.mark.triton
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("width", [3, 520])
def test_slopes_are_added_to_the_rows_of_their_tokens(dtype, stored, width):
    from seq2see.kernels.embedding_grad import accumulate_embedding_grad, sort_tokens

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    # One that occurs more often than a program takes at a time, the smallest and the largest, and some once.
    tokens = torch.tensor([7, 0, 7, 3, 7, 7, 9, 7, 7, 0, 1, 7, 7, 7, 9, 5], device=device)
    grad, table = torch.randn(16, width, device=device, dtype=dtype), torch.randn(10, width, device=device).to(stored)
    expected = table.float().index_add(0, tokens, grad.float())
    accumulate_embedding_grad(table, grad, *sort_tokens(tokens))
    # Added up in 32 bits and rounded once; the interpreter rounds down.
    near = 1e-5 if stored == torch.float32 else 2**-7
    torch.testing.assert_close(table.float(), expected, rtol=near, atol=1e-5)


@needs_gpu
@pytest.mark.parametrize("place", ["none", "empty", "filled"])
@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
def test_a_large_table_on_a_gpu_gets_what_it_gets_on_a_cpu(place, stored):
    torch.manual_seed(1)
    tokens, known = torch.randint(0, 3000, (4, 50)), torch.randn(3000, 24)
    found = []
    for device in ("cpu", "cuda"):
        table, async_grads = (
            nn.Embedding(3000, 24, _weight=torch.ones(3000, 24)).to(device),
            AsyncWeightGrads(torch.device(device)),
        )
        weight = id(table.weight)
        with async_grads.activate([table], {weight: None if place == "none" else known.to(device, stored, copy=True)}):
            if place == "filled":
                async_grads.ready.add(weight)
            (table(tokens.to(device)) * torch.arange(24, device=device)).square().sum().backward()
        found.append(async_grads.grads[weight].cpu())
    assert found[0].dtype == (torch.float32 if place == "none" else stored)
    torch.testing.assert_close(*found)


def test_seeds_are_drawn_together_and_none_is_given_twice(monkeypatch):
    monkeypatch.setattr("seq2see.kernels.async_grads.SEEDS", 3)
    async_grads = AsyncWeightGrads(torch.device("cpu"))
    with async_grads.activate([], {}):
        seeds = [async_grads.seed() for _ in range(6)]
    assert len({int(seed) for seed in seeds}) == 6
    assert [len({seed.untyped_storage().data_ptr() for seed in some}) for some in (seeds[:3], seeds)] == [1, 2]
    assert not async_grads.seeds  # the next step draws its own


def test_a_sum_that_nobody_asks_for_is_not_kept_for_long():
    async_grads, grads = AsyncWeightGrads(torch.device("cpu")), [torch.ones(2, 3) for _ in range(MAX_STORED_SUMS + 2)]
    for grad in grads:
        async_grads.store_sum(grad, grad, torch.Tensor.sum)
    assert [known[0] is grad for known, grad in zip(async_grads.bias_sums.values(), grads[2:], strict=True)] == [
        True
    ] * MAX_STORED_SUMS


@pytest.mark.parametrize("there", [None, torch.float32, torch.bfloat16])
def test_the_first_sum_is_written_to_its_place_and_the_next_is_added(there):
    async_grads, rows = AsyncWeightGrads(torch.device("cpu")), torch.tensor([[1.0, 2.0], [4.0, 8.0]])
    place, written = None if there is None else torch.full((2,), torch.nan, dtype=there), []

    def sum_parts(parts: Tensor, *out: Tensor) -> Tensor:
        written.append(out)
        return plain_sum(parts, *out)

    with async_grads.activate([], {7: place}):
        async_grads.add_sum_grad(7, rows, sum_parts)
        assert async_grads.found[7].tolist() == [5, 10]
        async_grads.add_sum_grad(7, 2 * rows, sum_parts)
    assert async_grads.found[7].tolist() == [15, 30]
    assert [len(out) for out in written] == ([0, 0] if there is None else [1, 0])
    assert there is None or async_grads.found[7] is written[0][0] is place


@pytest.mark.parametrize("heads", [(2, 2), (3, 1, 1), (4,)])
def test_pieces_of_vectors_come_back_uncopied_if_they_lie_side_by_side(heads, monkeypatch):
    together = torch.randn(2, 5, 3 * sum(heads), requires_grad=True)
    grad, others = torch.randn_like(together), torch.randn_like(together)
    side_by_side = split_heads_eagerly(grad, heads)
    apart = [piece.clone() for piece in side_by_side]
    moved = [
        *side_by_side[:-1],
        split_heads_eagerly(others, heads)[-1],
    ]  # the last one lies there, but in other vectors
    by_moved = torch.cat([piece.transpose(1, 2) for piece in moved], dim=2).flatten(2)
    with AsyncWeightGrads(torch.device("cpu")).activate([], {}):
        for given, expected in ((side_by_side, grad), (apart, grad), (moved, by_moved)):
            found = split_projection(together, *heads)
            assert all(map(torch.equal, found, split_heads_eagerly(together, heads)))
            (back,) = torch.autograd.grad(found, [together], list(given))
            assert torch.equal(back, expected)
        monkeypatch.setattr(torch, "cat", None)
        (back,) = torch.autograd.grad(split_projection(together, *heads), [together], list(side_by_side))
        assert back.data_ptr() == grad.data_ptr()


class Streams:
    """Streams of a GPU that is not there: what each was told to wait for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.told: list[object] = []
        self.events = iter(range(100))
        monkeypatch.setattr(torch.cuda, "current_stream", lambda: self)
        monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())

    def wait_event(self, event: int) -> None:
        self.told.append(event)

    def wait_stream(self, stream: object) -> None:
        assert stream is self

    def record_event(self) -> int:
        return next(self.events)


def test_what_is_under_way_is_kept_and_waited_for_several_at_a_time(monkeypatch):
    streams, async_grads = Streams(monkeypatch), AsyncWeightGrads(torch.device("cpu"))
    async_grads.stream, kept = streams, []
    for _ in range(MAX_PENDING):
        given = torch.ones(3)
        kept.append(weakref.ref(given))
        async_grads.enqueue(given.mul_, torch.ones(3))
        async_grads.enqueue(lambda given: None, given)
        del given
        if len(kept) * 2 < MAX_PENDING:
            assert all(each() is not None for each in kept)
    # Every half of AHEAD is waited for by its last one, as soon as there are AHEAD of them and one more is to come.
    half = MAX_PENDING // 2
    assert streams.told == [half - 1 + half * number for number in range(2)]
    assert kept[0]() is None
    assert kept[-1]() is not None
    async_grads.wait()
    assert streams.told[-1] == 2 * MAX_PENDING - 1
    assert not async_grads.pending
    assert all(each() is None for each in kept)


def test_a_layer_that_is_used_at_every_time_is_not_worth_a_second_stream(monkeypatch):
    once, often, async_grads = nn.Linear(4, 4), nn.Linear(4, 4), AsyncWeightGrads(torch.device("cpu"))
    weights, begun = [*once.parameters(), *often.parameters()], []
    plain = async_grads.enqueue
    monkeypatch.setattr(async_grads, "enqueue", lambda work, *given: (begun.append(given), plain(work, *given)))
    x = torch.randn(3, 4)
    expected = torch.autograd.grad(often(often(once(x))).square().sum(), weights)
    with async_grads.activate([once, often], dict.fromkeys(map(id, weights))):
        often(often(once(x))).square().sum().backward()
    assert len(begun) == 1  # by the matrix of the one and by its bias
    for weight, grad in zip(weights, expected, strict=True):
        torch.testing.assert_close(async_grads.grads[id(weight)], grad)
