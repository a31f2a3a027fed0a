"""Objectives: from hidden states and labels to a loss.

Losses are *sums* over the labels. The loop divides by the number of labels in the whole optimizer step, so one big
batch and the same batch in four micro-batches have the same gradient.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor

from seq2see.core.batch import IGNORE_INDEX, Batch, MixedBatch, Sequences
from seq2see.core.rows import pick_rows
from seq2see.core.settings import Settings
from seq2see.training.cross_entropy import CrossEntropy
from seq2see.training.scheduled_sampling import FreeRunning, ScheduledSampling, TeacherForcing

PLAIN = CrossEntropy()
"""The definition of the loss; acceleration passes a faster one."""


class NextToken(Settings):
    """Predict each target token from the source and the previous target tokens."""

    kind: Literal["next-token"] = "next-token"
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    """Label smoothing: this share of the target distribution is spread evenly over the vocabulary."""
    r_drop: float = Field(0.0, ge=0)
    """Weight of R-Drop: two passes with different dropout should agree; 0 computes a single pass."""
    ar: float = Field(0.0, ge=0)
    """Activation regularization (AR): this times the mean square of the hidden states is added to the loss."""
    tar: float = Field(0.0, ge=0)
    """Temporal activation regularization (TAR): this times the mean square of their change from token to token."""
    feeding: Annotated[TeacherForcing | ScheduledSampling | FreeRunning, Field(discriminator="kind")] = TeacherForcing()
    """The decoder's inputs in training: the target (teacher forcing), its own predictions, or a mixture."""

    @property
    def copies(self) -> int:
        """The number of copies of every row that `loss` expects: 2 for R-Drop (see `repeat_for_r_drop`)."""
        return 2 if self.r_drop else 1

    def loss(
        self, hidden: Sequences, head: Any, labels: Int[Tensor, "row time"], cross_entropy: CrossEntropy = PLAIN
    ) -> Float[Tensor, ""]:
        """The summed loss; each label counts once.

        With R-Drop, the batch has two copies of the rows: the loss is the mean of the two cross-entropies plus
        r_drop / 2 · (KL(p‖q) + KL(q‖p)) (Liang et al. 2021, eq. 2 to 4; their eq. 3 adds the cross-entropies, so that a
        weight of 5 there is 2.5 here).
        """
        vectors = hidden.values.unflatten(0, (self.copies, -1)).flatten(1, -2)
        flat_labels = labels[: len(labels) // self.copies].flatten()
        loss = cross_entropy(vectors, head, flat_labels, self.label_smoothing, self.r_drop)
        if not (self.ar or self.tar):
            return loss
        return loss + self.activation_regularization(hidden.values, labels != IGNORE_INDEX)

    def activation_regularization(
        self, hidden: Float[Tensor, "row time width"], label_mask: Bool[Tensor, "row time"]
    ) -> Float[Tensor, ""]:
        """ar · |h_t|² + tar · |h_t - h_t-1|², means over the width, summed over the labels.

        Merity et al. 2018, section 4.6. They compute TAR without dropout. A variational dropout mask drops the same
        elements at all times, so here TAR only lacks elements that the head does not see, either. The other elements
        are scaled up, so that with dropout p a weight of 1 there is 1 - p here.
        """
        squared_norm = hidden.float().square().mean(-1).masked_fill(~label_mask, 0).sum()
        both_labeled = label_mask[:, 1:] & label_mask[:, :-1]
        squared_change = hidden.float().diff(dim=1).square().mean(-1).masked_fill(~both_labeled, 0).sum()
        return (self.ar * squared_norm + self.tar * squared_change) / self.copies


class MaskedToken(Settings):
    """Masked language modeling: predict the masked tokens (Devlin et al. 2019, section 3.1, task 1)."""

    kind: Literal["masked-token"] = "masked-token"
    copies: ClassVar[int] = 1
    feeding: ClassVar[TeacherForcing] = TeacherForcing()  # an encoder-only model has no decoder inputs

    def loss(
        self, hidden: Sequences, head: Any, labels: Int[Tensor, "row time"], cross_entropy: CrossEntropy = PLAIN
    ) -> Float[Tensor, ""]:
        """The summed cross-entropy of the labels."""
        return NextToken().loss(hidden, head, labels, cross_entropy)


class NextSentence:
    """Next sentence prediction: does the second text of a row follow the first (ibid., task 2)?"""

    def loss(
        self, hidden: Sequences, head: Any, labels: Int[Tensor, "row first"], cross_entropy: CrossEntropy = PLAIN
    ) -> Float[Tensor, ""]:
        """The summed cross-entropy of "yes" or "no", whose label is at the first position of each row."""
        return NextToken().loss(hidden, head, labels, cross_entropy)


class MaskedTokenNextSentence(Settings):
    """BERT's two objectives: masked language modeling, and next sentence prediction."""

    kind: Literal["masked-token-next-sentence"] = "masked-token-next-sentence"
    copies: ClassVar[int] = 1
    feeding: ClassVar[TeacherForcing] = TeacherForcing()

    def loss(
        self, hidden: Sequences, head: Any, labels: Int[Tensor, "row time"], cross_entropy: CrossEntropy = PLAIN
    ) -> Float[Tensor, ""]:
        """The sum of both losses."""
        first, others = (Sequences(part, hidden.lengths) for part in hidden.values.tensor_split([1], dim=1))
        masked_loss = MaskedToken().loss(others, head.tokens, labels[:, 1:], cross_entropy)
        return masked_loss + NextSentence().loss(first, head.next_sentence, labels[:, :1], cross_entropy)


class Classification(Settings):
    """Classification: predict the label."""

    kind: Literal["classify"] = "classify"
    copies: ClassVar[int] = 1
    feeding: ClassVar[TeacherForcing] = TeacherForcing()
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    """Label smoothing: this share of the target distribution is spread evenly over all labels."""

    def loss(
        self, hidden: Sequences, head: Any, labels: Int[Tensor, "row place"], cross_entropy: CrossEntropy = PLAIN
    ) -> Float[Tensor, ""]:
        """The summed cross-entropy of the labels."""
        return NextToken(label_smoothing=self.label_smoothing).loss(hidden, head, labels, cross_entropy)

    def mixup_loss(
        self, hidden: Sequences, head: Any, batch: MixedBatch, cross_entropy: CrossEntropy = PLAIN
    ) -> Float[Tensor, ""]:
        """λ times the cross-entropy of the first label, 1 - λ times that of the second (Zhang et al. 2018, section 2).

        Cross-entropy is linear in the target distribution, so this is the loss of the mixed label. Every row is
        computed twice, once for each label.
        """
        vectors = hidden.values.flatten(0, 1).repeat(2, 1)[None]
        both_labels = torch.cat([batch.labels.flatten(), batch.other_labels.flatten()])
        label_weights = torch.cat([batch.label_weights, 1 - batch.label_weights])
        return cross_entropy(vectors, head, both_labels, self.label_smoothing, label_weights=label_weights)


class NextValue(Settings):
    """Forecasting: predict each value of a series from the previous ones."""

    kind: Literal["next-value"] = "next-value"
    copies: ClassVar[int] = 1
    feeding: ClassVar[TeacherForcing] = TeacherForcing()

    def loss(
        self, hidden: Sequences, head: Any, labels: Float[Tensor, "row time"], cross_entropy: CrossEntropy = PLAIN
    ) -> Float[Tensor, ""]:
        """The summed squared error; positions whose label is NaN have no loss."""
        # `where` comes before the square: after it, the gradient at these positions would be 0 times NaN.
        return ((head(hidden.values).squeeze(-1) - labels).where(~labels.isnan(), 0) ** 2).sum()


Objective = NextToken | MaskedToken | MaskedTokenNextSentence | Classification | NextValue
"""All objectives; each has `copies`, `feeding` and `loss`."""


def batch_loss(
    objective: Objective, hidden: Sequences, head: Any, batch: Batch, cross_entropy: CrossEntropy = PLAIN
) -> Float[Tensor, ""]:
    """The summed loss of a batch."""
    if isinstance(batch, MixedBatch):
        assert isinstance(objective, Classification), "mixup is for labels only"
        return objective.mixup_loss(hidden, head, batch, cross_entropy)
    return objective.loss(hidden, head, batch.labels, cross_entropy)


def repeat_for_r_drop(batch: Batch) -> Batch:
    """Each row twice, for two passes with different dropout: rows a, b become a, b, a, b."""
    rows = torch.arange(batch.indices.size(0), device=batch.indices.device)
    return pick_rows(batch, rows.repeat(2))
