"""The tokens so far and the probabilities of the next: the state behind the views of single tokens.

`GenerationContext` is a source and the tokens generated so far, `MaskedContext` a text in which one position at a time
is masked. From them follow the predictions of each layer (the logit lens), and exposure bias: teacher forcing compared
with free running. In training, the decoder input is the true prefix at every step (teacher forcing). In generation, it
is the prefix that the model generated itself, and after a first mistake this prefix may be unlike all training prefixes
(Ranzato et al. 2016).

Texts are truncated as in `predict`. Tokens that were chosen one by one are stored as ids, because a text that is
decoded from tokens is not always tokenized into the same tokens again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from seq2see.core.batch import IGNORE_INDEX, Batch, Images, Sequences
from seq2see.core.errors import UserError
from seq2see.data.masking import encode_with_masks
from seq2see.data.tokenizers.tokenizer import BOS, EOS, MASK_TEXT, PAD, UNK, Tokenizer
from seq2see.decoding.engine import (
    Decoding,
    Limits,
    decode,
    log_probabilities,
    make_limits,
    make_logits_processors,
    make_sampler,
    suppress_special_tokens,
)
from seq2see.decoding.samplers import GreedySampler
from seq2see.decoding.search_tree import SearchTree, trace_search
from seq2see.inspection.logit_lens import logit_lens
from seq2see.inspection.record import SignalKind
from seq2see.inspection.trace import trace
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


FIRST_TEXT_ID = UNK + 1
"""The first id of a text token, after the special tokens."""
BATCH_SIZE = 32
"""Rows per batch, each with one masked position."""
MAX_MASKED = 128
"""Maximum number of positions that are masked one by one: each needs a forward pass over the whole text."""


@dataclass(frozen=True)
class MaskedContext:
    """A masked language model and a text. Compare `GenerationContext`: here the context is on both sides."""

    model: Model
    ids: list[int]
    """The token ids without <bos> and <eos>; [MASK] may be among them."""
    truncated: bool
    """Whether the text was truncated to the limit of the model."""

    side: ClassVar[str] = "source"
    """The side of the model that predicts the tokens."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the tokens."""
        return self.model.tokenizers.source

    def position(self, index: int) -> int:
        """Clip a position to the text; -1 is the first [MASK], or the last position without one."""
        last = len(self.ids) - 1
        return min(index, last) if index >= 0 else next(iter(self.masked_positions), last)

    @property
    def masked_positions(self) -> list[int]:
        """The positions of [MASK] in the text."""
        return [position for position, token_id in enumerate(self.ids) if token_id == self.tokenizer.mask_id]

    def scores_at(self, position: int) -> Float[Tensor, "vocab"]:
        """Log-probabilities of the token at a position that is masked, in addition to the masks of the text."""
        return self._masked_scores([position])[0]

    def previous_tokens(self, position: int) -> set[int]:
        """Empty: there is no repetition penalty for masked tokens."""
        return set()

    def position_scores(self) -> Float[Tensor, "time vocab"]:
        """For each position, log-probabilities of its token when it alone is masked (Salazar et al. 2020)."""
        count = min(len(self.ids), MAX_MASKED)
        starts = range(0, count, BATCH_SIZE)
        return torch.cat([self._masked_scores(list(range(start, min(start + BATCH_SIZE, count)))) for start in starts])

    def batch_at(self, position: int) -> tuple[Batch, int]:
        """The batch that predicts a position, and the time step of the prediction (after <bos>)."""
        return self._batch([position]), position + 1

    def _batch(self, positions: list[int]) -> Batch:
        """One row of the text for each position, with that position masked."""
        rows = torch.tensor([[BOS, *self.ids, EOS]]).repeat(len(positions), 1)
        indices = torch.arange(len(positions))
        rows[indices, torch.tensor(positions) + 1] = self.tokenizer.mask_id
        source = Sequences(rows, torch.full((len(positions),), rows.size(1)))
        return Batch(source, None, torch.full_like(rows, IGNORE_INDEX), indices).to(self.model.device)

    def _masked_scores(self, positions: list[int]) -> Float[Tensor, "position vocab"]:
        with torch.no_grad():
            logits = self.model.module(self._batch(positions))
            logits = logits[range(len(positions)), [position + 1 for position in positions]]
        scores = log_probabilities(logits).cpu()
        scores[:, :FIRST_TEXT_ID] = -torch.inf  # special tokens are excluded
        scores[:, self.tokenizer.mask_id :] = -torch.inf
        return scores


def masked_context(model: Model, text: str) -> MaskedContext:
    """The context of a masked language model for a text, with or without [MASK]."""
    tokenizer = model.tokenizers.source
    ids = encode_with_masks(text, tokenizer) if MASK_TEXT in text else tokenizer.encode(text)
    if not ids:
        raise UserError("The text is empty.", hint="Enter a text.")
    max_tokens = model.config.model.source_text.max_tokens
    return MaskedContext(model, ids[:max_tokens], len(ids) > max_tokens)


KINDS: tuple[SignalKind, ...] = ("embedding", "stream")


@torch.no_grad()
def layer_predictions(context: GenerationContext | MaskedContext, position: int = -1) -> Float[Tensor, "layer vocab"]:
    """Log-probabilities of the token at a position, layer by layer; see `inspection.logit_lens`.

    The first row is the input of the stack, the last is the prediction of the model. Position -1 is the next token, or
    the first [MASK].
    """
    if context.model.config.members:
        raise UserError("The members of an ensemble have separate layers.", hint="Open one of its runs.")
    module: Any = context.model.module
    batch, time = context.batch_at(context.position(position))
    with trace(module, KINDS) as activations:
        module(batch)
    record, side = activations.to_record("", {}), context.side
    # One time step is needed; the first is kept too, because some heads treat it separately.
    times = sorted({0, time})
    signals = tuple(replace(each, values=each.values[times]) for each in record.signals if each.side == side)
    return torch.from_numpy(logit_lens(module, replace(record, signals=signals))[:, -1].copy())


EXTRA = 10
"""Additional steps of the free run beyond the length of the target."""


@dataclass(frozen=True)
class ExposureBias:
    """A target and a greedy output, step by step; losses are -ln p."""

    truth: list[str]
    free_running: list[str]
    """The greedy output of the model."""
    teacher_forced: list[str]
    """The most probable token at each step with the true prefix."""
    forced_loss: list[float]
    """Of the true token, after the true prefix."""
    free_loss: list[float]
    """Of the generated token, after the generated prefix."""
    truth_after_free_loss: list[float]
    """Of the true token, after the generated prefix."""
    divergence: int | None
    """The first step at which the generated token differs from the true one."""
    text: str
    """The greedy output as a text."""


def exposure_bias(context: GenerationContext, target: str) -> ExposureBias:
    """Compare a target with the greedy output from the same context."""
    truth = target_ids(context, target)
    free_running, log_probabilities = _free_run(context, len(truth) + (EXTRA if context.model.has_source else 0))
    forced = context.scores([*context.ids, *truth[:-1]])[len(context.ids) :]
    after_generated = context.scores([*context.ids, *free_running[:-1]])[len(context.ids) :]
    tokens = context.tokenizer.tokens
    equal = [true == generated for true, generated in zip(truth, free_running, strict=False)]
    return ExposureBias(
        truth=tokens(truth),
        free_running=tokens(free_running),
        teacher_forced=tokens(forced.argmax(dim=1).tolist()),
        forced_loss=[-float(row[token]) for row, token in zip(forced, truth, strict=True)],
        free_loss=[-each for each in log_probabilities],
        truth_after_free_loss=[-float(row[token]) for row, token in zip(after_generated, truth, strict=False)],
        divergence=equal.index(False) if False in equal else None,
        text=context.tokenizer.decode(free_running),
    )


def target_ids(context: GenerationContext, target: str) -> list[int]:
    """The token ids of a target, with <eos> except for running text."""
    ids = context.model.tokenizers.target.encode(target)
    if not ids:
        raise UserError("The target is empty.", hint="Enter the correct output.")
    return [*ids, EOS] if context.model.has_source else ids


def _free_run(context: GenerationContext, max_tokens: int) -> tuple[list[int], list[float]]:
    """The token ids of the greedy output, <eos> included, and their log-probabilities."""
    module: Any = context.model.module
    ((hypothesis,),) = decode(module, context.source, GreedySampler(), Limits(max_tokens), prefix=context.prefix)
    prefix_length = len(context.ids)
    output = [*hypothesis.tokens[prefix_length:], *[EOS] * hypothesis.finished]
    return output, list(hypothesis.token_log_probabilities[prefix_length:])
