"""Decoding of CTC: the best path, prefix search, forced alignment, and CTC as a model that predicts token by token.

A path has one token or a blank for every frame (`layers/ctc.py`). Many paths have the same labels, and the most
probable path need not have the most probable labels: prefix search adds the probabilities of paths with equal labels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from seq2see.core.batch import INPUT_ONLY, Images, Sequences
from seq2see.data.tokenizers.tokenizer import BOS, EOS
from seq2see.layers.ctc import BLANK, IMPOSSIBLE, blank_states, frames_needed, may_skip

Scores = NDArray[np.float32]
"""(frame, token): log-probabilities."""
NEGLIGIBLE = -12.0
"""Prefix search does not extend a prefix by a token whose log-probability in this frame is lower."""


@dataclass(frozen=True)
class TimedToken:
    """A token and its frames on a path: from `start` up to, but not including, `end`."""

    token: int
    start: int
    end: int
    log_probability: float
    """The highest log-probability of the token in these frames."""


def best_path(scores: Scores) -> list[TimedToken]:
    """Greedy decoding: the best token of each frame, repeats merged, without the blank (Graves 2006, eq. 4)."""
    tokens = scores.argmax(1)
    found, start = [], 0
    for token, run in groupby(tokens.tolist()):
        end = start + len(list(run))
        if token != BLANK:
            found.append(TimedToken(token, start, end, float(scores[start:end, token].max())))
        start = end
    return found


def prefix_search(scores: Scores, width: int) -> list[tuple[tuple[int, ...], float]]:
    """Prefix beam search: the most probable labels of all frames and their log-probabilities, best first.

    For each prefix of labels there are two sums: of the paths that end in a blank, and of those that end in the last
    label of the prefix. One more frame of this label adds a label to the former paths only; in the latter it is a
    repeat, which is merged (Hannun et al. 2014, algorithm 1).
    """
    impossible = float("-inf")
    beam: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, impossible)}
    for frame in scores.tolist():
        sums: defaultdict[tuple[int, ...], list[float]] = defaultdict(lambda: [impossible, impossible])
        tokens = [token for token, score in enumerate(frame) if token != BLANK and score > NEGLIGIBLE]
        for prefix, (blank, label) in beam.items():
            total, last = np.logaddexp(blank, label), prefix[-1] if prefix else None
            _add(sums[prefix], 0, total + frame[BLANK])
            if last is not None:
                _add(sums[prefix], 1, label + frame[last])
            for token in tokens:
                _add(sums[*prefix, token], 1, (blank if token == last else total) + frame[token])
        possible = [prefix for prefix, both in sums.items() if max(both) > impossible]
        best = sorted(possible, key=lambda prefix: -float(np.logaddexp(sums[prefix][0], sums[prefix][1])))[:width]
        beam = {prefix: (sums[prefix][0], sums[prefix][1]) for prefix in best}
    return [(prefix, float(np.logaddexp(*both))) for prefix, both in beam.items()]


def _add(sums: list[float], part: int, log_probability: float) -> None:
    sums[part] = float(np.logaddexp(sums[part], log_probability))


def align(scores: Scores, labels: Sequence[int]) -> list[TimedToken]:
    """Forced alignment: the frames of each label on the most probable path with these labels (Viterbi 1967).

    Empty if there are fewer frames than the labels need.
    """
    if not labels or frames_needed(list(labels)) > len(scores):
        return []
    states = blank_states(Sequences.of([list(labels)]))
    emissions, skips = scores[:, states[0].numpy()], may_skip(states)[0].numpy()
    best, arrivals = np.full(emissions.shape[1], IMPOSSIBLE), []
    best[:2] = emissions[0, :2]
    for frame in emissions[1:]:
        one, two = np.roll(best, 1), np.where(skips, np.roll(best, 2), IMPOSSIBLE)
        one[0] = IMPOSSIBLE
        candidates = np.stack([best, one, two])
        arrivals.append(candidates.argmax(0))
        best = candidates.max(0) + frame
    state = len(best) - 1 if best[-1] > best[-2] else len(best) - 2
    path = [state]
    for steps in reversed(arrivals):
        state -= int(steps[state])
        path.append(state)
    return _timed_tokens(np.array(path[::-1]), labels, scores)


def _timed_tokens(path: NDArray[np.int64], labels: Sequence[int], scores: Scores) -> list[TimedToken]:
    """The frames of each label on a path through the states of the lattice."""
    found = []
    for index, label in enumerate(labels):
        frames = np.flatnonzero(path == 2 * index + 1)
        start, end = int(frames[0]), int(frames[-1]) + 1
        found.append(TimedToken(label, start, end, float(scores[start:end, label].max())))
    return found


@dataclass(frozen=True)
class CTCPrefixState:
    """For a prefix of labels, the sums of all paths with these labels up to each frame; index 0 is before the first."""

    scores: Float[Tensor, "row frame token"] = field(metadata=INPUT_ONLY)
    frames: Int[Tensor, "row"] = field(metadata=INPUT_ONLY)
    end_in_label: Float[Tensor, "row time"]
    """Log-probability of the paths that end in the last label."""
    end_in_blank: Float[Tensor, "row time"]
    """Log-probability of the paths that end in a blank."""
    last: Int[Tensor, "row"]
    """The last label; <bos> for the empty prefix."""
    prefix_score: Float[Tensor, "row"]
    """Log-probability that the labels begin with this prefix."""


class CTCPrefixModel:
    """A CTC model that predicts label by label: p(c | h) = p(h c ...) / p(h ...) for a prefix h of labels.

    The probability that the labels begin with a prefix is the sum over the frames in which its last label begins
    (Graves et al. 2006, section 3.2; Watanabe et al. 2017, algorithm 2). So a CTC model can be decoded by the loop of
    `engine.py`, alone or together with a decoder and a language model (`ensemble.py`). `model` is the encoder, with
    the method `encode`; `head` computes the logits of the frames.
    """

    def __init__(self, model: Any, head: Any):
        self.model, self.head = model, head

    def start(self, source: Sequences | Images | None, rows: int, max_length: int) -> CTCPrefixState:
        """The state of the empty prefix, whose only path has the blank in every frame."""
        encoded = self.model.encode(source)
        scores = self.head(encoded.values).float().log_softmax(-1)
        scores = torch.where(encoded.valid[..., None], scores, IMPOSSIBLE)
        before = scores.new_zeros(rows, 1)
        blank_scores = torch.cat([before, scores[..., BLANK].cumsum(1).clamp(min=IMPOSSIBLE)], dim=1)
        last = torch.full((rows,), BOS, device=scores.device)
        return CTCPrefixState(
            scores,
            encoded.lengths,
            torch.full_like(blank_scores, IMPOSSIBLE),
            blank_scores,
            last,
            scores.new_zeros(rows),
        )

    def step(
        self, tokens: Int[Tensor, "row new"], state: CTCPrefixState
    ) -> tuple[Float[Tensor, "row new token"], CTCPrefixState]:
        """Append labels; return the log-probabilities of the next label after each, <eos> among them."""
        following = []
        for token in tokens.unbind(1):
            state = _appended(state, token)
            following.append(_next_labels(state))
        return torch.stack(following, dim=1), state


def _before(state: CTCPrefixState, is_last: Tensor) -> Tensor:
    """Log-probability of the paths after which a label can begin; if it equals the last one, it needs a blank."""
    return torch.where(is_last, state.end_in_blank, torch.logaddexp(state.end_in_blank, state.end_in_label))


def _appended(state: CTCPrefixState, token: Int[Tensor, "row"]) -> CTCPrefixState:
    """The state with one more label; <bos> changes nothing."""
    index = token[:, None, None].expand(-1, state.scores.size(1), 1)
    emissions, blank_scores = state.scores.gather(2, index).squeeze(2), state.scores[..., BLANK]
    begins = _before(state, (token == state.last)[:, None])[:, :-1] + emissions
    label = blank = torch.full_like(begins[:, 0], IMPOSSIBLE)
    labels, with_blank = [label], [blank]
    for time in range(emissions.size(1)):
        blank = torch.logaddexp(blank, label) + blank_scores[:, time]
        label = torch.logaddexp(label + emissions[:, time], begins[:, time])
        labels.append(label)
        with_blank.append(blank)
    is_start = token == BOS
    keep = is_start[:, None]
    return replace(
        state,
        end_in_label=torch.where(keep, state.end_in_label, torch.stack(labels, 1).clamp(min=IMPOSSIBLE)),
        end_in_blank=torch.where(keep, state.end_in_blank, torch.stack(with_blank, 1).clamp(min=IMPOSSIBLE)),
        last=token,
        prefix_score=torch.where(is_start, state.prefix_score, begins.logsumexp(1).clamp(min=IMPOSSIBLE)),
    )


def _next_labels(state: CTCPrefixState) -> Float[Tensor, "row token"]:
    """Log-probabilities of each next label; that of <eos> is the probability that the labels are complete."""
    is_last = torch.arange(state.scores.size(2), device=state.last.device) == state.last[:, None]
    before = _before(state, torch.zeros_like(state.end_in_blank, dtype=torch.bool))[:, :-1]
    begins = (before[..., None] + state.scores).logsumexp(1)
    repeated = (state.end_in_blank[:, :-1, None] + state.scores).logsumexp(1)
    following = torch.where(is_last, repeated, begins)
    rows = torch.arange(len(state.frames), device=state.frames.device)
    complete = torch.logaddexp(state.end_in_label[rows, state.frames], state.end_in_blank[rows, state.frames])
    following[:, BLANK], following[:, EOS] = IMPOSSIBLE, complete
    return (following - state.prefix_score[:, None]).clamp(min=IMPOSSIBLE)
