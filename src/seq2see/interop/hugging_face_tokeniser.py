"""Our tokenisers as the one `tokenizer.json` that a Hugging Face folder has.

With a shared vocabulary it is ours, plus an <eos> behind each text. Separate vocabularies become one that
cuts text as the source's tokeniser does and joins pieces as the target's does: the target's pieces follow
the source's, behind a mark that no piece of the source begins with, and joining takes the mark away again.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from seq2see.core.files import write_json
from seq2see.interop.stored import BothTokenisers, tokeniser_files, vocabulary
from seq2see.sequences.given import GivenTokeniser
from seq2see.sequences.tokenisers import BOS, BOS_TEXT, EOS, EOS_TEXT, PAD_TEXT, UNK, UNK_TEXT, Tokeniser

PRIVATE = range(0xE000, 0xF900)
"""Unicode's characters without a meaning of their own."""
UNLIKELY = -1e6
"""The score of a piece that text is never cut into."""


def tokenizer_files(tokenisers: BothTokenisers, folder: Path, longest: int) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json`."""
    with TemporaryDirectory() as scratch:
        source, target = tokeniser_files(tokenisers, Path(scratch))
    document = source if tokenisers.shared else end_to_end(source, target)
    write_json(folder / "tokenizer.json", document | {"post_processor": template(EOS_TEXT, EOS, first=False)})
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "pad_token": PAD_TEXT,
            "bos_token": BOS_TEXT,
            "eos_token": EOS_TEXT,
            "unk_token": UNK_TEXT,
            "model_max_length": longest + 1,
            "padding_side": "right",
            "model_input_names": ["input_ids", "attention_mask"],
            "clean_up_tokenization_spaces": False,
            "split_special_tokens": True,  # the name of a special in a text is just text
        },
    )


def causal_tokenizer_files(text: Tokeniser, folder: Path, longest: int, specials: dict[str, int | None]) -> None:
    """Write the files of a language model's tokeniser: ours, plus a <bos> before each text, or a given one as it is."""
    text.save(folder / "tokenizer.json")
    if not isinstance(text, GivenTokeniser):
        document = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        write_json(folder / "tokenizer.json", document | {"post_processor": template(BOS_TEXT, BOS, first=True)})
    named = {name.removesuffix("_id"): text.name_of(number) for name, number in specials.items() if number is not None}
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **named,
            "model_max_length": longest,
            "padding_side": "left",  # what is written next stands behind the text
            "model_input_names": ["input_ids", "attention_mask"],
            "clean_up_tokenization_spaces": False,
            "split_special_tokens": True,
        },
    )


def end_to_end(source: dict[str, Any], target: dict[str, Any]) -> dict[str, Any]:
    """One document that reads as the source's tokeniser and writes as the target's."""
    pieces = vocabulary(source)
    mark = _mark(pieces)
    marked = [mark + piece for piece in vocabulary(target)]
    specials = [
        special | {"id": len(pieces) + special["id"], "content": mark + special["content"]}
        for special in target["added_tokens"]
        if special["id"] != UNK  # an unknown word is shown, as we do
    ]
    unmark = {"type": "Replace", "pattern": {"String": mark}, "content": ""}
    join = target["decoder"]
    return source | {
        "added_tokens": source["added_tokens"] + specials,
        "model": source["model"] | {"vocab": _joined(source["model"]["vocab"], marked)},
        "decoder": {"type": "Sequence", "decoders": [unmark, *join.get("decoders", [join])]},
    }


def _joined(known: Any, more: list[str]) -> Any:
    if isinstance(known, list):
        return known + [[piece, UNLIKELY] for piece in more]
    return known | {piece: len(known) + number for number, piece in enumerate(more)}


def _mark(pieces: list[str]) -> str:
    begun = {piece[0] for piece in pieces}
    return next(chr(code) for code in PRIVATE if chr(code) not in begun)


def template(name: str, number: int, first: bool) -> dict[str, Any]:
    """Puts a special before or behind each text."""
    text, other = ({"Sequence": {"id": letter, "type_id": 0}} for letter in "AB")
    special = [{"SpecialToken": {"id": name, "type_id": 0}}]
    return {
        "type": "TemplateProcessing",
        "single": [*special, text] if first else [text, *special],
        "pair": [*special, text, other] if first else [text, other, *special],
        "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]}},
    }
