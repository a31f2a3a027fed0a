"""`judge` as one kernel for a GPU: a token's scores are read twice and overwritten by their gradient once.

One program takes one token. On its first walk over the vocabulary each of its lanes keeps a running maximum and a
running sum of exponentials (Milakov & Gimelshein 2018) of the scores that it has seen; in the end these are brought to
one maximum and added. On the second walk every probability is known. The plain twin is `judge` in
training/chunked_cross_entropy.py; a test on a GPU compares them. `triton` comes with torch's builds for a GPU.
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
def _scores(row, bias, at, vocab, HAS_BIAS: tl.constexpr):
    scores = tl.load(row + at, mask=at < vocab, other=float("-inf")).to(tl.float32)
    if HAS_BIAS:
        scores += tl.load(bias + at, mask=at < vocab, other=0.0).to(tl.float32)
    return scores


@triton.jit
def _grad(scores, log_sum_exp, at, label, label_smoothing, vocab):
    """p - answer, and p = exp(score - normalizer)."""
    p = tl.exp(scores - log_sum_exp)
    return p - tl.where(at == label, 1 - label_smoothing, 0.0) - label_smoothing / vocab, p


@triton.jit
def _online_softmax(scores, difference, peaks, totals, leads):
    """Each lane's running maximum, sum of exponentials, and sum of exponentials times `difference`, after one more score."""
    higher = tl.maximum(peaks, scores)
    shrink, raised = tl.exp(peaks - higher), tl.exp(scores - higher)
    return higher, totals * shrink + raised, leads * shrink + raised * difference


@triton.jit
def _merge_lanes(peaks, totals, leads):
    """What all lanes have found: log Σ exp(score), and the mean of `difference` under p."""
    peak = tl.max(peaks, 0)
    shrink = tl.exp(peaks - peak)
    total = tl.sum(totals * shrink, 0)
    return peak + tl.log(total), tl.sum(leads * shrink, 0) / total


@triton.jit
def _cross_entropy(rows, bias, labels, losses, vocab, label_smoothing, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr):
    """Cross-entropy of one token."""
    token = tl.program_id(0).to(tl.int64)
    row, label = rows + token * vocab, tl.load(labels + token)
    has_label, log_sum_exp, label_score = label >= 0, 0.0, 0.0
    zeros = tl.zeros((BLOCK,), tl.float32)
    peaks, totals, whole = zeros + LOWEST, zeros, zeros
    if has_label:
        for start in range(0, vocab, BLOCK):
            at = start + tl.arange(0, BLOCK)
            scores = _scores(row, bias, at, vocab, HAS_BIAS)
            peaks, totals, _ = _online_softmax(scores, 0.0, peaks, totals, zeros)
            whole += tl.where(at < vocab, scores, 0.0)
        log_sum_exp, _ = _merge_lanes(peaks, totals, zeros)
        label_score = tl.sum(_scores(row, bias, label + tl.arange(0, 1), vocab, HAS_BIAS), 0)
    answer = (1 - label_smoothing) * label_score + label_smoothing * tl.sum(whole, 0) / vocab
    tl.store(losses + token, tl.where(has_label, log_sum_exp - answer, 0.0))
    tl.debug_barrier()  # nobody may write before all have read
    for start in range(0, vocab, BLOCK):
        at = start + tl.arange(0, BLOCK)
        grad = zeros
        if has_label:
            grad, _ = _grad(_scores(row, bias, at, vocab, HAS_BIAS), log_sum_exp, at, label, label_smoothing, vocab)
        tl.store(row + at, grad.to(rows.dtype.element_ty), mask=at < vocab)


@triton.jit
def _cross_entropy_r_drop(
    rows, others, bias, labels, losses, vocab, label_smoothing, r_drop, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr
):
    """The mean cross-entropy of a token's two copies, p and q, and how far apart they are."""
    token = tl.program_id(0).to(tl.int64)
    row, other, label = rows + token * vocab, others + token * vocab, tl.load(labels + token)
    has_label, of_p, led_p, of_q, led_q, label_score = label >= 0, 0.0, 0.0, 0.0, 0.0, 0.0
    zeros = tl.zeros((BLOCK,), tl.float32)
    peaks_p, totals_p, leads_p, peaks_q, totals_q, leads_q = zeros + LOWEST, zeros, zeros, zeros + LOWEST, zeros, zeros
    whole = zeros
    if has_label:
        for start in range(0, vocab, BLOCK):
            at = start + tl.arange(0, BLOCK)
            p, q = _scores(row, bias, at, vocab, HAS_BIAS), _scores(other, bias, at, vocab, HAS_BIAS)
            difference = tl.where(at < vocab, p - q, 0.0)
            peaks_p, totals_p, leads_p = _online_softmax(p, difference, peaks_p, totals_p, leads_p)
            peaks_q, totals_q, leads_q = _online_softmax(q, difference, peaks_q, totals_q, leads_q)
            whole += tl.where(at < vocab, p + q, 0.0)
        of_p, led_p = _merge_lanes(peaks_p, totals_p, leads_p)  # how far p is ahead of q on average, under p
        of_q, led_q = _merge_lanes(peaks_q, totals_q, leads_q)  # and under q
        here = label + tl.arange(0, 1)
        label_score = tl.sum(_scores(row, bias, here, vocab, HAS_BIAS) + _scores(other, bias, here, vocab, HAS_BIAS), 0)
    answers = (1 - label_smoothing) * label_score + label_smoothing * tl.sum(whole, 0) / vocab
    loss = (of_p + of_q - answers + r_drop * (led_p - led_q)) / 2
    tl.store(losses + token, tl.where(has_label, loss, 0.0))
    tl.debug_barrier()  # nobody may write before all have read
    for start in range(0, vocab, BLOCK):
        at = start + tl.arange(0, BLOCK)
        by_p, by_q = zeros, zeros
        if has_label:
            p, q = _scores(row, bias, at, vocab, HAS_BIAS), _scores(other, bias, at, vocab, HAS_BIAS)
            difference = tl.where(at < vocab, p - q, 0.0)
            by_p, p = _grad(p, of_p, at, label, label_smoothing, vocab)
            by_q, q = _grad(q, of_q, at, label, label_smoothing, vocab)
            by_p += r_drop * (p * (difference - led_p) + p - q)
            by_q += r_drop * (q * (led_q - difference) + q - p)
        tl.store(row + at, (by_p / 2).to(rows.dtype.element_ty), mask=at < vocab)
        tl.store(other + at, (by_q / 2).to(rows.dtype.element_ty), mask=at < vocab)


def fused_cross_entropy(
    logits: Tensor, bias: Tensor | None, labels: Tensor, label_smoothing: float, r_drop: float
) -> tuple[Tensor, Tensor]:
    """Like `slopes` in training/chunked_cross_entropy.py; the gradient is written over the products."""
    copies, tokens, vocab = logits.shape
    losses = torch.empty(tokens, dtype=torch.float32, device=logits.device)
    shape = {"BIASED": bias is not None, "BLOCK": min(BLOCK, triton.next_power_of_2(vocab)), "num_warps": WARPS}
    biases = logits if bias is None else bias
    if copies == 1:
        _cross_entropy[(tokens,)](logits, biases, labels, losses, vocab, label_smoothing, **shape)
    else:
        _cross_entropy_r_drop[(tokens,)](
            logits[0], logits[1], biases, labels, losses, vocab, label_smoothing, r_drop, **shape
        )  # fmt: skip
    return losses.sum(), logits
