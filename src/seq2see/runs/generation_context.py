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

from seq2see.core.batch import IGNORE_INDEX, Batch, Images, Sequences
from seq2see.core.errors import UserError
from seq2see.decoding.engine import log_probabilities, suppress_special_tokens
from seq2see.decoding.search_tree import SearchTree, trace_search
from seq2see.decoding.settings import Decoding, make_limits, make_logits_processors, make_sampler
from seq2see.models.image_settings import ImageSource
from seq2see.runs.model import Model
from seq2see.sequences.tokenizers import BOS, EOS, PAD, Tokenizer


@dataclass(frozen=True)
class GenerationContext:
    """A model, what it reads, and what is written already."""

    model: Model
    source: Sequences | Images | None
    """The source as a batch of one, with <eos>; None where nothing is read."""
    ids: list[int]
    """What is written: the text that a language model goes on from, or the beginning of an answer."""
    truncated: bool
    """Whether some of the text is not seen, because it is longer than the model reads."""

    @property
    def masked_positions(self) -> list[int]:
        """Nothing that is written is hidden."""
        return []

    @property
    def prefix(self) -> Sequences:
        """What is written as a batch of one."""
        return Sequences.of([self.ids]).to(self.model.device)

    @property
    def tokenizer(self) -> Tokenizer:
        """What names the tokens."""
        return self.model.tokenizers.target

    def position(self, wanted: int) -> int:
        """A place that can be asked for: one of those written, or the one behind them, which -1 stands for."""
        last = len(self.ids)
        return last if wanted < 0 else min(wanted, last)

    def scores_at(self, place: int) -> Float[Tensor, "vocab"]:
        """Log-probabilities of what comes at a place, when only what stands before it is written."""
        return suppress_special_tokens(self.scores(self.ids[:place])[-1:])[0]

    def previous_tokens(self, place: int) -> set[int]:
        """The tokens that were written before this place."""
        return set(self.ids[:place])

    def position_scores(self) -> Float[Tensor, "time vocab"]:
        """For each place that is written, log-probabilities of what comes there."""
        return suppress_special_tokens(self.scores()[:-1])

    def scores(self, ids: Sequence[int] | None = None) -> Float[Tensor, "time vocab"]:
        """Log-probabilities of what comes at every place of what is written (or of other ids), and behind its end."""
        with torch.no_grad():
            return log_probabilities(self.model.module(self._batch(self.ids if ids is None else ids))[0]).cpu()

    def batch_at(self, place: int) -> tuple[Batch, int]:
        """What the model reads when it is asked for a place, and the time at which it answers."""
        return self._batch(self.ids[:place]), place

    def search(self, decoding: Decoding, seed: int = 0) -> SearchTree:
        """The whole search that goes on from what is written: all that was looked at, and the answers, best first.

        It is the search that `predict` runs, watched (`decoding/search_tree.py`).
        """
        sampler, limits, logits_processors = (
            make_sampler(decoding, seed),
            make_limits(decoding),
            make_logits_processors(decoding),
        )
        module: Any = self.model.module  # whatever writes can start and step
        return trace_search(module, self.source, sampler, limits, logits_processors, self.prefix)

    def _batch(self, ids: Sequence[int]) -> Batch:
        said = [BOS, *ids]
        asked = torch.full((1, len(said)), IGNORE_INDEX)
        return Batch(self.source, Sequences.of([said]), asked, torch.zeros(1, dtype=torch.long)).to(self.model.device)


def generation_context(model: Model, given: Any, target: str = "", token_ids: Sequence[int] = ()) -> GenerationContext:
    """What a model stands before when it is given something, and `target` and then the tokens `token_ids` are written.

    A language model reads nothing: it goes on from the text, and the target is part of what it goes on from.
    """
    check_token_ids(model.tokenizers.target, token_ids)
    prefix_ids = [*model.tokenizers.target.encode(target), *token_ids]
    if isinstance(model.config.model.source, ImageSource):
        return GenerationContext(model, model.named_batch(given, "").batch.source, prefix_ids, False)
    return _read(model, given, prefix_ids)


def _read(model: Model, text: str, prefix_ids: list[int]) -> GenerationContext:
    """The same of a text."""
    seen = model.encode(text)
    truncated = len(seen) - model.has_source < len(model.tokenizers.source.encode(text))
    if not model.has_source:
        return GenerationContext(model, None, [*seen, *prefix_ids], truncated)
    return GenerationContext(model, Sequences.of([seen]).to(model.device), prefix_ids, truncated)


def check_token_ids(tokenizer: Tokenizer, token_ids: Sequence[int]) -> None:
    """Numbers that no text can contain."""
    size = len(tokenizer)
    for token in token_ids:
        if token in (PAD, BOS, EOS) or not 0 <= token < size:
            raise UserError(f"There is no token {token} that could be written.", hint="Take one that is shown.")
