"""What is asked of a model: from hidden states and answers to a loss.

Losses are *sums* over the answers asked for. The loop divides by the number of answers in the whole
optimiser step, so one big batch and the same batch in four pieces give the same gradient.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor

from seq2see.core.batch import NOT_ASKED, Batch, Mixed, Sequences
from seq2see.core.rows import pick_rows
from seq2see.core.settings import Settings
from seq2see.training.cross_entropy import chunked_loss
from seq2see.training.feeding import FreeRunning, ScheduledSampling, TeacherForcing

Vectors = Float[Tensor, "copy token width"]
Labels = Int[Tensor, "token"]


class NextToken(Settings):
    """Guess each target token from the source and the tokens before it."""

    kind: Literal["next-token"] = "next-token"
    smoothing: float = Field(0.0, ge=0, lt=1)
    """Label smoothing: this share of the answer is spread evenly over the vocabulary."""
    agreement: float = Field(0.0, ge=0)
    """How much two passes with different dropout shall agree (R-Drop); 0 makes one pass, anything else two."""
    activation: float = Field(0.0, ge=0)
    """How much large hidden numbers cost (activation regularisation): this times their mean square."""
    change: float = Field(0.0, ge=0)
    """How much it costs that hidden numbers change (temporal activation regularisation): this times the mean square."""
    feeding: Annotated[TeacherForcing | ScheduledSampling | FreeRunning, Field(discriminator="kind")] = TeacherForcing()
    """What the decoder is fed in training: the truth, its own words, or a mixture."""

    @property
    def copies(self) -> int:
        """How many times `loss` must be given every row: 2 if two passes shall agree (see `doubled`)."""
        return 2 if self.agreement else 1

    def loss(self, hidden: Sequences, head: Any, labels: Int[Tensor, "row time"]) -> Float[Tensor, ""]:
        """The summed loss of the answers asked for, each counted once.

        With agreement, the rows come twice: the loss is the mean of the two cross-entropies plus
        agreement / 2 · (KL(p‖q) + KL(q‖p)) (Liang et al. 2021, eq. 2 to 4; their eq. 3 adds the cross-entropies,
        so that a weight of 5 there is 2.5 here).
        """
        vectors = hidden.values.unflatten(0, (self.copies, -1)).flatten(1, -2)
        answers = labels[: len(labels) // self.copies].flatten()
        if vectors.device.type == "cpu":
            vectors, answers = picked(vectors, answers)
        weight, bias = head.matrix()
        loss = chunked_loss(vectors, weight, bias, answers, self.smoothing, self.agreement)
        return loss + self.unrest(hidden.values, labels != NOT_ASKED) if self.activation or self.change else loss

    def unrest(self, hidden: Float[Tensor, "row time width"], asked: Bool[Tensor, "row time"]) -> Float[Tensor, ""]:
        """activation · |h_t|² + change · |h_t - h_t-1|², means over the width, summed over the answers asked for.

        Merity et al. 2018, section 4.6. They leave dropout out of the second; a mask that holds for all times
        takes the same numbers from both, so that here it only loses what no head sees. What stays is larger, so that
        with dropout p a weight of 1 there is 1 - p here.
        """
        size = hidden.float().square().mean(-1).masked_fill(~asked, 0).sum()
        both = asked[:, 1:] & asked[:, :-1]
        moved = hidden.float().diff(dim=1).square().mean(-1).masked_fill(~both, 0).sum()
        return (self.activation * size + self.change * moved) / self.copies


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
        return hidden_loss + NextSentence().loss(first, head.follows, labels[:, :1])


class Classify(Settings):
    """Name the right label."""

    kind: Literal["classify"] = "classify"
    copies: ClassVar[int] = 1
    feeding: ClassVar[TeacherForcing] = TeacherForcing()
    smoothing: float = Field(0.0, ge=0, lt=1)
    """Label smoothing: this share of the answer is spread evenly over all labels."""

    def loss(self, hidden: Sequences, head: Any, labels: Int[Tensor, "row place"]) -> Float[Tensor, ""]:
        """The summed cross-entropy of the labels asked for."""
        return NextToken(smoothing=self.smoothing).loss(hidden, head, labels)

    def mixed_loss(self, hidden: Sequences, head: Any, batch: Mixed) -> Float[Tensor, ""]:
        """λ times the cross-entropy of the one label, 1 - λ times that of the other (Zhang et al. 2018, section 2).

        It is that of the mixed answer: cross-entropy is linear in what is asked for. So every row comes twice.
        """
        vectors = hidden.values.flatten(0, 1).repeat(2, 1)[None]
        answers = torch.cat([batch.labels.flatten(), batch.others.flatten()])
        shares = torch.cat([batch.shares, 1 - batch.shares])
        weight, bias = head.matrix()
        return chunked_loss(vectors, weight, bias, answers, self.smoothing, shares=shares)


class NextValue(Settings):
    """Guess each number of a series from those before it."""

    kind: Literal["next-value"] = "next-value"
    copies: ClassVar[int] = 1
    feeding: ClassVar[TeacherForcing] = TeacherForcing()

    def loss(self, hidden: Sequences, head: Any, labels: Float[Tensor, "row time"]) -> Float[Tensor, ""]:
        """The summed squared error of the numbers asked for; what is not asked for is NaN."""
        # Chosen before it is squared: behind a square, the gradient of what was not chosen would be 0 times NaN.
        return ((head(hidden.values).squeeze(-1) - labels).where(~labels.isnan(), 0) ** 2).sum()


Objective = NextToken | MaskedToken | MaskedTokenNextSentence | Classify | NextValue
"""What can be asked; each has `copies`, `feeding` and `loss`."""


def loss_of(objective: Objective, hidden: Sequences, head: Any, batch: Batch) -> Float[Tensor, ""]:
    """The summed loss of what a batch asks for."""
    if isinstance(batch, Mixed):
        assert isinstance(objective, Classify), "only labels are mixed"
        return objective.mixed_loss(hidden, head, batch)
    return objective.loss(hidden, head, batch.labels)


def picked(vectors: Vectors, labels: Labels) -> tuple[Vectors, Labels]:
    """The tokens that are asked for, and no others: less to compute.

    A GPU takes all of them: how many are asked for decides the shapes, and it would have to wait to be told.
    """
    places = (labels != NOT_ASKED).nonzero().squeeze(1)
    return vectors.index_select(1, places), labels[places]


def doubled(batch: Batch) -> Batch:
    """Every row twice, for two passes with different dropout: rows a, b become a, b, a, b."""
    rows = torch.arange(batch.indices.size(0), device=batch.indices.device)
    return pick_rows(batch, rows.repeat(2))
