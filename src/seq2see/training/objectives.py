"""What is asked of a model: from hidden states and answers to a loss.

Losses are *sums* over the answers asked for. The loop divides by the number of answers in the whole
optimizer step, so one big batch and the same batch in four pieces give the same gradient.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor

from seq2see.core.batch import NOT_ASKED, Batch, MixedBatch, Sequences
from seq2see.core.rows import pick_rows
from seq2see.core.settings import Settings
from seq2see.training.chunked_cross_entropy import chunked_loss
from seq2see.training.scheduled_sampling import FreeRunning, ScheduledSampling, TeacherForcing

HiddenStates = Float[Tensor, "copy token width"]
Labels = Int[Tensor, "token"]


class NextToken(Settings):
    """Guess each target token from the source and the tokens before it."""

    kind: Literal["next-token"] = "next-token"
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    """Label smoothing: this share of the answer is spread evenly over the vocabulary."""
    r_drop: float = Field(0.0, ge=0)
    """How much two passes with different dropout shall agree (R-Drop); 0 makes one pass, anything else two."""
    ar: float = Field(0.0, ge=0)
    """How much large hidden numbers cost (activation regularization): this times their mean square."""
    tar: float = Field(0.0, ge=0)
    """How much it costs that hidden numbers change (temporal activation regularization): this times the mean square."""
    feeding: Annotated[TeacherForcing | ScheduledSampling | FreeRunning, Field(discriminator="kind")] = TeacherForcing()
    """What the decoder is fed in training: the truth, its own words, or a mixture."""

    @property
    def copies(self) -> int:
        """How many times `loss` must be given every row: 2 if two passes shall agree (see `repeat_for_r_drop`)."""
        return 2 if self.r_drop else 1

    def loss(self, hidden: Sequences, head: Any, labels: Int[Tensor, "row time"]) -> Float[Tensor, ""]:
        """The summed loss of the answers asked for, each counted once.

        With agreement, the rows come twice: the loss is the mean of the two cross-entropies plus
        agreement / 2 · (KL(p‖q) + KL(q‖p)) (Liang et al. 2021, eq. 2 to 4; their eq. 3 adds the cross-entropies,
        so that a weight of 5 there is 2.5 here).
        """
        vectors = hidden.values.unflatten(0, (self.copies, -1)).flatten(1, -2)
        answers = labels[: len(labels) // self.copies].flatten()
        if vectors.device.type == "cpu":
            vectors, answers = select_labeled(vectors, answers)
        weight, bias = head.weight_and_bias()
        loss = chunked_loss(vectors, weight, bias, answers, self.label_smoothing, self.r_drop)
        return (
            loss + self.activation_regularization(hidden.values, labels != NOT_ASKED) if self.ar or self.tar else loss
        )

    def activation_regularization(
        self, hidden: Float[Tensor, "row time width"], label_mask: Bool[Tensor, "row time"]
    ) -> Float[Tensor, ""]:
        """activation · |h_t|² + change · |h_t - h_t-1|², means over the width, summed over the answers asked for.

        Merity et al. 2018, section 4.6. They leave dropout out of the second; a mask that holds for all times
        takes the same numbers from both, so that here it only loses what no head sees. What stays is larger, so that
        with dropout p a weight of 1 there is 1 - p here.
        """
        size = hidden.float().square().mean(-1).masked_fill(~label_mask, 0).sum()
        both = label_mask[:, 1:] & label_mask[:, :-1]
        moved = hidden.float().diff(dim=1).square().mean(-1).masked_fill(~both, 0).sum()
        return (self.ar * size + self.tar * moved) / self.copies


class MaskedToken(Settings):
    """Guess the tokens that were hidden (Devlin et al. 2019, section 3.1, task 1)."""

    kind: Literal["masked-token"] = "masked-token"
    copies: ClassVar[int] = 1
    feeding: ClassVar[TeacherForcing] = TeacherForcing()  # a model that only reads is fed nothing of its own

    def loss(self, hidden: Sequences, head: Any, labels: Int[Tensor, "row time"]) -> Float[Tensor, ""]:
        """The summed cross-entropy of the tokens asked for."""
        return NextToken().loss(hidden, head, labels)


class NextSentence:
    """Tell whether the second text of a row follows the first (the same section, task 2)."""

    def loss(self, hidden: Sequences, head: Any, labels: Int[Tensor, "row first"]) -> Float[Tensor, ""]:
        """The summed cross-entropy of "yes" or "no", which are asked at the first place of each row."""
        return NextToken().loss(hidden, head, labels)


class MaskedTokenNextSentence(Settings):
    """Guess the tokens that were hidden in two texts, and whether the second text follows the first."""

    kind: Literal["masked-token-next-sentence"] = "masked-token-next-sentence"
    copies: ClassVar[int] = 1
    feeding: ClassVar[TeacherForcing] = TeacherForcing()

    def loss(self, hidden: Sequences, head: Any, labels: Int[Tensor, "row time"]) -> Float[Tensor, ""]:
        """The sum of both losses."""
        first, places = (Sequences(part, hidden.lengths) for part in hidden.values.tensor_split([1], dim=1))
        hidden_loss = MaskedToken().loss(places, head.tokens, labels[:, 1:])
        return hidden_loss + NextSentence().loss(first, head.next_sentence, labels[:, :1])


class Classification(Settings):
    """Name the right label."""

    kind: Literal["classify"] = "classify"
    copies: ClassVar[int] = 1
    feeding: ClassVar[TeacherForcing] = TeacherForcing()
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    """Label smoothing: this share of the answer is spread evenly over all labels."""

    def loss(self, hidden: Sequences, head: Any, labels: Int[Tensor, "row place"]) -> Float[Tensor, ""]:
        """The summed cross-entropy of the labels asked for."""
        return NextToken(label_smoothing=self.label_smoothing).loss(hidden, head, labels)

    def mixup_loss(self, hidden: Sequences, head: Any, batch: MixedBatch) -> Float[Tensor, ""]:
        """λ times the cross-entropy of the one label, 1 - λ times that of the other (Zhang et al. 2018, section 2).

        It is that of the mixed answer: cross-entropy is linear in what is asked for. So every row comes twice.
        """
        vectors = hidden.values.flatten(0, 1).repeat(2, 1)[None]
        answers = torch.cat([batch.labels.flatten(), batch.other_labels.flatten()])
        label_weights = torch.cat([batch.label_weights, 1 - batch.label_weights])
        weight, bias = head.weight_and_bias()
        return chunked_loss(vectors, weight, bias, answers, self.label_smoothing, label_weights=label_weights)


class NextValue(Settings):
    """Guess each number of a series from those before it."""

    kind: Literal["next-value"] = "next-value"
    copies: ClassVar[int] = 1
    feeding: ClassVar[TeacherForcing] = TeacherForcing()

    def loss(self, hidden: Sequences, head: Any, labels: Float[Tensor, "row time"]) -> Float[Tensor, ""]:
        """The summed squared error of the numbers asked for; what is not asked for is NaN."""
        # Chosen before it is squared: behind a square, the gradient of what was not chosen would be 0 times NaN.
        return ((head(hidden.values).squeeze(-1) - labels).where(~labels.isnan(), 0) ** 2).sum()


Objective = NextToken | MaskedToken | MaskedTokenNextSentence | Classification | NextValue
"""What can be asked; each has `copies`, `feeding` and `loss`."""


def batch_loss(objective: Objective, hidden: Sequences, head: Any, batch: Batch) -> Float[Tensor, ""]:
    """The summed loss of what a batch asks for."""
    if isinstance(batch, MixedBatch):
        assert isinstance(objective, Classification), "only labels are mixed"
        return objective.mixup_loss(hidden, head, batch)
    return objective.loss(hidden, head, batch.labels)


def select_labeled(vectors: HiddenStates, labels: Labels) -> tuple[HiddenStates, Labels]:
    """The tokens that are asked for, and no others: less to compute.

    A GPU takes all of them: how many are asked for decides the shapes, and it would have to wait to be told.
    """
    places = (labels != NOT_ASKED).nonzero().squeeze(1)
    return vectors.index_select(1, places), labels[places]


def repeat_for_r_drop(batch: Batch) -> Batch:
    """Every row twice, for two passes with different dropout: rows a, b become a, b, a, b."""
    rows = torch.arange(batch.indices.size(0), device=batch.indices.device)
    return pick_rows(batch, rows.repeat(2))
