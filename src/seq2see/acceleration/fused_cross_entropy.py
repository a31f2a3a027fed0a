"""Cross-entropy and its gradient as one GPU kernel: the logits are read twice and overwritten by their gradient.

Each program processes one token. In the first pass over the vocabulary, each of its lanes computes a running maximum
and a running sum of exponentials of its logits (Milakov & Gimelshein 2018); at the end these are rescaled to a common
maximum and added. In the second pass, the probabilities and the gradient are computed. The definition is
`cross_entropy_in_place` in training/chunked_cross_entropy.py; a test compares them. The CUDA builds of torch include
`triton`.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096
"""The number of logits that a program loads at once."""
WARPS = 16
"""The number of warps of a program."""
LOWEST = tl.constexpr(-1e30)
"""A number below every logit; not -inf, because -inf - -inf is NaN."""


@triton.jit
def _load_logits(row, bias, index, vocab, HAS_BIAS: tl.constexpr):
    logits = tl.load(row + index, mask=index < vocab, other=float("-inf")).to(tl.float32)
    if HAS_BIAS:
        logits += tl.load(bias + index, mask=index < vocab, other=0.0).to(tl.float32)
    return logits


@triton.jit
def _grad(logits, log_sum_exp, index, label, label_smoothing, vocab):
    """p minus the target distribution, and p = exp(logit - log_sum_exp)."""
    p = tl.exp(logits - log_sum_exp)
    return p - tl.where(index == label, 1 - label_smoothing, 0.0) - label_smoothing / vocab, p


@triton.jit
def _online_softmax(logits, difference, maxima, totals, weighted):
    """Update each lane's maximum, sum of exponentials, and sum of exponentials times `difference` by one logit."""
    new_maxima = tl.maximum(maxima, logits)
    rescale, exponentials = tl.exp(maxima - new_maxima), tl.exp(logits - new_maxima)
    return new_maxima, totals * rescale + exponentials, weighted * rescale + exponentials * difference


@triton.jit
def _merge_lanes(maxima, totals, weighted):
    """Over all lanes: log Σ exp(logit), and the mean of `difference` under p."""
    maximum = tl.max(maxima, 0)
    rescale = tl.exp(maxima - maximum)
    total = tl.sum(totals * rescale, 0)
    return maximum + tl.log(total), tl.sum(weighted * rescale, 0) / total


@triton.jit
def _cross_entropy(rows, bias, labels, losses, vocab, label_smoothing, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr):
    """The cross-entropy of one token."""
    token = tl.program_id(0).to(tl.int64)
    row, label = rows + token * vocab, tl.load(labels + token)
    has_label, log_sum_exp, label_logit = label >= 0, 0.0, 0.0
    zeros = tl.zeros((BLOCK,), tl.float32)
    maxima, totals, logit_sums = zeros + LOWEST, zeros, zeros
    if has_label:
        for start in range(0, vocab, BLOCK):
            index = start + tl.arange(0, BLOCK)
            logits = _load_logits(row, bias, index, vocab, HAS_BIAS)
            maxima, totals, _ = _online_softmax(logits, 0.0, maxima, totals, zeros)
            logit_sums += tl.where(index < vocab, logits, 0.0)
        log_sum_exp, _ = _merge_lanes(maxima, totals, zeros)
        label_logit = tl.sum(_load_logits(row, bias, label + tl.arange(0, 1), vocab, HAS_BIAS), 0)
    target_logit = (1 - label_smoothing) * label_logit + label_smoothing * tl.sum(logit_sums, 0) / vocab
    tl.store(losses + token, tl.where(has_label, log_sum_exp - target_logit, 0.0))
    tl.debug_barrier()  # all threads must have read the logits before any of them writes
    for start in range(0, vocab, BLOCK):
        index = start + tl.arange(0, BLOCK)
        grad = zeros
        if has_label:
            logits = _load_logits(row, bias, index, vocab, HAS_BIAS)
            grad, _ = _grad(logits, log_sum_exp, index, label, label_smoothing, vocab)
        tl.store(row + index, grad.to(rows.dtype.element_ty), mask=index < vocab)


@triton.jit
def _cross_entropy_r_drop(
    rows, second_rows, bias, labels, losses, vocab, label_smoothing, r_drop,
    HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """R-Drop: the mean cross-entropy of the two copies of a token, p and q, plus their symmetric KL divergence."""
    token = tl.program_id(0).to(tl.int64)
    row, second_row, label = rows + token * vocab, second_rows + token * vocab, tl.load(labels + token)
    has_label, log_sum_p, mean_p, log_sum_q, mean_q, label_logit = label >= 0, 0.0, 0.0, 0.0, 0.0, 0.0
    zeros = tl.zeros((BLOCK,), tl.float32)
    maxima_p, totals_p, weighted_p = zeros + LOWEST, zeros, zeros
    maxima_q, totals_q, weighted_q = zeros + LOWEST, zeros, zeros
    logit_sums = zeros
    if has_label:
        for start in range(0, vocab, BLOCK):
            index = start + tl.arange(0, BLOCK)
            p = _load_logits(row, bias, index, vocab, HAS_BIAS)
            q = _load_logits(second_row, bias, index, vocab, HAS_BIAS)
            difference = tl.where(index < vocab, p - q, 0.0)
            maxima_p, totals_p, weighted_p = _online_softmax(p, difference, maxima_p, totals_p, weighted_p)
            maxima_q, totals_q, weighted_q = _online_softmax(q, difference, maxima_q, totals_q, weighted_q)
            logit_sums += tl.where(index < vocab, p + q, 0.0)
        log_sum_p, mean_p = _merge_lanes(maxima_p, totals_p, weighted_p)  # the mean of logit p - logit q under p
        log_sum_q, mean_q = _merge_lanes(maxima_q, totals_q, weighted_q)  # and under q
        label_index = label + tl.arange(0, 1)
        label_p = _load_logits(row, bias, label_index, vocab, HAS_BIAS)
        label_logit = tl.sum(label_p + _load_logits(second_row, bias, label_index, vocab, HAS_BIAS), 0)
    target_logits = (1 - label_smoothing) * label_logit + label_smoothing * tl.sum(logit_sums, 0) / vocab
    loss = (log_sum_p + log_sum_q - target_logits + r_drop * (mean_p - mean_q)) / 2
    tl.store(losses + token, tl.where(has_label, loss, 0.0))
    tl.debug_barrier()  # all threads must have read the logits before any of them writes
    for start in range(0, vocab, BLOCK):
        index = start + tl.arange(0, BLOCK)
        grad_p, grad_q = zeros, zeros
        if has_label:
            p = _load_logits(row, bias, index, vocab, HAS_BIAS)
            q = _load_logits(second_row, bias, index, vocab, HAS_BIAS)
            difference = tl.where(index < vocab, p - q, 0.0)
            grad_p, p = _grad(p, log_sum_p, index, label, label_smoothing, vocab)
            grad_q, q = _grad(q, log_sum_q, index, label, label_smoothing, vocab)
            grad_p += r_drop * (p * (difference - mean_p) + p - q)
            grad_q += r_drop * (q * (mean_q - difference) + q - p)
        tl.store(row + index, (grad_p / 2).to(rows.dtype.element_ty), mask=index < vocab)
        tl.store(second_row + index, (grad_q / 2).to(rows.dtype.element_ty), mask=index < vocab)


def fused_cross_entropy(
    logits: Tensor, bias: Tensor | None, labels: Tensor, label_smoothing: float, r_drop: float
) -> tuple[Tensor, Tensor]:
    """The loss and the gradient of the logits, as `cross_entropy_with_gradient` of training/chunked_cross_entropy.py.

    The gradient overwrites the logits.
    """
    copies, tokens, vocab = logits.shape
    losses = torch.empty(tokens, dtype=torch.float32, device=logits.device)
    shape = {"HAS_BIAS": bias is not None, "BLOCK": min(BLOCK, triton.next_power_of_2(vocab)), "num_warps": WARPS}
    biases = logits if bias is None else bias  # without a bias, any valid address
    if copies == 1:
        _cross_entropy[(tokens,)](logits, biases, labels, losses, vocab, label_smoothing, **shape)
    else:
        _cross_entropy_r_drop[(tokens,)](
            logits[0], logits[1], biases, labels, losses, vocab, label_smoothing, r_drop, **shape
        )  # fmt: skip
    return losses.sum(), logits
