"""Counting models: the next token by how often it followed the last few (Markov 1913, Shannon 1948).

Nothing here is learned by gradients. What was counted in the text lies in tables of n-grams, from single tokens up to
the longest; a context that was never seen is shortened until one was (`training/ngram_smoothing.py` has the formulas). To
the rest of seq2see it is a decoder like any other: its hidden vectors are log-probabilities already, and its
state is the numbers of the contexts it stands in.
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
from seq2see.sequences.tokenizers import BOS

UNSEEN = -1
"""The number of a context that no table has: keys made from it are negative, and no key of a table is."""
MAX_ORDER = 7
"""The highest order that is counted: beyond it nearly everything is unseen."""


class NgramSettings(Settings):
    """Counts of n-grams: no vectors, no layers, nothing that is trained step by step."""

    kind: Literal["ngram"] = "ngram"
    order: int = Field(5, ge=1, le=MAX_ORDER)
    """Tokens in the longest n-grams: each token is guessed from the order - 1 before it."""
    smoothing: Literal["back-off", "kneser-ney", "modified-kneser-ney"] = "modified-kneser-ney"
    """What is said of the unseen: discounts with back-off, or Kneser-Ney with one discount for each order, or three."""


@dataclass(frozen=True)
class NgramState:
    """The numbers of the contexts that end at the last token, shortest first; UNSEEN where there is none."""

    contexts: Int[Tensor, "row length"]


class IdentityEmbedding(nn.Module):
    """The frontend of a decoder that reads tokens by their numbers: it makes no vectors of them."""

    def forward(self, tokens: Sequences) -> Sequences:
        """The tokens."""
        return tokens

    def embed_at(
        self, tokens: Int[Tensor, "row time"], position_ids: Int[Tensor, "#row time"]
    ) -> Int[Tensor, "row time"]:
        """The tokens; when they are read does not matter."""
        return tokens


class NgramTable(nn.Module):
    """The n-grams of one order above 1: which there are, their probabilities, and their contexts' weights.

    The key of an n-gram is (number of its context) · vocabulary + last token. Keys ascend, so a search finds an
    n-gram, and those of one context lie side by side.
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
        """Replace what is in the table."""
        self.register_buffer("keys", keys)
        self.register_buffer("probabilities", probabilities)
        self.register_buffer("weights", weights)

    def resize(self, stored: Mapping[str, Tensor]) -> None:
        """Take the sizes of what was stored: how much there is to count, only the text knows."""
        mine = dict(self.named_buffers())
        if stored.keys() == mine.keys():
            self.assign(**{name: mine[name].new_empty(tensor.shape) for name, tensor in stored.items()})

    def find(self, contexts: Int[Tensor, "*place"], tokens: Int[Tensor, "*place"]) -> Int[Tensor, "*place"]:
        """The numbers of the n-grams that are these tokens behind these contexts; UNSEEN if there is none."""
        if not len(self.keys):
            return torch.full_like(tokens, UNSEEN)
        wanted = contexts * self.vocabulary + tokens
        found = torch.searchsorted(self.keys, wanted).clamp(max=len(self.keys) - 1)
        return torch.where(self.keys[found] == wanted, found, UNSEEN)

    def backoff_weight(self, contexts: Int[Tensor, "*place"]) -> Float[Tensor, "*place"]:
        """What a shorter context's guesses are multiplied by; all of them count if this one is UNSEEN."""
        if not len(self.weights):  # the text ended before such a context did
            return torch.ones_like(contexts, dtype=self.weights.dtype)
        known = contexts != UNSEEN
        return torch.where(known, self.weights[torch.where(known, contexts, 0)], 1.0)

    def followers(self, contexts: Int[Tensor, "place"]) -> tuple[Int[Tensor, "found"], Int[Tensor, "found"]]:
        """All n-grams with one of these contexts: at which place, and their numbers."""
        first = torch.searchsorted(self.keys, contexts * self.vocabulary)
        sizes = torch.searchsorted(self.keys, (contexts + 1) * self.vocabulary) - first
        places = torch.arange(len(contexts), device=contexts.device).repeat_interleave(sizes)
        before = sizes.cumsum(0) - sizes  # how many were found at earlier places
        return places, torch.arange(len(places), device=places.device) - before[places] + first[places]


class NgramDecoder(nn.Module):
    """Tables of n-grams, read as a decoder: p(w | h) = p*(h w), or weight(h) · p(w | h') if h w was not seen."""

    unigrams: Tensor

    def __init__(self, settings: NgramSettings, vocabulary: int):
        super().__init__()
        self.order = settings.order
        self.register_buffer("unigrams", torch.full((vocabulary,), 1 / vocabulary))
        self.tables: Any = nn.ModuleList(NgramTable(vocabulary) for _ in range(2, settings.order + 1))

    def forward(self, target: Sequences, memory: None = None) -> Float[Tensor, "row time vocab"]:
        """The log-probabilities of every next token, all times at once."""
        rows = target.values.size(0)
        return self._log_probabilities(self._contexts(target.values, self.start(None, rows, 0)))

    def start(self, memory: None, rows: int, max_length: int) -> NgramState:
        """The state before the first token: no context at all."""
        shape = (rows, self.order - 1)
        return NgramState(torch.full(shape, UNSEEN, device=self.unigrams.device))

    def step(
        self, tokens: Int[Tensor, "row new"], state: NgramState
    ) -> tuple[Float[Tensor, "row new vocab"], NgramState]:
        """Take in new tokens; give the log-probabilities of the token after each."""
        contexts = self._contexts(tokens, state)
        return self._log_probabilities(contexts), NgramState(contexts[:, -1])

    def score_text(self, tokens: Int[Tensor, "time"]) -> tuple[Float[Tensor, "time"], Int[Tensor, "time"]]:
        """Of a whole text: the probability of each token, and how long the longest n-gram was that ends there.

        The same as reading it token by token, but nothing is computed for the tokens that do not come.
        """
        before = torch.nn.functional.pad(tokens, (1, -1), value=BOS)
        contexts = self._contexts(before[None], self.start(None, 1, 0))[0]
        probabilities, lengths = self.unigrams[tokens], torch.ones_like(tokens)
        for length, table in enumerate(self.tables, 1):
            if not len(table.keys):  # a text that is shorter has none of these, nor any longer ones
                break
            context = contexts[:, length - 1]
            found = table.find(context, tokens)
            shorter = table.backoff_weight(context) * probabilities
            probabilities = torch.where(found == UNSEEN, shorter, table.probabilities[found])
            lengths = torch.where(found == UNSEEN, lengths, length + 1)
        return probabilities, lengths

    def _contexts(self, tokens: Int[Tensor, "row new"], state: NgramState) -> Int[Tensor, "row new length"]:
        """For each token the numbers of the contexts that end with it, each found from the one before that is shorter.

        A context of length n is a context of length n - 1 one token earlier, and this token.
        """
        if self.order == 1:
            return tokens[..., None][..., :0]
        found = [tokens]
        for length, table in enumerate(self.tables[:-1], 1):
            earlier = torch.cat([state.contexts[:, length - 1, None], found[-1][:, :-1]], dim=1)
            found.append(table.find(earlier, tokens))
        return torch.stack(found, dim=-1)

    def _log_probabilities(self, contexts: Int[Tensor, "row new length"]) -> Float[Tensor, "row new vocab"]:
        """The distribution behind each context: the shortest says something of every token, longer ones correct it.

        What a table says is multiplied by the weights of all longer contexts, so those products come first.
        """
        flat = contexts.flatten(0, 1)
        factor = torch.ones(len(flat), device=flat.device)
        corrections = []
        for length in reversed(range(1, self.order)):
            table, context = self.tables[length - 1], flat[:, length - 1]
            places, ngrams = table.followers(context)
            tokens, said = table.keys[ngrams] % table.vocabulary, table.probabilities[ngrams]
            corrections.append((places, tokens, factor[places] * said))
            factor = factor * table.backoff_weight(context)
        chances = factor[:, None] * self.unigrams
        for places, tokens, values in reversed(corrections):
            chances[places, tokens] = values
        # What is impossible (<pad>, <bos>) becomes a very low number and not minus infinity, which spoils sums.
        return chances.clamp_(min=torch.finfo(chances.dtype).tiny).log_().unflatten(0, contexts.shape[:2])
