"""Asynchronous weight gradients equal those of autograd, and all are complete at the end of a step.

Without a GPU there is no second stream, but the gradients are written to the same tensors.
"""

from __future__ import annotations

import copy
import weakref
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2see.acceleration.async_weight_grad import (
    MAX_PENDING,
    MAX_STORED_SUMS,
    AsyncWeightGrads,
    grad_sink_of,
    plain_sum,
)
from seq2see.acceleration.attention import split_heads_eagerly, split_projection
from seq2see.acceleration.bf16_weights import Bf16Weights
from seq2see.acceleration.chunked_cross_entropy import ChunkedCrossEntropy

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_gpu)]


class TiedModel(nn.Module):
    """A tied embedding, a layer that is used twice, one without a bias, and a chunked loss."""

    def __init__(self, words: int = 24, width: int = 16):
        super().__init__()
        self.table, self.positions = nn.Embedding(words, width), nn.Embedding(8, width)
        self.shared, self.plain = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.fixed = nn.Linear(width, width).requires_grad_(False)

    def hidden(self, tokens: Tensor) -> Tensor:
        vectors = self.table(tokens) + self.positions(torch.arange(tokens.size(1), device=tokens.device))
        vectors = self.fixed(self.shared(self.plain(vectors).relu()))
        return self.shared(vectors.relu())

    def loss(self, tokens: Tensor, chunked: ChunkedCrossEntropy) -> Tensor:
        """Three times the next-token loss, plus terms in which two of the weights are used directly."""
        hidden = self.hidden(tokens)
        extra_terms = functional.linear(hidden, self.plain.weight.to(hidden.dtype)).square().sum()
        extra_terms = extra_terms + (self.table.weight * torch.arange(16, device=tokens.device)).sum()
        return (
            3 * chunked.loss(hidden.flatten(0, 1)[None], self.table.weight, None, tokens.roll(-1, 1).flatten())
            + extra_terms
        )


def gradients(model: nn.Module, compiled: bool, batches: list[Tensor]) -> dict[str, Tensor]:
    """The gradients of all micro-batches; with `compiled` they are those of autograd."""
    bf16_weights = Bf16Weights(model, compiled)
    for tokens in batches:
        with bf16_weights.activate(), torch.autocast(tokens.device.type, dtype=torch.bfloat16):
            model.loss(tokens, ChunkedCrossEntropy(async_grads=bf16_weights.async_grads)).backward()
    return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_they_are_the_gradients_of_autograd(device, micro_batches, monkeypatch):
    # Several chunks, so that the next one overwrites what the second stream reads.
    monkeypatch.setattr("seq2see.acceleration.chunked_cross_entropy.CHUNK_SIZE", {"cpu": 5, "cuda": 5})
    model = TiedModel().to(device)
    batches = [torch.randint(0, 24, (3, 8), device=device) for _ in range(micro_batches)]
    expected = gradients(copy.deepcopy(model), True, batches)
    actual = gradients(model, False, batches)
    assert actual.keys() == expected.keys() == {name for name, _ in model.named_parameters() if "fixed" not in name}
    for name, grad in actual.items():
        assert float((grad - expected[name]).norm() / expected[name].norm()) < 0.02, name


@pytest.mark.parametrize("device", DEVICES)
def test_a_gradient_of_the_loss_itself_is_not_scaled(device, monkeypatch):
    scaled = []
    monkeypatch.setattr(
        "seq2see.acceleration.async_weight_grad.GradSink.scale_grad", lambda sink, factor: scaled.append(float(factor))
    )
    model, tokens = TiedModel().to(device), torch.randint(0, 24, (3, 8), device=device)
    for factor, expected in ((None, []), (2.0, [2.0])):
        bf16_weights = Bf16Weights(model)
        with bf16_weights.activate(), torch.autocast(device, dtype=torch.bfloat16):
            hidden = model.hidden(tokens).flatten(0, 1)[None]
            chunked = ChunkedCrossEntropy(async_grads=bf16_weights.async_grads)
            loss = chunked.loss(hidden, model.table.weight, None, tokens.flatten())
            chunked.run_backward(loss if factor is None else factor * loss)
        assert scaled == expected


def test_layers_are_changed_only_while_it_is_active():
    layer, async_grads = nn.Linear(8, 8), AsyncWeightGrads(torch.device("cpu"))
    grads = {id(weight): torch.zeros_like(weight) for weight in layer.parameters()}
    x = torch.randn(4, 8)

    def fail() -> None:
        with async_grads.activate([layer], grads):
            assert grad_sink_of(async_grads, layer.weight).async_grads is async_grads
            assert grad_sink_of(async_grads, layer.weight, torch.ones(1)) is None
            layer(x).sum().backward()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert layer.weight.grad is None
    assert grad_sink_of(async_grads, layer.weight) is None
    torch.testing.assert_close(grads[id(layer.weight)], torch.ones(4, 8).mT @ x)
    torch.testing.assert_close(grads[id(layer.bias)], torch.full((8,), 4.0))
    layer(x).sum().backward()
    torch.testing.assert_close(layer.weight.grad, grads[id(layer.weight)])


@needs_gpu
def test_they_are_right_in_every_replay_of_a_cuda_graph_of_many_layers():
    torch.manual_seed(1)
    layers = nn.Sequential(*(nn.Linear(512, 512) for _ in range(24))).cuda()
    async_grads, xs = AsyncWeightGrads(torch.device("cuda")), torch.randn(2, 4096, 512, device="cuda")
    grads = {id(weight): torch.zeros_like(weight) for weight in layers.parameters()}
    inputs, graph = xs[0].clone(), torch.cuda.CUDAGraph()

    def step() -> None:
        with async_grads.activate(list(layers), grads):
            layers(inputs).square().sum().backward()

    with torch.cuda.stream(torch.cuda.Stream()):
        step()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        step()
    for x in (*xs, *xs):
        inputs.copy_(x)
        graph.replay()
        expected = torch.autograd.grad(layers(x).square().sum(), list(layers.parameters()))
        for weight, grad in zip(layers.parameters(), expected, strict=True):
            torch.testing.assert_close(grads[id(weight)], grad, rtol=1e-3, atol=1e-3 * float(grad.abs().max()))


@pytest.mark.triton
@pytest.mark.parametrize("shape", [(1, 1), (100, 7), (1200, 520)])
def test_sums_over_rows(shape, monkeypatch):
    from seq2see.acceleration import row_sums

    rows = torch.randn(shape, device="cuda" if torch.cuda.is_available() else "cpu")
    if rows.device.type == "cpu":
        monkeypatch.setattr(row_sums, "SLICES", 4)  # the interpreter runs them one after another
    torch.testing.assert_close(row_sums.sum_over_rows(rows), rows.sum(0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("table_dtype", [torch.float32, torch.bfloat16])
def test_an_embedding_gets_for_each_token_the_sum_of_its_gradients(table_dtype):
    table, async_grads = nn.Embedding(4, 2), AsyncWeightGrads(torch.device("cpu"))
    grads = {id(table.weight): torch.zeros(4, 2, dtype=table_dtype)}
    with async_grads.activate([table], grads):
        output = table(torch.tensor([[1, 3, 1]]))
        assert torch.equal(output, functional.embedding(torch.tensor([[1, 3, 1]]), table.weight))
        (output * torch.tensor([[[1.0], [10.0], [100.0]]])).sum().backward()
    assert grads[id(table.weight)].tolist() == [[0, 0], [101, 101], [0, 0], [10, 10]]


@pytest.mark.triton
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("table_dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("width", [3, 520])
def test_gradients_are_added_to_the_rows_of_their_tokens(dtype, table_dtype, width):
    from seq2see.acceleration.row_sums import accumulate_embedding_grad, sort_tokens

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    # A token that occurs more often than the tile size, the smallest and the largest, and some that occur once.
    tokens = torch.tensor([7, 0, 7, 3, 7, 7, 9, 7, 7, 0, 1, 7, 7, 7, 9, 5], device=device)
    grad, table = (
        torch.randn(16, width, device=device, dtype=dtype),
        torch.randn(10, width, device=device).to(table_dtype),
    )
    expected = table.float().index_add(0, tokens, grad.float())
    accumulate_embedding_grad(table, grad, *sort_tokens(tokens))
    # Summed in float32 and rounded once; the interpreter rounds down.
    tolerance = 1e-5 if table_dtype == torch.float32 else 2**-7
    torch.testing.assert_close(table.float(), expected, rtol=tolerance, atol=1e-5)


@needs_gpu
@pytest.mark.parametrize("target", ["none", "empty", "filled"])
@pytest.mark.parametrize("table_dtype", [torch.float32, torch.bfloat16])
def test_a_large_embedding_on_a_gpu_has_the_gradient_of_a_cpu(target, table_dtype):
    torch.manual_seed(1)
    tokens, initial = torch.randint(0, 3000, (4, 50)), torch.randn(3000, 24)
    results = []
    for device in ("cpu", "cuda"):
        table, async_grads = (
            nn.Embedding(3000, 24, _weight=torch.ones(3000, 24)).to(device),
            AsyncWeightGrads(torch.device(device), kernels=device == "cuda"),
        )
        weight = id(table.weight)
        with async_grads.activate(
            [table], {weight: None if target == "none" else initial.to(device, table_dtype, copy=True)}
        ):
            if target == "filled":
                async_grads.ready.add(weight)
            (table(tokens.to(device)) * torch.arange(24, device=device)).square().sum().backward()
        results.append(async_grads.grads[weight].cpu())
    assert results[0].dtype == (torch.float32 if target == "none" else table_dtype)
    torch.testing.assert_close(*results)


def test_seeds_are_drawn_together_and_each_is_used_once(monkeypatch):
    monkeypatch.setattr("seq2see.acceleration.async_weight_grad.SEEDS_PER_DRAW", 3)
    async_grads = AsyncWeightGrads(torch.device("cpu"))
    with async_grads.activate([], {}):
        seeds = [async_grads.seed() for _ in range(6)]
    assert len({int(seed) for seed in seeds}) == 6
    assert [len({seed.untyped_storage().data_ptr() for seed in group}) for group in (seeds[:3], seeds)] == [1, 2]
    assert not async_grads.seeds  # the next step draws its own


def test_an_unused_sum_is_deleted():
    async_grads, grads = AsyncWeightGrads(torch.device("cpu")), [torch.ones(2, 3) for _ in range(MAX_STORED_SUMS + 2)]
    for grad in grads:
        async_grads.store_sum(grad, grad, torch.Tensor.sum)
    assert [
        stored_sum[0] is grad for stored_sum, grad in zip(async_grads.bias_sums.values(), grads[2:], strict=True)
    ] == [True] * MAX_STORED_SUMS


@pytest.mark.parametrize("dtype", [None, torch.float32, torch.bfloat16])
def test_the_first_sum_is_written_to_its_tensor_and_the_next_is_added(dtype):
    async_grads, rows = AsyncWeightGrads(torch.device("cpu")), torch.tensor([[1.0, 2.0], [4.0, 8.0]])
    total, calls = None if dtype is None else torch.full((2,), torch.nan, dtype=dtype), []

    def sum_parts(parts: Tensor, *out: Tensor) -> Tensor:
        calls.append(out)
        return plain_sum(parts, *out)

    with async_grads.activate([], {7: total}):
        async_grads.add_sum_grad(7, rows, sum_parts)
        assert async_grads.computed_grads[7].tolist() == [5, 10]
        async_grads.add_sum_grad(7, 2 * rows, sum_parts)
    assert async_grads.computed_grads[7].tolist() == [15, 30]
    assert [len(out) for out in calls] == ([0, 0] if dtype is None else [1, 0])
    assert dtype is None or async_grads.computed_grads[7] is calls[0][0] is total


@pytest.mark.parametrize("heads", [(2, 2), (3, 1, 1), (4,)])
def test_gradients_of_parts_are_joined_without_a_copy_if_they_are_adjacent(heads, monkeypatch):
    projected = torch.randn(2, 5, 3 * sum(heads), requires_grad=True)
    grad, other_grad = torch.randn_like(projected), torch.randn_like(projected)
    adjacent = split_heads_eagerly(grad, heads)
    separate = [part.clone() for part in adjacent]
    mixed = [
        *adjacent[:-1],
        split_heads_eagerly(other_grad, heads)[-1],
    ]  # the last one has the layout, but another storage
    joined_mixed = torch.cat([part.transpose(1, 2) for part in mixed], dim=2).flatten(2)
    async_grads = AsyncWeightGrads(torch.device("cpu"))
    with async_grads.activate([], {}):
        for part_grads, expected in ((adjacent, grad), (separate, grad), (mixed, joined_mixed)):
            parts = split_projection(projected, heads, async_grads)
            assert all(map(torch.equal, parts, split_heads_eagerly(projected, heads)))
            (joined,) = torch.autograd.grad(parts, [projected], list(part_grads))
            assert torch.equal(joined, expected)
        monkeypatch.setattr(torch, "cat", None)
        (joined,) = torch.autograd.grad(split_projection(projected, heads, async_grads), [projected], list(adjacent))
        assert joined.data_ptr() == grad.data_ptr()


class FakeStreams:
    """Fake CUDA streams that record the events they wait for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.waits: list[object] = []
        self.events = iter(range(100))
        monkeypatch.setattr(torch.cuda, "current_stream", lambda: self)
        monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())

    def wait_event(self, event: int) -> None:
        self.waits.append(event)

    def wait_stream(self, stream: object) -> None:
        assert stream is self

    def record_event(self) -> int:
        return next(self.events)


def test_pending_inputs_are_stored_and_released_several_at_a_time(monkeypatch):
    streams, async_grads = FakeStreams(monkeypatch), AsyncWeightGrads(torch.device("cpu"))
    async_grads.stream, references = streams, []
    for _ in range(MAX_PENDING):
        work_input = torch.ones(3)
        references.append(weakref.ref(work_input))
        async_grads.enqueue(work_input.mul_, torch.ones(3))
        async_grads.enqueue(lambda x: None, work_input)
        del work_input
        if len(references) * 2 < MAX_PENDING:
            assert all(each() is not None for each in references)
    # When MAX_PENDING are pending and one more is enqueued, the main stream waits for the older half.
    half = MAX_PENDING // 2
    assert streams.waits == [half - 1 + half * number for number in range(2)]
    assert references[0]() is None
    assert references[-1]() is not None
    async_grads.wait()
    assert streams.waits[-1] == 2 * MAX_PENDING - 1
    assert not async_grads.pending
    assert all(each() is None for each in references)


def test_a_layer_that_is_used_several_times_does_not_use_the_second_stream(monkeypatch):
    once, repeated, async_grads = nn.Linear(4, 4), nn.Linear(4, 4), AsyncWeightGrads(torch.device("cpu"))
    weights, calls = [*once.parameters(), *repeated.parameters()], []
    enqueue = async_grads.enqueue
    monkeypatch.setattr(async_grads, "enqueue", lambda work, *inputs: (calls.append(inputs), enqueue(work, *inputs)))
    x = torch.randn(3, 4)
    expected = torch.autograd.grad(repeated(repeated(once(x))).square().sum(), weights)
    with async_grads.activate([once, repeated], dict.fromkeys(map(id, weights))):
        repeated(repeated(once(x))).square().sum().backward()
    assert len(calls) == 1  # the weight and bias of the layer that is used once
    for weight, grad in zip(weights, expected, strict=True):
        torch.testing.assert_close(async_grads.grads[id(weight)], grad)
