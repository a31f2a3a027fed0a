"""Text to numbers and back: five kinds of tokenizer behind one class.

| kind | a piece is | a character never seen before |
|---|---|---|
| characters | one character | <unk> |
| words | a word, a run of signs, or one Chinese or Japanese character | <unk>, the whole word |
| whitespace | what stands between spaces, and the end of a line | <unk>, the whole word |
| bpe | what merging frequent neighbors gave (Sennrich et al. 2016) | its UTF-8 bytes |
| unigram | a piece of the likeliest cut (Kudo 2018) | its UTF-8 bytes |

Text is brought to Unicode's composed form (NFC) and not changed otherwise: bpe and unigram give back any
text exactly, spaces and all, and so do characters where they are known. Words forget the spaces; decoding
puts them where print has them, or, if spaces were all that parted them, between any two.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from tokenizers import Tokenizer as LibraryTokenizer

from seq2see.core.errors import UserError
from seq2see.core.files import write_text
from seq2see.core.settings import Settings
from seq2see.sequences.tokenizer_files import (
    MAX_VOCAB_SIZE,
    SPECIAL_TOKENS,
    build,
    read_tokenizer_json,
)

PAD, BOS, EOS, UNK = range(len(SPECIAL_TOKENS))
PAD_TEXT, BOS_TEXT, EOS_TEXT, UNK_TEXT = SPECIAL_TOKENS

MASK_TEXT = "[MASK]"
"""What stands for a hidden token, in texts and (see `add_mask_token`) in vocabularies."""

VISIBLE = str.maketrans({" ": "▁", "\n": "⏎", "\t": "⇥"})


class Characters(Settings):
    """Every character is a piece."""

    kind: Literal["characters"] = "characters"
    min_count: int = Field(1, ge=1)
    """A character seen fewer times than this becomes <unk>."""


class WordLevel(Settings):
    """Every word is a piece; Chinese and Japanese characters stand alone."""

    kind: Literal["words"] = "words"
    min_count: int = Field(1, ge=1)
    """A word seen fewer times than this becomes <unk>."""


class Whitespace(Settings):
    """Words as somebody has cut them already: a piece is what stands between spaces, and so is the end of a line."""

    kind: Literal["whitespace"] = "whitespace"
    min_count: int = Field(1, ge=1)
    """A word seen fewer times than this becomes <unk>, as what is written <unk> in the text does anyway."""


class BPE(Settings):
    """Pieces made by merging the most frequent neighbors, again and again."""

    kind: Literal["bpe"] = "bpe"
    vocab_size: int = Field(8000, ge=300, le=MAX_VOCAB_SIZE)
    """Most pieces, counting 4 specials and 256 bytes; a small corpus gives fewer."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Chance that a merge is passed over in training, so that every epoch sees other pieces (BPE-dropout)."""


class Unigram(Settings):
    """The pieces under which the corpus is most likely, each drawn by its own chance."""

    kind: Literal["unigram"] = "unigram"
    vocab_size: int = Field(8000, ge=300, le=MAX_VOCAB_SIZE)
    """Most pieces, counting 4 specials and 256 bytes; a small corpus gives fewer."""


class Pretrained(Settings):
    """A vocabulary that came with real weights; it is not learned."""

    kind: Literal["pretrained"] = "pretrained"


TokenizerSettings = Annotated[
    Characters | WordLevel | Whitespace | BPE | Unigram | Pretrained, Field(discriminator="kind")
]
"""The settings of a tokenizer, chosen by `kind`."""


class Tokenizer:
    """Text to ids and back. Neither <bos> nor <eos> is ever added: batches do that."""

    file = "tokenizer.json"
    """What it is called in the folder of a model."""

    def __init__(self, kind: str, content: dict[str, Any]):
        self.kind = kind
        self._content = content
        self._library = build(content)
        size = self._library.get_vocab_size()
        self._tokens = [str(self._library.id_to_token(number)) for number in range(size)]

    def __len__(self) -> int:
        """The size of the vocabulary; every id is smaller."""
        return len(self._tokens)

    def normalize(self, text: str) -> str:
        """The text as it is cut: composed (NFC), otherwise unchanged."""
        return to_nfc(self._library, text)

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        return list(call_library(self._encoding, text).ids)

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, by all cores at once."""
        return self._encode_many(texts)

    def encode_concatenated(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The ids of many texts, one behind the other, and how many each has."""
        if self.kind == "characters":
            return self._encode_characters(texts)
        rows = self.encode_many(texts)
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum())), lengths

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids up to the first <eos>; <pad> and <bos> say nothing, <unk> is shown as such."""
        kept = []
        for number in ids:
            if number == EOS:
                break
            if number not in (PAD, BOS):
                kept.append(int(number))
        return str(self._library.decode(kept, skip_special_tokens=False))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Each id as something to look at: `▁` is a space, `⏎` a new line, `<0xE7>` a byte of a character."""
        return [self._tokens[number].translate(VISIBLE) for number in ids]

    def token_name(self, number: int) -> str | None:
        """What the file calls the piece with this number in it."""
        name = self._library.id_to_token(number)
        return None if name is None else str(name)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Where in the text, as given, each piece stands; bytes of one character share its place."""
        return list(call_library(self._encoding, text).offsets)

    def pre_tokenize(self, text: str) -> list[str]:
        """The parts of a text that are cut into pieces each by itself: no piece reaches over two."""
        return [word for word, _ in self._library.pre_tokenizer.pre_tokenize_str(self.normalize(text))]

    @property
    def mask_id(self) -> int:
        """The id of [MASK], in a vocabulary that has it: the last."""
        assert self.has_mask, "this vocabulary has no [MASK]: see `add_mask_token`"
        return len(self) - 1

    @property
    def has_mask(self) -> bool:
        """Whether the vocabulary has [MASK]."""
        return self._tokens[-1] == MASK_TEXT

    @property
    def mask_lstrip(self) -> bool:
        """Whether [MASK] stands for a piece and the space before it: so it is where pieces begin with theirs."""
        return self.kind in ("bpe", "unigram")

    @property
    def merges(self) -> tuple[dict[str, int], list[list[str]]]:
        """Of byte pairs: the number of each piece, and the pairs in the order they are merged."""
        model = self._content["model"]
        return model["vocab"], model["merges"]

    def word_ids(self, text: str, words: Sequence[str]) -> list[int]:
        """For each piece of a text the number of the word it is part of, given the words in order.

        A piece over several words counts for the one it covers most, a space for the word behind it.
        """
        places = _find_words(text, words)
        return [_word_of(span, places) for span in self.offsets(text)]

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of everything that decides which ids a text gets."""
        model = self._content["model"]
        deciding = [self.kind, model["vocab"], model.get("merges")]
        return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()

    def save(self, path: Path) -> None:
        """Write one `tokenizer.json`, which the `tokenizers` library opens too."""
        write_text(path, json.dumps(self._content, ensure_ascii=False, indent=1) + "\n")

    @staticmethod
    def load(path: Path) -> Tokenizer:
        """Read a `tokenizer.json` that `save` wrote; anything else is refused."""
        return Tokenizer(*read_tokenizer_json(path))

    def _encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        try:
            encodings = self._library.encode_batch_fast(list(texts), add_special_tokens=False)
        except TypeError:  # the library does not say which text: asked one by one it does
            encodings = [call_library(self._encoding, text) for text in texts]
        return [encoding.ids for encoding in encodings]

    def _encode_characters(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """As the library does it, whose pieces are single characters here: by a table of their code points."""
        cut = [self.normalize(text) for text in texts]
        letters = {ord(text): number for number, text in enumerate(self._tokens) if len(text) == 1}
        table = np.full(max(letters, default=0) + 2, UNK, np.int32)  # the last stands for all that are higher
        table[[*letters]] = [*letters.values()]
        points = np.frombuffer("".join(cut).encode("utf-32-le"), np.dtype("<u4"))
        return table.take(points, mode="clip"), np.fromiter(map(len, cut), np.int64, len(cut))

    def _encoding(self, text: str) -> Any:
        return self._library.encode(text, add_special_tokens=False)


def add_mask_token(tokenizer: Tokenizer) -> Tokenizer:
    """The same tokenizer with one more piece, [MASK]. No text is ever cut into it: it mixes letters with signs."""
    model = tokenizer._content["model"]
    if isinstance(model["vocab"], list):
        vocabulary: Any = [*model["vocab"], [MASK_TEXT, min(score for _, score in model["vocab"])]]
    else:
        vocabulary = {**model["vocab"], MASK_TEXT: len(tokenizer)}
    return Tokenizer(tokenizer.kind, {**tokenizer._content, "model": {**model, "vocab": vocabulary}})


def to_nfc(library: LibraryTokenizer, text: str) -> str:
    """A text in Unicode's composed form; what is ASCII is in it already."""
    return text if text.isascii() else str(call_library(library.normalizer.normalize_str, text))


def call_library(function: Callable[[str], Any], text: str) -> Any:
    """What the library answers about a text; it takes only text that can be written as UTF-8."""
    try:
        return function(text)
    except (TypeError, UnicodeEncodeError):
        raise UserError(f"{text[:40]!r} is not valid Unicode text: half of a surrogate pair stands alone.") from None


def _find_words(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    if not words:
        raise UserError(f"No words are given for {text[:40]!r}.")
    places, end = [], 0
    for word in words:
        start = text.find(word, end)
        if start < 0:
            raise UserError(f"The word {word!r} does not follow in {text[:40]!r}.")
        end = start + len(word)
        places.append((start, end))
    return places


def _word_of(span: tuple[int, int], places: list[tuple[int, int]]) -> int:
    shared = [min(span[1], end) - max(span[0], start) for start, end in places]
    best = max(range(len(places)), key=lambda word: shared[word])
    if shared[best] > 0:
        return best
    return next((word for word, (start, _) in enumerate(places) if start >= span[1]), len(places) - 1)
