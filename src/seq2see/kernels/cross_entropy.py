"""`judge` as one kernel for a GPU: a token's scores are read twice and overwritten by their gradient once.

One program takes one token. On its first walk over the vocabulary it keeps a running maximum and a running sum of
exponentials (Milakov & Gimelshein 2018), on the second it knows every probability. The plain twin is `judge` in
training/cross_entropy.py; a test on a GPU compares them. `triton` comes with torch's builds for a GPU.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096
"""Scores that a program looks at side by side."""


@triton.jit
def _scores(row, bias, at, vocab, BIASED: tl.constexpr):
    scores = tl.load(row + at, mask=at < vocab, other=float("-inf")).to(tl.float32)
    if BIASED:
        scores += tl.load(bias + at, mask=at < vocab, other=0.0).to(tl.float32)
    return scores


@triton.jit
def _slope(scores, peak, total, at, label, smoothing, vocab):
    """p - answer, and p."""
    p = tl.exp(scores - peak) / total
    return p - tl.where(at == label, 1 - smoothing, 0.0) - smoothing / vocab, p


@triton.jit
def _take_in(scores, lead, peak, total, led):
    """The running maximum, sum of exponentials, and sum of exponentials times `lead`, after some more scores."""
    higher = tl.maximum(peak, tl.max(scores, 0))
    shrink, raised = tl.exp(peak - higher), tl.exp(scores - higher)
    return higher, total * shrink + tl.sum(raised, 0), led * shrink + tl.sum(raised * lead, 0)


@triton.jit
def _judge_one(rows, bias, labels, losses, vocab, smoothing, BIASED: tl.constexpr, BLOCK: tl.constexpr):
    """Cross-entropy of one token."""
    token = tl.program_id(0).to(tl.int64)
    row, label = rows + token * vocab, tl.load(labels + token)
    asked = label >= 0
    peak, total, whole, truth = float("-inf"), 0.0, 0.0, 0.0
    if asked:
        for start in range(0, vocab, BLOCK):
            at = start + tl.arange(0, BLOCK)
            scores = _scores(row, bias, at, vocab, BIASED)
            peak, total, _ = _take_in(scores, 0.0, peak, total, 0.0)
            whole += tl.sum(tl.where(at < vocab, scores, 0.0), 0)
            truth += tl.sum(tl.where(at == label, scores, 0.0), 0)
    answer = (1 - smoothing) * truth + smoothing * whole / vocab
    tl.store(losses + token, tl.where(asked, peak + tl.log(total) - answer, 0.0))
    for start in range(0, vocab, BLOCK):
        at = start + tl.arange(0, BLOCK)
        slope = tl.zeros((BLOCK,), tl.float32)
        if asked:
            slope, _ = _slope(_scores(row, bias, at, vocab, BIASED), peak, total, at, label, smoothing, vocab)
        tl.store(row + at, slope.to(rows.dtype.element_ty), mask=at < vocab)


@triton.jit
def _judge_two(
    rows, others, bias, labels, losses, vocab, smoothing, agreement, BIASED: tl.constexpr, BLOCK: tl.constexpr
):
    """The mean cross-entropy of a token's two copies, p and q, and how far apart they are."""
    token = tl.program_id(0).to(tl.int64)
    row, other, label = rows + token * vocab, others + token * vocab, tl.load(labels + token)
    asked = label >= 0
    peak_p, total_p, led_p, peak_q, total_q, led_q = float("-inf"), 0.0, 0.0, float("-inf"), 0.0, 0.0
    whole, truth = 0.0, 0.0
    if asked:
        for start in range(0, vocab, BLOCK):
            at = start + tl.arange(0, BLOCK)
            p, q = _scores(row, bias, at, vocab, BIASED), _scores(other, bias, at, vocab, BIASED)
            ahead = tl.where(at < vocab, p - q, 0.0)
            peak_p, total_p, led_p = _take_in(p, ahead, peak_p, total_p, led_p)
            peak_q, total_q, led_q = _take_in(q, ahead, peak_q, total_q, led_q)
            whole += tl.sum(tl.where(at < vocab, p + q, 0.0), 0)
            truth += tl.sum(tl.where(at == label, p + q, 0.0), 0)
        led_p, led_q = led_p / total_p, led_q / total_q  # how far p is ahead of q on average, under p and under q
    answers = (1 - smoothing) * truth + smoothing * whole / vocab
    loss = (peak_p + tl.log(total_p) + peak_q + tl.log(total_q) - answers + agreement * (led_p - led_q)) / 2
    tl.store(losses + token, tl.where(asked, loss, 0.0))
    for start in range(0, vocab, BLOCK):
        at = start + tl.arange(0, BLOCK)
        by_p, by_q = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
        if asked:
            p, q = _scores(row, bias, at, vocab, BIASED), _scores(other, bias, at, vocab, BIASED)
            ahead = tl.where(at < vocab, p - q, 0.0)
            by_p, p = _slope(p, peak_p, total_p, at, label, smoothing, vocab)
            by_q, q = _slope(q, peak_q, total_q, at, label, smoothing, vocab)
            by_p += agreement * (p * (ahead - led_p) + p - q)
            by_q += agreement * (q * (led_q - ahead) + q - p)
        tl.store(row + at, (by_p / 2).to(rows.dtype.element_ty), mask=at < vocab)
        tl.store(other + at, (by_q / 2).to(rows.dtype.element_ty), mask=at < vocab)


def judge_quickly(
    products: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float, agreement: float
) -> tuple[Tensor, Tensor]:
    """Like `slopes` in training/cross_entropy.py; the gradient is written over the products."""
    copies, tokens, vocab = products.shape
    losses = torch.empty(tokens, dtype=torch.float32, device=products.device)
    shape = {"BIASED": bias is not None, "BLOCK": min(BLOCK, triton.next_power_of_2(vocab)), "num_warps": 8}
    biases = products if bias is None else bias
    if copies == 1:
        _judge_one[(tokens,)](products, biases, labels, losses, vocab, smoothing, **shape)
    else:
        _judge_two[(tokens,)](
            products[0], products[1], biases, labels, losses, vocab, smoothing, agreement, **shape
        )  # fmt: skip
    return losses.sum(), products
