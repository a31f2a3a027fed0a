"""Using a trained model: call it with a text, or give it many."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from seq2see.core.batch import Batch, Sequences
from seq2see.core.devices import device_of, pick_device
from seq2see.core.errors import UserError
from seq2see.decoding.hypotheses import Hypothesis
from seq2see.inspection.record import ActivationRecord, SignalKind
from seq2see.inspection.trace import ATTENTION
from seq2see.models.image_settings import ImageSource
from seq2see.models.settings import Series
from seq2see.runs.engines import GenerationRequest, engine_of
from seq2see.runs.input_warnings import unknown_token_warnings
from seq2see.runs.long_generation import generate_long, stream_text, with_prefix
from seq2see.runs.model_folder import StoredModel, read_model
from seq2see.runs.run_folder import find_model
from seq2see.runs.text_attention import TextAttention
from seq2see.runs.tracing import NamedBatch, trace_text
from seq2see.sequences.tokenizers import BOS, EOS
from seq2see.sources.lines import is_blank


@dataclass(frozen=True)
class ScoredText:
    """Something that may be the answer to one question, and how likely that is."""

    text: str
    probability: float


@dataclass(frozen=True)
class Output:
    """One text the model gives, and its log-probability (with the length penalty in `score`)."""

    text: str
    score: float
    log_probability: float
    finished: bool
    length: int
    """How many tokens it has, its end among them."""
    tokens: tuple[ScoredText, ...] = ()
    """Each token with its probability, its end among them; those of a text that is gone on from come first."""


@dataclass(frozen=True)
class Prediction:
    """What a model makes of one text; it prints as the best answer."""

    source: str
    outputs: tuple[Output, ...]
    truncated: bool
    """Whether the source was longer than the model reads; then its end was cut off."""
    _attention_of: Callable[[str, str], TextAttention]
    candidates: tuple[tuple[ScoredText, ...], ...] = ()
    """Of a model that only reads: for each thing it was asked, what it may be, the likeliest first."""
    warnings: tuple[str, ...] = ()
    """What should be known about the text: that it has characters which the model does not know, say."""

    def __str__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        """The best answer."""
        return self.outputs[0].text

    @property
    def score(self) -> float:
        """How the model ranks it: its log-probability, with the length penalty."""
        return self.outputs[0].score

    @cached_property
    def attention(self) -> TextAttention:
        """Where the model looks while it writes this answer; read off one more pass over it."""
        return self._attention_of(self.source, self.text)

    def _repr_html_(self) -> str:
        return self.attention._repr_html_()


def format_candidates(prediction: Prediction | None) -> str:
    """What a model that only reads took into account, behind tabs: `cat 0.71, dog 0.12`."""
    candidates = prediction.candidates if prediction else ()
    shown = [", ".join(f"{_visible(each.text)} {each.probability:.3f}" for each in guess) for guess in candidates]
    return "".join(f"\t{guess}" for guess in shown)


def reject_settings(known: Sequence[str], prefix: str, settings: Collection[str], why: str) -> None:
    """Of all that can be asked for, a model that does not decode knows little."""
    if others := ["prefix"] * bool(prefix) + sorted(set(settings) - set(known)):
        names = " and ".join(f"decoding.{each}" for each in known)
        raise UserError(f"{why}, so '{others[0]}' has no meaning.", hint=f"It knows {names}.")


def _visible(piece: str) -> str:
    """A piece without the spaces around it, unless it is nothing else."""
    return piece.strip(" ").replace("\n", "⏎").replace("\t", "⇥") or "▁"


class Model:
    """A trained model with its tokenizers: `model("我有一支笔").text`."""

    render_attention: Callable[[Model, str, str | None], str] | None = None
    """Makes a page of where it looked, given a text and what was written; `seq2see.load` sets it."""
    name: str = "latest"
    """What it was found by, when it was loaded."""

    def __init__(self, stored: StoredModel, engine: str = "own"):
        self.config, self.tokenizers = stored.config, stored.tokenizers
        self.module: nn.Module = stored.module
        self.device = device_of(stored.module)
        self.engine = engine_of(engine, stored)

    def __call__(self, text: str, **settings: Any) -> Prediction:
        """The prediction for one text."""
        return self.predict([text], **settings)[0]

    def predict(
        self,
        texts: Sequence[str],
        *,
        prefix: str = "",
        seed: int = 0,
        numbers: Sequence[int] | None = None,
        many: bool = False,
        on_progress: Callable[[int], Any] = lambda count: None,
        **settings: Any,
    ) -> list[Prediction]:
        """Predictions for many texts, in their order; settings are those of decoding, say num_beams=5.

        A language model goes on from each text, and its answer is the text with what follows. With a prefix every
        answer begins with it, and the model goes on from there. `numbers` are the texts' own numbers, on which samples
        depend; without them texts are counted from 0. `many` says that these are some of very many.
        """
        decoding = self.config.decoding.with_(**settings)
        sources, known, prefix_ids = self._encode_all(texts), texts, self.tokenizers.target.encode(prefix)
        if not self.has_source:
            known, sources = with_prefix(texts, sources, prefix_ids, self.tokenizers.target)
            prefix_ids = []
        seen, counted = [self._truncate(ids) for ids in sources], range(len(texts)) if numbers is None else numbers
        asked = GenerationRequest(seen, counted, decoding, prefix_ids, seed, many)
        if self.has_source:
            found = self.engine.answer(asked, on_progress)
        else:
            found = generate_long(self.engine, asked, self.config.max_prompt_tokens, on_progress)
        return [self._prediction(*each) for each in zip(texts, known, sources, found, strict=True)]

    def _prediction(self, text: str, known: str, ids: list[int], found: list[Hypothesis]) -> Prediction:
        answers = self._outputs(known, self._truncate(ids), found)
        warnings = unknown_token_warnings(known, ids, self.tokenizers.source)
        return Prediction(text, answers, len(ids) > self._max_tokens, self._attention_of, warnings=warnings)

    def warnings(self, text: str) -> tuple[str, ...]:
        """What should be known about a text before the model's answer to it is believed."""
        return unknown_token_warnings(text, self._encode_all([text])[0], self.tokenizers.source)

    def score(self, source: str, target: str) -> float:
        """The log-probability of a given target, end of sentence included; by a language model, after the source."""
        batch = self._batch(source, target)
        with torch.inference_mode():
            scores = self.module(batch).float().log_softmax(-1)
        before = 0 if self.has_source else len(self.tokenizers.source.encode(source))
        return float(scores[0].gather(-1, batch.labels[0][:, None])[before:].sum())

    def trace(
        self, source: Any, target: str | None = None, kinds: Collection[SignalKind] = ATTENTION
    ) -> ActivationRecord:
        """What passes through the model when it writes a target (its own answer, if none is given).

        A language model looks at the source, which it goes on from, and at what it has written behind it.
        """
        return trace_text(self, source, target, kinds)

    def named_batch(self, source: Any, target: str | None) -> NamedBatch:
        """A source and a target (its own answer, if none is given) as the model reads them in one pass.

        The last token of running text is read too, if there is room for it, although nothing is known to follow it.
        """
        if target is None:
            target = self(source).text[0 if self.has_source else len(source) :]
        batch = self._batch(source, target)
        written = batch.labels[0].tolist()
        if not self.has_source and len(written) < self.config.model.target_text.max_tokens:
            batch = self._teacher_forced_batch([*written, EOS])
        assert batch.target is not None
        read, write = self.tokenizers.source, self.tokenizers.target
        ids = {"target": (write, batch.target.values[0].tolist()), "labels": (write, written)}
        if isinstance(batch.source, Sequences):
            ids["source"] = (read, batch.source.values[0].tolist())
        return NamedBatch.of(batch, ids)

    def _attention_of(self, source: str, answer: str) -> TextAttention:
        """Where the model looked; a language model's answer begins with its source."""
        target = answer if self.has_source else answer[len(source) :]
        return TextAttention.of(self.trace(source, target), self._attention_page(source, target))

    def _attention_page(self, source: str, target: str | None = None) -> Callable[[], str] | None:
        """What makes a page of where it looked, if anybody makes pages."""
        return partial(self.render_attention, self, source, target) if self.render_attention else None

    @property
    def has_source(self) -> bool:
        """Whether it reads a source; a language model goes on from the text itself."""
        return self.config.model.source is not None

    @property
    def _max_tokens(self) -> int:
        """The most tokens of a source that are read; a language model with a window keeps half for what follows."""
        return self.config.model.source_text.max_tokens if self.has_source else self.config.max_prompt_tokens

    def _truncate(self, ids: list[int]) -> list[int]:
        """What the model sees of a text: its beginning, or before going on from it, its end."""
        return [*ids[: self._max_tokens], EOS] if self.has_source else ids[-self._max_tokens :]

    def stream(self, text: str, *, seed: int = 0, **settings: Any) -> Iterator[str]:
        """The answer to one text, piece by piece as it is chosen; by a language model, what follows the text."""
        return stream_text(self, text, seed, **settings)

    def encode(self, text: str) -> list[int]:
        """What the model sees of a text, as numbers."""
        return self._truncate(self._encode_all([text])[0])

    def _encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The texts as numbers, whole."""
        if self.has_source and any(map(is_blank, texts)):
            raise UserError("There is nothing to read in an empty text.")
        return self.tokenizers.source.encode_many(texts)

    def _batch(self, source: str, target: str) -> Batch:
        read, ids = self._encode_all([source])[0], self.tokenizers.target.encode(target)
        if self.has_source:
            return self._teacher_forced_batch([*ids, EOS], Sequences.of([self._truncate(read)]))
        if not read + ids:
            raise UserError("There is nothing to read in an empty text.")
        return self._teacher_forced_batch(read + ids)  # running text does not end

    def _teacher_forced_batch(self, written: list[int], source: Sequences | None = None) -> Batch:
        """One example: what is written, token by token, each behind those before it."""
        target, labels = Sequences.of([[BOS, *written[:-1]]]), torch.tensor([written])
        return Batch(source, target, labels, torch.zeros(1, dtype=torch.long)).to(self.device)

    def _outputs(self, text: str, seen: list[int], hypotheses: list[Hypothesis]) -> tuple[Output, ...]:
        # What follows a text is decoded with it: whether a piece begins with a space can depend on what is before it.
        decode = self.tokenizers.target.decode
        before, known = ("", 0) if self.has_source else (text, len(decode(seen)))
        return tuple(
            Output(
                before + decode(each.tokens)[known:],
                each.score,
                each.log_probability,
                each.finished,
                len(each.tokens) + each.finished,
                self._token_probabilities(each),
            )
            for each in hypotheses
        )

    def _token_probabilities(self, found: Hypothesis) -> tuple[ScoredText, ...]:
        pieces = self.tokenizers.target.pieces([*found.tokens, *[EOS] * found.finished])
        if len(found.token_log_probabilities) != len(pieces):  # another engine may not tell them
            return ()
        return tuple(
            ScoredText(piece, math.exp(log)) for piece, log in zip(pieces, found.token_log_probabilities, strict=True)
        )


def load(name: str | Path, engine: str = "own") -> Model:
    """The model of a finished run: a folder, a name under `runs/`, or "latest"; or one in a Hugging Face folder."""
    model = open_model(read_model(find_model(str(name)), pick_device()), engine)
    model.name = str(name)
    return model


def open_model(stored: StoredModel, engine: str = "own") -> Model:
    """A model that was read, or that is just being trained, as it is used."""
    if stored.config.model.generates and isinstance(stored.config.model.source, ImageSource):
        from seq2see.runs.captioner import Captioner  # only here: it is a kind of `Model`

        return Captioner(stored, engine)
    if stored.config.model.generates:
        return Model(stored, engine)
    if isinstance(stored.config.model.target, Series):
        from seq2see.runs.forecaster import Forecaster  # only here: it is a kind of `Model`

        return Forecaster(stored, engine)
    from seq2see.runs.predictor import Predictor  # only here: it is a kind of `Model`

    return Predictor(stored, engine)
