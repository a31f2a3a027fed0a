"""Several models decode together: ensembles average probabilities, log-linear models add weighted log-probabilities.

In an *ensemble*, each member reads the same tokens and has its own state; the score of a token is the logarithm of the
mean of the members' probabilities (Sutskever, Vinyals & Le 2014 decode with five LSTMs like this). Members may differ
in all but their vocabularies: a token must have the same id in each of them.

A *log-linear* combination is a product of experts, score(y) = Σ_k w_k log p_k(y). With a decoder (weight 0.7) and CTC
(0.3) this is joint decoding (Watanabe et al. 2017), and with a language model it is shallow fusion (Gulcehre et al.
2015).

In an ensemble a token is probable if one model gives it a high probability; in a log-linear combination it is
improbable if one model gives it a low probability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from seq2see.core.batch import Batch, Images, Sequences
from seq2see.data.tokenizers.tokenizer import EOS, SPECIAL_TOKENS, UNK, Tokenizer
from seq2see.decoding.engine import DecodingLoop, log_probabilities


def log_mean_probability(logits: Sequence[Float[Tensor, "row time vocab"]]) -> Float[Tensor, "row time vocab"]:
    """log(mean of the softmaxes): probabilities are averaged, not logits, whose scales differ among models.

    It is computed from log-softmaxes by log-sum-exp, so that a tiny probability does not underflow to 0.
    """
    scores = [each.log_softmax(-1, dtype=torch.promote_types(each.dtype, torch.float32)) for each in logits]
    return torch.stack(scores).logsumexp(0) - math.log(len(scores))


class Ensemble(nn.Module):
    """Models that decode together; any object with `start` and `step` can be a member."""

    def __init__(self, members: Sequence[Any]):
        super().__init__()
        if not members:
            raise ValueError("An ensemble needs at least one member.")
        self.members = tuple(members)
        self.trained_members = nn.ModuleList(member for member in members if isinstance(member, nn.Module))

    def forward(self, batch: Batch) -> Float[Tensor, "row time vocab"]:
        """The scores of the next token at every time step with teacher forcing."""
        return log_mean_probability([member(batch) for member in self.trained_members])

    def start(self, source: Sequences | Images | None, rows: int, max_length: int) -> tuple[Any, ...]:
        """Return a tuple with the state of each member."""
        return tuple(member.start(source, rows, max_length) for member in self.members)

    def step(
        self, tokens: Int[Tensor, "row new"], state: tuple[Any, ...]
    ) -> tuple[Float[Tensor, "row new vocab"], tuple[Any, ...]]:
        """Run all members on the tokens; return the mean of their probabilities (as logarithms) and their states."""
        logits, states = zip(
            *(member.step(tokens, each) for member, each in zip(self.members, state, strict=True)), strict=True
        )
        return log_mean_probability(logits), states


class LogLinearLoop(DecodingLoop):
    """The loop for scores that are not log-probabilities: the sum of their exponentials need not be 1."""

    def score(self, tokens: Int[Tensor, "row new"], state: Any) -> tuple[Float[Tensor, "row new vocab"], Any]:
        """The weighted scores, without normalization."""
        return self.model.step(tokens, state)


class LogLinear:
    """Models with one vocabulary, and the weight of each."""

    decoding_loop = LogLinearLoop

    def __init__(self, members: Sequence[Any], weights: Sequence[float]):
        self.members, self.weights = tuple(members), tuple(weights)

    def start(self, source: Sequences | Images | None, rows: int, max_length: int) -> tuple[Any, ...]:
        """The state of each member."""
        return tuple(member.start(source, rows, max_length) for member in self.members)

    def step(
        self, tokens: Int[Tensor, "row new"], state: tuple[Any, ...]
    ) -> tuple[Float[Tensor, "row new vocab"], tuple[Any, ...]]:
        """The weighted sum of the members' log-probabilities."""
        scores, states = [], []
        for member, weight, each in zip(self.members, self.weights, state, strict=True):
            logits, after = member.step(tokens, each)
            scores.append(weight * log_probabilities(logits))
            states.append(after)
        return torch.stack(scores).sum(0), tuple(states)


class OtherVocabulary:
    """A language model whose tokens have other ids, for decoding with the ids of another model.

    A token that is not in its vocabulary becomes <unk>. The score of <eos> is 0, so that the language model has no
    influence on the length of an output: a model of running text has not learned where sentences end.
    """

    def __init__(self, model: Any, own: Tokenizer, ids: Tokenizer):
        self.model = model
        own_ids = {token: index for index, token in enumerate(own.tokens(range(len(own))))}
        specials = range(len(SPECIAL_TOKENS))
        names = ids.tokens(range(len(ids)))
        self.ids = torch.tensor([*specials, *(own_ids.get(name, UNK) for name in names[len(SPECIAL_TOKENS) :])])

    def start(self, source: Sequences | Images | None, rows: int, max_length: int) -> Any:
        """The state before the first token; the source is not used."""
        return self.model.start(None, rows, max_length)

    def step(self, tokens: Int[Tensor, "row new"], state: Any) -> tuple[Float[Tensor, "row new vocab"], Any]:
        """The log-probabilities of the next token, by the ids of the other model; that of <eos> is 0."""
        ids = self.ids.to(tokens.device)
        logits, state = self.model.step(ids[tokens], state)
        scores = log_probabilities(logits)[..., ids]
        scores[..., EOS] = 0
        return scores, state
