"""The outputs of speech recognizers: decoding with CTC, with attention, with both, or with a transducer.

All four have the same encoder; Prabhavalkar et al. 2017, "A Comparison of Sequence-to-Sequence Models for Speech
Recognition", compare them. `output_of` selects by the class of the model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from seq2see.core.batch import Sequences
from seq2see.core.devices import plain_class
from seq2see.core.errors import UserError
from seq2see.decoding.ctc import CTCPrefixModel, TimedToken, align, best_path, prefix_search
from seq2see.decoding.engine import decode, make_limits, make_logits_processors, make_sampler
from seq2see.decoding.ensemble import LogLinear
from seq2see.decoding.speech_settings import SpeechDecoding
from seq2see.decoding.transducer import TransducerDecoder
from seq2see.models.ctc import CTCAttentionModel, CTCModel
from seq2see.models.seq2seq import Seq2Seq
from seq2see.models.transducer import AttentionTransducer, Transducer
from seq2see.training.objectives import NextToken
from seq2see.training.speech_objectives import CTC, CTCAttention, TransducerLikelihood


@dataclass(frozen=True)
class Transcript:
    """One output for a recording: token ids and, if the output has times, their frames."""

    tokens: tuple[int, ...]
    score: float
    """The score that ranks the outputs."""
    log_probability: float
    probabilities: tuple[float, ...] = ()
    """The log-probability of each token."""
    times: tuple[TimedToken, ...] = ()
    finished: bool = True


class SpeechOutput(ABC):
    """Decoding of one kind of model, and its objective."""

    objective: ClassVar[Any]
    """The training objective."""
    aligns: ClassVar[bool] = True
    """Whether the tokens of a text can be aligned with the frames."""
    live: ClassVar[bool] = True
    """Whether the tokens of an output have times, so that they can be committed one by one."""

    def __init__(self, module: Any, language_model: Any = None):
        self.module, self.language_model = module, language_model

    @abstractmethod
    def transcribe(self, source: Sequences, settings: SpeechDecoding, seed: int = 0) -> list[list[Transcript]]:
        """The outputs for each recording of a batch, best first."""

    def align(self, source: Sequences, tokens: Sequence[int]) -> list[TimedToken]:
        """The frames of these tokens in one recording; empty if the output has no times."""
        return []

    def frame_scores(self, source: Sequences) -> NDArray[np.float32] | None:
        """(vector, token): the log-probabilities of CTC for one recording; None for a model without CTC."""
        return None

    def fused(self, member: Any, weight: float, settings: SpeechDecoding) -> LogLinear:
        """A model together with the language model."""
        return self.together([member], [weight], settings)

    def together(self, members: list[Any], weights: list[float], settings: SpeechDecoding) -> LogLinear:
        """Several models, and the language model if there is one."""
        if self.language_model is None:
            return LogLinear(members, weights)
        return LogLinear([*members, self.language_model], [*weights, settings.language_model_weight])


def searched(model: Any, source: Sequences, settings: SpeechDecoding, seed: int) -> list[list[Transcript]]:
    """The outputs of the decoding loop of `decoding/engine.py`."""
    sampler, processors = make_sampler(settings, seed), make_logits_processors(settings)
    found = decode(model, source, sampler, make_limits(settings), processors)
    return [
        [Transcript(each.tokens, each.score, each.log_probability, each.token_log_probabilities, (), each.finished)
         for each in hypotheses]
        for hypotheses in found
    ]  # fmt: skip


def frame_scores(module: Any, head: Any, source: Sequences) -> list[NDArray[np.float32]]:
    """(frame, token) for each recording: the log-probabilities of CTC, without padding."""
    with torch.inference_mode():
        encoded = module.encode(source)
        scores = head(encoded.values).float().log_softmax(-1).cpu().numpy()
    return [row[:length] for row, length in zip(scores, encoded.lengths.tolist(), strict=True)]


def _timed(times: Sequence[TimedToken], score: float) -> Transcript:
    probabilities = tuple(each.log_probability for each in times)
    return Transcript(tuple(each.token for each in times), score, score, probabilities, tuple(times))


class CTCOutput(SpeechOutput):
    """CTC: the best path, prefix search, or, with a language model, the search of `decoding/engine.py`."""

    objective = CTC()

    @property
    def head(self) -> Any:
        """The head of the frames."""
        return self.module.head

    def transcribe(self, source: Sequences, settings: SpeechDecoding, seed: int = 0) -> list[list[Transcript]]:
        """Best path (`num_beams` 1) or prefix search; token by token with a language model or sampling."""
        if self.language_model is not None or settings.do_sample:
            model = self.fused(CTCPrefixModel(self.module, self.head), 1.0, settings)
            return searched(model, source, settings, seed)
        outputs = []
        for scores in frame_scores(self.module, self.head, source):
            if settings.num_beams == 1:
                outputs.append([_timed(best_path(scores), float(scores.max(1).sum()))])
                continue
            found = prefix_search(scores, settings.num_beams)[: settings.num_return_sequences]
            outputs.append([self._with_times(scores, tokens, score) for tokens, score in found])
        return outputs

    def frame_scores(self, source: Sequences) -> NDArray[np.float32]:
        """The log-probabilities of the vectors of one recording."""
        return frame_scores(self.module, self.head, source)[0]

    def _with_times(self, scores: NDArray[np.float32], tokens: tuple[int, ...], score: float) -> Transcript:
        return _timed(align(scores, tokens), score)

    def align(self, source: Sequences, tokens: Sequence[int]) -> list[TimedToken]:
        """Forced alignment."""
        return align(frame_scores(self.module, self.head, source)[0], tokens)


class AttentionOutput(SpeechOutput):
    """A decoder with attention."""

    objective = NextToken()
    aligns = live = False

    def transcribe(self, source: Sequences, settings: SpeechDecoding, seed: int = 0) -> list[list[Transcript]]:
        """Token by token."""
        model = self.module if self.language_model is None else self.fused(self.module, 1.0, settings)
        return searched(model, source, settings, seed)


class JointOutput(SpeechOutput):
    """A decoder and CTC together."""

    objective = CTCAttention()
    live = False

    def transcribe(self, source: Sequences, settings: SpeechDecoding, seed: int = 0) -> list[list[Transcript]]:
        """Token by token, by the weighted sum of both log-probabilities."""
        members, weights = [self.module], [1 - settings.ctc_weight]
        if settings.ctc_weight:
            members.append(CTCPrefixModel(self.module, self.module.head.ctc))
            weights.append(settings.ctc_weight)
        return searched(self.together(members, weights, settings), source, settings, seed)

    def frame_scores(self, source: Sequences) -> NDArray[np.float32]:
        """The log-probabilities of CTC for the vectors of one recording."""
        return frame_scores(self.module, self.module.head.ctc, source)[0]

    def align(self, source: Sequences, tokens: Sequence[int]) -> list[TimedToken]:
        """Forced alignment by CTC."""
        return align(frame_scores(self.module, self.module.head.ctc, source)[0], tokens)


class TransducerOutput(SpeechOutput):
    """A transducer, with or without attention."""

    objective = TransducerLikelihood()

    @torch.inference_mode()
    def transcribe(self, source: Sequences, settings: SpeechDecoding, seed: int = 0) -> list[list[Transcript]]:
        """Frame by frame: greedily if `num_beams` is 1, otherwise by beam search."""
        if self.language_model is not None:
            hint = "Its prediction network is one already: leave out decoding.language_model."
            raise UserError("A transducer is decoded without a further language model.", hint=hint)
        outputs = []
        for decoder in TransducerDecoder.rows(self.module, source, settings.max_new_tokens):
            found = decoder.greedy() if settings.num_beams == 1 else decoder.beam_search(settings.num_beams)
            outputs.append(
                [_timed(each.tokens, each.log_probability) for each in found[: settings.num_return_sequences]]
            )
        return outputs

    @torch.inference_mode()
    def align(self, source: Sequences, tokens: Sequence[int]) -> list[TimedToken]:
        """The most probable path with these tokens."""
        return TransducerDecoder.rows(self.module, source)[0].align(tokens)


OUTPUTS: dict[type[nn.Module], type[SpeechOutput]] = {
    CTCModel: CTCOutput,
    Seq2Seq: AttentionOutput,
    CTCAttentionModel: JointOutput,
    Transducer: TransducerOutput,
    AttentionTransducer: TransducerOutput,
}
"""The output of each class of models."""


def output_of(module: nn.Module, language_model: Any = None) -> SpeechOutput:
    """The output of this model, selected by its class."""
    return OUTPUTS[plain_class(module)](module, language_model)
