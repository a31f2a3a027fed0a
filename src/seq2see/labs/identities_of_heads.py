"""C50 and C51: are three ways to write multi-head attention equal, and is one large projection equal to several?

Random layers compute attention in the form of this package: one matrix for all projections, then a split, then one
output matrix. The same weights are used a second time, head by head, as the notes describe it: a projection for each
head, or a sum of the ΔE of all heads with W_V = up · down.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from seq2see.core.seeds import derive_seed, seed_torch
from seq2see.labs.experiment import Experiment, Measurement
from seq2see.labs.verdicts import AtLeast, AtMost, Verdict
from seq2see.layers.attention import SelfAttention, attention_weights, eager_attention
from seq2see.layers.masks import causal_mask


@torch.no_grad()
def measure(seed: int, width: int, heads: int) -> Measurement:
    """The largest differences between the forms, in double precision, and how many weights the factors save."""
    seed_torch(seed, "layer")
    layer, size = SelfAttention(width, heads, bias=False).double(), width // heads
    rng = torch.Generator().manual_seed(derive_seed(seed, "vectors"))
    vectors, mask = torch.randn(2, 7, width, dtype=torch.float64, generator=rng), causal_mask()
    expected = layer(vectors, mask)
    separate, total = [], torch.zeros_like(expected)
    for head in range(heads):
        rows = [slice(width * part + size * head, width * part + size * (head + 1)) for part in range(3)]
        query, key, down = (layer.qkv_proj.weight[row] for row in rows)
        queries, keys, values = (functional.linear(vectors, each)[:, None] for each in (query, key, down))
        separate.append(eager_attention(queries, keys, values, mask)[:, 0])
        up = layer.out_proj.weight[:, size * head : size * (head + 1)]
        whole_value = functional.linear(vectors, up @ down)  # W_V of width × width
        total += attention_weights(queries, keys, mask)[:, 0] @ whole_value
    concatenated = layer.out_proj(torch.cat(separate, dim=-1))
    return Measurement(
        {
            "separate": (concatenated - expected).abs().max().item(),
            "sum": (total - expected).abs().max().item(),
            "rank": float(torch.linalg.matrix_rank(up @ down) / size),
            "saved": heads * width * width / (2 * width * width),
        }
    )


SIZE, TINY = {"width": 64, "heads": 8}, {"width": 4, "heads": 2}
LABS = {
    "C50": Experiment(
        claim="C50",
        prediction=(
            "It is block matrix multiplication: [head₁ ... headₕ] W_O is the sum of headᵢ times its rows of W_O. The "
            "two "
            "factors have fewer weights than a W_V of width × width for each head.",
            "这是分块矩阵乘法：[head₁ … headₕ] W_O 等于各 headᵢ 乘以 W_O 中对应部分之和。"
            "分解之后的参数比每个头一个方阵 W_V 少。",
        ),
        expected=Verdict.HOLDS,
        decisive=(
            AtMost("sum", ("difference of Σ ΔE from concatenation and W_O", "Σ ΔE 与拼接后乘 W_O 之差"), 1e-10),
            AtLeast(
                "saved", ("weights of full W_V over weights of up and down", "完整 W_V 与 up、down 的参数量之比"), 2.0
            ),
        ),
        additional=(AtMost("rank", ("rank of up · down over the width of a head", "up · down 的秩除以头的宽度"), 1.0),),
        measure=measure,
        seeds=50,
        size=SIZE,
        tiny=TINY,
        would_change=(
            "a nonlinear function between the heads and the output matrix",
            "在各个头与输出矩阵之间加一个非线性函数",
        ),
    ),
    "C51": Experiment(
        claim="C51",
        prediction=("The rows of one matrix are the rows of the small ones.", "大矩阵的各行就是小矩阵的各行。"),
        expected=Verdict.HOLDS,
        decisive=(
            AtMost(
                "separate", ("difference of one projection from one for each head", "一次大投影与逐头投影之差"), 1e-10
            ),
        ),
        measure=measure,
        seeds=50,
        size=SIZE,
        tiny=TINY,
        would_change=(
            "splitting the vectors themselves instead of a projection of them",
            "直接切分向量本身，而不是先投影再切分",
        ),
    ),
}
