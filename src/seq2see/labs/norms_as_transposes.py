"""C63: is layer norm the same as transpose, batch norm, transpose back?

Random matrices of examples and features go both ways, without learned scale and shift. In training, batch norm uses the
statistics of its batch. In evaluation it uses running averages, here those after ten other batches.
"""

from __future__ import annotations

import torch

from seq2see.core.seeds import derive_seed
from seq2see.foundations.normalization import batch_norm, layer_norm
from seq2see.labs.experiment import Experiment, Measurement
from seq2see.labs.verdicts import AtMost, Verdict
from seq2see.layers.norms_and_dropout import MaskedBatchNorm


def measure(seed: int, rows: int, features: int) -> Measurement:
    """The largest difference of both ways, in training and in evaluation."""
    rng = torch.Generator().manual_seed(derive_seed(seed, "matrix"))
    matrices = [3 + 2 * torch.randn(rows, features, dtype=torch.float64, generator=rng) for _ in range(11)]
    expected = layer_norm(matrices[-1])
    module, valid = MaskedBatchNorm(rows).double(), torch.ones(1, features, dtype=torch.bool)
    for matrix in matrices[:-1]:
        module(matrix.T[None], valid)
    module.eval()
    with torch.no_grad():
        evaluated = module(matrices[-1].T[None], valid)[0].T
    return Measurement(
        {
            "training": (batch_norm(matrices[-1].T).T - expected).abs().max().item(),
            "evaluation": (evaluated - expected).abs().max().item(),
        }
    )


LABS = {
    "C63": Experiment(
        claim="C63",
        prediction=(
            "In training both are the same formula. In evaluation they differ, because batch norm uses running "
            "averages.",
            "训练时两者是同一个公式；评测时不同，因为批归一化用的是滑动平均。",
        ),
        expected=Verdict.HOLDS,
        decisive=(AtMost("training", ("training: largest difference", "训练时：最大差"), 1e-10),),
        additional=(AtMost("evaluation", ("evaluation: largest difference", "评测时：最大差"), 1e-10),),
        measure=measure,
        seeds=50,
        size={"rows": 16, "features": 32},
        tiny={"rows": 2, "features": 3},
        would_change=(
            "evaluation mode; learned scale and shift, which belong to rows in one case and to features in the other",
            "评测模式；或者加上可学的缩放和平移：一种属于行，另一种属于特征",
        ),
    )
}
