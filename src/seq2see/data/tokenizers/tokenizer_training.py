"""Training of vocabularies: by counts of words or characters, by merges (BPE), or by likelihood (unigram)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from tokenizers import Tokenizer as LibraryTokenizer
from tokenizers import trainers

from seq2see.core.errors import UserError
from seq2see.data.tokenizers.tokenizer import (
    BPE,
    Characters,
    Pretrained,
    Tokenizer,
    Unigram,
    Whitespace,
    WordLevel,
    to_nfc,
)
from seq2see.data.tokenizers.tokenizer_files import (
    MAX_VOCAB_SIZE,
    SPECIAL_TOKENS,
    build,
    fixed_tokens,
    initial_vocabulary,
    tokenizer_json,
)
from seq2see.data.tokenizers.unigram import train_unigram


def train_tokenizer(
    settings: Characters | WordLevel | Whitespace | BPE | Unigram | Pretrained, texts: Iterable[str]
) -> Tokenizer:
    """Train a vocabulary; it depends on the texts alone, not on the number of cores."""
    if isinstance(settings, Pretrained):
        raise UserError(
            "A pretrained vocabulary cannot be trained: it comes with pretrained weights.",
            hint="Set the folder of these weights with `--set pretrained=FOLDER`, or set, say, tokenizer.kind=bpe.",
        )
    library = build(tokenizer_json(settings.kind, initial_vocabulary(settings.kind)))
    texts = [to_nfc(library, text) for text in texts]
    if not any(texts):
        raise UserError("There is no text to train a vocabulary on.")
    vocabulary = _TRAINERS[type(settings)](settings, library, texts)
    return Tokenizer(settings.kind, tokenizer_json(settings.kind, vocabulary))


def _train_characters(settings: Characters, library: LibraryTokenizer, texts: list[str]) -> dict[str, Any]:
    characters = [each for each, count in _ranked_characters(texts) if count >= settings.min_count]
    return {"vocab": {token: number for number, token in enumerate([*SPECIAL_TOKENS, *characters][:MAX_VOCAB_SIZE])}}


def _train_words(settings: WordLevel | Whitespace, library: LibraryTokenizer, texts: list[str]) -> dict[str, Any]:
    trainer = trainers.WordLevelTrainer(
        vocab_size=MAX_VOCAB_SIZE,
        min_frequency=settings.min_count,
        special_tokens=list(SPECIAL_TOKENS),
        show_progress=False,
    )
    vocabulary = _train_library(library, texts, trainer, "vocab")["vocab"]
    # In pre-tokenized text <unk> may occur as a word, and the library would give it a second id.
    tokens = dict.fromkeys([*SPECIAL_TOKENS, *sorted(vocabulary, key=lambda token: vocabulary[token])])
    return {"vocab": {token: number for number, token in enumerate(tokens)}}


def _train_bpe(settings: BPE, library: LibraryTokenizer, texts: list[str]) -> dict[str, Any]:
    alphabet = _alphabet(texts, settings)
    trainer = trainers.BpeTrainer(
        vocab_size=settings.vocab_size,
        min_frequency=2,  # a merge that occurs once is no pattern
        special_tokens=fixed_tokens("bpe"),
        # The alphabet is limited here, because the library breaks ties at random.
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    return _train_library(library, texts, trainer, "vocab", "merges")


def _train_unigram(settings: Unigram, library: LibraryTokenizer, texts: list[str]) -> dict[str, Any]:
    pre_tokenize = library.pre_tokenizer.pre_tokenize_str
    words = Counter(word for text in texts for word, _ in pre_tokenize(text))
    fixed = initial_vocabulary("unigram")["vocab"]
    tokens = train_unigram(words, _alphabet(texts, settings), settings.vocab_size - len(fixed))
    return {"vocab": [*fixed, *([token, score] for token, score in tokens)]}


_TRAINERS: dict[type, Callable[..., dict[str, Any]]] = {
    Characters: _train_characters,
    WordLevel: _train_words,
    Whitespace: _train_words,
    BPE: _train_bpe,
    Unigram: _train_unigram,
}


def _alphabet(texts: list[str], settings: BPE | Unigram) -> list[str]:
    """The characters that get a token of their own: all, or the most frequent ones that fit."""
    size = settings.vocab_size - len(fixed_tokens(settings.kind))
    return [character for character, _ in _ranked_characters(texts)][:size]


def _ranked_characters(texts: list[str]) -> list[tuple[str, int]]:
    """All characters with their counts, the most frequent first."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))


def _train_library(library: LibraryTokenizer, texts: list[str], trainer: Any, *parts: str) -> dict[str, Any]:
    library.train_from_iterator(texts, trainer)
    model = json.loads(library.to_str())["model"]
    return {part: model[part] for part in parts}
