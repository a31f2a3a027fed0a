"""The loss over a large vocabulary, some tokens at a time.

4,000 tokens with a vocabulary of 32,000 have 128 million scores: half a gigabyte in float32, and as much again
for their logarithms and for their gradient. But what the scores are good for is known as soon as they are there:
the gradient of cross-entropy is "what the model thinks minus the answer". So loss and gradients are computed
together, chunk by chunk, and a chunk's scores give their place to the next chunk's.

`plain_cross_entropy` and `plain_agreement` are the definition, on scores that are all there; `chunked_loss` is what
runs. A test says that they agree, in the loss and in every gradient. On a GPU a kernel of our own does the work of
`judge` (kernels/cross_entropy.py).
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from seq2see.core.batch import NOT_ASKED
from seq2see.core.devices import kernels_on
from seq2see.kernels.beside import take_product, taker_of
from seq2see.kernels.layers import in_format

CHUNK = {"cpu": 512, "cuda": 16_384}
"""Hidden vectors whose scores exist at one time: few enough for a CPU's cache, enough to keep a GPU busy."""

SMALL = 1024
"""Up to this vocabulary there are so few scores that compiling a kernel for them would take longer than it saves."""

Scores = Float[Tensor, "token vocab"]
Labels = Int[Tensor, "token"]
Shares = Float[Tensor, "token"]


def plain_cross_entropy(scores: Scores, labels: Labels, smoothing: float) -> Float[Tensor, ""]:
    """Label-smoothed cross-entropy written out (Szegedy et al. 2016, section 7), summed over the tokens.

    The answer is a distribution: 1 - smoothing on the truth, and smoothing spread over all tokens.
    """
    log_probabilities = scores - torch.logsumexp(scores, dim=-1, keepdim=True)
    truth = log_probabilities.gather(-1, labels[:, None]).squeeze(-1)
    anything = log_probabilities.mean(-1)
    return -((1 - smoothing) * truth + smoothing * anything).sum()


def plain_agreement(scores: Scores, others: Scores) -> Float[Tensor, ""]:
    """(KL(p‖q) + KL(q‖p)) / 2, summed over the tokens: how far apart two passes with different dropout are.

    Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks", eq. 2.
    """
    log_p, log_q = scores.log_softmax(-1), others.log_softmax(-1)
    p, q = log_p.exp(), log_q.exp()
    return ((p * (log_p - log_q)).sum() + (q * (log_q - log_p)).sum()) / 2


def chunked_loss(
    hidden: Float[Tensor, "copy token width"],
    weight: Float[Tensor, "vocab width"],
    bias: Float[Tensor, "vocab"] | None,
    labels: Labels,
    smoothing: float = 0.0,
    agreement: float = 0.0,
    shares: Shares | None = None,
) -> Float[Tensor, ""]:
    """The summed loss of scores = hidden weightᵀ + bias: the copies' mean cross-entropy, and their agreement.

    There is one copy of each token's vector, or there are two that shall agree. A label that asks nothing counts
    nowhere and moves nothing; with `shares`, the others count by these.
    """
    rules = (smoothing, agreement, torch.is_grad_enabled())
    loss: Tensor = _Chunks.apply(hidden, weight, bias, labels, shares, rules)
    return loss


_beginnings: list[Tensor] = []


def go_back(loss: Float[Tensor, ""]) -> None:
    """`loss.backward()`, whose first slope, a 1, is known by being that very tensor: nobody need multiply by it.

    It arrives at the loss above if nothing follows that, or a sum. Whatever else follows makes another tensor of it.
    """
    one = torch.ones_like(loss)
    _beginnings.append(one)
    try:
        loss.backward(one)
    finally:
        _beginnings[:] = [other for other in _beginnings if other is not one]


def has_kernel(products: Float[Tensor, "copy token vocab"]) -> bool:
    """Whether there is a kernel for these, and it pays."""
    return kernels_on(products.device) and products.size(-1) > SMALL and products.dtype != torch.float64


def slopes(
    products: Float[Tensor, "copy token vocab"],
    bias: Float[Tensor, "vocab"] | None,
    labels: Labels,
    smoothing: float,
    agreement: float,
    shares: Shares | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, "copy token vocab"]]:
    """The summed loss of products with the head's matrix, and its gradient by them, in their own number format.

    In float32, and on a GPU, it is written over the products.
    """
    if has_kernel(products) and shares is None:
        from seq2see.kernels.cross_entropy import judge_quickly

        return judge_quickly(products, bias, labels, smoothing, agreement)
    scores = products.to(torch.promote_types(products.dtype, torch.float32))
    if bias is not None:
        scores += bias
    loss = judge(scores, labels, smoothing, agreement, shares)
    return loss, scores.to(products.dtype)


def judge(
    scores: Float[Tensor, "copy token vocab"],
    labels: Labels,
    smoothing: float,
    agreement: float,
    shares: Shares | None = None,
) -> Float[Tensor, ""]:
    """The summed loss of these scores, which are overwritten by its gradient.

    The gradient of the cross-entropy is p - answer. With d = log p - log q, that of KL(p‖q) + KL(q‖p) is
    p (d - KL(p‖q)) + p - q by the scores of p, and the same with p and q exchanged by those of q. Where nothing
    is asked, the loss is 0 and so is the gradient. With `shares`, a token counts by its share, once and not as two.
    """
    asked, copies = labels != NOT_ASKED, len(scores)
    assert shares is None or not agreement, "of tokens that count by shares nobody asks whether they agree"
    counts = (asked if shares is None else asked * shares)[:, None].to(scores.dtype)
    places = labels.clamp(min=0)[None, :, None].expand(copies, -1, 1)
    answer = (1 - smoothing) * scores.gather(-1, places) + smoothing * scores.mean(-1, keepdim=True)
    # d but for a constant (the two normalisers), which p - q and d - KL(p‖q) take away again.
    ahead = scores[0] - scores[1] if agreement else None
    peak = scores.amax(-1, keepdim=True)
    total = scores.sub_(peak).exp_().sum(-1, keepdim=True)
    scores *= counts / total  # from here on probabilities, or zeros
    normaliser = peak + total.log()
    loss = ((normaliser - answer) * counts).sum() / copies
    pull = None
    if ahead is not None:
        p, q = scores
        apart = p - q
        loss = loss + agreement / 2 * ((apart * ahead).sum(-1) * asked).sum()
        for_p = p * (ahead - (p * ahead).sum(-1, keepdim=True)) + apart
        for_q = q * ((q * ahead).sum(-1, keepdim=True) - ahead) - apart
        pull = torch.stack([for_p, for_q]).mul_(agreement / 2)
    scores.scatter_add_(-1, places, ((smoothing - 1) * counts).expand_as(places))
    if smoothing:  # else it would be one more walk over all scores, for nothing
        scores -= smoothing / scores.size(-1) * counts
    if pull is not None:
        scores.div_(copies).add_(pull)
    return loss


class _Chunks(torch.autograd.Function):
    """Loss and gradients at once, on the way forward; the way back only hands the gradients out."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        shares: Tensor | None,
        rules: tuple[float, float, bool],
    ) -> Tensor:
        """Walk through the tokens; products run in the number format that autocast asks for, sums in float32."""
        smoothing, agreement, learning = rules
        device, (copies, tokens, _) = hidden.device.type, hidden.shape
        low = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
        size, matrix = CHUNK.get(device, CHUNK["cuda"]) // copies, in_format(weight, low)
        taker = ctx.taker = taker_of(weight) if learning else None
        by_hidden, by_bias = torch.empty_like(hidden), None if bias is None else torch.zeros_like(bias)
        by_weight = (torch.empty_like if tokens else torch.zeros_like)(weight) if taker is None else None
        loss = torch.zeros((), dtype=torch.promote_types(low, torch.float32), device=hidden.device)
        # One piece of memory for all chunks: asking the system for it anew costs more than the exponentials.
        space = torch.empty(copies * min(size, tokens), len(weight), dtype=low, device=hidden.device)
        with torch.autocast(device, enabled=False):
            for start in range(0, tokens, size):
                if taker is not None:
                    taker.beside.wait()  # what it reads is about to be written over
                some, vectors = labels[start : start + size], hidden[:, start : start + size].to(low).flatten(0, 1)
                products = torch.mm(vectors, matrix.mT, out=space[: len(vectors)]).unflatten(0, (copies, -1))
                parts = None if shares is None else shares[start : start + size]
                lost, slope = slopes(products, bias, some, smoothing, agreement, parts)
                loss += lost
                if learning:
                    for place, part in zip(by_hidden[:, start : start + size], slope, strict=True):
                        take_product(place, part, matrix, first=True)
                    if taker is not None:
                        taker.by_matrix(slope.flatten(0, 1), vectors)
                    elif by_weight is not None:
                        take_product(by_weight, slope.flatten(0, 1).mT, vectors, first=start == 0)
                    if by_bias is not None:
                        by_bias += slope.sum((0, 1))
        ctx.save_for_backward(by_hidden, by_weight, by_bias)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients found on the way forward, times what follows the loss; nothing does if we begin here."""
        found = ctx.saved_tensors
        if not any(gradient is one for one in _beginnings):
            if ctx.taker is not None:
                ctx.taker.scale(gradient)
            found = [None if each is None else gradient * each for each in found]
        return *found, None, None, None
