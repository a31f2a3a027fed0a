"""C67 and C71: which layer mixes positions, and how many layers does it need to cover all of them?

The gradient of one output with respect to the inputs shows what it depends on. In C71 a position is covered if that
gradient is not zero; the layers are convolutions of width 3 and encoder blocks. In C67 the gradient is split into the
part at the same position and the part at the others, and into the same feature and the others, for attention and for
the feed-forward layer.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from seq2see.core.batch import Sequences
from seq2see.core.seeds import derive_seed, seed_torch
from seq2see.labs.experiment import Axes, Experiment, Measurement
from seq2see.labs.verdicts import AtLeast, AtMost, Verdict
from seq2see.layers.attention import SelfAttention
from seq2see.layers.convolution import ConvolutionBlock
from seq2see.layers.feed_forward import FeedForward
from seq2see.layers.masks import full_mask


def covered(function: Callable[[Tensor], Tensor], vectors: Tensor) -> float:
    """The share of positions that the output in the middle depends on."""
    vectors = vectors.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(function(vectors)[0, vectors.size(1) // 2].sum(), vectors)
    return (gradient[0].abs().amax(1) > 0).double().mean().item()


def measure_coverage(seed: int, length: int, width: int) -> Measurement:
    """The share of positions that one layer, and a stack of ten, covers."""
    seed_torch(seed, "layers")
    rng = torch.Generator().manual_seed(derive_seed(seed, "vectors"))
    vectors = torch.randn(1, length, width, generator=rng).double()
    attention, lengths = SelfAttention(width, 2).double(), torch.tensor([length])
    # In single precision, the gradient through fifty layers underflows to zero at the border of the receptive field.
    blocks = [ConvolutionBlock(width, 3).double() for _ in range(length // 2)]

    def convolve(depth: int) -> Callable[[Tensor], Tensor]:
        def run(inputs: Tensor) -> Tensor:
            for block in blocks[:depth]:
                inputs = block(Sequences(inputs, lengths)).values
            return inputs

        return run

    depths = sorted({1, 2, length // 4, length // 2})
    shares = [covered(convolve(depth), vectors) for depth in depths]
    one = covered(lambda inputs: attention(inputs, full_mask()), vectors)
    values = {"attention": one, "convolution": shares[0], "deep convolution": shares[-1]}
    return Measurement(values, {"CNN": (depths, shares), "attention": (depths, [one] * len(depths))})


def influence(function: Callable[[Tensor], Tensor], vectors: Tensor) -> dict[str, float]:
    """The largest derivatives: at other positions, and at the same position by other features."""
    middle = vectors.size(1) // 2
    jacobian = torch.autograd.functional.jacobian(lambda inputs: function(inputs)[0, middle], vectors)[:, 0]
    same = jacobian[:, middle]
    others = torch.cat([jacobian[:, :middle], jacobian[:, middle + 1 :]], 1)
    features = same - torch.diag(same.diagonal())
    return {"time": others.abs().max().item(), "features": features.abs().max().item()}


def measure_mixing(seed: int, length: int, width: int) -> Measurement:
    """What attention and the feed-forward layer depend on."""
    seed_torch(seed, "layers")
    vectors = torch.randn(1, length, width, generator=torch.Generator().manual_seed(derive_seed(seed, "vectors")))
    attention, feed_forward = SelfAttention(width, 2), FeedForward(width, 4 * width)
    parts: dict[str, Callable[[Tensor], Tensor]] = {
        "attention": lambda inputs: attention(inputs, full_mask()),
        "feed-forward": feed_forward,
    }
    return Measurement(
        {f"{name} {kind}": value for name, part in parts.items() for kind, value in influence(part, vectors).items()}
    )


def _title(name: str, chinese: str, kind: str) -> tuple[str, str]:
    english = {"time": "largest derivative by other positions", "features": "largest derivative by other features"}[
        kind
    ]
    return f"{name}: {english}", f"{chinese}：对其他{'位置' if kind == 'time' else '特征'}的最大导数"


LABS = {
    "C67": Experiment(
        claim="C67",
        prediction=(
            "The feed-forward layer has no derivative by other positions, attention has. Attention also mixes "
            "features, "
            "through its value and output matrices.",
            "前馈层对其他位置的导数为零，注意力则不为零。注意力通过值矩阵和输出矩阵也会混合特征。",
        ),
        expected=Verdict.HOLDS,
        decisive=(
            AtLeast("attention time", _title("attention", "注意力", "time"), 1e-3),
            AtMost("feed-forward time", _title("feed-forward", "前馈层", "time"), 0.0),
            AtLeast("feed-forward features", _title("feed-forward", "前馈层", "features"), 1e-3),
        ),
        additional=(AtMost("attention features", _title("attention", "注意力", "features"), 0.0),),
        measure=measure_mixing,
        seeds=50,
        size={"length": 9, "width": 16},
        tiny={"length": 3, "width": 4},
        would_change=(
            "reading the claim as “attention mixes time only”: it mixes features as well",
            "若理解为“注意力只混合时间”，则不对：它也混合特征",
        ),
    ),
    "C71": Experiment(
        claim="C71",
        prediction=(
            "One layer of attention covers all positions. Convolutions of width 3 cover 2 more with each layer, so 101 "
            "positions need 50 layers.",
            "一层注意力覆盖所有位置。宽度为 3 的卷积每层多覆盖两个位置，101 个位置需要 50 层。",
        ),
        expected=Verdict.HOLDS,
        decisive=(
            AtLeast(
                "attention", ("one layer of attention: share of positions covered", "一层注意力：覆盖的位置比例"), 1.0
            ),
            AtMost("convolution", ("one convolution: share of positions covered", "一层卷积：覆盖的位置比例"), 0.05),
            AtLeast(
                "deep convolution", ("50 convolutions: share of positions covered", "五十层卷积：覆盖的位置比例"), 1.0
            ),
        ),
        measure=measure_coverage,
        seeds=10,
        size={"length": 101, "width": 8},
        tiny={"length": 9, "width": 2},
        would_change=(
            "larger kernels, pooling or gaps between the inputs of a convolution, which need fewer layers",
            "更大的卷积核、池化或空洞卷积，需要的层数更少",
        ),
        axes=Axes(("layers", "层数"), ("share of positions covered", "覆盖的位置比例")),
    ),
}
