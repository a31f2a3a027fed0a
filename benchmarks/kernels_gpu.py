"""Kernels of our own beside what they replace: in training and in decoding.

python benchmarks/kernels_gpu.py        writes results/kernels_gpu.json; needs a GPU

Attention is forward and backward together, in bf16, beside torch's fused kernel. The loss is what happens between the
scores and their gradient, beside the same lines compiled by torch; so are norms with what stands around them, and the
curve between two products, forward and backward, and what comes back to a product of queries, keys and values. Adam is
beside torch's fused one and the casts that it needs. What decoding asks for is one row, or the four of a beam, in bf16,
beside torch's kernels one after another. Each is recorded ten times in a CUDA graph, so that only the GPU's own time
counts; and matrices are as many as a Transformer has, so that each must be fetched anew.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2see.core.devices import aside, describe_machine
from seq2see.core.files import write_json
from seq2see.decoding.choosers import Greedy, Walks
from seq2see.decoding.engine import log_probabilities, sayable
from seq2see.decoding.few_rows import plain_product
from seq2see.decoding.greedy_turn import take_turn
from seq2see.decoding.hypotheses import History
from seq2see.kernels.cross_entropy import judge_quickly
from seq2see.kernels.curved_products import CurvedProducts
from seq2see.kernels.few_rows import Layer, Norm, product
from seq2see.kernels.joins import join
from seq2see.kernels.look_up import Lookup, look_up
from seq2see.kernels.norms import NormBeside, NormOfSum
from seq2see.kernels.one_query import look_across, look_back
from seq2see.kernels.short_attention import short_attention
from seq2see.kernels.sums import add_up
from seq2see.layers.attention import KeyValueCache, join_heads, split_heads
from seq2see.layers.feed_forward import CURVES
from seq2see.layers.masks import for_kernel, so_far
from seq2see.layers.positions import SinusoidalPositions
from seq2see.models.frontends import TokenFrontend
from seq2see.training.cross_entropy import judge
from seq2see.training.doubles import Doubles
from seq2see.training.optimisers import AdamW

RESULTS = Path(__file__).parent / "results" / "kernels_gpu.json"
TIMES, ROUNDS = 10, 15
BF16 = {"device": "cuda", "dtype": torch.bfloat16}


def microseconds(work: Callable[[], Any]) -> float:
    """Of one run, the median over rounds."""
    with aside():
        for _ in range(3):
            work()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(TIMES):
            work()
    taken = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        graph.replay()
        torch.cuda.synchronize()
        taken.append((time.perf_counter() - began) / TIMES * 1e6)
    return statistics.median(taken)


def attention() -> Iterator[dict[str, Any]]:
    """Texts of 32 tokens, and lines of 128 on which texts lie end to end: a table says who may look where."""
    for rows, times, has_table in ((256, 32, False), (64, 128, False), (64, 128, True)):
        parts = [torch.randn(rows, times, 8, 64, **BF16).transpose(1, 2).requires_grad_() for _ in range(3)]
        slope = torch.randn(rows, times, 8, 64, **BF16).transpose(1, 2)
        texts = torch.arange(times, device="cuda") // 16
        table = (texts[:, None] == texts).expand(rows, 1, times, times).contiguous() if has_table else None
        added = None if table is None else torch.zeros_like(table, dtype=torch.bfloat16).masked_fill(~table, -1e30)

        def ours(parts: list[Tensor] = parts, table: Tensor | None = table, slope: Tensor = slope) -> None:
            torch.autograd.grad(short_attention(*parts, table, False), parts, slope)

        def torchs(parts: list[Tensor] = parts, added: Tensor | None = added, slope: Tensor = slope) -> None:
            torch.autograd.grad(functional.scaled_dot_product_attention(*parts, attn_mask=added), parts, slope)

        case = f"attention, {rows} rows of {times}, 8 heads" + (", with a table" if has_table else "")
        yield {"case": case, "plain": microseconds(torchs), "own": microseconds(ours)}


def plain_judge(scores: Tensor, labels: Tensor, agreement: float) -> tuple[Tensor, Tensor]:
    """What the kernel does, as torch's compiler is given it."""
    high = scores.float()
    return judge(high, labels, 0.1, agreement), high.to(scores.dtype)


def losses() -> Iterator[dict[str, Any]]:
    """A translator's batch, GPT-2's, and one whose tokens come twice and shall agree."""
    compiled = torch.compile(plain_judge, dynamic=False)
    for copies, tokens, vocab in ((1, 8192, 32_000), (1, 16_384, 50_304), (2, 4096, 10_000)):
        scores = torch.randn(copies, tokens, vocab, **BF16)
        labels = torch.randint(0, vocab, (tokens,), device="cuda")
        agreement = 1.0 if copies == 2 else 0.0
        work = (scores, labels, agreement)
        yield {
            "case": f"loss, {tokens:,} tokens of {vocab:,}" + (", twice" if copies == 2 else ""),
            "plain": microseconds(lambda work=work: compiled(*work)),
            "own": microseconds(lambda work=work: judge_quickly(work[0], None, work[1], 0.1, work[2])),
        }


def both_ways(plain: Callable[..., Any], own: Callable[..., Any], given: list[Tensor]) -> dict[str, float]:
    """Forward and backward, with slopes of one; what is plain is compiled."""

    def walk(work: Callable[..., Any]) -> None:
        found = work(*given)
        torch.autograd.grad(found, given, [torch.ones_like(each) for each in found])

    compiled = torch.compile(plain, dynamic=False)
    return {"plain": microseconds(lambda: walk(compiled)), "own": microseconds(lambda: walk(own))}


def residuals() -> Iterator[dict[str, Any]]:
    """A translator's: norm(x + dropout(f)), all vectors of 512. GPT-2's: norm(x) and x itself, all of 768."""
    for case, rows, width in (("norm of a sum with dropout", 8192, 512), ("norm beside the stream", 16_384, 768)):
        weight, bias = (torch.randn(width, device="cuda").requires_grad_() for _ in range(2))
        if "sum" in case:
            given = [torch.randn(1, rows, width, **BF16).requires_grad_() for _ in range(2)]
            taken = both_ways(
                lambda x, f, w, b: [
                    functional.layer_norm((x + functional.dropout(f, 0.1)).float(), w.shape, w, b).bfloat16()
                ],
                lambda x, f, w, b: [NormOfSum.apply(x, f, w, b, 0.1, 1e-5)],
                [*given, weight, bias],
            )
        else:
            taken = both_ways(
                lambda x, w, b: [x * 1.0, functional.layer_norm(x, w.shape, w, b).bfloat16()],
                lambda x, w, b: NormBeside.apply(x, w, b, 1e-5),
                [torch.randn(1, rows, width, device="cuda").requires_grad_(), weight, bias],
            )
        yield {"case": f"{case}, {rows:,} of {width}", **taken}


def curves() -> Iterator[dict[str, Any]]:
    """A feed-forward part: a product, the curve behind it, and another product."""
    for curve, rows, width in (("relu", 8192, 512), ("gelu-tanh", 16_384, 768)):
        shapes = (rows, width), (4 * width, width), (4 * width,), (width, 4 * width), (width,)
        taken = both_ways(
            lambda x, w, b, v, c, curve=curve: [
                functional.linear(CURVES[curve](functional.linear(x, w, b)), v, c),
            ],
            lambda x, w, b, v, c, curve=curve: [CurvedProducts.apply(x, w, b, v, c, curve)],
            [torch.randn(*shape, **BF16).requires_grad_() for shape in shapes],
        )
        yield {"case": f"products around {curve}, {rows:,} of {width} by {4 * width:,}", **taken}


def joins() -> Iterator[dict[str, Any]]:
    """What comes back to the product of GPT-2's queries, keys and values: its slope, and that of its bias."""
    parts = [torch.randn(16, 1024, 12, 64, **BF16).transpose(1, 2) for _ in range(3)]

    def plain(parts: list[Tensor]) -> tuple[Tensor, Tensor]:
        joined = torch.cat([join_heads(part) for part in parts], dim=-1)
        return joined, joined.sum((0, 1), dtype=torch.float32)

    compiled = torch.compile(plain, dynamic=False)
    taken = {"plain": microseconds(lambda: compiled(parts)), "own": microseconds(lambda: add_up(join(parts)[1]))}
    yield {"case": "slopes of three joined and summed, 16,384 of 2,304", **taken}


def optimisers() -> Iterator[dict[str, Any]]:
    """A step of AdamW over a Transformer's matrices, from gradients in bf16 to new copies in bf16."""
    scalars = torch.ones((), device="cuda"), torch.zeros((), device="cuda")
    taken = {}
    for name in ("plain", "own"):
        model = nn.Sequential(*(nn.Linear(512, 2048, device="cuda") for _ in range(44)))
        doubles, optimiser = Doubles(model), AdamW().build(dict(model.named_parameters()), 1e-3)
        if name == "own":
            optimiser.join(doubles)
        gradients = {copy: torch.ones_like(copy) for copy in doubles.copies.values()}

        def step(doubles: Doubles = doubles, optimiser: Any = optimiser, gradients: Any = gradients) -> None:
            with doubles.at_work():
                for copy, gradient in gradients.items():
                    copy.grad = gradient
            optimiser.step(*scalars)
            optimiser.drop_gradients()

        taken[name] = microseconds(step)
    yield {"case": "AdamW, 46 million weights", **taken}


def products() -> Iterator[dict[str, Any]]:
    """The products of a Transformer's block, each with what stands around it; and that of a head."""
    for rows, inputs, outputs, around in (
        (1, 512, 512, ""), (1, 512, 1536, "norm"), (1, 512, 512, "rest"), (1, 512, 2048, "norm, relu"),
        (1, 2048, 512, "rest"), (4, 512, 1536, "norm"), (4, 2048, 512, "rest"), (1, 512, 32_000, "norm"),
    ):  # fmt: skip
        curve = "relu" if "relu" in around else "none"
        copies = max(2, (100 << 20) // (2 * inputs * outputs))  # more than a GPU keeps at hand
        layers = [
            Layer(torch.randn(outputs, inputs, **BF16) / inputs**0.5, torch.randn(outputs, **BF16), curve)
            for _ in range(copies)
        ]
        norm = Norm(torch.randn(inputs, **BF16), torch.randn(inputs, **BF16), 1e-5) if "norm" in around else None
        rest = torch.randn(rows, outputs, **BF16) if "rest" in around else None
        given = (torch.randn(rows, inputs, **BF16), layers, norm, rest)

        def each(way: Callable[..., Any], given: Any = given) -> None:
            vectors, layers, norm, rest = given
            for layer in layers:
                way(vectors, layer, norm, rest)

        case = f"product, {rows} of {inputs:,} by {outputs:,}" + (f", {around}" if around else "")
        plain, own = (microseconds(lambda way=way: each(way)) / copies for way in (plain_product, product))
        yield {"case": case, "plain": plain, "own": own}


def queries() -> Iterator[dict[str, Any]]:
    """One query a row, eight heads: at its past, which the new key joins, and at a source."""
    for rows, room, said in ((1, 32, 16), (1, 128, 100), (4, 32, 16), (1, 1024, 1000)):
        new, cache = torch.randn(rows, 1536, **BF16), KeyValueCache(torch.randn(rows, 2, 8, room, 64, **BF16))
        filled = torch.full((rows,), said, device="cuda")
        at_past = for_kernel(so_far(filled[:, None], room), new)

        def plain(
            new: Tensor = new, cache: KeyValueCache = cache, filled: Tensor = filled, added: Any = at_past.added
        ) -> None:
            heads = split_heads(new[:, None], 24)
            cache.write(heads[:, 8:].unflatten(1, (2, 8)), filled[:, None])
            join_heads(functional.scaled_dot_product_attention(heads[:, :8], cache.keys, cache.values, attn_mask=added))

        own = microseconds(lambda new=new, cache=cache, filled=filled: look_back(new, cache.keys_values, filled))
        yield {"case": f"one query back, {rows} rows, {said} of {room} keys", "plain": microseconds(plain), "own": own}
    for rows, times in ((1, 32), (4, 32), (1, 128)):
        asked = torch.randn(rows, 512, **BF16)
        keys, values = (torch.randn(rows, 8, times, 64, **BF16) for _ in range(2))
        allowed = torch.ones(rows, 1, 1, times, dtype=torch.bool, device="cuda")
        added = torch.zeros_like(allowed, dtype=torch.bfloat16)

        def torchs(asked: Tensor = asked, keys: Tensor = keys, values: Tensor = values, added: Tensor = added) -> None:
            heads = split_heads(asked[:, None], 8)
            join_heads(functional.scaled_dot_product_attention(heads, keys, values, attn_mask=added))

        own = microseconds(lambda given=(asked, keys, values, allowed): look_across(*given))
        yield {"case": f"one query across, {rows} rows, {times} keys", "plain": microseconds(torchs), "own": own}


def lookups() -> Iterator[dict[str, Any]]:
    """A token's vector, and sines and cosines of its time."""
    table, positions = nn.Embedding(32_000, 512, **BF16), SinusoidalPositions(512).to("cuda")
    frontend = TokenFrontend(table, positions, 0.1).eval()
    lookup = Lookup(table.weight, frontend.scale, "sines", positions.frequencies)
    tokens, times = torch.full((1, 1), 5, device="cuda"), torch.full((1,), 7, device="cuda")
    with torch.no_grad():
        plain = microseconds(lambda: frontend.at(tokens, times[:, None]))
        yield {"case": "a token's vector", "plain": plain, "own": microseconds(lambda: look_up(lookup, tokens, times))}


def greedy_search(rows: int) -> Walks:
    """One that has said nothing yet; its time is a tensor, as in a recorded round."""
    nothing = torch.zeros(rows, dtype=torch.long, device="cuda")
    empty = replace(History.empty(nothing, 1024), time=torch.zeros(1, dtype=torch.long, device="cuda"))
    search = Greedy().begin(History.empty(nothing, 1024), nothing + 1024, list(range(rows)))
    assert isinstance(search, Walks)
    search.standing = (empty, search.done)
    return search


def turns() -> Iterator[dict[str, Any]]:
    """From logits to the most probable token, written down."""
    for rows in (1, 64):
        logits = torch.randn(rows, 32_000, **BF16)

        def plain(search: Walks, logits: Tensor) -> None:
            search.take_turn(sayable(log_probabilities(logits)))

        taken = {}
        for name, way in (("plain", plain), ("own", take_turn)):
            search = greedy_search(rows)
            taken[name] = microseconds(partial(way, search, logits))
        yield {"case": f"greedy turn, {rows} rows of 32,000", **taken}


if __name__ == "__main__":
    rows = []
    parts = (attention, losses, residuals, curves, joins, optimisers, products, queries, lookups, turns)
    for row in chain.from_iterable(part() for part in parts):
        rows.append({name: round(value, 1) if name != "case" else value for name, value in row.items()})
        rows[-1]["ratio"] = round(row["plain"] / row["own"], 2)
        print(rows[-1], flush=True)
    write_json(
        RESULTS, {"environment": describe_machine(), "command": "python benchmarks/kernels_gpu.py", "rows": rows}
    )
