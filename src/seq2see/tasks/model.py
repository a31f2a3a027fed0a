"""The Python interface of a trained model: call it with one text, or `predict` many.

An `Engine` receives a `GenerationRequest`. A model of running text has positions up to the end of its context window. A
long text is therefore generated in segments of half a window, each from the end of the text so far: tokens outside the
window have no effect, as in training. A recurrent model has no context window (`ModelSettings.max_prompt_tokens`): its
state carries the whole text, and it generates in one segment.

Decoding itself is not traced: it reorders rows and computes one time step at a time. The decoded output is the input of
one forward pass with teacher forcing, which gives the same activations, in the order of time.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from seq2see.core.batch import Batch, Sequences
from seq2see.core.devices import device_of
from seq2see.core.errors import UserError
from seq2see.data.readers.lines import is_blank
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD, Tokenizer
from seq2see.decoding.engine import Decoding, make_limits, make_logits_processors, make_sampler, stream
from seq2see.decoding.samplers import Hypothesis
from seq2see.inspection.record import ActivationRecord, SignalKind
from seq2see.inspection.trace import ATTENTION, trace
from seq2see.tasks.model_folder import StoredModel, unknown_token_warnings

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
    expert: str = ""
    """The expert that answered, of a model with several experts (see `runs/dispatch.py`)."""

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


def checked_inputs(inputs: Sequence[Any], input_kind: str = "text") -> Sequence[Any]:
    """The inputs of a prediction as a list; a single text, a table or another value in place of texts is refused.

    >>> checked_inputs(("a", "b"))
    ['a', 'b']
    """
    several = 'Write model("good") for one, model.predict(["good", "bad"]) for several'
    if isinstance(inputs, str | bytes):
        raise UserError("`predict` takes a list of inputs, and this is a single text.", hint=f"{several}.")
    if isinstance(inputs, Mapping) or (hasattr(inputs, "iloc") and hasattr(inputs, "columns")):
        hint = f'{several}, or model.predict(table["text"]) for the column of a table.'
        raise UserError(f"This is a {type(inputs).__name__}, and not a list of inputs.", hint=hint)
    listed = list(inputs)
    for number, each in enumerate(listed, 1):
        if each is None or (input_kind == "text" and not isinstance(each, str)):
            raise UserError(f"The input {number} is a {type(each).__name__}, and not a text.", hint=f"{several}.")
    return listed


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
        texts = checked_inputs(texts)
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


@dataclass(frozen=True)
class NamedBatch:
    """One example as a batch of one, and the names of its tokens."""

    batch: Batch
    tokens: dict[str, list[str]]
    """The names of the `source` tokens, the `target` inputs, and the `labels` at each time step of the target."""
    special: dict[str, list[bool]] = field(default_factory=dict)
    grid: tuple[int, int] | None = None

    @staticmethod
    def of(batch: Batch, ids: dict[str, tuple[Tokenizer, list[int]]]) -> NamedBatch:
        """Name the tokens of a batch of texts with their tokenizers."""
        tokens = {side: tokenizer.tokens(side_ids) for side, (tokenizer, side_ids) in ids.items()}
        special = {side: [each in (PAD, BOS, EOS) for each in side_ids] for side, (_, side_ids) in ids.items()}
        return NamedBatch(batch, tokens, special)


def trace_text(
    model: Model,
    text: Any,
    target: str | None = None,
    kinds: Collection[SignalKind] = ATTENTION,
    module_names: Collection[str] = (),
) -> ActivationRecord:
    """Record the activations for a text (or image) and a target (default: the model's own output).

    `kinds` selects the kinds of activations (see `inspection/trace.py`), `module_names` the modules (default: all). An
    encoder-only model needs no target.
    """
    if model.config.members:
        raise UserError(
            "An ensemble cannot be traced: each member has its own activations.",
            hint="Load and trace one of its runs.",
        )
    return trace_batch(model, model.named_batch(text, target), kinds, module_names)


def trace_batch(
    model: Model, named_batch: NamedBatch, kinds: Collection[SignalKind] = ATTENTION, module_names: Collection[str] = ()
) -> ActivationRecord:
    """Record the activations for a prepared example."""
    with torch.inference_mode(), trace(model.module, kinds, module_names) as activations:
        model.module(named_batch.batch)
    tokens = {**named_batch.tokens, "pooled": ["Σ"]}
    return activations.to_record(
        type(model.module).__name__, tokens, special=named_batch.special, grid=named_batch.grid
    )


@dataclass(frozen=True)
class TextAttention:
    """The source and target tokens, and for each layer the weights (head, target token, source token)."""

    source: list[str]
    target: list[str]
    layers: list[str]
    weights: list[NDArray[np.float32]]
    page: Callable[[], str] | None = field(default=None, compare=False, repr=False)
    """Renders an interactive page for notebooks, if available."""

    @staticmethod
    def of(record: ActivationRecord, page: Callable[[], str] | None = None) -> TextAttention:
        """The cross-attention of a record with source and target, otherwise the self-attention."""
        is_cross = "source" in record.tokens and "target" in record.tokens
        layers = [each for each in record.of("attention") if each.is_cross_attention == is_cross]
        layers = [each for each in layers if each.side != "pooled"]
        keys = record.tokens["source" if "source" in record.tokens else "target"]
        queries = record.tokens.get("labels", keys)
        used = slice(None) if is_cross else slice(len(queries))  # the last token of running text has no label
        return TextAttention(
            source=keys[used],
            target=queries,
            layers=[each.name for each in layers],
            weights=[each.values[:, : len(queries), used] for each in layers],
            page=page,
        )

    @property
    def matrix(self) -> NDArray[np.float32]:
        """(target, source): the mean of the heads of the last layer."""
        if not self.weights:
            return np.zeros((len(self.target), len(self.source)), dtype=np.float32)
        return self.weights[-1].mean(axis=0)

    def _repr_html_(self) -> str:
        return self.page() if self.page else self.html()

    def html(self) -> str:
        """A table for notebooks: darker cells have more attention."""
        header = "".join(f"<th>{html.escape(token)}</th>" for token in self.source)
        rows = "".join(
            f"<tr><th>{html.escape(token)}</th>{''.join(map(_cell, row))}</tr>"
            for token, row in zip(self.target, self.matrix, strict=True)
        )
        return f"<table><tr><th></th>{header}</tr>{rows}</table>"


def _cell(weight: float) -> str:
    return f'<td style="background:rgba(31,119,180,{weight:.2f})" title="{weight:.3f}">&nbsp;</td>'


SEED_STRIDE = 1_000_003
"""The difference between the seeds of two segments, so that their samples differ."""
INCOMPLETE_CHARACTER = "\N{REPLACEMENT CHARACTER}"
"""The tokenizer's output for a character whose last bytes are not generated yet."""


@dataclass(frozen=True)
class GenerationRequest:
    """The sources to decode and the decoding settings."""

    sources: Sequence[Any]
    """Token ids with <eos>; prompts of a language model, without <eos>; or pixels, all of one shape."""
    indices: Sequence[int]
    """The numbers of the sources in the whole input, on which sampling depends."""
    decoding: Decoding
    prefix_ids: list[int] = field(default_factory=list)
    """The tokens that every output starts with."""
    seed: int = 0
    large_batch: bool = False
    """Whether the sources are a part of a large input, so that optimizing the model pays off."""


ProgressCallback = Callable[[int], Any]
"""Receives the number of sources decoded since the last call."""


class Engine(Protocol):
    """Decodes sources to hypotheses."""

    streams: bool
    """Whether an output can be read while it is generated."""

    def generate(self, request: GenerationRequest, on_progress: ProgressCallback) -> list[list[Hypothesis]]:
        """The hypotheses of each source, best first."""


def with_prefix(
    texts: Sequence[str], text_ids: Sequence[list[int]], prefix_ids: list[int], tokenizer: Tokenizer
) -> tuple[Sequence[str], list[list[int]]]:
    """The prompts of a language model: each text followed by the prefix, as strings and as token ids.

    Text and prefix are truncated together to the context window.
    """
    if not prefix_ids:
        return texts, list(text_ids)
    decode, prompt_ids = tokenizer.decode, [[*ids, *prefix_ids] for ids in text_ids]
    # The tokenizer decides whether there is a space between text and prefix.
    rows = zip(texts, text_ids, prompt_ids, strict=True)
    return [text + decode(all_ids)[len(decode(ids)) :] for text, ids, all_ids in rows], prompt_ids


def generate_long(
    engine: Engine, request: GenerationRequest, segment: int, on_progress: ProgressCallback
) -> list[list[Hypothesis]]:
    """Continuations of any length, in segments of `segment` tokens, each from the last `segment` tokens before it."""
    max_new_tokens = request.decoding.max_new_tokens
    if max_new_tokens <= segment:
        return engine.generate(request, on_progress)
    if request.decoding.num_return_sequences > 1:
        message = f"Several outputs per text are limited to {segment} tokens each, half of the context window."
        raise UserError(message, hint=f"Set decoding.max_new_tokens={segment} or decoding.num_return_sequences=1.")
    first = replace(request, decoding=_segment_settings(request.decoding, 0, segment))
    generated = [found[0] for found in engine.generate(first, on_progress)]
    for number in range(1, -(-max_new_tokens // segment)):
        unfinished = [index for index, text in enumerate(generated) if not text.finished]
        if not unfinished:
            break
        following = GenerationRequest(
            [list(generated[index].tokens[-segment:]) for index in unfinished],
            [request.indices[index] for index in unfinished],
            _segment_settings(request.decoding, number * segment, segment),
            seed=request.seed + number * SEED_STRIDE,
            large_batch=request.large_batch,
        )
        for index, found in zip(unfinished, engine.generate(following, lambda count: None), strict=True):
            generated[index] = _join(generated[index], found[0], segment)
    return [[text] for text in generated]


def _segment_settings(decoding: Decoding, generated: int, segment: int) -> Decoding:
    """The decoding settings of the next segment, when `generated` tokens exist already."""
    count = min(segment, decoding.max_new_tokens - generated)
    min_count = min(max(decoding.min_new_tokens - generated, 0), count)
    return decoding.with_(max_new_tokens=count, min_new_tokens=min_count)


def _join(before: Hypothesis, after: Hypothesis, overlap: int) -> Hypothesis:
    """Join two segments, of which the second starts with the last `overlap` tokens of the first."""
    overlap = min(overlap, len(before.tokens))
    new = after.token_log_probabilities[overlap:]
    return Hypothesis(
        before.tokens + after.tokens[overlap:],
        before.score + sum(new),
        before.log_probability + sum(new),
        before.token_log_probabilities + new,
        after.finished,
    )


def stream_text(model: Model, text: str, seed: int = 0, prefix: str = "", **settings: Any) -> Iterator[str]:
    """Yield an output chunk by chunk, as tokens are generated; of a language model, the continuation.

    Beam search selects its hypothesis at the end, so its output is one chunk. The output is also one chunk with a
    prefix, another engine, or a precision other than float32.
    """
    decoding = model.config.decoding.with_(**settings)
    beam_search = decoding.num_beams > 1 or decoding.num_return_sequences > 1
    if prefix or beam_search or decoding.precision != "float32" or not model.engine.streams:
        output = model.predict([text], seed=seed, prefix=prefix, **settings)[0].text
        yield output if model.has_source else output[len(text) :]
        return
    ids, decode = model.encode(text), model.tokenizers.target.decode
    generated = [] if model.has_source else list(ids)
    streamed = len(decode(generated))
    for token in _generate_tokens(model, ids, decoding, seed):
        generated.append(token)
        output = decode(generated)
        if len(output) > streamed and not output.endswith(INCOMPLETE_CHARACTER):
            yield output[streamed:]
            streamed = len(output)


def _generate_tokens(model: Model, ids: list[int], decoding: Decoding, seed: int) -> Iterator[int]:
    """Yield the tokens of an output; a language model with a context window generates half a window at a time."""
    generated, segment = 0, decoding.max_new_tokens if model.has_source else model.config.max_prompt_tokens
    source = Sequences.of([ids]).to(model.device) if model.has_source else None
    while generated < decoding.max_new_tokens:
        settings = _segment_settings(decoding, generated, segment)
        prompt = None if model.has_source else Sequences.of([ids]).to(model.device)
        for step in stream(
            model.module,  # type: ignore[arg-type]
            source, make_sampler(settings, seed), make_limits(settings), make_logits_processors(settings), prompt,
        ):  # fmt: skip
            token = int(step.tokens[0])
            if token in (EOS, PAD):
                return
            yield token
            ids = [*ids, token]
        generated += settings.max_new_tokens
        ids, seed = ids[-segment:], seed + SEED_STRIDE
