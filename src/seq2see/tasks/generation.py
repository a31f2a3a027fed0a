"""Generation: what a decoding engine receives, texts beyond the context window of a language model, and streaming.

A model of running text has positions up to the end of its context window. A long text is therefore generated in
segments of half a window, each from the end of the text so far: tokens outside the window have no effect, as in
training. A recurrent model has no context window (`ModelSettings.max_prompt_tokens`): its state carries the whole text,
and it generates in one segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from seq2see.core.batch import Sequences
from seq2see.core.errors import UserError
from seq2see.data.tokenizers.tokenizer import EOS, PAD, Tokenizer
from seq2see.decoding.engine import stream
from seq2see.decoding.hypotheses import Hypothesis
from seq2see.decoding.settings import Decoding, make_limits, make_logits_processors, make_sampler

if TYPE_CHECKING:
    from seq2see.tasks.model import Model


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
