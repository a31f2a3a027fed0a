"""The state of generation for the next-token views: the source, and the tokens generated so far.

Texts are truncated as in `predict`. Tokens that were chosen one by one are stored as ids, because a text that is
decoded from tokens is not always tokenized into the same tokens again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from seq2see.core.batch import IGNORE_INDEX, Batch, Images, Sequences
from seq2see.core.errors import UserError
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD, Tokenizer
from seq2see.decoding.engine import log_probabilities, suppress_special_tokens
from seq2see.decoding.search_tree import SearchTree, trace_search
from seq2see.decoding.settings import Decoding, make_limits, make_logits_processors, make_sampler
from seq2see.tasks.model import Model


@dataclass(frozen=True)
class GenerationContext:
    """A model, its encoded source, and the target tokens so far."""

    model: Model
    source: Sequences | Images | None
    """The source as a batch of one, with <eos>; None for a language model."""
    ids: list[int]
    """The target ids so far: the prompt of a language model, or the beginning of an output."""
    truncated: bool
    """Whether the text was truncated to the limit of the model."""

    @property
    def masked_positions(self) -> list[int]:
        """A generated text has no masks."""
        return []

    @property
    def prefix(self) -> Sequences:
        """The target ids so far as a batch of one."""
        return Sequences.of([self.ids]).to(self.model.device)

    side: ClassVar[str] = "target"
    """The side of the model that predicts the tokens."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the tokens."""
        return self.model.tokenizers.target

    def position(self, index: int) -> int:
        """Clip a position to those of the target so far and the next one, which is also -1."""
        last = len(self.ids)
        return last if index < 0 else min(index, last)

    def scores_at(self, position: int) -> Float[Tensor, "vocab"]:
        """Log-probabilities of the token at a position, given the tokens before it."""
        return suppress_special_tokens(self.scores(self.ids[:position])[-1:])[0]

    def previous_tokens(self, position: int) -> set[int]:
        """The set of token ids before a position."""
        return set(self.ids[:position])

    def position_scores(self) -> Float[Tensor, "time vocab"]:
        """For each position of the target so far, log-probabilities of its token."""
        return suppress_special_tokens(self.scores()[:-1])

    def scores(self, ids: Sequence[int] | None = None) -> Float[Tensor, "time vocab"]:
        """Log-probabilities at every position of the target so far (or of other ids), and at the next one."""
        with torch.no_grad():
            return log_probabilities(self.model.module(self._batch(self.ids if ids is None else ids))[0]).cpu()

    def batch_at(self, position: int) -> tuple[Batch, int]:
        """The batch that predicts a position, and the time step of the prediction."""
        return self._batch(self.ids[:position]), position

    def search(self, decoding: Decoding, seed: int = 0) -> SearchTree:
        """The search tree of decoding from here: all candidates, and the outputs, best first.

        This is the search of `predict`, recorded (`decoding/search_tree.py`).
        """
        sampler, limits, logits_processors = (
            make_sampler(decoding, seed),
            make_limits(decoding),
            make_logits_processors(decoding),
        )
        module: Any = self.model.module
        return trace_search(module, self.source, sampler, limits, logits_processors, self.prefix)

    def _batch(self, ids: Sequence[int]) -> Batch:
        input_ids = [BOS, *ids]
        labels = torch.full((1, len(input_ids)), IGNORE_INDEX)
        indices = torch.zeros(1, dtype=torch.long)
        return Batch(self.source, Sequences.of([input_ids]), labels, indices).to(self.model.device)


def generation_context(model: Model, source: Any, target: str = "", token_ids: Sequence[int] = ()) -> GenerationContext:
    """The context after a source and a target so far: the tokens of `target`, then `token_ids`.

    For a language model the source is the beginning of the prompt, and the target continues it.
    """
    check_token_ids(model.tokenizers.target, token_ids)
    prefix_ids = [*model.tokenizers.target.encode(target), *token_ids]
    if model.task.reads_files:
        return GenerationContext(model, model.named_batch(source, "").batch.source, prefix_ids, False)
    return _text_context(model, source, prefix_ids)


def _text_context(model: Model, text: str, prefix_ids: list[int]) -> GenerationContext:
    ids = model.encode(text)
    truncated = len(ids) - model.has_source < len(model.tokenizers.source.encode(text))
    if not model.has_source:
        return GenerationContext(model, None, [*ids, *prefix_ids], truncated)
    return GenerationContext(model, Sequences.of([ids]).to(model.device), prefix_ids, truncated)


def check_token_ids(tokenizer: Tokenizer, token_ids: Sequence[int]) -> None:
    """Raise an error for ids that a text cannot contain."""
    size = len(tokenizer)
    for token in token_ids:
        if token in (PAD, BOS, EOS) or not 0 <= token < size:
            raise UserError(f"The token id {token} cannot be generated.", hint="Use the id of a token in the list.")
