"""The Python interface of a trained model: call it with one text, or `predict` many."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch import nn

from seq2see.core.batch import Batch, Sequences
from seq2see.core.devices import device_of
from seq2see.core.errors import UserError
from seq2see.data.readers.lines import is_blank
from seq2see.data.tokenizers.tokenizer import BOS, EOS
from seq2see.decoding.hypotheses import Hypothesis
from seq2see.inspection.record import ActivationRecord, SignalKind
from seq2see.inspection.trace import ATTENTION
from seq2see.tasks.generation import Engine, GenerationRequest, generate_long, stream_text, with_prefix
from seq2see.tasks.model_folder import StoredModel
from seq2see.tasks.processors import unknown_token_warnings
from seq2see.tasks.tracing import NamedBatch, TextAttention, trace_text

MAX_REORDERED_TOKENS = 40
"""Maximum length of the output for token ids in another order."""


@dataclass(frozen=True)
class ScoredText:
    """A candidate (a label, a filler or a token) and its probability."""

    text: str
    probability: float


@dataclass(frozen=True)
class Output:
    """One generated text, its log-probability, and its `score`: the log-probability with the length penalty."""

    text: str
    score: float
    log_probability: float
    finished: bool
    length: int
    """The number of tokens, <eos> included."""
    tokens: tuple[ScoredText, ...] = ()
    """The tokens with their probabilities, <eos> included; the tokens of a prompt come first."""


@dataclass(frozen=True)
class Prediction:
    """The prediction for one input; `str` gives the best output."""

    source: str
    outputs: tuple[Output, ...]
    truncated: bool
    """Whether the source was longer than the model's limit and was truncated."""
    _attention_of: Callable[[str, str], TextAttention]
    candidates: tuple[tuple[ScoredText, ...], ...] = ()
    """Of an encoder-only model: the candidates at each predicted position, the most probable first."""
    warnings: tuple[str, ...] = ()
    """Warnings about the input, for example that it has unknown characters."""

    def __str__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        """The best output."""
        return self.outputs[0].text

    @property
    def score(self) -> float:
        """The score that ranks the outputs: log-probability with the length penalty."""
        return self.outputs[0].score

    @cached_property
    def attention(self) -> TextAttention:
        """The attention weights for this output; computed in one more forward pass."""
        return self._attention_of(self.source, self.text)

    def _repr_html_(self) -> str:
        return self.attention._repr_html_()


def format_candidates(prediction: Prediction | None) -> str:
    """The candidates of an encoder-only model, each position after a tab: `cat 0.71, dog 0.12`."""
    candidates = prediction.candidates if prediction else ()
    shown = [", ".join(f"{_visible(each.text)} {each.probability:.3f}" for each in some) for some in candidates]
    return "".join(f"\t{each}" for each in shown)


def reject_settings(
    supported: Sequence[str], prefix: str, settings: Collection[str], reason: str, slot: str = "decoding"
) -> None:
    """Refuse decoding settings that a model without decoding does not support."""
    if unsupported := ["prefix"] * bool(prefix) + sorted(set(settings) - set(supported)):
        names = " and ".join(f"{slot}.{each}" for each in supported)
        raise UserError(f"{reason}, so '{unsupported[0]}' has no effect.", hint=f"It supports {names}.")


def _visible(token: str) -> str:
    """A token without the spaces around it, or ▁ for a token of spaces only."""
    return token.strip(" ").replace("\n", "⏎").replace("\t", "⇥") or "▁"


class Model:
    """A trained model with its tokenizers: `model("我有一支笔").text`."""

    render_attention: Callable[[Model, str, str | None], str] | None = None
    """Renders the attention of a source and a target as a page; `seq2see.load` sets it."""
    name: str = "latest"
    """The name or folder it was loaded from."""

    def __init__(self, stored: StoredModel, engine: Any, task: Any):
        self.stored, self.config, self.tokenizers = stored, stored.config, stored.tokenizers
        self.module: nn.Module = stored.module
        self.device = device_of(stored.module)
        self.task = task
        """The task of the model, a `Task`."""
        self.engine: Engine = engine

    def __call__(self, text: str, **settings: Any) -> Prediction:
        """The prediction for one text."""
        return self.predict([text], **settings)[0]

    def predict(
        self,
        texts: Sequence[str],
        *,
        prefix: str = "",
        seed: int = 0,
        indices: Sequence[int] | None = None,
        large_batch: bool = False,
        on_progress: Callable[[int], Any] = lambda count: None,
        **settings: Any,
    ) -> list[Prediction]:
        """Predictions for many texts, in their order; settings are those of decoding, say num_beams=5.

        A language model continues each text; its output is the text with the continuation. With a `prefix`, every
        output starts with it. `indices` number the texts, and sampling depends on them; the default is 0, 1, ...
        `large_batch`: the texts are a part of a large input, so that optimizing the model pays off.
        """
        decoding = self.config.decoding.with_(**settings)
        sources, prompts, prefix_ids = self._encode_all(texts), texts, self.tokenizers.target.encode(prefix)
        if not self.has_source:
            prompts, sources = with_prefix(texts, sources, prefix_ids, self.tokenizers.target)
            prefix_ids = []
        truncated = [self._truncate(ids) for ids in sources]
        indices = range(len(texts)) if indices is None else indices
        request = GenerationRequest(truncated, indices, decoding, prefix_ids, seed, large_batch)
        if self.has_source:
            hypotheses = self.engine.generate(request, on_progress)
        else:
            hypotheses = generate_long(self.engine, request, self.config.max_prompt_tokens, on_progress)
        return [self._prediction(*each) for each in zip(texts, prompts, sources, hypotheses, strict=True)]

    def _prediction(self, text: str, prompt: str, ids: list[int], hypotheses: list[Hypothesis]) -> Prediction:
        outputs = self._outputs(prompt, self._truncate(ids), hypotheses)
        warnings = unknown_token_warnings(prompt, ids, self.tokenizers.source)
        return Prediction(text, outputs, len(ids) > self.max_tokens, self._attention_of, warnings=warnings)

    def warnings(self, text: str) -> tuple[str, ...]:
        """Warnings about an input of this model, for example unknown characters."""
        return unknown_token_warnings(text, self._encode_all([text])[0], self.tokenizers.source)

    def score(self, source: str, target: str) -> float:
        """The log-probability of a given target, <eos> included; of a language model, as a continuation of `source`."""
        batch = self._batch(source, target)
        with torch.inference_mode():
            scores = self.module(batch).float().log_softmax(-1)
        prompt_length = 0 if self.has_source else len(self.tokenizers.source.encode(source))
        return float(scores[0].gather(-1, batch.labels[0][:, None])[prompt_length:].sum())

    @torch.inference_mode()
    def score_tokens(self, named_batch: NamedBatch) -> list[ScoredText]:
        """The target tokens of a `named_batch` with their probabilities; empty for a model that generates no text."""
        if not self.task.generates or "labels" not in named_batch.tokens:
            return []
        labels = named_batch.batch.labels[0]
        scores = self.module(named_batch.batch)[0].float().log_softmax(-1).gather(-1, labels[:, None])[:, 0]
        # The last token of running text has no label.
        rows = zip(named_batch.tokens["labels"], scores.tolist(), strict=False)
        return [ScoredText(token, math.exp(score)) for token, score in rows]

    def token_ids(self, text: Any) -> list[int]:
        """The token ids of a text, as the model receives them."""
        return self.encode(text) if self.has_source else [BOS, *self.encode(text)]

    def predict_tokens(self, text: Any, ids: list[int]) -> tuple[str, tuple[tuple[ScoredText, ...], ...]]:
        """The output for these token ids of a text, for example in another order, and candidates if there are any."""
        decoding = self.config.decoding
        decoding = decoding.with_(max_new_tokens=min(decoding.max_new_tokens, MAX_REORDERED_TOKENS))
        request = GenerationRequest([ids if self.has_source else ids[1:]], [0], decoding)
        return self.tokenizers.target.decode(self.engine.generate(request, lambda count: None)[0][0].tokens), ()

    def token_context(self, source: Any, target: str = "", token_ids: Sequence[int] = ()) -> Any:
        """The tokens so far, for the probabilities of the next (`GenerationContext`, `MaskedContext`)."""
        return self.task.token_context(self, source, target, token_ids)

    def trace(
        self, source: Any, target: str | None = None, kinds: Collection[SignalKind] = ATTENTION
    ) -> ActivationRecord:
        """Record the activations of one forward pass over a source and a target (default: the model's own output).

        The input of a language model is the source followed by the target.
        """
        return trace_text(self, source, target, kinds)

    def named_batch(self, source: Any, target: str | None) -> NamedBatch:
        """A source and a target (default: the model's own output) as a batch of one, with teacher forcing.

        The last token of running text is an input too if the maximum length allows it, although it has no label.
        """
        if target is None:
            target = self(source).text[0 if self.has_source else len(source) :]
        batch = self._batch(source, target)
        labels = batch.labels[0].tolist()
        if not self.has_source and len(labels) < self.config.model.target_text.max_tokens:
            batch = self._teacher_forced_batch([*labels, EOS])
        assert batch.target is not None
        source_tokenizer, target_tokenizer = self.tokenizers.source, self.tokenizers.target
        ids = {
            "target": (target_tokenizer, batch.target.values[0].tolist()),
            "labels": (target_tokenizer, labels),
        }
        if isinstance(batch.source, Sequences):
            ids["source"] = (source_tokenizer, batch.source.values[0].tolist())
        return NamedBatch.of(batch, ids)

    def _attention_of(self, source: str, output: str) -> TextAttention:
        """The attention of an output; the output of a language model starts with its source."""
        target = output if self.has_source else output[len(source) :]
        return TextAttention.of(self.trace(source, target), self._attention_page(source, target))

    def _attention_page(self, source: str, target: str | None = None) -> Callable[[], str] | None:
        """A function that renders the attention page; None without `render_attention`."""
        return partial(self.render_attention, self, source, target) if self.render_attention else None

    @property
    def prediction_settings(self) -> Any:
        """How the model predicts: the settings of its decoding, or those of a model without decoding."""
        return getattr(self.config, self.task.settings_slot)

    @property
    def has_source(self) -> bool:
        """Whether the model has a source; a language model continues the text itself."""
        return self.config.model.source is not None

    @property
    def max_tokens(self) -> int:
        """Maximum number of source tokens; a language model with a context window reserves half for its output."""
        return self.config.model.source_text.max_tokens if self.has_source else self.config.max_prompt_tokens

    def _truncate(self, ids: list[int]) -> list[int]:
        """Truncate a source at its end, or the prompt of a language model at its beginning."""
        return [*ids[: self.max_tokens], EOS] if self.has_source else ids[-self.max_tokens :]

    def stream(self, text: str, *, seed: int = 0, **settings: Any) -> Iterator[str]:
        """The output for one text, chunk by chunk as tokens are generated; of a language model, the continuation."""
        return stream_text(self, text, seed, **settings)

    def encode(self, text: str) -> list[int]:
        """The token ids of a text, truncated to the model's limit."""
        return self._truncate(self._encode_all([text])[0])

    def _encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of the texts, not truncated."""
        if self.has_source and any(map(is_blank, texts)):
            raise UserError("The text is empty.")
        return self.tokenizers.source.encode_many(texts)

    def _batch(self, source: str, target: str) -> Batch:
        source_ids, target_ids = self._encode_all([source])[0], self.tokenizers.target.encode(target)
        if self.has_source:
            return self._teacher_forced_batch([*target_ids, EOS], Sequences.of([self._truncate(source_ids)]))
        if not source_ids + target_ids:
            raise UserError("The text is empty.")
        return self._teacher_forced_batch(source_ids + target_ids)  # running text has no <eos>

    def _teacher_forced_batch(self, label_ids: list[int], source: Sequences | None = None) -> Batch:
        """One example: the labels, and the same ids shifted to the right as decoder input."""
        target, labels = Sequences.of([[BOS, *label_ids[:-1]]]), torch.tensor([label_ids])
        return Batch(source, target, labels, torch.zeros(1, dtype=torch.long)).to(self.device)

    def _outputs(self, prompt: str, prompt_ids: list[int], hypotheses: list[Hypothesis]) -> tuple[Output, ...]:
        # A continuation is decoded with its prompt: whether a token starts with a space can depend on the token before.
        decode = self.tokenizers.target.decode
        before, prompt_length = ("", 0) if self.has_source else (prompt, len(decode(prompt_ids)))
        return tuple(
            Output(
                before + decode(each.tokens)[prompt_length:],
                each.score,
                each.log_probability,
                each.finished,
                len(each.tokens) + each.finished,
                self._token_probabilities(each),
            )
            for each in hypotheses
        )

    def _token_probabilities(self, hypothesis: Hypothesis) -> tuple[ScoredText, ...]:
        tokens = self.tokenizers.target.tokens([*hypothesis.tokens, *[EOS] * hypothesis.finished])
        log_probabilities = hypothesis.token_log_probabilities
        if len(log_probabilities) != len(tokens):  # CTranslate2 does not return them
            return ()
        return tuple(ScoredText(token, math.exp(log)) for token, log in zip(tokens, log_probabilities, strict=True))
