"""Triton kernels compared with the torch code that they replace: in training and in decoding.

python benchmarks/kernels_gpu.py        writes results/kernels_gpu.json; needs a GPU

Attention is forward and backward in bf16, compared with torch's fused kernel. The loss is the computation from the
logits to their gradient, compared with the same lines compiled by torch; so are norms with residual and dropout, the
fused linear-activation-linear, forward and backward, and the gradient of the qkv projection. Adam is compared with
torch's fused one and the casts that it needs. Decoding has one row, or the four of a beam, in bf16, compared with a
sequence of torch's kernels. Each is captured ten times in a CUDA graph, so that only the time of the GPU counts; the
number of weight matrices is that of a Transformer, so that each is read from GPU memory.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2see.acceleration.add_norm import AddNorm, NormWithResidual
from seq2see.acceleration.attention import PreparedMask
from seq2see.acceleration.bf16_weights import Bf16Weights, attach
from seq2see.acceleration.chunked_cross_entropy import cross_entropy_in_place
from seq2see.acceleration.fast_search import GPUIndependentSearch
from seq2see.acceleration.fused_cross_entropy import fused_cross_entropy
from seq2see.acceleration.fused_feed_forward import FeedForwardFunction
from seq2see.acceleration.graphed_decoding import GraphedHistory
from seq2see.acceleration.qkv_grad import join_head_grads
from seq2see.acceleration.row_sums import sum_parts
from seq2see.acceleration.search_kernels import greedy_step
from seq2see.acceleration.short_attention import short_attention
from seq2see.acceleration.small_batch import reference_linear
from seq2see.acceleration.small_batch_kernels import (
    EmbeddingTables,
    LayerNormWeights,
    LinearWeights,
    cached_self_attention,
    embed_tokens,
    fused_linear,
    single_query_cross_attention,
)
from seq2see.acceleration.support import side_stream
from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json
from seq2see.decoding.engine import log_probabilities, suppress_special_tokens
from seq2see.decoding.samplers import GreedySampler, History
from seq2see.layers.attention import KeyValueCache, merge_heads, split_heads
from seq2see.layers.feed_forward import ACTIVATIONS
from seq2see.layers.masks import cache_mask
from seq2see.layers.positions import SinusoidalPositions
from seq2see.models.embeddings_and_heads import TokenEmbedding
from seq2see.training.optimizers import AdamW

RESULTS = Path(__file__).parent / "results" / "kernels_gpu.json"
TIMES, ROUNDS = 10, 15
BF16 = {"device": "cuda", "dtype": torch.bfloat16}


def microseconds(work: Callable[[], Any]) -> float:
    """Microseconds of one call, the median over rounds."""
    with side_stream():
        for _ in range(3):
            work()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(TIMES):
            work()
    timings = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        graph.replay()
        torch.cuda.synchronize()
        timings.append((time.perf_counter() - began) / TIMES * 1e6)
    return statistics.median(timings)


def attention() -> Iterator[dict[str, Any]]:
    """Texts of 32 tokens, and packed sequences of 128 tokens with a document mask."""
    for rows, times, has_mask in ((256, 32, False), (64, 128, False), (64, 128, True)):
        parts = [torch.randn(rows, times, 8, 64, **BF16).transpose(1, 2).requires_grad_() for _ in range(3)]
        grad_output = torch.randn(rows, times, 8, 64, **BF16).transpose(1, 2)
        texts = torch.arange(times, device="cuda") // 16
        table = (texts[:, None] == texts).expand(rows, 1, times, times).contiguous() if has_mask else None
        additive_mask = (
            None if table is None else torch.zeros_like(table, dtype=torch.bfloat16).masked_fill(~table, -1e30)
        )

        def triton_attention(
            parts: list[Tensor] = parts, table: Tensor | None = table, grad_output: Tensor = grad_output
        ) -> None:
            torch.autograd.grad(short_attention(*parts, table, False), parts, grad_output)

        def torch_attention(
            parts: list[Tensor] = parts, additive_mask: Tensor | None = additive_mask, grad_output: Tensor = grad_output
        ) -> None:
            torch.autograd.grad(
                functional.scaled_dot_product_attention(*parts, attn_mask=additive_mask), parts, grad_output
            )

        case = f"attention, {rows} sequences of {times}, 8 heads" + (", with a mask" if has_mask else "")
        yield {"case": case, "torch": microseconds(torch_attention), "triton": microseconds(triton_attention)}


def torch_loss(scores: Tensor, labels: Tensor, r_drop: float) -> tuple[Tensor, Tensor]:
    """The computation of the kernel in torch, for torch.compile."""
    high = scores.float()
    return cross_entropy_in_place(high, labels, 0.1, r_drop), high.to(scores.dtype)


def losses() -> Iterator[dict[str, Any]]:
    """The batch of a translator, that of GPT-2, and one with R-Drop."""
    compiled = torch.compile(torch_loss, dynamic=False)
    for copies, tokens, vocab in ((1, 8192, 32_000), (1, 16_384, 50_304), (2, 4096, 10_000)):
        scores = torch.randn(copies, tokens, vocab, **BF16)
        labels = torch.randint(0, vocab, (tokens,), device="cuda")
        r_drop = 1.0 if copies == 2 else 0.0
        work = (scores, labels, r_drop)
        yield {
            "case": f"loss, {tokens:,} tokens of {vocab:,}" + (", R-Drop" if copies == 2 else ""),
            "torch": microseconds(lambda work=work: compiled(*work)),
            "triton": microseconds(lambda work=work: fused_cross_entropy(work[0], None, work[1], 0.1, work[2])),
        }


def forward_and_backward(
    reference: Callable[..., Any], kernel: Callable[..., Any], arguments: list[Tensor]
) -> dict[str, float]:
    """Forward and backward, with output gradients of one; the torch code is compiled."""

    def run(work: Callable[..., Any]) -> None:
        outputs = work(*arguments)
        torch.autograd.grad(outputs, arguments, [torch.ones_like(each) for each in outputs])

    compiled = torch.compile(reference, dynamic=False)
    return {"torch": microseconds(lambda: run(compiled)), "triton": microseconds(lambda: run(kernel))}


def residuals() -> Iterator[dict[str, Any]]:
    """Post-norm of a translator: norm(x + dropout(f)), width 512. Pre-norm of GPT-2: norm(x) and x, width 768."""
    for case, rows, width in (("dropout, add, norm", 8192, 512), ("norm and residual stream", 16_384, 768)):
        weight, bias = (torch.randn(width, device="cuda").requires_grad_() for _ in range(2))
        if "dropout" in case:
            arguments = [torch.randn(1, rows, width, **BF16).requires_grad_() for _ in range(2)]
            timings = forward_and_backward(
                lambda x, f, w, b: [
                    functional.layer_norm((x + functional.dropout(f, 0.1)).float(), w.shape, w, b).bfloat16()
                ],
                lambda x, f, w, b: [AddNorm.apply(x, f, w, b, 0.1, 1e-5, None)],
                [*arguments, weight, bias],
            )
        else:
            timings = forward_and_backward(
                lambda x, w, b: [x * 1.0, functional.layer_norm(x, w.shape, w, b).bfloat16()],
                lambda x, w, b: NormWithResidual.apply(x, w, b, 1e-5, None),
                [torch.randn(1, rows, width, device="cuda").requires_grad_(), weight, bias],
            )
        yield {"case": f"{case}, {rows:,} of {width}", **timings}


def activations() -> Iterator[dict[str, Any]]:
    """A feed-forward layer: linear, activation, linear."""
    for activation, rows, width in (("relu", 8192, 512), ("gelu-tanh", 16_384, 768)):
        shapes = (rows, width), (4 * width, width), (4 * width,), (width, 4 * width), (width,)
        timings = forward_and_backward(
            lambda x, w, b, v, c, activation=activation: [
                functional.linear(ACTIVATIONS[activation](functional.linear(x, w, b)), v, c),
            ],
            lambda x, w, b, v, c, activation=activation: [FeedForwardFunction.apply(x, w, b, v, c, activation, None)],
            [torch.randn(*shape, **BF16).requires_grad_() for shape in shapes],
        )
        yield {"case": f"linear-activation-linear, {activation}, {rows:,} of {width} by {4 * width:,}", **timings}


def qkv_gradients() -> Iterator[dict[str, Any]]:
    """The output gradient of GPT-2's qkv projection, and the gradient of its bias."""
    parts = [torch.randn(16, 1024, 12, 64, **BF16).transpose(1, 2) for _ in range(3)]

    def reference(parts: list[Tensor]) -> tuple[Tensor, Tensor]:
        gradient = torch.cat([merge_heads(part) for part in parts], dim=-1)
        return gradient, gradient.sum((0, 1), dtype=torch.float32)

    compiled = torch.compile(reference, dynamic=False)
    timings = {
        "torch": microseconds(lambda: compiled(parts)),
        "triton": microseconds(lambda: sum_parts(join_head_grads(parts)[1])),
    }
    yield {"case": "qkv gradient concatenated, bias gradient, 16,384 of 2,304", **timings}


def optimizers() -> Iterator[dict[str, Any]]:
    """A step of AdamW over a Transformer's matrices, from gradients in bf16 to new copies in bf16."""
    scalars = torch.ones((), device="cuda"), torch.zeros((), device="cuda")
    timings = {}
    for name in ("torch", "triton"):
        model = nn.Sequential(*(nn.Linear(512, 2048, device="cuda") for _ in range(44)))
        bf16_weights, optimizer = Bf16Weights(model), AdamW().build(dict(model.named_parameters()), 1e-3)
        if name == "triton":
            attach(optimizer, bf16_weights)
        gradients = {copy: torch.ones_like(copy) for copy in bf16_weights.copies.values()}

        def step(
            bf16_weights: Bf16Weights = bf16_weights, optimizer: Any = optimizer, gradients: Any = gradients
        ) -> None:
            with bf16_weights.activate():
                for copy, gradient in gradients.items():
                    copy.grad = gradient
            optimizer.step(*scalars)
            optimizer.zero_grad()

        timings[name] = microseconds(step)
    yield {"case": "AdamW, 46 million weights", **timings}


def linears() -> Iterator[dict[str, Any]]:
    """The linear layers of a Transformer block, fused with norm, activation or residual; and that of a head."""
    for rows, inputs, outputs, fused in (
        (1, 512, 512, ""), (1, 512, 1536, "norm"), (1, 512, 512, "residual"), (1, 512, 2048, "norm, relu"),
        (1, 2048, 512, "residual"), (4, 512, 1536, "norm"), (4, 2048, 512, "residual"), (1, 512, 32_000, "norm"),
    ):  # fmt: skip
        activation = "relu" if "relu" in fused else "none"
        copies = max(2, (100 << 20) // (2 * inputs * outputs))  # more than the cache of a GPU
        layers = [
            LinearWeights(torch.randn(outputs, inputs, **BF16) / inputs**0.5, torch.randn(outputs, **BF16), activation)
            for _ in range(copies)
        ]
        norm = (
            LayerNormWeights(torch.randn(inputs, **BF16), torch.randn(inputs, **BF16), 1e-5)
            if "norm" in fused
            else None
        )
        residual = torch.randn(rows, outputs, **BF16) if "residual" in fused else None
        arguments = (torch.randn(rows, inputs, **BF16), layers, norm, residual)

        def run_all(function: Callable[..., Any], arguments: Any = arguments) -> None:
            vectors, layers, norm, residual = arguments
            for layer in layers:
                function(vectors, layer, norm, residual)

        case = f"linear, {rows} of {inputs:,} by {outputs:,}" + (f", {fused}" if fused else "")
        timings = {
            name: microseconds(partial(run_all, function)) / copies
            for name, function in (("torch", reference_linear), ("triton", fused_linear))
        }
        yield {"case": case, **timings}


def single_queries() -> Iterator[dict[str, Any]]:
    """One query per row, eight heads: cached self-attention, and cross-attention."""
    for rows, max_length, length in ((1, 32, 16), (1, 128, 100), (4, 32, 16), (1, 1024, 1000)):
        new, cache = torch.randn(rows, 1536, **BF16), KeyValueCache(torch.randn(rows, 2, 8, max_length, 64, **BF16))
        cache_length = torch.full((rows,), length, device="cuda")
        self_attention_mask = PreparedMask.of(cache_mask(cache_length[:, None], max_length), new)

        def reference(
            new: Tensor = new,
            cache: KeyValueCache = cache,
            cache_length: Tensor = cache_length,
            additive_mask: Any = self_attention_mask.additive,
        ) -> None:
            heads = split_heads(new[:, None], 24)
            cache.write(heads[:, 8:].unflatten(1, (2, 8)), cache_length[:, None])
            merge_heads(
                functional.scaled_dot_product_attention(heads[:, :8], cache.keys, cache.values, attn_mask=additive_mask)
            )

        triton = microseconds(
            lambda new=new, cache=cache, cache_length=cache_length: cached_self_attention(
                new, cache.keys_values, cache_length
            )
        )
        yield {
            "case": f"self-attention of one query, {rows} rows, {length} of {max_length} keys",
            "torch": microseconds(reference),
            "triton": triton,
        }
    for rows, times in ((1, 32), (4, 32), (1, 128)):
        query = torch.randn(rows, 512, **BF16)
        keys, values = (torch.randn(rows, 8, times, 64, **BF16) for _ in range(2))
        mask = torch.ones(rows, 1, 1, times, dtype=torch.bool, device="cuda")
        additive_mask = torch.zeros_like(mask, dtype=torch.bfloat16)

        def torch_attention(
            query: Tensor = query, keys: Tensor = keys, values: Tensor = values, additive_mask: Tensor = additive_mask
        ) -> None:
            heads = split_heads(query[:, None], 8)
            merge_heads(functional.scaled_dot_product_attention(heads, keys, values, attn_mask=additive_mask))

        triton = microseconds(lambda arguments=(query, keys, values, mask): single_query_cross_attention(*arguments))
        yield {
            "case": f"cross-attention of one query, {rows} rows, {times} keys",
            "torch": microseconds(torch_attention),
            "triton": triton,
        }


def embedding_lookups() -> Iterator[dict[str, Any]]:
    """The embedding of a token with its sinusoidal position."""
    table, positions = nn.Embedding(32_000, 512, **BF16), SinusoidalPositions(512).to("cuda")
    embedding = TokenEmbedding(table, positions, 0.1).eval()
    lookup = EmbeddingTables(table.weight, embedding.scale, "sinusoidal", positions.frequencies)
    tokens, times = torch.full((1, 1), 5, device="cuda"), torch.full((1,), 7, device="cuda")
    with torch.no_grad():
        reference = microseconds(lambda: embedding.embed_at(tokens, times[:, None]))
        yield {
            "case": "embedding lookup",
            "torch": reference,
            "triton": microseconds(lambda: embed_tokens(lookup, tokens, times)),
        }


def greedy_search(rows: int) -> GPUIndependentSearch:
    """A search without any generated token; its time is a tensor, as in a CUDA graph."""
    nothing = torch.zeros(rows, dtype=torch.long, device="cuda")
    empty = History.empty(nothing, 1024)
    search = GPUIndependentSearch(GreedySampler(), empty, nothing + 1024, list(range(rows)))
    search.history = GraphedHistory.of(empty, torch.zeros(1, dtype=torch.long, device="cuda"))
    return search


def greedy_steps() -> Iterator[dict[str, Any]]:
    """From logits to the most probable token, which is added to the history."""
    for rows in (1, 64):
        logits = torch.randn(rows, 32_000, **BF16)

        def reference(search: GPUIndependentSearch, logits: Tensor) -> None:
            search.advance(suppress_special_tokens(log_probabilities(logits)))

        timings = {}
        for name, function in (("torch", reference), ("triton", greedy_step)):
            search = greedy_search(rows)
            timings[name] = microseconds(partial(function, search, logits))
        yield {"case": f"greedy step, {rows} rows of 32,000", **timings}


if __name__ == "__main__":
    rows = []
    parts = (
        attention,
        losses,
        residuals,
        activations,
        qkv_gradients,
        optimizers,
        linears,
        single_queries,
        embedding_lookups,
        greedy_steps,
    )
    for row in chain.from_iterable(part() for part in parts):
        rows.append({name: round(value, 1) if name != "case" else value for name, value in row.items()})
        rows[-1]["ratio"] = round(row["torch"] / row["triton"], 2)
        print(rows[-1], flush=True)
    write_json(
        RESULTS, {"environment": describe_machine(), "command": "python benchmarks/kernels_gpu.py", "rows": rows}
    )
