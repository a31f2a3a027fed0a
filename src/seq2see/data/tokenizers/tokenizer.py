"""Tokenizers: text to token ids and back, and the training of vocabularies; five kinds in one class.

| kind | a token is | a character outside the vocabulary |
|---|---|---|
| characters | one character | <unk> |
| words | a word, a run of symbols, or one Chinese or Japanese character | <unk>, the whole word |
| whitespace | the text between two spaces, or the end of a line | <unk>, the whole word |
| bpe | the result of merging frequent pairs (Sennrich et al. 2016) | its UTF-8 bytes |
| unigram | a part of the most probable segmentation (Kudo 2018) | its UTF-8 bytes |

Text is converted to Unicode's composed form (NFC) and not changed otherwise: bpe and unigram restore any text exactly,
spaces included, and so do characters if all are in the vocabulary. The kind words does not store spaces; decoding
inserts them where print has them. The kind whitespace inserts them between any two words.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from tokenizers import Tokenizer as LibraryTokenizer
from tokenizers import trainers

from seq2see.core.errors import UserError
from seq2see.core.files import write_text
from seq2see.core.settings import OpenKinds, Settings
from seq2see.data.tokenizers.tokenizer_files import (
    MAX_VOCAB_SIZE,
    PIPELINES,
    SPECIAL_TOKENS,
    build,
    fixed_tokens,
    initial_vocabulary,
    read_own_vocabulary,
    read_tokenizer_json,
    tokenizer_json,
)
from seq2see.data.tokenizers.unigram import train_unigram

PAD, BOS, EOS, UNK = range(len(SPECIAL_TOKENS))
PAD_TEXT, BOS_TEXT, EOS_TEXT, UNK_TEXT = SPECIAL_TOKENS

MASK_TEXT = "[MASK]"
"""The mask token, in texts and (see `add_mask_token`) in vocabularies."""

VISIBLE = str.maketrans({" ": "▁", "\n": "⏎", "\t": "⇥"})


class Characters(Settings):
    """Every character is a token."""

    kind: Literal["characters"] = "characters"
    min_count: int = Field(1, ge=1)
    """A character that occurs fewer times than this becomes <unk>."""


class WordLevel(Settings):
    """Every word is a token; so is every Chinese or Japanese character."""

    kind: Literal["words"] = "words"
    min_count: int = Field(1, ge=1)
    """A word that occurs fewer times than this becomes <unk>."""


class Whitespace(Settings):
    """For pre-tokenized text: the words between spaces are the tokens, and so is the end of a line."""

    kind: Literal["whitespace"] = "whitespace"
    min_count: int = Field(1, ge=1)
    """A word that occurs fewer times than this becomes <unk>, as does a literal <unk> in the text."""


class BPE(Settings):
    """Byte pair encoding (BPE): tokens are made by repeatedly merging the most frequent pair."""

    kind: Literal["bpe"] = "bpe"
    vocab_size: int = Field(8000, ge=300, le=MAX_VOCAB_SIZE)
    """Maximum vocabulary size, with 4 special tokens and 256 bytes; a small corpus gives fewer tokens."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """BPE-dropout: the probability that a merge is skipped in training, so that every epoch has other segmentations."""


class Unigram(Settings):
    """Unigram language model: the tokens under which the corpus has the highest likelihood."""

    kind: Literal["unigram"] = "unigram"
    vocab_size: int = Field(8000, ge=300, le=MAX_VOCAB_SIZE)
    """Maximum vocabulary size, with 4 special tokens and 256 bytes; a small corpus gives fewer tokens."""


class Pretrained(Settings):
    """A pretrained vocabulary, which comes with pretrained weights; it is not trained."""

    kind: Literal["pretrained"] = "pretrained"


@dataclass(frozen=True)
class OwnTokenizer:
    """The functions of a tokenizer of `register_tokenizer`."""

    split: Callable[[str], list[str]]
    """The tokens of a text: parts of it, in their order."""
    join: Callable[[list[str]], str]
    """The text of tokens."""


OWN_TOKENIZERS: dict[type[Settings], OwnTokenizer] = {}
"""The tokenizers of `register_tokenizer`, by their settings."""
TokenizerSettings = Annotated[
    Characters | WordLevel | Whitespace | BPE | Unigram | Pretrained,
    Field(discriminator="kind"),
    OpenKinds(OWN_TOKENIZERS),
]
"""The settings of a tokenizer, selected by `kind`."""


class Tokenizer:
    """Text to token ids and back. <bos> and <eos> are never added here; datasets add them."""

    file = "tokenizer.json"
    """The file name in the folder of a model."""
    is_text = True
    """Whether it reads texts; the processors of images and series stand in the same place."""

    def __init__(self, kind: str, content: dict[str, Any]):
        self.kind = kind
        self._content = content
        self._library = build(content)
        size = self._library.get_vocab_size()
        self._tokens = [str(self._library.id_to_token(number)) for number in range(size)]

    def __len__(self) -> int:
        """The size of the vocabulary; all ids are smaller."""
        return len(self._tokens)

    def normalize(self, text: str) -> str:
        """The text in composed form (NFC), otherwise unchanged."""
        return to_nfc(self._library, text)

    def encode(self, text: str) -> list[int]:
        """The token ids of a text."""
        return list(call_library(self._encoding, text).ids)

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of many texts, computed on all cores."""
        return self._encode_many(texts)

    def encode_concatenated(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The token ids of many texts in one array, and the number of tokens of each text."""
        if self.kind == "characters":
            return self._encode_characters(texts)
        rows = self.encode_many(texts)
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum())), lengths

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids up to the first <eos>; <pad> and <bos> are skipped, <unk> is written."""
        text_ids = []
        for number in ids:
            if number == EOS:
                break
            if number not in (PAD, BOS):
                text_ids.append(int(number))
        return str(self._library.decode(text_ids, skip_special_tokens=False))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Each id as a string to display: `▁` is a space, `⏎` a line end, `<0xE7>` a byte of a character."""
        return [self._tokens[number].translate(VISIBLE) for number in ids]

    def token_name(self, number: int) -> str | None:
        """The name in the file of the token with this id."""
        name = self._library.id_to_token(number)
        return None if name is None else str(name)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """The start and end of each token in the text, as given; the bytes of one character have the same offsets."""
        return list(call_library(self._encoding, text).offsets)

    def pre_tokenize(self, text: str) -> list[str]:
        """The words of a text, which are split into tokens separately: no token crosses a boundary of words."""
        return [word for word, _ in self._library.pre_tokenizer.pre_tokenize_str(self.normalize(text))]

    @property
    def mask_id(self) -> int:
        """The id of [MASK], if the vocabulary has it: the last one."""
        assert self.has_mask, "this vocabulary has no [MASK]: see `add_mask_token`"
        return len(self) - 1

    @property
    def has_mask(self) -> bool:
        """Whether the vocabulary has [MASK]."""
        return self._tokens[-1] == MASK_TEXT

    @property
    def mask_lstrip(self) -> bool:
        """Whether [MASK] includes the preceding space, as other tokens of these kinds do."""
        return self.kind in ("bpe", "unigram")

    @property
    def merges(self) -> tuple[dict[str, int], list[list[str]]]:
        """For BPE: the id of each token, and the merges by rank."""
        model = self._content["model"]
        return model["vocab"], model["merges"]

    def word_ids(self, text: str, words: Sequence[str]) -> list[int]:
        """For each token of a text, the index of its word in `words`, which are in the order of the text.

        A token over several words belongs to the one that it overlaps most, a space to the next word.
        """
        spans = _find_words(text, words)
        return [_word_of(offset, spans) for offset in self.offsets(text)]

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of everything that determines the token ids of a text."""
        model = self._content["model"]
        content = [self.kind, model["vocab"], model.get("merges")]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def save(self, path: Path) -> None:
        """Write one `tokenizer.json`, which the `tokenizers` library can open, too."""
        write_text(path, json.dumps(self._content, ensure_ascii=False, indent=1) + "\n")

    @staticmethod
    def load(path: Path) -> Tokenizer:
        """Read a `tokenizer.json` that `save` wrote; any other file is an error."""
        own = read_own_vocabulary(path)
        return SplitTokenizer(*own) if own else Tokenizer(*read_tokenizer_json(path))

    def with_vocabulary(self, vocabulary: Any) -> Tokenizer:
        """A copy of this tokenizer with another vocabulary."""
        return Tokenizer(self.kind, {**self._content, "model": {**self._content["model"], "vocab": vocabulary}})

    def _encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        try:
            encodings = self._library.encode_batch_fast(list(texts), add_special_tokens=False)
        except TypeError:  # the error does not name the invalid text: encode one by one to find it
            encodings = [call_library(self._encoding, text) for text in texts]
        return [encoding.ids for encoding in encodings]

    def _encode_characters(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Encode by a table of code points, which equals the library's result when tokens are single characters."""
        normalized = [self.normalize(text) for text in texts]
        ids = {ord(text): number for number, text in enumerate(self._tokens) if len(text) == 1}
        table = np.full(max(ids, default=0) + 2, UNK, np.int32)  # the last entry is for all higher code points
        table[[*ids]] = [*ids.values()]
        points = np.frombuffer("".join(normalized).encode("utf-32-le"), np.dtype("<u4"))
        return table.take(points, mode="clip"), np.fromiter(map(len, normalized), np.int64, len(normalized))

    def _encoding(self, text: str) -> Any:
        return self._library.encode(text, add_special_tokens=False)


def add_mask_token(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer with [MASK] as an additional token, which no text is split into: it mixes letters and symbols."""
    model = tokenizer._content["model"]
    if isinstance(model["vocab"], list):
        vocabulary: Any = [*model["vocab"], [MASK_TEXT, min(score for _, score in model["vocab"])]]
    else:
        vocabulary = {**model["vocab"], MASK_TEXT: len(tokenizer)}
    return tokenizer.with_vocabulary(vocabulary)


class SplitTokenizer(Tokenizer):
    """A tokenizer of `register_tokenizer`: two functions split and join texts; only its vocabulary is stored."""

    def __init__(self, kind: str, vocabulary: dict[str, int]):
        own = next((each for cls, each in OWN_TOKENIZERS.items() if cls.model_fields["kind"].default == kind), None)
        if own is None:
            hint = "Import the module that registers it with `seq2see.register_tokenizer`."
            raise UserError(f"There is no tokenizer '{kind}'.", hint=hint)
        self.kind, self._own, self._ids = kind, own, vocabulary
        self._content = {"model": {"vocab": vocabulary}}
        self._tokens = sorted(vocabulary, key=lambda token: vocabulary[token])

    @staticmethod
    def train(settings: Any, texts: Iterable[str]) -> SplitTokenizer:
        """A vocabulary of all tokens of the texts, the most frequent first."""
        split = OWN_TOKENIZERS[type(settings)].split
        counts = Counter(token for text in texts for token in split(unicodedata.normalize("NFC", text)))
        ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
        tokens = dict.fromkeys([*SPECIAL_TOKENS, *(token for token, _ in ranked if token)])
        return SplitTokenizer(settings.kind, {token: number for number, token in enumerate([*tokens][:MAX_VOCAB_SIZE])})

    def with_vocabulary(self, vocabulary: Any) -> Tokenizer:
        """A copy of this tokenizer with another vocabulary."""
        return SplitTokenizer(self.kind, vocabulary)

    def normalize(self, text: str) -> str:
        """The text in composed form (NFC), otherwise unchanged."""
        return unicodedata.normalize("NFC", text)

    def encode(self, text: str) -> list[int]:
        """The token ids of a text."""
        special = range(len(SPECIAL_TOKENS))  # their names in a text are ordinary, and unknown, tokens
        ids = (self._ids.get(token, UNK) for token in self.pre_tokenize(text))
        return [UNK if number in special else number for number in ids]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids up to the first <eos>; <pad> and <bos> are skipped, <unk> is written."""
        numbers = [int(number) for number in ids]
        before = numbers[: numbers.index(EOS)] if EOS in numbers else numbers
        return self._own.join([self._tokens[number] for number in before if number not in (PAD, BOS)])

    def token_name(self, number: int) -> str | None:
        """The name in the file of the token with this id."""
        return self._tokens[number] if 0 <= number < len(self) else None

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """The start and end of each token in the text; a token that is no part of it has no width."""
        found, end = [], 0
        for token in self.pre_tokenize(text):
            start = text.find(token, end)
            end = end if start < 0 else start + len(token)
            found.append((end if start < 0 else start, end))
        return found

    def pre_tokenize(self, text: str) -> list[str]:
        """The tokens of a text."""
        return [token for token in self._own.split(self.normalize(text)) if token]

    def save(self, path: Path) -> None:
        """Write the kind and the vocabulary to a `tokenizer.json`, which other libraries cannot open."""
        write_text(path, json.dumps({"kind": self.kind, **self._content}, ensure_ascii=False, indent=1) + "\n")

    def _encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]


def register_tokenizer(
    settings: type[Settings], split: Callable[[str], list[str]], join: Callable[[list[str]], str] = "".join
) -> None:
    """Add a tokenizer that is two functions: `split` a text into tokens, and `join` tokens to a text.

    Recipes select it by the `kind` of its settings. Its vocabulary are all tokens of the training texts. Models store
    only the vocabulary, so that the functions must be registered before a model is loaded.
    """
    kind = settings.model_fields["kind"].default
    if kind in PIPELINES or kind == Pretrained.model_fields["kind"].default:
        raise UserError(f"There is already a tokenizer '{kind}'.", hint="Give your tokenizer another kind.")
    OWN_TOKENIZERS[settings] = OwnTokenizer(split, join)


def to_nfc(library: LibraryTokenizer, text: str) -> str:
    """A text in Unicode's composed form (NFC); ASCII text already is."""
    return text if text.isascii() else str(call_library(library.normalizer.normalize_str, text))


def call_library(function: Callable[[str], Any], text: str) -> Any:
    """Call a function of the library with a text; text that cannot be encoded as UTF-8 is an error."""
    try:
        return function(text)
    except (TypeError, UnicodeEncodeError):
        raise UserError(f"{text[:40]!r} is not valid Unicode text: it has an unpaired surrogate.") from None


def _find_words(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    if not words:
        raise UserError(f"There are no words for {text[:40]!r}.")
    spans, end = [], 0
    for word in words:
        start = text.find(word, end)
        if start < 0:
            raise UserError(f"The word {word!r} does not follow in {text[:40]!r}.")
        end = start + len(word)
        spans.append((start, end))
    return spans


def _word_of(offset: tuple[int, int], spans: list[tuple[int, int]]) -> int:
    overlaps = [min(offset[1], end) - max(offset[0], start) for start, end in spans]
    best = max(range(len(spans)), key=lambda word: overlaps[word])
    if overlaps[best] > 0:
        return best
    return next((word for word, (start, _) in enumerate(spans) if start >= offset[1]), len(spans) - 1)


# --- training: by counts of words or characters, by merges (BPE), or by likelihood (unigram) ---


def train_tokenizer(
    settings: Characters | WordLevel | Whitespace | BPE | Unigram | Pretrained, texts: Iterable[str]
) -> Tokenizer:
    """Train a vocabulary; it depends on the texts alone, not on the number of cores."""
    if type(settings) in OWN_TOKENIZERS:
        return SplitTokenizer.train(settings, texts)
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
