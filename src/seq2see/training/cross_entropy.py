"""Cross-entropy, the loss of all models that predict tokens or labels, with label smoothing and R-Drop."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seq2see.core.batch import IGNORE_INDEX

Logits = Float[Tensor, "token vocab"]
Labels = Int[Tensor, "token"]
LabelWeights = Float[Tensor, "token"]


def cross_entropy(logits: Logits, labels: Labels, label_smoothing: float) -> Float[Tensor, "token"]:
    """Cross-entropy of each token, with label smoothing (Szegedy et al. 2016, section 7).

    The target distribution has 1 - smoothing on the label, and smoothing spread evenly over all tokens.
    """
    log_probabilities = logits - torch.logsumexp(logits, dim=-1, keepdim=True)
    log_likelihood = log_probabilities.gather(-1, labels[:, None]).squeeze(-1)
    mean_log_probability = log_probabilities.mean(-1)
    return -((1 - label_smoothing) * log_likelihood + label_smoothing * mean_log_probability)


def r_drop_loss(logits: Logits, second_logits: Logits) -> Float[Tensor, ""]:
    """(KL(p‖q) + KL(q‖p)) / 2, summed over the tokens, where p and q are two passes with different dropout.

    Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks", eq. 2.
    """
    log_p, log_q = logits.log_softmax(-1), second_logits.log_softmax(-1)
    p, q = log_p.exp(), log_q.exp()
    return ((p * (log_p - log_q)).sum() + (q * (log_q - log_p)).sum()) / 2


def _at_least_float32(logits: Logits) -> Logits:
    """Cast 16-bit logits to float32, because sums over a vocabulary would lose too much precision."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


class CrossEntropy:
    """The summed loss of a head: the mean cross-entropy of the copies of each token, plus R-Drop."""

    def __call__(
        self,
        hidden: Float[Tensor, "copy token width"],
        head: Any,
        labels: Labels,
        label_smoothing: float = 0.0,
        r_drop: float = 0.0,
        label_weights: LabelWeights | None = None,
    ) -> Float[Tensor, ""]:
        """The loss of one copy of each token, or two for R-Drop.

        A label `IGNORE_INDEX` has no loss and no gradient; with `label_weights`, each other label has its weight.
        """
        label_mask = labels != IGNORE_INDEX
        logits = [_at_least_float32(head(copy[label_mask])) for copy in hidden]
        weights = torch.ones(()) if label_weights is None else label_weights[label_mask]
        losses = [cross_entropy(each, labels[label_mask], label_smoothing) * weights.to(each) for each in logits]
        loss = torch.stack(losses).sum() / len(losses)
        return loss + r_drop * r_drop_loss(*logits) if r_drop else loss
