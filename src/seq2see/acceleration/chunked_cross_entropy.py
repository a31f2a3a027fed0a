"""Cross-entropy over a large vocabulary, computed chunk by chunk.

4,000 tokens with a vocabulary of 32,000 have 128 million logits: half a gigabyte in float32, and as much again for
their log-probabilities and for their gradient. But the gradient of cross-entropy with respect to the logits, softmax
minus target distribution, is available as soon as the logits are. So loss and gradients are computed together, chunk by
chunk, and all chunks share one buffer for their logits.

The definition is `CrossEntropy` of training/objectives.py, on all logits at once. A test compares losses and all
gradients (tests/acceleration/test_chunked_cross_entropy.py). On a GPU a custom kernel replaces `cross_entropy_in_place`
(`fused_cross_entropy.py`).
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from seq2see.acceleration.async_weight_grad import AsyncWeightGrads, cast_weight, grad_sink_of
from seq2see.core.batch import IGNORE_INDEX
from seq2see.training.objectives import CrossEntropy, Labels, LabelWeights

CHUNK_SIZE = {"cpu": 512, "cuda": 16_384}
"""Tokens per chunk: few enough for the cache of a CPU, enough to use a GPU fully."""

MAX_VOCAB_WITHOUT_KERNEL = 1024
"""Up to this vocabulary size no kernel is compiled: compilation would take longer than the kernel saves."""

HiddenStates = Float[Tensor, "copy token width"]


class ChunkedCrossEntropy(CrossEntropy):
    """`CrossEntropy`, chunk by chunk.

    `kernels` allows our own kernel; `async_grads` computes the gradient of the head's weight asynchronously.
    """

    def __init__(self, kernels: bool = False, async_grads: AsyncWeightGrads | None = None):
        self.kernels, self.async_grads = kernels, async_grads
        self.unit_gradient: Tensor | None = None

    def __call__(
        self,
        hidden: Float[Tensor, "copy token width"],
        head: Any,
        labels: Labels,
        label_smoothing: float = 0.0,
        r_drop: float = 0.0,
        label_weights: LabelWeights | None = None,
    ) -> Float[Tensor, ""]:
        """The summed loss."""
        if hidden.device.type == "cpu" and label_weights is None:
            hidden, labels = select_labeled(hidden, labels)
        weight, bias = head.weight_and_bias()
        return self.loss(hidden, weight, bias, labels, label_smoothing, r_drop, label_weights)

    def loss(
        self,
        hidden: HiddenStates,
        weight: Float[Tensor, "vocab width"],
        bias: Float[Tensor, "vocab"] | None,
        labels: Labels,
        label_smoothing: float = 0.0,
        r_drop: float = 0.0,
        label_weights: LabelWeights | None = None,
    ) -> Float[Tensor, ""]:
        """The summed loss of logits = hidden weightᵀ + bias."""
        options = (label_smoothing, r_drop, torch.is_grad_enabled(), self)
        loss: Tensor = _ChunkedCrossEntropy.apply(hidden, weight, bias, labels, label_weights, options)
        return loss

    def run_backward(self, loss: Float[Tensor, ""]) -> None:
        """`loss.backward()` with a known initial gradient of 1: the backward pass skips the multiplication by it.

        It identifies the tensor itself, which arrives there if the loss is the last operation, or is summed. After any
        other operation the gradient is another tensor, and the backward pass multiplies.
        """
        self.unit_gradient = torch.ones_like(loss)
        try:
            loss.backward(self.unit_gradient)
        finally:
            self.unit_gradient = None


def select_labeled(vectors: HiddenStates, labels: Labels) -> tuple[HiddenStates, Labels]:
    """Only the tokens that have a label: less to compute.

    This is for a CPU only: on a GPU the shapes would depend on the number of labels, which takes a GPU sync to read.
    """
    indices = (labels != IGNORE_INDEX).nonzero().squeeze(1)
    return vectors.index_select(1, indices), labels[indices]


def has_kernel(linear_output: Float[Tensor, "copy token vocab"]) -> bool:
    """Whether the fused kernel supports these logits, and is worth its compilation."""
    return linear_output.size(-1) > MAX_VOCAB_WITHOUT_KERNEL and linear_output.dtype != torch.float64


def cross_entropy_with_gradient(
    linear_output: Float[Tensor, "copy token vocab"],
    bias: Float[Tensor, "vocab"] | None,
    labels: Labels,
    label_smoothing: float,
    r_drop: float,
    label_weights: LabelWeights | None = None,
    kernels: bool = False,
) -> tuple[Float[Tensor, ""], Float[Tensor, "copy token vocab"]]:
    """The summed loss for the output of the head's matmul, and its gradient with respect to it, in the same dtype.

    In float32, and on a GPU, the gradient overwrites `linear_output`.
    """
    if kernels and has_kernel(linear_output) and label_weights is None:
        from seq2see.acceleration.fused_cross_entropy import fused_cross_entropy

        return fused_cross_entropy(linear_output, bias, labels, label_smoothing, r_drop)
    logits = linear_output.to(torch.promote_types(linear_output.dtype, torch.float32))
    if bias is not None:
        logits += bias
    loss = cross_entropy_in_place(logits, labels, label_smoothing, r_drop, label_weights)
    return loss, logits.to(linear_output.dtype)


def cross_entropy_in_place(
    logits: Float[Tensor, "copy token vocab"],
    labels: Labels,
    label_smoothing: float,
    r_drop: float,
    label_weights: LabelWeights | None = None,
) -> Float[Tensor, ""]:
    """The summed loss of these logits, which are overwritten by their gradient.

    The gradient of the cross-entropy is p - target. With d = log p - log q, the gradient of KL(p‖q) + KL(q‖p) with
    respect to the logits of p is p (d - KL(p‖q)) + p - q; exchange p and q for the other. Ignored labels have loss 0
    and gradient 0. With `label_weights` each token counts with its weight, and R-Drop is not available.
    """
    label_mask, copies = labels != IGNORE_INDEX, len(logits)
    assert label_weights is None or not r_drop, "R-Drop is not available with label weights"
    counts = (label_mask if label_weights is None else label_mask * label_weights)[:, None].to(logits.dtype)
    indices = labels.clamp(min=0)[None, :, None].expand(copies, -1, 1)
    expected_logit = (1 - label_smoothing) * logits.gather(-1, indices)
    expected_logit = expected_logit + label_smoothing * logits.mean(-1, keepdim=True)
    # d except for a constant (the two normalizers), which cancels in p - q and d - KL(p‖q).
    logit_difference = logits[0] - logits[1] if r_drop else None
    peak = logits.amax(-1, keepdim=True)
    total = logits.sub_(peak).exp_().sum(-1, keepdim=True)
    logits *= counts / total  # from here on probabilities; rows of ignored labels are 0
    normalizer = peak + total.log()
    loss = ((normalizer - expected_logit) * counts).sum() / copies
    r_drop_gradient = None
    if logit_difference is not None:
        p, q = logits
        difference = p - q
        loss = loss + r_drop / 2 * ((difference * logit_difference).sum(-1) * label_mask).sum()
        gradient_p = p * (logit_difference - (p * logit_difference).sum(-1, keepdim=True)) + difference
        gradient_q = q * ((q * logit_difference).sum(-1, keepdim=True) - logit_difference) - difference
        r_drop_gradient = torch.stack([gradient_p, gradient_q]).mul_(r_drop / 2)
    logits.scatter_add_(-1, indices, ((label_smoothing - 1) * counts).expand_as(indices))
    if label_smoothing:  # without it, skip one pass over all logits
        logits -= label_smoothing / logits.size(-1) * counts
    if r_drop_gradient is not None:
        logits.div_(copies).add_(r_drop_gradient)
    return loss


def accumulate_matmul(total: Tensor, left: Tensor, right: Tensor, first: bool) -> None:
    """total += left @ right, as one operation if all have the same dtype; the first product overwrites the total."""
    if total.dtype == left.dtype:
        total.addmm_(left, right, beta=0 if first else 1)
    elif first:
        total.copy_(left @ right)
    else:
        total += left @ right


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Computes loss and gradients together in the forward pass; the backward pass returns the stored gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        label_weights: Tensor | None,
        options: tuple[float, float, bool, ChunkedCrossEntropy],
    ) -> Tensor:
        """Loop over chunks of tokens; matmuls run in the dtype of autocast, sums in float32."""
        label_smoothing, r_drop, needs_grad, owner = options
        ctx.owner = owner
        device, (copies, tokens, _) = hidden.device.type, hidden.shape
        low = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
        size, grad_sink = CHUNK_SIZE.get(device, CHUNK_SIZE["cuda"]) // copies, None
        if owner.async_grads is None:
            matrix = weight.to(low)
        else:
            matrix = cast_weight(owner.async_grads, weight, low)
            grad_sink = grad_sink_of(owner.async_grads, weight) if needs_grad else None
        ctx.grad_sink = grad_sink
        grad_hidden, grad_bias = torch.empty_like(hidden), None if bias is None else torch.zeros_like(bias)
        grad_weight = (torch.empty_like if tokens else torch.zeros_like)(weight) if grad_sink is None else None
        loss = torch.zeros((), dtype=torch.promote_types(low, torch.float32), device=hidden.device)
        # One buffer for the logits of all chunks: allocating it anew takes longer than the exponentials.
        buffer = torch.empty(copies * min(size, tokens), len(weight), dtype=low, device=hidden.device)
        with torch.autocast(device, enabled=False):
            for start in range(0, tokens, size):
                if grad_sink is not None:
                    grad_sink.async_grads.wait()  # the side stream must have read the buffer before it is overwritten
                chunk_labels = labels[start : start + size]
                vectors = hidden[:, start : start + size].to(low).flatten(0, 1)
                linear_output = torch.mm(vectors, matrix.mT, out=buffer[: len(vectors)]).unflatten(0, (copies, -1))
                chunk_weights = None if label_weights is None else label_weights[start : start + size]
                chunk_loss, gradient = cross_entropy_with_gradient(
                    linear_output, bias, chunk_labels, label_smoothing, r_drop, chunk_weights, owner.kernels
                )
                loss += chunk_loss
                if needs_grad:
                    for target, source in zip(grad_hidden[:, start : start + size], gradient, strict=True):
                        accumulate_matmul(target, source, matrix, first=True)
                    if grad_sink is not None:
                        grad_sink.weight_grad(gradient.flatten(0, 1), vectors)
                    elif grad_weight is not None:
                        accumulate_matmul(grad_weight, gradient.flatten(0, 1).mT, vectors, first=start == 0)
                    if grad_bias is not None:
                        grad_bias += gradient.sum((0, 1))
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of the forward pass, times the gradient of the loss unless that is the known 1."""
        gradients = ctx.saved_tensors
        if gradient is not ctx.owner.unit_gradient:
            if ctx.grad_sink is not None:
                ctx.grad_sink.scale_grad(gradient)
            gradients = [None if each is None else gradient * each for each in gradients]
        return *gradients, None, None, None
