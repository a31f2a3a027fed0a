"""C35 and C68: has attention fewer parameters and operations than a CNN or an RNN, and is it linear?

Both are counted, not derived: the parameters of the layers of this package, and the floating-point operations of their
matrix products by torch's counter, for one forward pass over n positions. A case is a width; every ratio is the other
layer divided by attention, so a ratio above 1 speaks for the claim.

C68 tests linearity directly: f(x + y) = f(x) + f(y) − f(0) for linear (affine) f. The deviation is relative to the
size of f. If only the weights are computed from x, and the values vary, attention is linear.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from seq2see.core.seeds import derive_seed, seed_torch
from seq2see.labs.experiment import Axes, Experiment, Measurement
from seq2see.labs.verdicts import AtLeast, AtMost, Verdict
from seq2see.layers.attention import SelfAttention, attention_weights
from seq2see.layers.gru_lstm import GRUCell, LSTMCell
from seq2see.layers.masks import full_mask
from seq2see.layers.recurrent_cells import CellState, RecurrentCell, RNNCell

LENGTHS = (16, 64, 256, 1024)


def unroll(cell: RecurrentCell, state: CellState, vectors: Tensor) -> Tensor:
    """The hidden states of a recurrent layer."""
    return cell.unroll_eagerly(vectors, state)[0]


def layers(width: int) -> dict[str, tuple[nn.Module, Callable[[Tensor], object]]]:
    """Each layer with its forward pass; the recurrent ones by their equations, so that their products are counted."""
    attention, convolution = SelfAttention(width, 4), nn.Conv1d(width, width, 3, padding=1)
    table: dict[str, tuple[nn.Module, Callable[[Tensor], object]]] = {
        "attention": (attention, lambda vectors: attention(vectors, full_mask())),
        "CNN": (convolution, lambda vectors: convolution(vectors.mT)),
    }
    for name, cell in (
        ("RNN", RNNCell(width, width)),
        ("GRU", GRUCell(width, width)),
        ("LSTM", LSTMCell(width, width)),
    ):
        state = CellState(torch.zeros(1, width), torch.zeros(1, width))
        table[name] = (cell, partial(unroll, cell, state))
    return table


@torch.no_grad()
def operations(run: Callable[[Tensor], object], length: int, width: int) -> int:
    """The floating-point operations of one forward pass."""
    with FlopCounterMode(display=False) as counter:
        run(torch.zeros(1, length, width))
    return counter.get_total_flops()


def measure_counts(seed: int, max_length: int) -> Measurement:
    """The ratios of parameters, and the smallest ratios of operations over all lengths; the case is the width."""
    width = 32 * 2 ** (seed % 4)
    lengths = [length for length in LENGTHS if length <= max_length]
    weights, counts = {}, {}
    for name, (layer, run) in layers(width).items():
        weights[name] = sum(weight.numel() for weight in layer.parameters())
        counts[name] = [operations(run, length, width) for length in lengths]
    values: dict[str, float] = {}
    for name in ("RNN", "GRU", "LSTM", "CNN"):
        ratios = [other / own for other, own in zip(counts[name], counts["attention"], strict=True)]
        values |= {f"weights {name}": weights[name] / weights["attention"], f"operations {name}": min(ratios)}
    return Measurement(values, {name: (lengths, [float(each) for each in counts[name]]) for name in counts})


def deviation(function: Callable[[Tensor], Tensor], first: Tensor, second: Tensor) -> float:
    """How far a function is from being affine: ‖f(x + y) − f(x) − f(y) + f(0)‖ / ‖f(x + y)‖."""
    total = function(first + second)
    difference = total - function(first) - function(second) + function(torch.zeros_like(first))
    return float(difference.norm() / total.norm())


@torch.no_grad()
def measure_linearity(seed: int, width: int) -> Measurement:
    """The deviation from linearity of attention, of attention with constant weights, and of a vanilla RNN."""
    seed_torch(seed, "layers")
    rng = torch.Generator().manual_seed(derive_seed(seed, "vectors"))
    first, second = (torch.randn(1, 9, width, dtype=torch.float64, generator=rng) for _ in range(2))
    attention, cell = SelfAttention(width, 2).double(), RNNCell(width, width).double()
    queries, keys, _ = attention.project(first)
    weights = attention_weights(queries, keys, full_mask())
    state = CellState(torch.zeros(1, width, dtype=torch.float64))

    def constant(vectors: Tensor) -> Tensor:
        return weights @ attention.project(vectors)[2]

    return Measurement(
        {
            "attention": deviation(lambda vectors: attention(vectors, full_mask()), first, second),
            "RNN": deviation(lambda vectors: cell.unroll_eagerly(vectors, state)[0], first, second),
            "constant weights": deviation(constant, first, second),
        }
    )


def _ratio(kind: str, name: str, english: str, chinese: str) -> AtLeast:
    return AtLeast(f"{kind} {name}", (f"{english}: {name} over attention", f"{chinese}：{name} 比注意力"), 1.0)


LABS = {
    "C35": Experiment(
        claim="C35",
        prediction=(
            "Attention has 4d² weights: more than an RNN (2d²) and a convolution of width 3 (3d²), fewer than a GRU "
            "(6d²) "
            "and an LSTM (8d²). Its operations grow with n², so in long texts it needs most of all.",
            "注意力有 4d² 个参数：比普通 RNN（2d²）和宽度为 3 的卷积（3d²）多，比 GRU（6d²）和 LSTM（8d²）少。"
            "它的计算量随 n² 增长，文本长时最大。",
        ),
        expected=Verdict.DOES_NOT_HOLD,
        decisive=tuple(
            _ratio(kind, name, english, chinese)
            for kind, english, chinese in (
                ("weights", "parameters", "参数量"),
                (
                    "operations",
                    "operations, smallest ratio for 16 to 1,024 positions",
                    "计算量，16 到 1024 个位置的最小比值",
                ),
            )
            for name in ("RNN", "CNN")
        ),
        additional=(
            _ratio("weights", "GRU", "parameters", "参数量"),
            _ratio("weights", "LSTM", "parameters", "参数量"),
            _ratio("operations", "LSTM", "operations, smallest ratio", "计算量的最小比值"),
        ),
        measure=measure_counts,
        seeds=4,
        size={"max_length": 1024},
        tiny={"max_length": 16},
        would_change=(
            "counting the dot product alone, which has no weights; short texts (n below 2d) and gated cells",
            "若只算点积本身（没有参数）；或者文本较短（n 小于 2d）并与带门的单元比较",
        ),
        axes=Axes(("positions n", "位置数 n"), ("floating-point operations", "浮点运算次数"), log_x=True, log_y=True),
    ),
    "C68": Experiment(
        claim="C68",
        prediction=(
            "Neither is linear: the weights of attention are a softmax of products of its inputs, and an RNN has a "
            "tanh. "
            "With constant weights attention is linear in its values.",
            "两者都不是线性的：注意力的权重是输入乘积的 softmax，RNN 里有 tanh。若把权重固定，注意力对值是线性的。",
        ),
        expected=Verdict.DOES_NOT_HOLD,
        decisive=(
            AtMost("attention", ("attention: deviation from a linear function", "注意力：与线性函数的偏差"), 1e-6),
            AtMost("RNN", ("vanilla RNN: the same", "普通 RNN：同上"), 1e-6),
        ),
        additional=(
            AtMost("constant weights", ("attention with constant weights: the same", "权重固定的注意力：同上"), 1e-6),
        ),
        measure=measure_linearity,
        seeds=50,
        size={"width": 32},
        tiny={"width": 4},
        would_change=(
            "linear attention, without a softmax, with queries and keys that do not depend on the values",
            "换成没有 softmax、查询和键与值无关的线性注意力",
        ),
    ),
}
