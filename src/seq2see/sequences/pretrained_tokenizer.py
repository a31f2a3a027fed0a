"""Vocabularies that came with real weights: their pieces as they are, under our numbers.

Everywhere in seq2see <pad>, <bos>, <eos> and <unk> are the numbers 0 to 3. A vocabulary of other people has its own
numbers for them, or has no <pad>, or one token that both ends a text and begins the next. So it is renumbered once,
when it is read: its specials come first and all other pieces follow in their old order. The rows of its table of
vectors are put into the same order, and back when the model is written out again.
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

from seq2see.core.errors import UserError
from seq2see.sequences.tokenizer_files import MAX_BYTES, SPECIAL_TOKENS, build
from seq2see.sequences.tokenizers import BOS, EOS, MASK_TEXT, PAD, UNK, VISIBLE, Tokenizer, call_library

BERT_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", MASK_TEXT)
"""What controls in BERT's vocabularies."""
DOWNLOAD_AGAIN = "Get the file again from where the model is from; it may be incomplete."
"""What to do where a file of other people cannot be read."""


@dataclass(frozen=True)
class TokenIdMap:
    """Which of their numbers each of ours is; None where they have no such token."""

    original_ids: tuple[int | None, ...]
    bos_id: int
    """Their number of what stands before every text: <bos> has its vector, even if it is their <eos> as well."""
    mask_id: int | None = None
    """Their number of [MASK], in a vocabulary that has it: with us it is the last."""

    @staticmethod
    def of(
        size: int,
        *,
        bos_id: int,
        eos_id: int | None,
        padding: int | None,
        unk_id: int | None,
        mask: int | None = None,
    ) -> TokenIdMap:
        """Our numbers for a vocabulary of this size; a token that serves for several specials counts once.

        >>> Renumbered.of(6, beginning=5, end=5, padding=None, unknown=2).theirs
        (None, None, 5, 2, 0, 1, 3, 4)
        >>> Renumbered.of(7, beginning=2, end=3, padding=0, unknown=1, mask=4).theirs
        (0, 2, 3, 1, 5, 6, 4)
        """
        specials: list[int | None] = [padding, bos_id, eos_id, unk_id]
        taken: set[int | None] = set()
        for place in (EOS, BOS, UNK, PAD):  # what must be said first, then what must be read
            if specials[place] in taken:
                specials[place] = None
            taken.add(specials[place])
        rest = [number for number in range(size) if number not in (*specials, mask)]
        last = [] if mask is None else [mask]
        return TokenIdMap((*specials, *rest, *last), bos_id, mask)

    @property
    def config(self) -> dict[str, int | None]:
        """What `of` makes the same numbers of."""
        return {
            "size": len(self.original_ids) - len(self.missing),
            "beginning": self.bos_id,
            "end": self.original_ids[EOS],
            "padding": self.original_ids[PAD],
            "unknown": self.original_ids[UNK],
            "mask": self.mask_id,
        }

    @property
    def missing(self) -> tuple[int, ...]:
        """Those of our numbers that name no token of theirs."""
        return tuple(ours for ours, original_ids in enumerate(self.original_ids) if original_ids is None)

    def reorder_rows(self, rows: Tensor) -> Tensor:
        """A table with a row for each of their tokens, put into our order."""
        filled = [self.bos_id if number is None else number for number in self.original_ids]
        table = rows[torch.tensor(filled)]
        table[[place for place in self.missing if place != BOS]] = 0
        return table

    def restore_rows(self, rows: Tensor) -> Tensor:
        """A table in our order, put into theirs."""
        there = [
            (ours, original_ids) for ours, original_ids in enumerate(self.original_ids) if original_ids is not None
        ]
        ours, original_ids = map(list, zip(*there, strict=True))
        table = rows.new_zeros(len(there), *rows.shape[1:])
        table[original_ids] = rows[ours]
        return table


class PretrainedTokenizer(Tokenizer):
    """A `tokenizer.json` of other people, run by the `tokenizers` library as it stands, under our numbers."""

    def __init__(self, content: dict[str, Any], id_map: TokenIdMap):
        self.kind, self._content, self.id_map = "pretrained", content, id_map
        self._library = build(content)
        self._library.no_padding()
        self._library.no_truncation()
        self._own_ids = {
            original_ids: ours for ours, original_ids in enumerate(id_map.original_ids) if original_ids is not None
        }
        names = [
            None if original_ids is None else self._library.id_to_token(original_ids)
            for original_ids in id_map.original_ids
        ]
        # A table of vectors is often filled up to a round number: what has no piece has a number to be called by.
        self._tokens = [name or f"<{number}>" for number, name in enumerate(names)]
        self._tokens[: len(SPECIAL_TOKENS)] = SPECIAL_TOKENS
        if id_map.mask_id is not None:
            self._tokens[-1] = MASK_TEXT

    @property
    def mask_lstrip(self) -> bool:
        """Whether [MASK] stands for a piece and the space before it: the file tells."""
        added = self._content.get("added_tokens", [])
        return any(each["content"] == MASK_TEXT and each.get("lstrip", False) for each in added)

    def normalize(self, text: str) -> str:
        """The text as it is cut, if the library changes it at all."""
        return super().normalize(text) if self._library.normalizer else text

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        return [self._own_ids[number] for number in call_library(self._encoding, text).ids]

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, by all cores at once."""
        return [[self._own_ids[number] for number in ids] for ids in super()._encode_many(texts)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids up to the first <eos>; what names no piece says nothing."""
        kept = []
        for number in ids:
            if number == EOS:
                break
            original_ids = self.id_map.original_ids[number]
            if number not in (PAD, BOS) and original_ids is not None:
                kept.append(original_ids)
        return str(self._library.decode(kept, skip_special_tokens=False))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Each id as something to look at: its text where it has one by itself, else the library's name for it."""
        return [self._readable(number).translate(VISIBLE) for number in ids]

    def _readable(self, number: int) -> str:
        alone = "" if number < len(SPECIAL_TOKENS) else self.decode([number])
        return alone if alone and "\ufffd" not in alone else self._tokens[number]

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of everything that decides which ids a text gets."""
        deciding = [self._content, self.id_map.original_ids]
        return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()


def read_pretrained_tokenizer(folder: Path) -> dict[str, Any]:
    """The content of a folder's `tokenizer.json`, or of the files that GPT-2 and BERT began with."""
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
            "There is neither tokenizer.json here nor vocab.txt nor vocab.json with merges.txt.",
            location=str(folder),
            hint="Put the model's tokenizer.json beside its weights.",
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
    """Byte pairs over bytes, each byte written as a visible letter (Radford et al. 2019, section 2.2).

    Nothing is unknown to it, and it gives any text back as it was. `digits` cuts numbers into their digits first.
    """
    bytewise = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    apart = {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, bytewise]}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "added_tokens": [{"id": vocabulary[text], "content": text, **flags} for text in specials if text in vocabulary],
        "normalizer": None,
        "pre_tokenizer": apart if digits else bytewise,
        "post_processor": None,
        "decoder": bytewise,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [merge.split(" ") for merge in merges]},
    }


def wordpiece_json(
    tokens: Sequence[str], do_lower_case: bool = True, strip_accents: bool | None = None
) -> dict[str, Any]:
    """The longest piece that fits, again and again; `##` marks what goes on a word (Wu et al. 2016, as BERT has it).

    Spaces are forgotten. `do_lower_case` makes all letters small, and `strip_accents` says whether they are taken off, too; None: if
    letters are made small.
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
    """`vocab.txt` has a piece on each line; whether letters are made small is told beside it, or not at all."""
    path, told = folder / "tokenizer_config.json", dict[str, Any]()
    if path.exists():
        told = _json(path)
    return wordpiece_json(_lines(folder / "vocab.txt"), told.get("do_lower_case", True), told.get("strip_accents"))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"This vocabulary cannot be read: {error}.", location=str(path), hint=DOWNLOAD_AGAIN) from None


def _json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES >> 20} MB")
        found = json.loads(path.read_bytes())
        if not isinstance(found, dict):
            raise ValueError("it is no table")
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"This tokenizer cannot be read: {error}.", location=str(path), hint=DOWNLOAD_AGAIN) from None
    return found


def _check_loadable(path: Path, content: dict[str, Any]) -> None:
    try:
        build(content)
    except Exception as error:  # the library raises nothing more special
        what = f"The tokenizers library cannot open this: {error}."
        raise UserError(what, location=str(path), hint=DOWNLOAD_AGAIN) from None
