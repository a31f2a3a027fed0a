"""Our tokenizers as the one `tokenizer.json` that a Hugging Face folder has.

With a shared vocabulary it is ours, plus an <eos> behind each text. Separate vocabularies become one that
cuts text as the source's tokenizer does and joins pieces as the target's does: the target's pieces follow
the source's, behind a mark that no piece of the source begins with, and joining takes the mark away again.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from seq2see.core.files import write_json
from seq2see.interop.exportable import TokenizerPair, save_tokenizers, vocabulary
from seq2see.sequences.pretrained_tokenizer import PretrainedTokenizer
from seq2see.sequences.tokenizers import BOS, BOS_TEXT, EOS, EOS_TEXT, PAD_TEXT, UNK, UNK_TEXT, Tokenizer

PRIVATE_USE_AREA = range(0xE000, 0xF900)
"""Unicode's characters without a meaning of their own."""
UNLIKELY_SCORE = -1e6
"""The score of a piece that text is never cut into."""


def write_tokenizer(tokenizers: TokenizerPair, folder: Path, longest: int) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json`."""
    with TemporaryDirectory() as scratch:
        source, target = save_tokenizers(tokenizers, Path(scratch))
    document = source if tokenizers.shared else concatenate_tokenizers(source, target)
    write_json(
        folder / "tokenizer.json", document | {"post_processor": template_processing(EOS_TEXT, EOS, first=False)}
    )
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


def write_causal_tokenizer(text: Tokenizer, folder: Path, longest: int, specials: dict[str, int | None]) -> None:
    """Write the files of a language model's tokenizer: ours, plus a <bos> before each text, or a given one as it is."""
    text.save(folder / "tokenizer.json")
    if not isinstance(text, PretrainedTokenizer):
        document = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        write_json(
            folder / "tokenizer.json", document | {"post_processor": template_processing(BOS_TEXT, BOS, first=True)}
        )
    named = {
        name.removesuffix("_id"): text.token_name(number) for name, number in specials.items() if number is not None
    }
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


def concatenate_tokenizers(source: dict[str, Any], target: dict[str, Any]) -> dict[str, Any]:
    """One document that reads as the source's tokenizer and writes as the target's."""
    tokens = vocabulary(source)
    prefix = _unused_prefix(tokens)
    prefixed = [prefix + piece for piece in vocabulary(target)]
    specials = [
        special | {"id": len(tokens) + special["id"], "content": prefix + special["content"]}
        for special in target["added_tokens"]
        if special["id"] != UNK  # an unknown word is shown, as we do
    ]
    unmark = {"type": "Replace", "pattern": {"String": prefix}, "content": ""}
    join = target["decoder"]
    return source | {
        "added_tokens": source["added_tokens"] + specials,
        "model": source["model"] | {"vocab": _concatenate_vocabularies(source["model"]["vocab"], prefixed)},
        "decoder": {"type": "Sequence", "decoders": [unmark, *join.get("decoders", [join])]},
    }


def _concatenate_vocabularies(known: Any, more: list[str]) -> Any:
    if isinstance(known, list):
        return known + [[piece, UNLIKELY_SCORE] for piece in more]
    return known | {piece: len(known) + number for number, piece in enumerate(more)}


def _unused_prefix(tokens: list[str]) -> str:
    begun = {piece[0] for piece in tokens}
    return next(chr(code) for code in PRIVATE_USE_AREA if chr(code) not in begun)


def template_processing(name: str, number: int, first: bool) -> dict[str, Any]:
    """Puts a special before or behind each text."""
    text, other = ({"Sequence": {"id": letter, "type_id": 0}} for letter in "AB")
    special = [{"SpecialToken": {"id": name, "type_id": 0}}]
    return {
        "type": "TemplateProcessing",
        "single": [*special, text] if first else [text, *special],
        "pair": [*special, text, other] if first else [text, other, *special],
        "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]}},
    }
