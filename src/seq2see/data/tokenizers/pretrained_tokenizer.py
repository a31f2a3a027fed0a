"""Pretrained tokenizers: the tokens of a pretrained model, with our ids for special tokens.

Everywhere in seq2see <pad>, <bos>, <eos> and <unk> have the ids 0 to 3. A pretrained vocabulary has other ids for them,
or no <pad>, or one token that both ends a text and begins the next. So its ids are mapped once, when it is read:
special tokens come first, and all other tokens follow in their original order. The rows of the embedding matrix are
reordered in the same way, and restored when the model is exported.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2see.core.documents import load_json
from seq2see.core.errors import UserError
from seq2see.data.tokenizers.tokenizer import BOS, EOS, MASK_TEXT, PAD, UNK, VISIBLE, Tokenizer, call_library
from seq2see.data.tokenizers.tokenizer_files import MAX_BYTES, SPECIAL_TOKENS, build

BERT_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", MASK_TEXT)
"""The special tokens of BERT's vocabularies."""
DOWNLOAD_AGAIN = "Get the file again from where the model is from; it may be incomplete."
"""The hint for third-party files that cannot be read."""


@dataclass(frozen=True)
class TokenIdMap:
    """The original id of each of our ids; None where the pretrained vocabulary has no such token."""

    original_ids: tuple[int | None, ...]
    bos_id: int
    """The original id of the token at the start of a text: the embedding of <bos>, even if it is also that of <eos>."""
    mask_id: int | None = None
    """The original id of [MASK], if there is one; its new id is the last."""

    @staticmethod
    def of(
        size: int,
        *,
        bos_id: int,
        eos_id: int | None,
        pad_id: int | None,
        unk_id: int | None,
        mask_id: int | None = None,
    ) -> TokenIdMap:
        """The map for a vocabulary of this size; a token that serves as several special tokens is mapped once.

        >>> TokenIdMap.of(6, bos_id=5, eos_id=5, pad_id=None, unk_id=2).original_ids
        (None, None, 5, 2, 0, 1, 3, 4)
        >>> TokenIdMap.of(7, bos_id=2, eos_id=3, pad_id=0, unk_id=1, mask_id=4).original_ids
        (0, 2, 3, 1, 5, 6, 4)
        """
        special_ids: list[int | None] = [pad_id, bos_id, eos_id, unk_id]
        mapped: set[int | None] = set()
        for special in (EOS, BOS, UNK, PAD):  # in the order of priority: outputs first, then inputs
            if special_ids[special] in mapped:
                special_ids[special] = None
            mapped.add(special_ids[special])
        rest = [number for number in range(size) if number not in (*special_ids, mask_id)]
        last = [] if mask_id is None else [mask_id]
        return TokenIdMap((*special_ids, *rest, *last), bos_id, mask_id)

    @property
    def config(self) -> dict[str, int | None]:
        """The arguments of `of` for this map."""
        return {
            "size": len(self.original_ids) - len(self.missing),
            "bos_id": self.bos_id,
            "eos_id": self.original_ids[EOS],
            "pad_id": self.original_ids[PAD],
            "unk_id": self.original_ids[UNK],
            "mask_id": self.mask_id,
        }

    @property
    def missing(self) -> tuple[int, ...]:
        """Our ids without an original token."""
        return tuple(own for own, original in enumerate(self.original_ids) if original is None)

    def reorder_rows(self, rows: Tensor) -> Tensor:
        """An embedding matrix with rows in the original order, reordered to our ids."""
        filled = [self.bos_id if original is None else original for original in self.original_ids]
        table = rows[torch.tensor(filled)]
        table[[own for own in self.missing if own != BOS]] = 0
        return table

    def restore_rows(self, rows: Tensor) -> Tensor:
        """An embedding matrix with rows in our order, restored to the original ids."""
        mapped = [(own, original) for own, original in enumerate(self.original_ids) if original is not None]
        own_ids, original_ids = map(list, zip(*mapped, strict=True))
        table = rows.new_zeros(len(mapped), *rows.shape[1:])
        table[original_ids] = rows[own_ids]
        return table


class PretrainedTokenizer(Tokenizer):
    """A pretrained `tokenizer.json`, run unchanged by the `tokenizers` library, with our token ids."""

    def __init__(self, content: dict[str, Any], id_map: TokenIdMap):
        self.kind, self._content, self.id_map = "pretrained", content, id_map
        self._library = build(content)
        self._library.no_padding()
        self._library.no_truncation()
        self._own_ids = {original: own for own, original in enumerate(id_map.original_ids) if original is not None}
        names = [None if original is None else self._library.id_to_token(original) for original in id_map.original_ids]
        # Embedding matrices are often padded to a round number of rows; an id without a token is named by its number.
        self._tokens = [name or f"<{number}>" for number, name in enumerate(names)]
        self._tokens[: len(SPECIAL_TOKENS)] = SPECIAL_TOKENS
        if id_map.mask_id is not None:
            self._tokens[-1] = MASK_TEXT

    @property
    def mask_lstrip(self) -> bool:
        """Whether [MASK] includes the preceding space, according to the file."""
        added = self._content.get("added_tokens", [])
        return any(token["content"] == MASK_TEXT and token.get("lstrip", False) for token in added)

    def normalize(self, text: str) -> str:
        """The normalized text, if the library has a normalizer."""
        return super().normalize(text) if self._library.normalizer else text

    def encode(self, text: str) -> list[int]:
        """The token ids of a text."""
        return [self._own_ids[number] for number in call_library(self._encoding, text).ids]

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of many texts, computed on all cores."""
        return [[self._own_ids[number] for number in ids] for ids in super()._encode_many(texts)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids up to the first <eos>; ids without a token are skipped."""
        original_ids = []
        for number in ids:
            if number == EOS:
                break
            original = self.id_map.original_ids[number]
            if number not in (PAD, BOS) and original is not None:
                original_ids.append(original)
        return str(self._library.decode(original_ids, skip_special_tokens=False))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Each id as a string to display: its text if it is valid by itself, else the library's name of the token."""
        return [self._readable(number).translate(VISIBLE) for number in ids]

    def _readable(self, number: int) -> str:
        text = "" if number < len(SPECIAL_TOKENS) else self.decode([number])
        return text if text and "\ufffd" not in text else self._tokens[number]

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of everything that determines the token ids of a text."""
        content = [self._content, self.id_map.original_ids]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_pretrained_tokenizer(folder: Path) -> dict[str, Any]:
    """The content of a folder's `tokenizer.json`, or its equivalent from the older files of GPT-2 and BERT."""
    path = folder / "tokenizer.json"
    if path.exists():
        content = _json(path)
        _check_loadable(path, content)
        return content
    if (folder / "vocab.txt").exists():
        content = _read_wordpiece(folder)
        _check_loadable(folder / "vocab.txt", content)
        return content
    if not (folder / "vocab.json").exists() or not (folder / "merges.txt").exists():
        raise UserError(
            "This folder has neither tokenizer.json nor vocab.txt, nor vocab.json with merges.txt.",
            location=str(folder),
            hint="Put the model's tokenizer.json into the folder of its weights.",
        )
    merges = _lines(folder / "merges.txt")
    content = byte_level_json(
        _json(folder / "vocab.json"), [line for line in merges if line and line[:9] != "#version:"]
    )
    _check_loadable(folder / "vocab.json", content)
    return content


def byte_level_json(
    vocabulary: dict[str, int],
    merges: Sequence[str],
    specials: Sequence[str] = ("<|endoftext|>",),
    digits: bool = False,
) -> dict[str, Any]:
    """Byte-level BPE, with each byte written as a visible character (Radford et al. 2019, section 2.2).

    No text has unknown tokens, and decoding restores it exactly. `digits` splits numbers into digits first.
    """
    bytewise = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    with_digits = {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, bytewise]}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "added_tokens": [{"id": vocabulary[text], "content": text, **flags} for text in specials if text in vocabulary],
        "normalizer": None,
        "pre_tokenizer": with_digits if digits else bytewise,
        "post_processor": None,
        "decoder": bytewise,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [merge.split(" ") for merge in merges]},
    }


def wordpiece_json(
    tokens: Sequence[str], do_lower_case: bool = True, strip_accents: bool | None = None
) -> dict[str, Any]:
    """WordPiece: repeatedly the longest matching token; `##` marks the continuation of a word (Wu et al. 2016; BERT).

    Spaces are not stored. `do_lower_case` converts to lower case; `strip_accents` removes accents (None: if lower
    case).
    """
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    vocabulary = {token: number for number, token in enumerate(tokens)}
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": vocabulary[text], "content": text, **flags} for text in BERT_SPECIALS if text in vocabulary
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": strip_accents,
            "lowercase": do_lower_case,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": None,
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": vocabulary,
        },
    }


def _read_wordpiece(folder: Path) -> dict[str, Any]:
    """`vocab.txt` has one token per line; `tokenizer_config.json`, if it exists, has the options of normalization."""
    path, config = folder / "tokenizer_config.json", dict[str, Any]()
    if path.exists():
        config = _json(path)
    return wordpiece_json(_lines(folder / "vocab.txt"), config.get("do_lower_case", True), config.get("strip_accents"))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"This vocabulary cannot be read: {error}.", location=str(path), hint=DOWNLOAD_AGAIN) from None


def _json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES >> 20} MB")
        content = load_json(path)
        if not isinstance(content, dict):
            raise ValueError("it is not a JSON object")
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"This tokenizer cannot be read: {error}.", location=str(path), hint=DOWNLOAD_AGAIN) from None
    return content


def _check_loadable(path: Path, content: dict[str, Any]) -> None:
    try:
        build(content)
    except Exception as error:  # the library raises no more specific type
        message = f"The tokenizers library cannot open this: {error}."
        raise UserError(message, location=str(path), hint=DOWNLOAD_AGAIN) from None
