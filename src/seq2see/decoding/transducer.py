"""Decoding of transducers: frame by frame, with several tokens or none in each frame (Graves 2012, section 2.6)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from seq2see.core.batch import pick_rows
from seq2see.data.tokenizers.tokenizer import BOS, SPECIAL_TOKENS, UNK
from seq2see.decoding.ctc import TimedToken
from seq2see.layers.ctc import BLANK

MAX_TOKENS_PER_FRAME = 8
"""The maximum number of tokens of one frame: an untrained model might never emit a blank."""
NO_OUTPUT = [index for index in range(len(SPECIAL_TOKENS)) if index not in (BLANK, UNK)]
"""Tokens that are never emitted: <bos> and <eos>."""


@dataclass(frozen=True)
class Extension:
    """An output so far, and the hidden state of the prediction network after it."""

    tokens: tuple[TimedToken, ...]
    log_probability: float
    prediction: Float[Tensor, "1 1 width"]
    state: Any

    @property
    def labels(self) -> tuple[int, ...]:
        """The tokens without their times."""
        return tuple(each.token for each in self.tokens)


class TransducerDecoder:
    """Decodes one recording; `model` is a `Transducer`, `encoded` its encoder output for one row."""

    def __init__(self, model: Any, encoded: Any, max_tokens: int = sys.maxsize):
        self.model, self.encoded, self.max_tokens = model, encoded, max_tokens
        self.frames = encoded.values[0, : int(encoded.lengths[0])]

    @staticmethod
    def rows(model: Any, source: Any, max_tokens: int = sys.maxsize) -> list[TransducerDecoder]:
        """A decoder for each row of a batch; its outputs have at most `max_tokens` tokens."""
        encoded = model.encode(source)
        rows = torch.arange(encoded.values.size(0), device=encoded.values.device)
        return [TransducerDecoder(model, pick_rows(encoded, row[None]), max_tokens) for row in rows]

    def start(self) -> Extension:
        """The empty output."""
        prediction, state = self._predict(BOS, self.model.start_prediction(self.encoded))
        return Extension((), 0.0, prediction, state)

    def greedy(self) -> list[Extension]:
        """In each frame, emit the most probable token until it is the blank."""
        best = self.start()
        for time in range(len(self.frames)):
            for _ in range(MAX_TOKENS_PER_FRAME):
                scores = self._scores(time, best)
                token = int(scores.argmax())
                if token == BLANK:
                    break
                best = self._extended(best, token, time, float(scores[token]))
            best = self._with_score(best, float(scores[BLANK]) if token == BLANK else 0.0)
        return [best]

    def beam_search(self, width: int) -> list[Extension]:
        """The best outputs; in each frame, the probabilities of outputs with equal labels are added."""
        beam = [self.start()]
        for time in range(len(self.frames)):
            done: dict[tuple[int, ...], Extension] = {}
            live = beam
            for _ in range(MAX_TOKENS_PER_FRAME):
                live = self._expand(live, time, width, done)
                finished = sorted((each.log_probability for each in done.values()), reverse=True)
                if len(finished) >= width:
                    live = [each for each in live if each.log_probability > finished[width - 1]]
                if not live:
                    break
            beam = sorted(done.values(), key=lambda each: -each.log_probability)[:width]
        return beam

    def align(self, labels: Sequence[int]) -> list[TimedToken]:
        """The frames of these labels on the most probable path through the lattice (Viterbi 1967)."""
        last, predictions = self.start(), []
        for label in labels:
            predictions.append(last.prediction)
            prediction, state = self._predict(label, last.state)
            last = Extension(last.tokens, 0.0, prediction, state)
        predictions.append(last.prediction)
        scores = self.model.head(self.frames[None], torch.cat(predictions, 1))[0].float().log_softmax(-1).cpu().numpy()
        best = np.full(scores.shape[:2], -np.inf)
        emits = np.zeros(scores.shape[:2], bool)
        for time, position in np.ndindex(*best.shape):
            stay = best[time - 1, position] + scores[time - 1, position, BLANK] if time else -np.inf
            emit = best[time, position - 1] + scores[time, position - 1, labels[position - 1]] if position else -np.inf
            emits[time, position] = emit > stay
            best[time, position] = max(stay, emit) if time or position else 0.0
        time, position, found = len(best) - 1, len(labels), []
        while time or position:
            if emits[time, position]:
                position -= 1
                score = float(scores[time, position, labels[position]])
                found.append(TimedToken(labels[position], time, time + 1, score))
            else:
                time -= 1
        return found[::-1]

    def _expand(
        self, live: list[Extension], time: int, width: int, done: dict[tuple[int, ...], Extension]
    ) -> list[Extension]:
        """End each output in this frame by a blank (into `done`); return the best outputs with one more token."""
        candidates: list[tuple[float, Extension, int, float]] = []
        for each in live:
            scores = self._scores(time, each)
            ended = self._with_score(each, float(scores[BLANK]))
            if (same := done.get(each.labels)) is not None:
                total = float(np.logaddexp(same.log_probability, ended.log_probability))
                ended = replace(same, log_probability=total)
            done[each.labels] = ended
            scores[BLANK] = -torch.inf
            values, tokens = scores.topk(min(width, len(scores)))
            rows = zip(values.tolist(), tokens.tolist(), strict=True)
            candidates += [(each.log_probability + value, each, token, value) for value, token in rows]
        best = sorted(candidates, key=lambda candidate: -candidate[0])[:width]
        return [self._extended(each, token, time, value) for _, each, token, value in best]

    def _predict(self, token: int, state: Any) -> tuple[Tensor, Any]:
        return self.model.step_prediction(torch.tensor([token], device=self.frames.device), state)

    def _scores(self, time: int, extension: Extension) -> Float[Tensor, "token"]:
        """The log-probabilities of the next token in this frame."""
        logits = self.model.head(self.frames[None, time : time + 1], extension.prediction)
        scores = logits[0, 0, 0].float().log_softmax(-1)
        scores[NO_OUTPUT] = -torch.inf
        if len(extension.tokens) >= self.max_tokens:
            scores[BLANK + 1 :] = -torch.inf
        return scores

    def _extended(self, extension: Extension, token: int, time: int, log_probability: float) -> Extension:
        prediction, state = self._predict(token, extension.state)
        timed = TimedToken(token, time, time + 1, log_probability)
        return Extension((*extension.tokens, timed), extension.log_probability + log_probability, prediction, state)

    def _with_score(self, extension: Extension, log_probability: float) -> Extension:
        return replace(extension, log_probability=extension.log_probability + log_probability)
