"""A mixture of experts: z' = Σ a_k z_k, whose coefficients are found from a few solved questions.

The z of each expert has one number for each singular value, so experts of one base model can be added (Sun, Cetin &
Tang 2025, "Transformer²", section 3.2, few-shot adaptation). There is one coefficient for each expert, or one for each
expert and matrix. They are found by the cross-entropy method (Rubinstein 1999), which needs no gradient:

    candidates a ~ N(mean, std), limited to 0 .. 1;  mean and std become those of the best candidates;  repeat

It begins with mean 1/K for K experts, and std 1/2. A candidate is better if it answers more questions; among equals, if
the right answers have a higher log-likelihood.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.adapters.adapt import adapters_of
from seq2see.adapters.layers import Adapter, NormalizedScaled, Scaled
from seq2see.core.errors import UserError
from seq2see.core.seeds import generator

CANDIDATES, ELITE, ROUNDS = 32, 0.2, 50
"""Candidates of a round, the share of them that the next round is drawn from, and the maximum number of rounds."""
START_STD, SMALLEST_STD = 0.5, 0.01
"""The standard deviation of the first round, and the one at which the search ends."""
SMALLEST_Z = 1e-6
"""The smallest z of `NormalizedScaled` in a mixture, whose logit is finite."""

Coefficients = Float[Tensor, "expert group"]
"""One group for all matrices, or a group for each matrix."""
Score = tuple[float, float]
"""The share of right answers, and the log-likelihood of the right answers."""
ScaleVectors = Mapping[str, Float[Tensor, "r"]]
"""z by matrix."""


@dataclass(frozen=True)
class SearchResult:
    """The best candidate of the cross-entropy method."""

    coefficients: Coefficients
    score: Score
    rounds: int
    history: tuple[float, ...]
    """The best share of right answers after each round."""


def cross_entropy_method(
    score: Callable[[Coefficients], Score], experts: int, groups: int = 1, seed: int = 1, rounds: int = ROUNDS
) -> SearchResult:
    """Search for the coefficients with the best score; the random numbers depend on seed and round alone."""
    mean = torch.full((experts, groups), 1 / experts, dtype=torch.float64)
    std = torch.full_like(mean, START_STD)
    best, best_score, history = mean, score(mean), list[float]()
    elite_count = max(2, int(ELITE * CANDIDATES))
    for number in range(1, rounds + 1):
        noise = torch.from_numpy(
            generator(seed, "cross-entropy method", number).standard_normal((CANDIDATES, *mean.shape))
        )
        candidates = (mean + std * noise).clamp(0, 1)
        scores = [score(each) for each in candidates]
        order = sorted(range(CANDIDATES), key=lambda index: scores[index], reverse=True)
        if scores[order[0]] > best_score:
            best, best_score = candidates[order[0]], scores[order[0]]
        history.append(best_score[0])
        elite = candidates[order[:elite_count]]
        mean, std = elite.mean(0), elite.std(0)
        if float(std.max()) < SMALLEST_STD:
            break
    return SearchResult(best, best_score, len(history), tuple(history))


def scale_vectors(model: nn.Module) -> dict[str, Tensor]:
    """z of every matrix of a model with SVF."""
    return {name: _svf(name, adapter).z.detach().clone() for name, adapter in adapters_of(model).items()}


def mix(experts: Sequence[ScaleVectors], coefficients: Coefficients) -> dict[str, Tensor]:
    """z' = Σ a_k z_k, for each matrix with the coefficients of its group.

    >>> first, second = {"a": torch.tensor([1.0, 0.5])}, {"a": torch.tensor([0.0, 2.0])}
    >>> mix([first, second], torch.tensor([[1.0], [0.5]]))["a"].tolist()
    [1.0, 1.5]
    """
    if coefficients.size(1) not in (1, len(experts[0])):
        raise ValueError(f"{coefficients.size(1)} groups of coefficients for {len(experts[0])} matrices")
    columns = coefficients.expand(-1, len(experts[0])).unbind(1)
    return {
        name: torch.stack([a * expert[name] for a, expert in zip(own.to(experts[0][name]), experts, strict=True)]).sum(
            0
        )
        for name, own in zip(experts[0], columns, strict=True)
    }


@torch.no_grad()
def set_scale_vectors(model: nn.Module, vectors: ScaleVectors) -> None:
    """Set z of every matrix of a model with SVF."""
    for name, adapter in adapters_of(model).items():
        svf = _svf(name, adapter)
        if isinstance(svf, Scaled):
            svf.scales.copy_(vectors[name])
        else:  # only the ratios of z matter, so a z above 1 can be scaled down to where sigmoid(p) = z has a solution
            z = vectors[name].clamp(min=SMALLEST_Z)
            svf.logits.copy_((z / max(2 * float(z.max()), 1.0)).logit())


def _svf(name: str, adapter: Adapter) -> Scaled | NormalizedScaled:
    if isinstance(adapter, Scaled | NormalizedScaled):
        return adapter
    raise UserError(
        "Only experts of SVF can be mixed: they have a number for each singular value.",
        location=name,
        hint="Train them with adapter.kind=svf, or choose one expert by --dispatch prompt or classifier.",
    )
