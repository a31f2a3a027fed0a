"""REINFORCE: a model learns from the rewards of its own answers (Williams 1992), not from the tokens of a reference.

The objective is to maximize, over the weights z (Sun, Cetin & Tang 2025, "Transformer²", eq. 1),

    J(z) = E[r(y)] - λ KL(p_z ‖ p_0),    y drawn from p_z(y | x)

p_0 is the base model: the model before the first step. The gradient of the expected reward is E[r(y) ∇ log p_z(y)]:
answers with a reward above average become more probable. Subtracting a baseline that does not depend on y changes
nothing in the mean, because E[∇ log p_z(y)] = 0, and makes the gradient less noisy.

A step has two parts, as in scheduled sampling. First the answers are generated without gradients, by the decoding
engine, and rewarded (`tasks/answers.py`). Then *one* parallel pass over these answers computes the loss below. If all
answers have equal rewards, the gradient of the first term is zero: a model that is never right learns nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor

from seq2see.core.batch import IGNORE_INDEX, AnswerBatch, Sequences
from seq2see.core.settings import Settings
from seq2see.training.rewards import ExactMatch, Reward
from seq2see.training.scheduled_sampling import TeacherForcing

WATCHED_STEPS = 100
"""After this many steps, rewards that were all equal are reported."""
MINUS_INFINITY = -1e9
"""The logit of a forbidden token: finite, so that 0 times the difference of two of them is 0."""

Rewards = Float[Tensor, "question answer"]
LogProbabilities = Float[Tensor, "row time vocab"]
Penalties = Float[Tensor, "row time"]


# --- which answers are drawn ---


class SampledAnswers(Settings):
    """Several answers to each question, drawn from the distribution of the model."""

    kind: Literal["sampled"] = "sampled"
    count: int = Field(4, ge=1, le=256)
    """The number of answers to each question."""


class GreedyAnswers(Settings):
    """The most probable answer to each question, as in the published code of Transformer²; it explores nothing."""

    kind: Literal["greedy"] = "greedy"
    count: ClassVar[int] = 1


# --- baselines: what a reward is compared with ---


class NoBaseline(Settings):
    """No baseline, as in Transformer²: a right answer is reinforced, a wrong one is suppressed."""

    kind: Literal["none"] = "none"

    def advantages(self, rewards: Rewards) -> Rewards:
        """The rewards themselves."""
        return rewards


class BatchMean(Settings):
    """The mean reward of all other answers of the batch."""

    kind: Literal["batch"] = "batch"

    def advantages(self, rewards: Rewards) -> Rewards:
        """Each reward minus the mean of the others."""
        return _leave_one_out(rewards.flatten()).view_as(rewards)


class GroupMean(Settings):
    """The mean reward of the other answers to the same question, so that hard and easy questions count alike.

    Kool, van Hoof & Welling 2019, "Buy 4 REINFORCE Samples, Get a Baseline for Free!", eq. 8.
    """

    kind: Literal["group"] = "group"

    def advantages(self, rewards: Rewards) -> Rewards:
        """Each reward minus the mean of the others of its question."""
        return _leave_one_out(rewards)


def _leave_one_out(rewards: Float[Tensor, "... answer"]) -> Float[Tensor, "... answer"]:
    """r_i minus the mean of the others: a mean with r_i itself would make the gradient smaller by (n - 1) / n.

    >>> _leave_one_out(torch.tensor([3.0, 0.0, -3.0])).tolist()
    [4.5, 0.0, -4.5]
    """
    count = rewards.size(-1)
    return rewards if count == 1 else (rewards - rewards.mean(-1, keepdim=True)) * count / (count - 1)


# --- divergences from the base model ---


class PolicyToBase(Settings):
    """KL(p_z ‖ p_0), as in the paper: the model may be surer than its base, but must not invent."""

    kind: Literal["policy-to-base"] = "policy-to-base"
    changes_return: ClassVar[bool] = True
    """Whether the later divergence of an answer depends on its earlier tokens, which the model itself draws."""

    def of(self, policy: LogProbabilities, base: LogProbabilities) -> Penalties:
        """Σ p_z (log p_z - log p_0) over the vocabulary, at each token."""
        return (policy.exp() * (policy - base)).sum(-1)


class BaseToPolicy(Settings):
    """KL(p_0 ‖ p_z), the direction of the published code: the model must keep what its base can say.

    As there, only the distributions at the tokens of the drawn answers are compared.
    """

    kind: Literal["base-to-policy"] = "base-to-policy"
    changes_return: ClassVar[bool] = False

    def of(self, policy: LogProbabilities, base: LogProbabilities) -> Penalties:
        """Σ p_0 (log p_0 - log p_z) over the vocabulary, at each token."""
        return (base.exp() * (base - policy)).sum(-1)


class Reinforce(Settings):
    """REINFORCE: increase the expected reward of the model's own answers, and stay near the base model."""

    kind: Literal["reinforce"] = "reinforce"
    copies: ClassVar[int] = 1
    feeding: ClassVar[TeacherForcing] = TeacherForcing()  # the inputs are the model's own answers
    reward: Reward = ExactMatch()
    answers: Annotated[SampledAnswers | GreedyAnswers, Field(discriminator="kind")] = SampledAnswers()
    """Which answers are rewarded: drawn at random, or the most probable one."""
    baseline: Annotated[BatchMean | GroupMean | NoBaseline, Field(discriminator="kind")] = BatchMean()
    """What a reward is compared with."""
    divergence: Annotated[PolicyToBase | BaseToPolicy, Field(discriminator="kind")] = PolicyToBase()
    """How the distance from the base model is measured."""
    kl_weight: float = Field(0.0, ge=0)
    """λ, the weight of the divergence from the base model; 0 as in the published code."""

    @model_validator(mode="after")
    def _check_group(self) -> Reinforce:
        if isinstance(self.baseline, GroupMean) and self.answers.count == 1:
            raise ValueError("a group of one answer has no other answers: set objective.baseline.kind=batch")
        return self

    def answer_loss(self, hidden: Sequences, head: Any, batch: AnswerBatch) -> Float[Tensor, ""]:
        """The sum over the answers of a loss whose gradient is that of -J; its value has no meaning.

        For an answer with advantage A, and the divergences KL_1 .. KL_n at its tokens,

            - Σ_t (A - λ Σ_{s>t} KL_s) log p_z(y_t) + λ Σ_t KL_t

        The inner sum has no gradient: it is the part of the divergence that the choice of y_t leads to.
        """
        labels = answer_labels(batch)[0]
        policy = answer_log_probabilities(hidden, head, batch)  # 0 at padding, so that no mask is needed below
        chosen = policy.gather(-1, labels[..., None]).squeeze(-1)
        returns = batch.advantages[:, None].expand_as(chosen)
        if not self.kl_weight:
            return -(returns * chosen).sum()
        base = batch.base_log_probabilities[:, : labels.size(1)]  # a micro-batch can have shorter answers
        penalty = self.divergence.of(policy, base)
        if self.divergence.changes_return:
            later = penalty.sum(1, keepdim=True) - penalty.cumsum(1)
            returns = returns - self.kl_weight * later.detach()
        return (self.kl_weight * penalty - returns * chosen).sum()


def answer_labels(batch: Any) -> tuple[Int[Tensor, "row answer"], Tensor]:
    """The tokens of the answers, from their first on, and where they are not padding."""
    lengths = batch.label_mask.sum(1)
    valid = torch.arange(int(lengths.max()), device=lengths.device) < lengths[:, None]
    labels = torch.zeros(valid.shape, dtype=torch.long, device=lengths.device)
    labels[valid] = batch.labels[batch.labels != IGNORE_INDEX]
    return labels, valid


def answer_log_probabilities(hidden: Sequences, head: Any, batch: Any) -> LogProbabilities:
    """The log-probabilities of all tokens at each token of the answers; 0 at padding.

    Forbidden tokens have the probability 0, as when the answers were generated.
    """
    _, valid = answer_labels(batch)
    logits = head(hidden.values[batch.label_mask]).float()
    logits = logits.index_fill(
        -1, torch.tensor(batch.forbidden, device=logits.device, dtype=torch.long), MINUS_INFINITY
    )
    padded = logits.new_zeros(*valid.shape, logits.size(-1))
    padded[valid] = logits.log_softmax(-1)
    return padded


class RewardWatch:
    """Reports rewards that were all equal in the first steps, from which nothing is learned."""

    def __init__(self, earlier: Iterable[Mapping[str, Any]] = ()):
        self.rewards: set[float] = set()
        for metrics in earlier:
            self.see(metrics)

    def see(self, metrics: Mapping[str, Any]) -> None:
        """Remember the rewards of a step: their lowest and their highest."""
        self.rewards |= {metrics[name] for name in ("reward_min", "reward_max") if name in metrics}

    def message(self, step: int) -> str | None:
        """The report after this step, if there is one."""
        if step != WATCHED_STEPS or len(self.rewards) != 1:
            return None
        value = next(iter(self.rewards))
        remedy = (
            "Train the model on such answers first (objective.kind=next-token), choose easier questions, or draw more "
            "answers (objective.answers.count)."
            if value <= 0
            else "The model solves these questions already: choose harder ones."
        )
        return (
            f"WARNING every answer of {step} steps had the reward {value:g}, so nothing was learned from it. {remedy}"
        )
