"""`judge` as one kernel for a GPU: a token's scores are read twice and overwritten by their gradient once.

One program takes one token. On its first walk over the vocabulary each of its lanes keeps a running maximum and a
running sum of exponentials (Milakov & Gimelshein 2018) of the scores that it has seen; in the end these are brought to
one maximum and added. On the second walk every probability is known. The plain twin is `judge` in
training/cross_entropy.py; a test on a GPU compares them. `triton` comes with torch's builds for a GPU.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096
"""Scores that a program looks at side by side."""
WARPS = 16
"""Threads that do so, in groups of 32."""
LOWEST = tl.constexpr(-1e30)
"""Below every score, and not -inf: that less itself is no number."""


@triton.jit
def _scores(row, bias, at, vocab, BIASED: tl.constexpr):
    scores = tl.load(row + at, mask=at < vocab, other=float("-inf")).to(tl.float32)
    if BIASED:
        scores += tl.load(bias + at, mask=at < vocab, other=0.0).to(tl.float32)
    return scores


@triton.jit
def _slope(scores, normaliser, at, label, smoothing, vocab):
    """p - answer, and p = exp(score - normaliser)."""
    p = tl.exp(scores - normaliser)
    return p - tl.where(at == label, 1 - smoothing, 0.0) - smoothing / vocab, p


@triton.jit
def _take_in(scores, lead, peaks, totals, leads):
    """Each lane's running maximum, sum of exponentials, and sum of exponentials times `lead`, after one more score."""
    higher = tl.maximum(peaks, scores)
    shrink, raised = tl.exp(peaks - higher), tl.exp(scores - higher)
    return higher, totals * shrink + raised, leads * shrink + raised * lead


@triton.jit
def _join(peaks, totals, leads):
    """What all lanes have found: log Σ exp(score), and the mean of `lead` under p."""
    peak = tl.max(peaks, 0)
    shrink = tl.exp(peaks - peak)
    total = tl.sum(totals * shrink, 0)
    return peak + tl.log(total), tl.sum(leads * shrink, 0) / total


@triton.jit
def _judge_one(rows, bias, labels, losses, vocab, smoothing, BIASED: tl.constexpr, BLOCK: tl.constexpr):
    """Cross-entropy of one token."""
    token = tl.program_id(0).to(tl.int64)
    row, label = rows + token * vocab, tl.load(labels + token)
    asked, normaliser, truth = label >= 0, 0.0, 0.0
    zeros = tl.zeros((BLOCK,), tl.float32)
    peaks, totals, whole = zeros + LOWEST, zeros, zeros
    if asked:
        for start in range(0, vocab, BLOCK):
            at = start + tl.arange(0, BLOCK)
            scores = _scores(row, bias, at, vocab, BIASED)
            peaks, totals, _ = _take_in(scores, 0.0, peaks, totals, zeros)
            whole += tl.where(at < vocab, scores, 0.0)
        normaliser, _ = _join(peaks, totals, zeros)
        truth = tl.sum(_scores(row, bias, label + tl.arange(0, 1), vocab, BIASED), 0)
    answer = (1 - smoothing) * truth + smoothing * tl.sum(whole, 0) / vocab
    tl.store(losses + token, tl.where(asked, normaliser - answer, 0.0))
    tl.debug_barrier()  # nobody may write before all have read
    for start in range(0, vocab, BLOCK):
        at = start + tl.arange(0, BLOCK)
        slope = zeros
        if asked:
            slope, _ = _slope(_scores(row, bias, at, vocab, BIASED), normaliser, at, label, smoothing, vocab)
        tl.store(row + at, slope.to(rows.dtype.element_ty), mask=at < vocab)


@triton.jit
def _judge_two(
    rows, others, bias, labels, losses, vocab, smoothing, agreement, BIASED: tl.constexpr, BLOCK: tl.constexpr
):
    """The mean cross-entropy of a token's two copies, p and q, and how far apart they are."""
    token = tl.program_id(0).to(tl.int64)
    row, other, label = rows + token * vocab, others + token * vocab, tl.load(labels + token)
    asked, of_p, led_p, of_q, led_q, truth = label >= 0, 0.0, 0.0, 0.0, 0.0, 0.0
    zeros = tl.zeros((BLOCK,), tl.float32)
    peaks_p, totals_p, leads_p, peaks_q, totals_q, leads_q = zeros + LOWEST, zeros, zeros, zeros + LOWEST, zeros, zeros
    whole = zeros
    if asked:
        for start in range(0, vocab, BLOCK):
            at = start + tl.arange(0, BLOCK)
            p, q = _scores(row, bias, at, vocab, BIASED), _scores(other, bias, at, vocab, BIASED)
            ahead = tl.where(at < vocab, p - q, 0.0)
            peaks_p, totals_p, leads_p = _take_in(p, ahead, peaks_p, totals_p, leads_p)
            peaks_q, totals_q, leads_q = _take_in(q, ahead, peaks_q, totals_q, leads_q)
            whole += tl.where(at < vocab, p + q, 0.0)
        of_p, led_p = _join(peaks_p, totals_p, leads_p)  # how far p is ahead of q on average, under p
        of_q, led_q = _join(peaks_q, totals_q, leads_q)  # and under q
        here = label + tl.arange(0, 1)
        truth = tl.sum(_scores(row, bias, here, vocab, BIASED) + _scores(other, bias, here, vocab, BIASED), 0)
    answers = (1 - smoothing) * truth + smoothing * tl.sum(whole, 0) / vocab
    loss = (of_p + of_q - answers + agreement * (led_p - led_q)) / 2
    tl.store(losses + token, tl.where(asked, loss, 0.0))
    tl.debug_barrier()  # nobody may write before all have read
    for start in range(0, vocab, BLOCK):
        at = start + tl.arange(0, BLOCK)
        by_p, by_q = zeros, zeros
        if asked:
            p, q = _scores(row, bias, at, vocab, BIASED), _scores(other, bias, at, vocab, BIASED)
            ahead = tl.where(at < vocab, p - q, 0.0)
            by_p, p = _slope(p, of_p, at, label, smoothing, vocab)
            by_q, q = _slope(q, of_q, at, label, smoothing, vocab)
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
    shape = {"BIASED": bias is not None, "BLOCK": min(BLOCK, triton.next_power_of_2(vocab)), "num_warps": WARPS}
    biases = products if bias is None else bias
    if copies == 1:
        _judge_one[(tokens,)](products, biases, labels, losses, vocab, smoothing, **shape)
    else:
        _judge_two[(tokens,)](
            products[0], products[1], biases, labels, losses, vocab, smoothing, agreement, **shape
        )  # fmt: skip
    return losses.sum(), products
