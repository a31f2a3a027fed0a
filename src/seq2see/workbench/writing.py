"""Where a model that writes stands: what it has read, and what is written already.

Whoever asks what comes next stands here: a text is cut as `predict` cuts it. Tokens that somebody took one by one are
kept as numbers, because a text that is put together from pieces is not always cut into the same pieces again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from seq2see.core.batch import NOT_ASKED, Batch, Pictures, Sequences
from seq2see.core.errors import UserError
from seq2see.decoding.engine import log_probabilities, sayable
from seq2see.decoding.settings import Decoding, chooser_of, limits_of, rules_of
from seq2see.decoding.watching import Tree, watch
from seq2see.models.picture_settings import Picture
from seq2see.sequences.tokenisers import BOS, EOS, PAD, Tokeniser
from seq2see.workbench.predict import Model


@dataclass(frozen=True)
class Writing:
    """A model, what it reads, and what is written already."""

    model: Model
    read: Sequences | Pictures | None
    """The source as a batch of one, with <eos>; None where nothing is read."""
    ids: list[int]
    """What is written: the text that a language model goes on from, or the beginning of an answer."""
    cut: bool
    """Whether some of the text is not seen, because it is longer than the model reads."""

    @property
    def blanks(self) -> list[int]:
        """Nothing that is written is hidden."""
        return []

    @property
    def prefix(self) -> Sequences:
        """What is written as a batch of one."""
        return Sequences.of([self.ids]).to(self.model.device)

    @property
    def tokeniser(self) -> Tokeniser:
        """What names the tokens."""
        return self.model.tokenisers.target

    def place(self, wanted: int) -> int:
        """A place that can be asked for: one of those written, or the one behind them, which -1 stands for."""
        last = len(self.ids)
        return last if wanted < 0 else min(wanted, last)

    def at(self, place: int) -> Float[Tensor, "vocab"]:
        """Log-probabilities of what comes at a place, when only what stands before it is written."""
        return sayable(self.scores(self.ids[:place])[-1:])[0]

    def said(self, place: int) -> set[int]:
        """The tokens that were written before this place."""
        return set(self.ids[:place])

    def along(self) -> Float[Tensor, "time vocab"]:
        """For each place that is written, log-probabilities of what comes there."""
        return sayable(self.scores()[:-1])

    def scores(self, ids: Sequence[int] | None = None) -> Float[Tensor, "time vocab"]:
        """Log-probabilities of what comes at every place of what is written (or of other ids), and behind its end."""
        with torch.no_grad():
            return log_probabilities(self.model.module(self._batch(self.ids if ids is None else ids))[0]).cpu()

    def batch_at(self, place: int) -> tuple[Batch, int]:
        """What the model reads when it is asked for a place, and the time at which it answers."""
        return self._batch(self.ids[:place]), place

    def search(self, decoding: Decoding, seed: int = 0) -> Tree:
        """The whole search that goes on from what is written: all that was looked at, and the answers, best first.

        It is the search that `predict` runs, watched (`decoding/watching.py`).
        """
        chooser, limits, rules = chooser_of(decoding, seed), limits_of(decoding), rules_of(decoding)
        module: Any = self.model.module  # whatever writes can start and step
        return watch(module, self.read, chooser, limits, rules, self.prefix)

    def _batch(self, ids: Sequence[int]) -> Batch:
        said = [BOS, *ids]
        asked = torch.full((1, len(said)), NOT_ASKED)
        return Batch(self.read, Sequences.of([said]), asked, torch.zeros(1, dtype=torch.long)).to(self.model.device)


def writing(model: Model, given: Any, target: str = "", taken: Sequence[int] = ()) -> Writing:
    """What a model stands before when it is given something, and `target` and then the tokens `taken` are written.

    A language model reads nothing: it goes on from the text, and the target is part of what it goes on from.
    """
    refuse_unknown(model.tokenisers.target, taken)
    beginning = [*model.tokenisers.target.encode(target), *taken]
    if isinstance(model.config.model.source, Picture):
        return Writing(model, model.reading(given, "").batch.source, beginning, False)
    return _read(model, given, beginning)


def _read(model: Model, text: str, beginning: list[int]) -> Writing:
    """The same of a text."""
    seen = model.read(text)
    cut = len(seen) - model.reads < len(model.tokenisers.source.encode(text))
    if not model.reads:
        return Writing(model, None, [*seen, *beginning], cut)
    return Writing(model, Sequences.of([seen]).to(model.device), beginning, cut)


def refuse_unknown(tokeniser: Tokeniser, taken: Sequence[int]) -> None:
    """Numbers that no text can contain."""
    size = len(tokeniser)
    for token in taken:
        if token in (PAD, BOS, EOS) or not 0 <= token < size:
            raise UserError(f"There is no token {token} that could be written.", remedy="Take one that is shown.")
