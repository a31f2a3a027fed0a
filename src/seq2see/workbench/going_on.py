"""Writing on and on: texts longer than the window a language model was trained on, and answers as they come.

A model of running text knows places up to the end of its window. So a long text is written half a window at a time,
each time from the end of what is there: the model forgets what has slid out of its sight, as it would in training.
A recurrent model has no window (`ModelSettings.sight`): its state carries all it has read, and it writes in one go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from seq2see.core.batch import Sequences
from seq2see.core.errors import UserError
from seq2see.decoding.engine import stream
from seq2see.decoding.hypotheses import Hypothesis
from seq2see.decoding.settings import Decoding, chooser_of, limits_of, rules_of
from seq2see.sequences.tokenisers import EOS, PAD, Tokeniser
from seq2see.workbench.engines import Asked, Engine, OwnEngine, Watch

if TYPE_CHECKING:
    from seq2see.workbench.predict import Model

APART = 1_000_003
"""Between the seeds of two stretches, so that they are not drawn alike."""
TORN = "\N{REPLACEMENT CHARACTER}"
"""What decoding gives for a character some of whose bytes are still to come."""


def begun(
    texts: Sequence[str], read: Sequence[list[int]], beginning: list[int], tokeniser: Tokeniser
) -> tuple[Sequence[str], list[list[int]]]:
    """Texts with what every answer begins with, in letters and as numbers: a language model goes on from both.

    So both together are cut to what the model sees, and not the text alone.
    """
    if not beginning:
        return texts, list(read)
    decode, both = tokeniser.decode, [[*ids, *beginning] for ids in read]
    # Whether there is a space between the two is known to the tokeniser.
    known = [text + decode(all_)[len(decode(ids)) :] for text, ids, all_ in zip(texts, read, both, strict=True)]
    return known, both


def answer_at_length(engine: Engine, asked: Asked, half: int, watch: Watch) -> list[list[Hypothesis]]:
    """What follows each text, however long: stretches of at most `half` tokens, each seen from the last `half`."""
    wanted = asked.decoding.max_new_tokens
    if wanted <= half:
        return engine.answer(asked, watch)
    if asked.decoding.num_return_sequences > 1:
        what = f"Several answers at once have at most {half} tokens each, half of what the model sees."
        raise UserError(what, remedy=f"Set decoding.max_new_tokens={half} or decoding.num_return_sequences=1.")
    first = replace(asked, decoding=_stretch(asked.decoding, 0, half))
    written = [found[0] for found in engine.answer(first, watch)]
    for stretch in range(1, -(-wanted // half)):
        unfinished = [place for place, text in enumerate(written) if not text.finished]
        if not unfinished:
            break
        following = Asked(
            [list(written[place].tokens[-half:]) for place in unfinished],
            [asked.numbers[place] for place in unfinished],
            _stretch(asked.decoding, stretch * half, half),
            seed=asked.seed + stretch * APART,
            many=asked.many,
        )
        for place, found in zip(unfinished, engine.answer(following, lambda count: None), strict=True):
            written[place] = _joined(written[place], found[0], half)
    return [[text] for text in written]


def _stretch(decoding: Decoding, written: int, half: int) -> Decoding:
    """How the next tokens of an answer are made, of which so many are written: `half` of them at most."""
    count = min(half, decoding.max_new_tokens - written)
    least = min(max(decoding.min_new_tokens - written, 0), count)
    return decoding.with_(max_new_tokens=count, min_new_tokens=least)


def _joined(before: Hypothesis, after: Hypothesis, shown: int) -> Hypothesis:
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


def as_it_comes(model: Model, text: str, seed: int = 0, prefix: str = "", **settings: Any) -> Iterator[str]:
    """An answer piece by piece, as it is chosen; by a language model, what follows the text.

    Beam search only knows in the end which of its hypotheses it takes: then the answer comes whole. So it does behind
    a prefix, from another engine, and in other numbers than float32.
    """
    decoding = model.config.decoding.with_(**settings)
    searched = decoding.num_beams > 1 or decoding.num_return_sequences > 1
    if prefix or searched or decoding.precision != "float32" or not isinstance(model.engine, OwnEngine):
        answer = model.predict([text], seed=seed, prefix=prefix, **settings)[0].text
        yield answer if model.reads else answer[len(text) :]
        return
    ids, decode = model.read(text), model.tokenisers.target.decode
    written = [] if model.reads else list(ids)
    said = len(decode(written))
    for token in _tokens(model, ids, decoding, seed):
        written.append(token)
        now = decode(written)
        if len(now) > said and not now.endswith(TORN):
            yield now[said:]
            said = len(now)


def _tokens(model: Model, ids: list[int], decoding: Decoding, seed: int) -> Iterator[int]:
    """The tokens of an answer; half a window at a time if a language model with a window writes."""
    written, half = 0, decoding.max_new_tokens if model.reads else model.config.sight
    source = Sequences.of([ids]).to(model.device) if model.reads else None
    while written < decoding.max_new_tokens:
        stretch = _stretch(decoding, written, half)
        prompt = None if model.reads else Sequences.of([ids]).to(model.device)
        for step in stream(
            model.module,  # type: ignore[arg-type]
            source, chooser_of(stretch, seed), limits_of(stretch), rules_of(stretch), prompt,
        ):  # fmt: skip
            token = int(step.tokens[0])
            if token in (EOS, PAD):
                return
            yield token
            ids = [*ids, token]
        written += stretch.max_new_tokens
        ids, seed = ids[-half:], seed + APART
