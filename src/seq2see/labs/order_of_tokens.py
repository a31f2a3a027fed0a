"""C52, C53, C72: what does attention compute if its input is shuffled?

A stack of random encoder blocks without position encoding gets vectors and, a second time, the same vectors in a random
order. Differences are relative to the size of the outputs. If the outputs are the same set in the new order, the stack
is equivariant; if their mean is the same, it is invariant after pooling. A causal mask and a convolution are compared.
"""

from __future__ import annotations

import torch
from torch import Tensor

from seq2see.core.batch import Sequences
from seq2see.core.seeds import derive_seed, seed_torch
from seq2see.labs.experiment import Experiment, Measurement
from seq2see.labs.verdicts import AtLeast, AtMost, Verdict
from seq2see.layers.convolution import ConvolutionBlock
from seq2see.layers.masks import AttentionMask, causal_mask, full_mask
from seq2see.models.transformer import BlockFactory, EncoderBlock, TransformerSettings


def relative_difference(first: Tensor, second: Tensor) -> float:
    """The norm of the difference, relative to the norm of the first."""
    return float((first - second).norm() / first.norm())


class Stack:
    """Random encoder blocks without positions."""

    def __init__(self, width: int, depth: int):
        factory = BlockFactory(TransformerSettings(width=width, depth=depth, heads=2, dropout=0.0), "none")
        self.blocks = factory.stack(EncoderBlock)

    def __call__(self, vectors: Tensor, attention_mask: AttentionMask) -> Tensor:
        valid = torch.ones(vectors.shape[:2], dtype=torch.bool)
        for block in self.blocks:
            vectors = block(vectors, valid, attention_mask)
        return vectors


@torch.no_grad()
def measure(seed: int, length: int, width: int, depth: int) -> Measurement:
    """Changes of the output of a shuffled input."""
    seed_torch(seed, "stack")
    stack, rng = Stack(width, depth), torch.Generator().manual_seed(derive_seed(seed, "vectors"))
    vectors, order = torch.randn(1, length, width, generator=rng), torch.randperm(length, generator=rng)
    order = order.roll(1) if bool((order == torch.arange(length)).all()) else order
    outputs, shuffled = stack(vectors, full_mask()), stack(vectors[:, order], full_mask())
    causal, causal_shuffled = stack(vectors, causal_mask()), stack(vectors[:, order], causal_mask())
    convolutions, lengths = [ConvolutionBlock(width, 3) for _ in range(depth)], torch.tensor([length])

    def convolve(inputs: Tensor) -> Tensor:
        for block in convolutions:
            inputs = block(Sequences(inputs, lengths)).values
        return inputs.mean(1)

    return Measurement(
        {
            "each position": relative_difference(outputs, shuffled),
            "equivariance": relative_difference(outputs[:, order], shuffled),
            "pooled": relative_difference(outputs.mean(1), shuffled.mean(1)),
            "causal pooled": relative_difference(causal.mean(1), causal_shuffled.mean(1)),
            "convolution": relative_difference(convolve(vectors), convolve(vectors[:, order])),
        }
    )


EACH = ("change of the output at each position", "每个位置上输出的变化")
SHUFFLED = ("difference from the same outputs in the new order", "与“同样的输出换个次序”之间的差")
POOLED = ("change of the mean of the outputs", "输出均值的变化")
SIZE, TINY = {"length": 12, "width": 32, "depth": 2}, {"length": 4, "width": 4, "depth": 1}
LABS = {
    "C52": Experiment(
        claim="C52",
        prediction=(
            "The outputs are the same vectors in the new order, so the output at each position changes. Only a pooled "
            "output is unchanged, and with a causal mask not even that.",
            "输出是同一组向量换了次序，所以每个位置上的输出都变了。只有池化之后才不变；有因果掩码时连这一点也不成立。",
        ),
        expected=Verdict.DOES_NOT_HOLD,
        decisive=(AtMost("each position", EACH, 1e-4),),
        additional=(
            AtMost("equivariance", SHUFFLED, 1e-4),
            AtMost("pooled", POOLED, 1e-4),
            AtMost("causal pooled", ("with a causal mask: " + POOLED[0], "有因果掩码：" + POOLED[1]), 1e-4),
        ),
        measure=measure,
        seeds=100,
        size=SIZE,
        tiny=TINY,
        would_change=(
            "reading “output” as a pooled vector, for example that of a classifier",
            "若把“输出”理解为池化后的一个向量，例如分类器的输入",
        ),
    ),
    "C53": Experiment(
        claim="C53",
        prediction=(
            "Attention does not shuffle anything: the output at a position belongs to the input at that position, "
            "and a "
            "shuffled input gives the outputs in exactly the same new order.",
            "注意力不打乱任何东西：每个位置的输出属于该位置的输入；输入换成什么次序，输出就是什么次序。",
        ),
        expected=Verdict.DOES_NOT_HOLD,
        decisive=(AtLeast("equivariance", SHUFFLED, 1e-2),),
        additional=(AtLeast("each position", EACH, 1e-2),),
        measure=measure,
        seeds=100,
        size=SIZE,
        tiny=TINY,
        would_change=(
            "nothing within self-attention; it ignores the order, which is another claim",
            "自注意力内部没有什么能改变它；“忽略次序”是另一个论断",
        ),
    ),
    "C72": Experiment(
        claim="C72",
        prediction=(
            "Without position encoding, the mean output of attention does not depend on the order of its input, that "
            "of a "
            "stack of convolutions does.",
            "没有位置编码时，注意力输出的均值与输入的次序无关；卷积输出的均值则有关。",
        ),
        expected=Verdict.HOLDS,
        decisive=(
            AtMost("pooled", ("attention: " + POOLED[0], "注意力：" + POOLED[1]), 1e-4),
            AtLeast("convolution", ("convolution: " + POOLED[0], "卷积：" + POOLED[1]), 1e-2),
        ),
        measure=measure,
        seeds=100,
        size=SIZE,
        tiny=TINY,
        would_change=(
            "a position encoding for the Transformer; a convolution of width 1",
            "给 Transformer 加上位置编码；或者把卷积核的宽度变成 1",
        ),
    ),
}
