"""The view "Tokenize": the tokens of a text, with their ids and bytes.

Tokens that are bytes of one character form a group with the character as its label, so that a part of a character is
never displayed as a character.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from seq2see.data.tokenizers.pretrained_tokenizer import PretrainedTokenizer
from seq2see.data.tokenizers.tokenizer import UNK, VISIBLE, Tokenizer
from seq2see.data.tokenizers.tokenizer_files import BYTE_TOKENS
from seq2see.explorer.schemas import InputText, RunRequest
from seq2see.explorer.workspace import Workspace
from seq2see.tasks.model_folder import Tokenizers


class TokenizeRequest(RunRequest):
    """A request for the tokens of a text."""

    text: InputText


def tokenize(workspace: Workspace, request: TokenizeRequest) -> dict[str, Any]:
    """The tokens of a text in each vocabulary of a run."""
    return {"sides": tokenizations(workspace.run(request.run).model.tokenizers, request.text)}


def tokenizations(tokenizers: Tokenizers, text: str) -> list[dict[str, Any]]:
    """The tokens of a text in each vocabulary of a model; images and series have none."""
    return [{"name": name} | tokenize_spans(tokenizer, text) for name, tokenizer in text_tokenizers(tokenizers).items()]


def text_tokenizers(tokenizers: Tokenizers) -> dict[str, Tokenizer]:
    """The text tokenizers of a model by side; `both` if both sides share one."""
    if tokenizers.shared or tokenizers.labels:
        by_side = {"both": tokenizers.source}
    else:
        by_side = {"source": tokenizers.source, "target": tokenizers.target}
    return {name: each for name, each in by_side.items() if each.is_text}


def tokenize_spans(tokenizer: Tokenizer, text: str) -> dict[str, Any]:
    """The tokens of a text, in groups whose spans overlap."""
    ids, offsets = tokenizer.encode(text), tokenizer.offsets(text)
    groups: list[dict[str, Any]] = []
    end = -1
    for token_id, token, span in zip(ids, tokenizer.tokens(ids), offsets, strict=True):
        entry = _token_entry(tokenizer, token_id, token, text[slice(*span)])
        if groups and span[0] < end:  # another byte of the same character
            groups[-1]["tokens"].append(entry)
            groups[-1]["text"] = text[groups[-1]["start"] : max(end, span[1])]
        else:
            groups.append({"start": span[0], "text": text[slice(*span)], "tokens": [entry]})
        end = max(end, span[1])
    return {
        "kind": tokenizer.kind,
        "size": len(tokenizer),
        "characters": len(text),
        "bytes": len(text.encode()),
        "groups": [_group(each) for each in groups],
    }


def _group(group: dict[str, Any]) -> dict[str, Any]:
    """A group with its label, which is empty if the group is one token with the same text."""
    label, tokens = group["text"].translate(VISIBLE), group["tokens"]
    is_same = len(tokens) == 1 and tokens[0]["token"].strip("▁#").casefold() == label.strip("▁").casefold()
    unknown = any(each["id"] == UNK for each in tokens)
    return {"text": group["text"], "label": "" if is_same else label, "unknown": unknown, "tokens": tokens}


def _token_entry(tokenizer: Tokenizer, token_id: int, token: str, text: str) -> dict[str, Any]:
    """A token with its bytes; a token that is only a part of a character has its bytes as text."""
    if token_id == UNK:
        return {"id": token_id, "token": token, "bytes": _hex(text.encode())}
    if token in BYTE_TOKENS:
        return {"id": token_id, "token": token, "bytes": _hex(bytes([BYTE_TOKENS.index(token)]))}
    decoded = tokenizer.decode([token_id])
    if "\ufffd" in decoded:
        assert isinstance(tokenizer, PretrainedTokenizer)  # tokens of our own vocabularies are characters, or one byte
        name = str(tokenizer.token_name(tokenizer.id_map.original_ids[token_id] or 0))
        content = bytes(_byte_decoder()[letter] for letter in name)
        return {"id": token_id, "token": " ".join(_hex(content)), "bytes": _hex(content)}
    return {"id": token_id, "token": token, "bytes": _hex(decoded.removeprefix("##").encode())}


def _hex(content: bytes) -> list[str]:
    return [f"{byte:02X}" for byte in content]


@cache
def _byte_decoder() -> dict[str, int]:
    """The byte of each visible character in byte-level vocabularies (Radford et al. 2019, section 2.2)."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    invisible = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(256 + index): byte for index, byte in enumerate(invisible)}
