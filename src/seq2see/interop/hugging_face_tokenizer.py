"""Export of tokenizers to the single `tokenizer.json` of a Hugging Face folder.

A shared tokenizer is written with a post-processor that appends <eos> to each text. Two tokenizers become one that
encodes as the source's and decodes as the target's: its vocabulary is that of the source followed by that of the
target. The tokens of the target have a prefix that no token of the source begins with, and decoding removes it.
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
"""Unicode's private-use characters, which have no meaning by the standard."""
UNLIKELY_SCORE = -1e6
"""The score of a token that encoding never produces."""


def write_tokenizer(tokenizers: TokenizerPair, folder: Path, max_length: int) -> None:
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
            "model_max_length": max_length + 1,
            "padding_side": "right",
            "model_input_names": ["input_ids", "attention_mask"],
            "clean_up_tokenization_spaces": False,
            "split_special_tokens": True,  # the name of a special token in a text is plain text
        },
    )


def write_causal_tokenizer(text: Tokenizer, folder: Path, max_length: int, specials: dict[str, int | None]) -> None:
    """Write a language model's tokenizer; one that seq2see trained adds <bos>, a pretrained one is unchanged."""
    text.save(folder / "tokenizer.json")
    if not isinstance(text, PretrainedTokenizer):
        document = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        write_json(
            folder / "tokenizer.json", document | {"post_processor": template_processing(BOS_TEXT, BOS, first=True)}
        )
    special_tokens = {
        name.removesuffix("_id"): text.token_name(number) for name, number in specials.items() if number is not None
    }
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **special_tokens,
            "model_max_length": max_length,
            "padding_side": "left",  # generated tokens follow the prompt directly
            "model_input_names": ["input_ids", "attention_mask"],
            "clean_up_tokenization_spaces": False,
            "split_special_tokens": True,
        },
    )


def concatenate_tokenizers(source: dict[str, Any], target: dict[str, Any]) -> dict[str, Any]:
    """One `tokenizer.json` that encodes as the source's tokenizer and decodes as the target's."""
    tokens = vocabulary(source)
    prefix = _unused_prefix(tokens)
    prefixed = [prefix + token for token in vocabulary(target)]
    specials = [
        special | {"id": len(tokens) + special["id"], "content": prefix + special["content"]}
        for special in target["added_tokens"]
        if special["id"] != UNK  # decoding keeps <unk> as text, as in seq2see
    ]
    remove_prefix = {"type": "Replace", "pattern": {"String": prefix}, "content": ""}
    decoder = target["decoder"]
    return source | {
        "added_tokens": source["added_tokens"] + specials,
        "model": source["model"] | {"vocab": _concatenate_vocabularies(source["model"]["vocab"], prefixed)},
        "decoder": {"type": "Sequence", "decoders": [remove_prefix, *decoder.get("decoders", [decoder])]},
    }


def _concatenate_vocabularies(source: Any, target_tokens: list[str]) -> Any:
    if isinstance(source, list):
        return source + [[token, UNLIKELY_SCORE] for token in target_tokens]
    return source | {token: len(source) + number for number, token in enumerate(target_tokens)}


def _unused_prefix(tokens: list[str]) -> str:
    first_characters = {token[0] for token in tokens}
    return next(chr(code) for code in PRIVATE_USE_AREA if chr(code) not in first_characters)


def template_processing(name: str, number: int, first: bool) -> dict[str, Any]:
    """A post-processor that adds a special token before or after each text."""
    text, other = ({"Sequence": {"id": letter, "type_id": 0}} for letter in "AB")
    special = [{"SpecialToken": {"id": name, "type_id": 0}}]
    return {
        "type": "TemplateProcessing",
        "single": [*special, text] if first else [text, *special],
        "pair": [*special, text, other] if first else [text, other, *special],
        "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]}},
    }
