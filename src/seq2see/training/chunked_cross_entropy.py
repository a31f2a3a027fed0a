"""The loss over a large vocabulary, some tokens at a time.

4,000 tokens with a vocabulary of 32,000 have 128 million scores: half a gigabyte in float32, and as much again
for their logarithms and for their gradient. But what the scores are good for is known as soon as they are there:
the gradient of cross-entropy is "what the model thinks minus the answer". So loss and gradients are computed
together, chunk by chunk, and a chunk's scores give their place to the next chunk's.

`plain_cross_entropy` and `plain_r_drop` are the definition, on scores that are all there; `chunked_loss` is what
runs. A test says that they agree, in the loss and in every gradient. On a GPU a kernel of our own does the work of
`cross_entropy_in_place` (kernels/fused_cross_entropy.py).
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from seq2see.core.batch import NOT_ASKED
from seq2see.core.devices import kernels_enabled
from seq2see.kernels.async_layers import cast_weight
from seq2see.kernels.async_weight_grad import accumulate_matmul, grad_sink_of

CHUNK_SIZE = {"cpu": 512, "cuda": 16_384}
"""Hidden vectors whose scores exist at one time: few enough for a CPU's cache, enough to keep a GPU busy."""

MAX_VOCAB_WITHOUT_KERNEL = 1024
"""Up to this vocabulary there are so few scores that compiling a kernel for them would take longer than it saves."""

Logits = Float[Tensor, "token vocab"]
Labels = Int[Tensor, "token"]
LabelWeights = Float[Tensor, "token"]


def plain_cross_entropy(logits: Logits, labels: Labels, label_smoothing: float) -> Float[Tensor, ""]:
    """Label-smoothed cross-entropy written out (Szegedy et al. 2016, section 7), summed over the tokens.

    The answer is a distribution: 1 - smoothing on the truth, and smoothing spread over all tokens.
    """
    log_probabilities = logits - torch.logsumexp(logits, dim=-1, keepdim=True)
    truth = log_probabilities.gather(-1, labels[:, None]).squeeze(-1)
    anything = log_probabilities.mean(-1)
    return -((1 - label_smoothing) * truth + label_smoothing * anything).sum()


def plain_r_drop(logits: Logits, others: Logits) -> Float[Tensor, ""]:
    """(KL(p‖q) + KL(q‖p)) / 2, summed over the tokens: how far apart two passes with different dropout are.

    Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks", eq. 2.
    """
    log_p, log_q = logits.log_softmax(-1), others.log_softmax(-1)
    p, q = log_p.exp(), log_q.exp()
    return ((p * (log_p - log_q)).sum() + (q * (log_q - log_p)).sum()) / 2


def chunked_loss(
    hidden: Float[Tensor, "copy token width"],
    weight: Float[Tensor, "vocab width"],
    bias: Float[Tensor, "vocab"] | None,
    labels: Labels,
    label_smoothing: float = 0.0,
    r_drop: float = 0.0,
    label_weights: LabelWeights | None = None,
) -> Float[Tensor, ""]:
    """The summed loss of scores = hidden weightᵀ + bias: the copies' mean cross-entropy, and their agreement.

    There is one copy of each token's vector, or there are two that shall agree. A label that asks nothing counts
    nowhere and moves nothing; with `label_weights`, the others count by these.
    """
    options = (label_smoothing, r_drop, torch.is_grad_enabled())
    loss: Tensor = _ChunkedCrossEntropy.apply(hidden, weight, bias, labels, label_weights, options)
    return loss


_unit_gradients: list[Tensor] = []


def run_backward(loss: Float[Tensor, ""]) -> None:
    """`loss.backward()`, whose first slope, a 1, is known by being that very tensor: nobody need multiply by it.

    It arrives at the loss above if nothing follows that, or a sum. Whatever else follows makes another tensor of it.
    """
    one = torch.ones_like(loss)
    _unit_gradients.append(one)
    try:
        loss.backward(one)
    finally:
        _unit_gradients[:] = [other for other in _unit_gradients if other is not one]


def has_kernel(linear_output: Float[Tensor, "copy token vocab"]) -> bool:
    """Whether there is a kernel for these, and it pays."""
    return (
        kernels_enabled(linear_output.device)
        and linear_output.size(-1) > MAX_VOCAB_WITHOUT_KERNEL
        and linear_output.dtype != torch.float64
    )


def cross_entropy_with_gradient(
    linear_output: Float[Tensor, "copy token vocab"],
    bias: Float[Tensor, "vocab"] | None,
    labels: Labels,
    label_smoothing: float,
    r_drop: float,
    label_weights: LabelWeights | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, "copy token vocab"]]:
    """The summed loss of products with the head's matrix, and its gradient by them, in their own number format.

    In float32, and on a GPU, it is written over the products.
    """
    if has_kernel(linear_output) and label_weights is None:
        from seq2see.kernels.fused_cross_entropy import fused_cross_entropy

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
    """The summed loss of these scores, which are overwritten by its gradient.

    The gradient of the cross-entropy is p - answer. With d = log p - log q, that of KL(p‖q) + KL(q‖p) is
    p (d - KL(p‖q)) + p - q by the scores of p, and the same with p and q exchanged by those of q. Where nothing
    is asked, the loss is 0 and so is the gradient. With `label_weights`, a token counts by its share, once and not as two.
    """
    label_mask, copies = labels != NOT_ASKED, len(logits)
    assert label_weights is None or not r_drop, "of tokens that count by shares nobody asks whether they agree"
    counts = (label_mask if label_weights is None else label_mask * label_weights)[:, None].to(logits.dtype)
    places = labels.clamp(min=0)[None, :, None].expand(copies, -1, 1)
    answer = (1 - label_smoothing) * logits.gather(-1, places) + label_smoothing * logits.mean(-1, keepdim=True)
    # d but for a constant (the two normalizers), which p - q and d - KL(p‖q) take away again.
    ahead = logits[0] - logits[1] if r_drop else None
    peak = logits.amax(-1, keepdim=True)
    total = logits.sub_(peak).exp_().sum(-1, keepdim=True)
    logits *= counts / total  # from here on probabilities, or zeros
    normalizer = peak + total.log()
    loss = ((normalizer - answer) * counts).sum() / copies
    r_drop_gradient = None
    if ahead is not None:
        p, q = logits
        apart = p - q
        loss = loss + r_drop / 2 * ((apart * ahead).sum(-1) * label_mask).sum()
        for_p = p * (ahead - (p * ahead).sum(-1, keepdim=True)) + apart
        for_q = q * ((q * ahead).sum(-1, keepdim=True) - ahead) - apart
        r_drop_gradient = torch.stack([for_p, for_q]).mul_(r_drop / 2)
    logits.scatter_add_(-1, places, ((label_smoothing - 1) * counts).expand_as(places))
    if label_smoothing:  # else it would be one more walk over all scores, for nothing
        logits -= label_smoothing / logits.size(-1) * counts
    if r_drop_gradient is not None:
        logits.div_(copies).add_(r_drop_gradient)
    return loss


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Loss and gradients at once, on the way forward; the way back only hands the gradients out."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        label_weights: Tensor | None,
        options: tuple[float, float, bool],
    ) -> Tensor:
        """Walk through the tokens; products run in the number format that autocast asks for, sums in float32."""
        label_smoothing, r_drop, needs_grad = options
        device, (copies, tokens, _) = hidden.device.type, hidden.shape
        low = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
        size, matrix = CHUNK_SIZE.get(device, CHUNK_SIZE["cuda"]) // copies, cast_weight(weight, low)
        grad_sink = ctx.grad_sink = grad_sink_of(weight) if needs_grad else None
        by_hidden, by_bias = torch.empty_like(hidden), None if bias is None else torch.zeros_like(bias)
        grad_weight = (torch.empty_like if tokens else torch.zeros_like)(weight) if grad_sink is None else None
        loss = torch.zeros((), dtype=torch.promote_types(low, torch.float32), device=hidden.device)
        # One piece of memory for all chunks: asking the system for it anew costs more than the exponentials.
        space = torch.empty(copies * min(size, tokens), len(weight), dtype=low, device=hidden.device)
        with torch.autocast(device, enabled=False):
            for start in range(0, tokens, size):
                if grad_sink is not None:
                    grad_sink.async_grads.wait()  # what it reads is about to be written over
                some, vectors = labels[start : start + size], hidden[:, start : start + size].to(low).flatten(0, 1)
                linear_output = torch.mm(vectors, matrix.mT, out=space[: len(vectors)]).unflatten(0, (copies, -1))
                parts = None if label_weights is None else label_weights[start : start + size]
                lost, gradient = cross_entropy_with_gradient(linear_output, bias, some, label_smoothing, r_drop, parts)
                loss += lost
                if needs_grad:
                    for place, part in zip(by_hidden[:, start : start + size], gradient, strict=True):
                        accumulate_matmul(place, part, matrix, first=True)
                    if grad_sink is not None:
                        grad_sink.weight_grad(gradient.flatten(0, 1), vectors)
                    elif grad_weight is not None:
                        accumulate_matmul(grad_weight, gradient.flatten(0, 1).mT, vectors, first=start == 0)
                    if by_bias is not None:
                        by_bias += gradient.sum((0, 1))
        ctx.save_for_backward(by_hidden, grad_weight, by_bias)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients found on the way forward, times what follows the loss; nothing does if we begin here."""
        found = ctx.saved_tensors
        if not any(gradient is one for one in _unit_gradients):
            if ctx.grad_sink is not None:
                ctx.grad_sink.scale(gradient)
            found = [None if each is None else gradient * each for each in found]
        return *found, None, None, None
