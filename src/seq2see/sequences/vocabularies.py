"""Learning a vocabulary from texts: by counting words or characters, by merging neighbours, or by likelihood."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from tokenizers import Tokenizer, trainers

from seq2see.core.errors import UserError
from seq2see.sequences.tokeniser_files import MOST_PIECES, SPECIALS, build, document, fixed_pieces, untrained
from seq2see.sequences.tokenisers import BytePairs, Characters, Given, Spaced, Tokeniser, Unigram, Words, composed
from seq2see.sequences.unigram import learn_unigram


def train_tokeniser(
    settings: Characters | Words | Spaced | BytePairs | Unigram | Given, texts: Iterable[str]
) -> Tokeniser:
    """Learn a vocabulary; the same texts always give the same one, on any number of cores."""
    if isinstance(settings, Given):
        raise UserError(
            "A given vocabulary cannot be learnt: it comes with real weights.",
            remedy="Name the folder of these weights with `--set start=FOLDER`, or set tokeniser.kind=bpe, say.",
        )
    library = build(document(settings.kind, untrained(settings.kind)))
    texts = [composed(library, text) for text in texts]
    if not any(texts):
        raise UserError("There is no text to learn a vocabulary from.")
    vocabulary = _LEARN[type(settings)](settings, library, texts)
    return Tokeniser(settings.kind, document(settings.kind, vocabulary))


def _learn_characters(settings: Characters, library: Tokenizer, texts: list[str]) -> dict[str, Any]:
    kept = [letter for letter, count in _ranked_letters(texts) if count >= settings.min_count]
    return {"vocab": {piece: number for number, piece in enumerate([*SPECIALS, *kept][:MOST_PIECES])}}


def _learn_words(settings: Words | Spaced, library: Tokenizer, texts: list[str]) -> dict[str, Any]:
    trainer = trainers.WordLevelTrainer(
        vocab_size=MOST_PIECES,
        min_frequency=settings.min_count,
        special_tokens=list(SPECIALS),
        show_progress=False,
    )
    found = _trained(library, texts, trainer, "vocab")["vocab"]
    # The library gives <unk> a second number where a text that was cut already has it as a word.
    pieces = dict.fromkeys([*SPECIALS, *sorted(found, key=lambda piece: found[piece])])
    return {"vocab": {piece: number for number, piece in enumerate(pieces)}}


def _learn_byte_pairs(settings: BytePairs, library: Tokenizer, texts: list[str]) -> dict[str, Any]:
    letters = _letters(texts, settings)
    trainer = trainers.BpeTrainer(
        vocab_size=settings.size,
        min_frequency=2,  # a pair seen once is no pattern
        special_tokens=fixed_pieces("bpe"),
        # Which letters stay when there are too many is decided here: the library leaves ties to chance.
        initial_alphabet=letters,
        limit_alphabet=len(letters),
        show_progress=False,
    )
    return _trained(library, texts, trainer, "vocab", "merges")


def _learn_unigram(settings: Unigram, library: Tokenizer, texts: list[str]) -> dict[str, Any]:
    cut = library.pre_tokenizer.pre_tokenize_str
    words = Counter(word for text in texts for word, _ in cut(text))
    fixed = untrained("unigram")["vocab"]
    pieces = learn_unigram(words, _letters(texts, settings), settings.size - len(fixed))
    return {"vocab": [*fixed, *([piece, score] for piece, score in pieces)]}


_LEARN: dict[type, Callable[..., dict[str, Any]]] = {
    Characters: _learn_characters,
    Words: _learn_words,
    Spaced: _learn_words,
    BytePairs: _learn_byte_pairs,
    Unigram: _learn_unigram,
}


def _letters(texts: list[str], settings: BytePairs | Unigram) -> list[str]:
    """The characters that get a piece of their own: all, or the most frequent that fit."""
    return [letter for letter, _ in _ranked_letters(texts)][: settings.size - len(fixed_pieces(settings.kind))]


def _ranked_letters(texts: list[str]) -> list[tuple[str, int]]:
    """All characters and how often they occur, the most frequent first."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))


def _trained(library: Tokenizer, texts: list[str], trainer: Any, *parts: str) -> dict[str, Any]:
    library.train_from_iterator(texts, trainer)
    model = json.loads(library.to_str())["model"]
    return {part: model[part] for part in parts}
