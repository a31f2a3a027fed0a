"""C18 and C19: what exactly do the gates of a GRU do when they are near 0 or near 1?

The cell is the one of the notes, with the reset gate before the matrix product and random weights. The gates are forced
by large biases, and nothing else changes. Its candidate is compared with a vanilla RNN and with an MLP of the same
weights. How much of the old state is in a new state is the largest derivative ∂h' / ∂h.
"""

from __future__ import annotations

import torch
from torch import Tensor

from seq2see.core.seeds import derive_seed, seed_torch
from seq2see.labs.experiment import Axes, Experiment, Measurement
from seq2see.labs.verdicts import AtLeast, AtMost, Verdict
from seq2see.layers.gru_lstm import ResetBeforeGRUCell
from seq2see.layers.recurrent_cells import CellState

LENGTHS = (10, 100, 1000)


def forced(cell: ResetBeforeGRUCell, gate: int, logit: float) -> None:
    """Force one gate (0: reset, 1: update) to the sigmoid of a number, whatever the input is."""
    rows = slice(gate * cell.width, (gate + 1) * cell.width)
    with torch.no_grad():
        cell.input_weight[rows].zero_()
        cell.gates_weight[rows].zero_()
        cell.input_bias[rows] = logit


def share_of_old_state(cell: ResetBeforeGRUCell, inputs: Tensor, hidden: Tensor) -> float:
    """The largest derivative of a new state with respect to the old one."""
    jacobian = torch.autograd.functional.jacobian(lambda old: cell(inputs, CellState(old)).hidden, hidden)
    return float(jacobian.abs().max())


def measure_reset(seed: int, width: int) -> Measurement:
    """Differences from the RNN and the MLP, and the influence of the old state, with an open and with a closed gate."""
    rng = torch.Generator().manual_seed(derive_seed(seed, "inputs"))
    inputs, hidden = torch.randn(1, width, generator=rng), torch.randn(1, width, generator=rng)
    values = {}
    for name, logit in (("open", 1e3), ("closed", -1e3)):
        seed_torch(seed, "cell")
        cell = ResetBeforeGRUCell(width, width)
        forced(cell, 0, logit)
        candidate = cell.gates(cell.project_inputs(inputs), CellState(hidden))["candidate"]
        from_inputs = cell.project_inputs(inputs)[:, 2 * width :]
        with_state = torch.tanh(from_inputs + hidden @ cell.candidate_weight.T)
        expected = with_state if name == "open" else torch.tanh(from_inputs)
        values[f"candidate {name}"] = (candidate - expected).abs().max().item()
        values[f"old state {name}"] = share_of_old_state(cell, inputs, hidden)
    forced(cell, 1, -1e3)
    return Measurement(values | {"both closed": share_of_old_state(cell, inputs, hidden)})


def measure_update(seed: int, width: int, length: int) -> Measurement:
    """The share of the first state that is left at the end, with update gates of 1 and of 0.99."""
    values, lines = {}, {}
    for name, logit in (("Z = 1", 1e3), ("Z = 0.99", float(torch.tensor(0.99).logit()))):
        seed_torch(seed, "cell")
        cell = ResetBeforeGRUCell(width, width)
        forced(cell, 1, logit)
        rng = torch.Generator().manual_seed(derive_seed(seed, "inputs"))
        first = torch.randn(1, width, generator=rng, requires_grad=True)
        state, shares = CellState(first), []
        for step in range(1, length + 1):
            state = cell(torch.randn(1, width, generator=rng), state)
            if step in LENGTHS or step == length:
                (gradient,) = torch.autograd.grad(state.hidden[0, 0], first, retain_graph=True)
                shares.append(float(gradient[0, 0].abs()))
        values[name] = shares[-1]
        lines[name] = ([each for each in LENGTHS if each < length] + [length], shares)
        if name == "Z = 1":
            values["copy"] = (state.hidden - first).abs().max().item()
    return Measurement(values, lines)


LABS = {
    "C18": Experiment(
        claim="C18",
        prediction=(
            "With gates of exactly 1 the first state is copied without any change. With 0.99, which is near 1, a "
            "factor "
            "of about 0.99 is lost in every step, so little is left after 1,000 steps.",
            "门恰好为 1 时，初始状态被原样复制。门为 0.99（“接近于 1”）时，每步乘上大约 0.99，1000 步之后所剩无几。",
        ),
        expected=Verdict.DOES_NOT_HOLD,
        decisive=(
            AtMost("copy", ("Z = 1: change of the state over 1,000 steps", "Z = 1：状态在 1000 步后的变化"), 0.0),
            AtLeast(
                "Z = 0.99",
                ("Z = 0.99: share of the first state after 1,000 steps", "Z = 0.99：1000 步后初始状态所占的份额"),
                0.5,
            ),
        ),
        measure=measure_update,
        seeds=10,
        size={"width": 16, "length": 1000},
        tiny={"width": 3, "length": 12},
        would_change=(
            "shorter sequences: with 0.99, half is left after 69 steps",
            "序列短一些：0.99 的门在 69 步后还剩一半",
        ),
        axes=Axes(("steps", "步数"), ("share of the first state", "初始状态所占的份额"), log_x=True, log_y=True),
    ),
    "C19": Experiment(
        claim="C19",
        prediction=(
            "The candidate is exactly that of a vanilla RNN or of an MLP. But an existing state is not reset by the "
            "reset "
            "gate alone: the update gate copies a part of it.",
            "候选状态确实分别等于普通 RNN 和 MLP。但仅靠重置门并不能清除已有状态：更新门还会复制它的一部分。",
        ),
        expected=Verdict.DOES_NOT_HOLD,
        decisive=(
            AtMost(
                "candidate open", ("R = 1: difference of the candidate from an RNN", "R = 1：候选状态与 RNN 的差"), 1e-5
            ),
            AtMost(
                "candidate closed",
                ("R = 0: difference of the candidate from an MLP", "R = 0：候选状态与 MLP 的差"),
                1e-5,
            ),
            AtMost(
                "old state closed",
                ("R = 0: influence of the old state on the new one", "R = 0：旧状态对新状态的影响"),
                1e-5,
            ),
        ),
        additional=(
            AtMost("both closed", ("R = 0 and Z = 0: the same influence", "R = 0 且 Z = 0：同样的影响"), 1e-5),
            AtMost("old state open", ("R = 1: the same influence", "R = 1：同样的影响"), 1e-5),
        ),
        measure=measure_reset,
        seeds=50,
        size={"width": 16},
        tiny={"width": 3},
        would_change=("an update gate that is closed as well (Z = 0)", "更新门也关闭（Z = 0）"),
    ),
}
