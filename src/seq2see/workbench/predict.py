"""Using a trained model: call it with a text, or give it many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from seq2see.core.batch import Batch, Sequences
from seq2see.core.devices import pick_device
from seq2see.core.errors import UserError
from seq2see.decoding.engine import decode
from seq2see.decoding.hypotheses import Hypothesis
from seq2see.decoding.settings import chooser_of, limits_of, rules_of
from seq2see.inspection.trace import trace
from seq2see.sequences.tokenisers import BOS, EOS
from seq2see.workbench.attention import TextAttention
from seq2see.workbench.model_folder import StoredModel, read_model
from seq2see.workbench.run_folder import find_run

ROWS = 64
"""Texts decoded side by side; a result never depends on its neighbours."""


@dataclass(frozen=True)
class Answer:
    """One text the model gives, and its log-probability (with the length penalty in `score`)."""

    text: str
    score: float
    log_probability: float
    finished: bool


@dataclass(frozen=True)
class Prediction:
    """What a model makes of one text; it prints as the best answer."""

    source: str
    answers: tuple[Answer, ...]
    truncated: bool
    """Whether the source was longer than the model reads; then its end was cut off."""
    _explain: Callable[[str, str], TextAttention]

    def __str__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        """The best answer."""
        return self.answers[0].text

    @property
    def score(self) -> float:
        """How the model ranks it: its log-probability, with the length penalty."""
        return self.answers[0].score

    @cached_property
    def attention(self) -> TextAttention:
        """Where the model looks while it writes this answer; read off one more pass over it."""
        return self._explain(self.source, self.text)

    def _repr_html_(self) -> str:
        return self.attention.html()


class Model:
    """A trained model with its tokenisers: `model("我有一支笔").text`."""

    def __init__(self, stored: StoredModel):
        self.config, self.tokenisers = stored.config, stored.tokenisers
        self.module: nn.Module = stored.module
        self.device = next(stored.module.parameters()).device

    def __call__(self, text: str, **settings: Any) -> Prediction:
        """The prediction for one text."""
        return self.predict([text], **settings)[0]

    def predict(
        self,
        texts: Sequence[str],
        *,
        prefix: str = "",
        seed: int = 0,
        watch: Callable[[int], None] | None = None,
        **settings: Any,
    ) -> list[Prediction]:
        """Predictions for many texts, in their order; settings are those of decoding, say num_beams=5.

        With a prefix every answer begins with it, and the model goes on from there.
        """
        decoding = self.config.decoding.with_(**settings)
        ids = [self._source_ids(text) for text in texts]
        beginning = self.tokenisers.target.encode(prefix)
        # Texts of like length go together, so that little padding is computed.
        order = sorted(range(len(texts)), key=lambda index: len(ids[index]))
        results: dict[int, list[Hypothesis]] = {}
        for start in range(0, len(order), ROWS):
            some = order[start : start + ROWS]
            found = decode(
                self.module,  # type: ignore[arg-type]
                Sequences.of([ids[index] for index in some]).to(self.device),
                chooser_of(decoding, seed),
                limits_of(decoding),
                rules_of(decoding),
                prefix=Sequences.of([beginning] * len(some)).to(self.device),
                indices=torch.tensor(some),
            )
            results |= zip(some, found, strict=True)
            if watch:
                watch(len(some))
        return [self._prediction(text, results[index]) for index, text in enumerate(texts)]

    def score(self, source: str, target: str) -> float:
        """The log-probability of a given target, end of sentence included."""
        batch = self._batch(source, target)
        with torch.inference_mode():
            scores = self.module(batch).float().log_softmax(-1)
        return float(scores[0].gather(-1, batch.labels[0][:, None]).sum())

    def trace(self, source: str, target: str | None = None) -> TextAttention:
        """Where the model looks when it writes a target (its own answer, if none is given)."""
        batch = self._batch(source, self(source).text if target is None else target)
        with torch.inference_mode(), trace(self.module) as maps:
            self.module(batch)
        assert batch.source is not None
        return TextAttention(
            source=self.tokenisers.source.pieces(batch.source.values[0].tolist()),
            target=self.tokenisers.target.pieces(batch.labels[0].tolist()),
            layers=[each.name for each in maps if each.across],
            weights=[each.weights[0].float().cpu().numpy() for each in maps if each.across],
        )

    def _source_ids(self, text: str) -> list[int]:
        if not text.strip():
            raise UserError("There is nothing to read in an empty text.")
        return [*self.tokenisers.source.encode(text)[: self.config.model.source.longest], EOS]

    def _is_cut(self, text: str) -> bool:
        return len(self.tokenisers.source.encode(text)) > self.config.model.source.longest

    def _batch(self, source: str, target: str) -> Batch:
        ids = self.tokenisers.target.encode(target)
        batch = Batch(
            source=Sequences.of([self._source_ids(source)]),
            target=Sequences.of([[BOS, *ids]]),
            labels=torch.tensor([[*ids, EOS]]),
            indices=torch.zeros(1, dtype=torch.long),
        )
        return batch.to(self.device)

    def _prediction(self, text: str, hypotheses: list[Hypothesis]) -> Prediction:
        answers = [
            Answer(
                self.tokenisers.target.decode(list(each.tokens)),
                each.score,
                each.log_probability,
                each.finished,
            )
            for each in hypotheses
        ]
        return Prediction(text, tuple(answers), self._is_cut(text), self.trace)


def load(name: str | Path) -> Model:
    """The model of a finished run: a folder, a name under `runs/`, or "latest"."""
    run = find_run(str(name))
    if not run.finished:
        raise UserError(
            "This run is not finished, so it has no model yet.",
            where=str(run),
            remedy=f"Finish it with `seq2see train {run.recipe_file} --out {run}`.",
        )
    return Model(read_model(run.model, pick_device()))
