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

from seq2see.core.batch import IGNORE_INDEX, AnswerBatch, Batch, MixedBatch, Sequences, pick_rows
from seq2see.core.settings import Settings
from seq2see.training.reinforce import Reinforce
from seq2see.training.scheduled_sampling import FreeRunning, ScheduledSampling, TeacherForcing

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


Objective = NextToken | MaskedToken | MaskedTokenNextSentence | Classification | NextValue | Reinforce
"""All objectives; each has `copies`, `feeding` and `loss`."""


def batch_loss(
    objective: Objective, hidden: Sequences, head: Any, batch: Batch, cross_entropy: CrossEntropy = PLAIN
) -> Float[Tensor, ""]:
    """The summed loss of a batch."""
    if isinstance(batch, MixedBatch):
        assert isinstance(objective, Classification), "mixup is for labels only"
        return objective.mixup_loss(hidden, head, batch, cross_entropy)
    if isinstance(objective, Reinforce):
        assert isinstance(batch, AnswerBatch), "the answers are generated before the step"
        return objective.answer_loss(hidden, head, batch)
    return objective.loss(hidden, head, batch.labels, cross_entropy)


def repeat_for_r_drop(batch: Batch) -> Batch:
    """Each row twice, for two passes with different dropout: rows a, b become a, b, a, b."""
    rows = torch.arange(batch.indices.size(0), device=batch.indices.device)
    return pick_rows(batch, rows.repeat(2))
