"""Writing on and on: texts longer than the window a language model was trained on, and answers as they come.

A model of running text knows places up to the end of its window. So a long text is written half a window at a time,
each time from the end of what is there: the model forgets what has slid out of its sight, as it would in training.
A recurrent model has no window (`ModelSettings.max_prompt_tokens`): its state carries all it has read, and it writes in one go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from seq2see.core.batch import Sequences
from seq2see.core.errors import UserError
from seq2see.decoding.engine import stream
from seq2see.decoding.hypotheses import Hypothesis
from seq2see.decoding.settings import Decoding, make_limits, make_logits_processors, make_sampler
from seq2see.runs.engines import Engine, GenerationRequest, ProgressCallback, TorchEngine
from seq2see.sequences.tokenizers import EOS, PAD, Tokenizer

if TYPE_CHECKING:
    from seq2see.runs.model import Model

SEED_STRIDE = 1_000_003
"""Between the seeds of two stretches, so that they are not drawn alike."""
INCOMPLETE_CHARACTER = "\N{REPLACEMENT CHARACTER}"
"""What decoding gives for a character some of whose bytes are still to come."""


def with_prefix(
    texts: Sequence[str], read: Sequence[list[int]], prefix_ids: list[int], tokenizer: Tokenizer
) -> tuple[Sequence[str], list[list[int]]]:
    """Texts with what every answer begins with, in letters and as numbers: a language model goes on from both.

    So both together are cut to what the model sees, and not the text alone.
    """
    if not prefix_ids:
        return texts, list(read)
    decode, both = tokenizer.decode, [[*ids, *prefix_ids] for ids in read]
    # Whether there is a space between the two is known to the tokenizer.
    known = [text + decode(all_)[len(decode(ids)) :] for text, ids, all_ in zip(texts, read, both, strict=True)]
    return known, both


def generate_long(
    engine: Engine, asked: GenerationRequest, segment: int, on_progress: ProgressCallback
) -> list[list[Hypothesis]]:
    """What follows each text, however long: stretches of at most `segment` tokens, each seen from the last `segment`."""
    wanted = asked.decoding.max_new_tokens
    if wanted <= segment:
        return engine.answer(asked, on_progress)
    if asked.decoding.num_return_sequences > 1:
        what = f"Several answers at once have at most {segment} tokens each, half of what the model sees."
        raise UserError(what, hint=f"Set decoding.max_new_tokens={segment} or decoding.num_return_sequences=1.")
    first = replace(asked, decoding=_segment_settings(asked.decoding, 0, segment))
    generated = [found[0] for found in engine.answer(first, on_progress)]
    for stretch in range(1, -(-wanted // segment)):
        unfinished = [place for place, text in enumerate(generated) if not text.finished]
        if not unfinished:
            break
        following = GenerationRequest(
            [list(generated[place].tokens[-segment:]) for place in unfinished],
            [asked.indices[place] for place in unfinished],
            _segment_settings(asked.decoding, stretch * segment, segment),
            seed=asked.seed + stretch * SEED_STRIDE,
            large_batch=asked.large_batch,
        )
        for place, found in zip(unfinished, engine.answer(following, lambda count: None), strict=True):
            generated[place] = _join(generated[place], found[0], segment)
    return [[text] for text in generated]


def _segment_settings(decoding: Decoding, generated: int, segment: int) -> Decoding:
    """How the next tokens of an answer are made, of which so many are written: `segment` of them at most."""
    count = min(segment, decoding.max_new_tokens - generated)
    least = min(max(decoding.min_new_tokens - generated, 0), count)
    return decoding.with_(max_new_tokens=count, min_new_tokens=least)


def _join(before: Hypothesis, after: Hypothesis, shown: int) -> Hypothesis:
    """One text of two, of which the second begins with what was shown of the first."""
    shown = min(shown, len(before.tokens))
    new = after.token_log_probabilities[shown:]
    return Hypothesis(
        before.tokens + after.tokens[shown:],
        before.score + sum(new),
        before.log_probability + sum(new),
        before.token_log_probabilities + new,
        after.finished,
    )


def stream_text(model: Model, text: str, seed: int = 0, prefix: str = "", **settings: Any) -> Iterator[str]:
    """An answer piece by piece, as it is chosen; by a language model, what follows the text.

    Beam search only knows in the end which of its hypotheses it takes: then the answer comes whole. So it does behind
    a prefix, from another engine, and in other numbers than float32.
    """
    decoding = model.config.decoding.with_(**settings)
    searched = decoding.num_beams > 1 or decoding.num_return_sequences > 1
    if prefix or searched or decoding.precision != "float32" or not isinstance(model.engine, TorchEngine):
        answer = model.predict([text], seed=seed, prefix=prefix, **settings)[0].text
        yield answer if model.has_source else answer[len(text) :]
        return
    ids, decode = model.read(text), model.tokenizers.target.decode
    generated = [] if model.has_source else list(ids)
    said = len(decode(generated))
    for token in _tokens(model, ids, decoding, seed):
        generated.append(token)
        now = decode(generated)
        if len(now) > said and not now.endswith(INCOMPLETE_CHARACTER):
            yield now[said:]
            said = len(now)


def _tokens(model: Model, ids: list[int], decoding: Decoding, seed: int) -> Iterator[int]:
    """The tokens of an answer; half a window at a time if a language model with a window writes."""
    generated, segment = 0, decoding.max_new_tokens if model.has_source else model.config.max_prompt_tokens
    source = Sequences.of([ids]).to(model.device) if model.has_source else None
    while generated < decoding.max_new_tokens:
        stretch = _segment_settings(decoding, generated, segment)
        prompt = None if model.has_source else Sequences.of([ids]).to(model.device)
        for step in stream(
            model.module,  # type: ignore[arg-type]
            source, make_sampler(stretch, seed), make_limits(stretch), make_logits_processors(stretch), prompt,
        ):  # fmt: skip
            token = int(step.tokens[0])
            if token in (EOS, PAD):
                return
            yield token
            ids = [*ids, token]
        generated += stretch.max_new_tokens
        ids, seed = ids[-segment:], seed + SEED_STRIDE
