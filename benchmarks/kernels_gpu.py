"""Kernels of our own beside what they replace: attention over short texts, and the loss over a vocabulary.

python benchmarks/kernels_gpu.py        writes results/kernels_gpu.json; needs a GPU

Attention is forward and backward together, in bf16, beside torch's fused kernel. The loss is what happens between the
scores and their gradient, beside the same lines compiled by torch. Each is recorded ten times in a CUDA graph, so
that only the GPU's own time counts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from seq2see.core.devices import aside, describe_machine
from seq2see.core.files import write_json
from seq2see.kernels.cross_entropy import judge_quickly
from seq2see.kernels.short_attention import short_attention
from seq2see.training.cross_entropy import judge

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


if __name__ == "__main__":
    rows = []
    for row in (*attention(), *losses()):
        rows.append({name: round(value, 1) if name != "case" else value for name, value in row.items()})
        rows[-1]["ratio"] = round(row["plain"] / row["own"], 2)
        print(rows[-1], flush=True)
    write_json(
        RESULTS, {"environment": describe_machine(), "command": "python benchmarks/kernels_gpu.py", "rows": rows}
    )
