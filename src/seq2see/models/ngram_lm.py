"""N-gram language models: the probability of the next token from counts of n-grams (Markov 1913, Shannon 1948).

No gradients are involved. Tables hold the n-grams of the training text, from unigrams up to the highest order; an
unseen context is shortened until a seen one is found (formulas: `training/ngram_smoothing.py`). The model has the
interface of a decoder: its hidden states are log-probabilities, and its state holds the indices of the contexts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from seq2see.core.batch import Sequences
from seq2see.core.settings import Settings
from seq2see.data.tokenizers.tokenizer import BOS

UNSEEN = -1
"""The index of a context that is in no table: keys made from it are negative, and no key of a table is."""
MAX_ORDER = 7
"""The highest possible order: nearly all longer n-grams are unseen."""


class NgramSettings(Settings):
    """An n-gram model: smoothed counts, without embeddings, layers and gradients."""

    kind: Literal["ngram"] = "ngram"
    order: int = Field(5, ge=1, le=MAX_ORDER)
    """The order n: each token is predicted from the n - 1 tokens before it."""
    smoothing: Literal["back-off", "kneser-ney", "modified-kneser-ney"] = "modified-kneser-ney"
    """Smoothing: discounting with back-off, or Kneser-Ney with one discount per order, or with three (modified)."""


@dataclass(frozen=True)
class NgramState:
    """The indices of the contexts that end at the last token, shortest first; UNSEEN for unseen ones."""

    contexts: Int[Tensor, "row length"]


class IdentityEmbedding(nn.Module):
    """The embedding of a decoder whose inputs are token ids: the identity."""

    def forward(self, tokens: Sequences) -> Sequences:
        """The tokens."""
        return tokens

    def embed_at(
        self, tokens: Int[Tensor, "row time"], position_ids: Int[Tensor, "#row time"]
    ) -> Int[Tensor, "row time"]:
        """The tokens; positions do not matter."""
        return tokens


class NgramTable(nn.Module):
    """The n-grams of one order above 1: their keys, their probabilities, and the back-off weights of the contexts.

    The key of an n-gram is (index of its context) · vocabulary + last token. Keys are sorted, so a binary search finds
    an n-gram, and the n-grams of one context are contiguous.
    """

    keys: Tensor
    probabilities: Tensor
    weights: Tensor

    def __init__(self, vocabulary: int):
        super().__init__()
        self.vocabulary = vocabulary
        self.assign(torch.zeros(0, dtype=torch.long), torch.zeros(0), torch.zeros(0))

    def assign(
        self, keys: Int[Tensor, "gram"], probabilities: Float[Tensor, "gram"], weights: Float[Tensor, "context"]
    ) -> None:
        """Replace the content of the table."""
        self.register_buffer("keys", keys)
        self.register_buffer("probabilities", probabilities)
        self.register_buffer("weights", weights)

    def resize(self, stored: Mapping[str, Tensor]) -> None:
        """Resize the buffers to those of a stored table: the sizes depend on the training text."""
        buffers = dict(self.named_buffers())
        if stored.keys() == buffers.keys():
            self.assign(**{name: buffers[name].new_empty(tensor.shape) for name, tensor in stored.items()})

    def find(self, contexts: Int[Tensor, "*position"], tokens: Int[Tensor, "*position"]) -> Int[Tensor, "*position"]:
        """The indices of the n-grams (context, token); UNSEEN for unseen ones."""
        if not len(self.keys):
            return torch.full_like(tokens, UNSEEN)
        keys = contexts * self.vocabulary + tokens
        indices = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        return torch.where(self.keys[indices] == keys, indices, UNSEEN)

    def backoff_weight(self, contexts: Int[Tensor, "*position"]) -> Float[Tensor, "*position"]:
        """The factors of the shorter contexts' probabilities; 1 if a context is UNSEEN."""
        if not len(self.weights):  # the training text is shorter than such a context
            return torch.ones_like(contexts, dtype=self.weights.dtype)
        is_seen = contexts != UNSEEN
        return torch.where(is_seen, self.weights[torch.where(is_seen, contexts, 0)], 1.0)

    def followers(self, contexts: Int[Tensor, "position"]) -> tuple[Int[Tensor, "ngram"], Int[Tensor, "ngram"]]:
        """All n-grams with one of these contexts: the position of the context, and the index of the n-gram."""
        first = torch.searchsorted(self.keys, contexts * self.vocabulary)
        sizes = torch.searchsorted(self.keys, (contexts + 1) * self.vocabulary) - first
        positions = torch.arange(len(contexts), device=contexts.device).repeat_interleave(sizes)
        before = sizes.cumsum(0) - sizes  # the number of n-grams of earlier positions
        return positions, torch.arange(len(positions), device=positions.device) - before[positions] + first[positions]


class NgramDecoder(nn.Module):
    """N-gram tables as a decoder: p(w | h) = p*(h w), or weight(h) · p(w | h') if h w is unseen."""

    unigrams: Tensor

    def __init__(self, settings: NgramSettings, vocabulary: int):
        super().__init__()
        self.order = settings.order
        self.register_buffer("unigrams", torch.full((vocabulary,), 1 / vocabulary))
        self.tables: Any = nn.ModuleList(NgramTable(vocabulary) for _ in range(2, settings.order + 1))

    def forward(self, target: Sequences, memory: None = None) -> Float[Tensor, "row time vocab"]:
        """The log-probabilities of the next token at every position, all positions at once."""
        rows = target.values.size(0)
        return self._log_probabilities(self._contexts(target.values, self.start(None, rows, 0)))

    def start(self, memory: None, rows: int, max_length: int) -> NgramState:
        """The state before the first token: no context."""
        shape = (rows, self.order - 1)
        return NgramState(torch.full(shape, UNSEEN, device=self.unigrams.device))

    def step(
        self, tokens: Int[Tensor, "row new"], state: NgramState
    ) -> tuple[Float[Tensor, "row new vocab"], NgramState]:
        """Process new tokens; return the log-probabilities of the token after each."""
        contexts = self._contexts(tokens, state)
        return self._log_probabilities(contexts), NgramState(contexts[:, -1])

    def score_text(self, tokens: Int[Tensor, "time"]) -> tuple[Float[Tensor, "time"], Int[Tensor, "time"]]:
        """The probability of each token of a whole text, and the length of the longest known n-gram that ends there.

        The probabilities equal those of `forward`, but are computed for the tokens of the text only.
        """
        before = torch.nn.functional.pad(tokens, (1, -1), value=BOS)
        contexts = self._contexts(before[None], self.start(None, 1, 0))[0]
        probabilities, lengths = self.unigrams[tokens], torch.ones_like(tokens)
        for length, table in enumerate(self.tables, 1):
            if not len(table.keys):  # a short training text has no n-grams of this order, nor longer ones
                break
            context = contexts[:, length - 1]
            ngrams = table.find(context, tokens)
            backed_off = table.backoff_weight(context) * probabilities
            probabilities = torch.where(ngrams == UNSEEN, backed_off, table.probabilities[ngrams])
            lengths = torch.where(ngrams == UNSEEN, lengths, length + 1)
        return probabilities, lengths

    def _contexts(self, tokens: Int[Tensor, "row new"], state: NgramState) -> Int[Tensor, "row new length"]:
        """For each token the indices of the contexts that end with it, shortest first.

        A context of length n consists of the context of length n - 1 that ends one token earlier, and this token.
        """
        if self.order == 1:
            return tokens[..., None][..., :0]
        contexts = [tokens]
        for length, table in enumerate(self.tables[:-1], 1):
            previous = torch.cat([state.contexts[:, length - 1, None], contexts[-1][:, :-1]], dim=1)
            contexts.append(table.find(previous, tokens))
        return torch.stack(contexts, dim=-1)

    def _log_probabilities(self, contexts: Int[Tensor, "row new length"]) -> Float[Tensor, "row new vocab"]:
        """The distribution of the next token: from the shortest context to the longest, whose tables overwrite it.

        The probabilities of a table are multiplied by the back-off weights of all longer contexts, so these products
        are computed first.
        """
        flat = contexts.flatten(0, 1)
        factor = torch.ones(len(flat), device=flat.device)
        corrections = []
        for length in reversed(range(1, self.order)):
            table, context = self.tables[length - 1], flat[:, length - 1]
            positions, ngrams = table.followers(context)
            tokens = table.keys[ngrams] % table.vocabulary
            corrections.append((positions, tokens, factor[positions] * table.probabilities[ngrams]))
            factor = factor * table.backoff_weight(context)
        probabilities = factor[:, None] * self.unigrams
        for positions, tokens, values in reversed(corrections):
            probabilities[positions, tokens] = values
        # Impossible tokens (<pad>, <bos>) get a very low number, because minus infinity makes sums NaN.
        return probabilities.clamp_(min=torch.finfo(probabilities.dtype).tiny).log_().unflatten(0, contexts.shape[:2])
