"""Strict reading of `tokenizer.json`: the exact content that our tokenizers write, and nothing else.

The file has the `tokenizers` library's format, so other tools can open it. That format also allows regular expressions
that never terminate, and components that we never write. Therefore each kind's pipeline is a literal here, a file must
equal one of them, and only its vocabulary is read from it, token by token.
"""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as LibraryTokenizer

from seq2see.core.documents import load_json, loads, read_regular
from seq2see.core.errors import UserError

SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>", "<unk>")
"""The special tokens; the index of each is its id in every vocabulary."""

BYTE_TOKENS = tuple(f"<0x{byte:02X}>" for byte in range(256))
"""One token for each byte, for characters outside the vocabulary (byte fallback)."""

MAX_BYTES = 64 * 2**20
OWN_FILE = b'{\n "kind"'
"""The beginning of the file of a tokenizer of `register_tokenizer`."""
MAX_VOCAB_SIZE = 1_000_000

# All of these patterns run in linear time: no two parts of one can match the same character in two ways. The name of a
# special token mixes letters with "<" and ">", and every pattern separates the two, so that no text is ever tokenized
# as "<eos>". The only exception is pre-tokenized text (kind "whitespace"), which contains <unk> for unknown words:
# there the name of a special token is the special token.
_NO_SPACE_SCRIPTS = r"\p{Han}\p{Hiragana}\p{Katakana}"  # scripts without spaces: each character is a word
_LETTER = rf"[\w&&[^{_NO_SPACE_SCRIPTS}]]"
_WORD = rf"[{_NO_SPACE_SCRIPTS}]|{_LETTER}+(?:['’\-]{_LETTER}+|[.,]\d{_LETTER}*)*|[^\w\s]+"
_WHITESPACE = r"(?:[^\s<]|<(?!(?:pad|bos|eos)>))+|<|\n"
_PRE_TOKEN = r" ?\w+| ?[^\w\s]+| +|\s"  # a word or a run of symbols includes the preceding space

# Where decoding removes the spaces between words: before closing punctuation, after opening punctuation, and between
# two characters of a script that is written without spaces.
_CLOSING = r",.!?;:%)\]}…’”»"
_OPENING = r"(\[{“‘«¿¡$£€#@"
_SPACELESS = rf"{_NO_SPACE_SCRIPTS}\u3001-\u3030\uFF01-\uFF65—…“”‘’"
_NO_SPACE = (
    rf"^ | (?=[{_CLOSING}\u3001-\u3030\uFF01-\uFF65])|(?<=[{_OPENING}\u3001-\u3030\uFF01-\uFF65]) "
    rf"|(?<=[{_SPACELESS}]) (?=[{_SPACELESS}])"
)


def _split(pattern: str, behavior: str, invert: bool) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def _replace(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def _sequence(*decoders: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "decoders": list(decoders)}


_WORD_LEVEL = {"type": "WordLevel", "unk_token": "<unk>"}
_BYTE_PAIRS = {
    "type": "BPE",
    "dropout": None,
    "unk_token": "<unk>",
    "continuing_subword_prefix": None,
    "end_of_word_suffix": None,
    "fuse_unk": False,
    "byte_fallback": True,
    "ignore_merges": False,
}
_UNIGRAM = {"type": "Unigram", "unk_id": 3, "byte_fallback": True}
_FROM_BYTES = _sequence({"type": "ByteFallback"}, {"type": "Fuse"})
_BETWEEN = _sequence(_replace("^", " "), {"type": "Fuse"}, _replace(r"^ | (?=\n)|(?<=\n) ", ""))
_NATURAL = _sequence(_replace("^", " "), {"type": "Fuse"}, _replace(_NO_SPACE, ""))

# kind: the pre-tokenizer, the model, and the decoder
PIPELINES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "characters": ({"type": "FixedLength", "length": 1}, _WORD_LEVEL, {"type": "Fuse"}),
    "words": (_split(_WORD, "Removed", True), _WORD_LEVEL, _NATURAL),
    "whitespace": (_split(_WHITESPACE, "Removed", True), _WORD_LEVEL, _BETWEEN),
    "bpe": (_split(_PRE_TOKEN, "Isolated", False), _BYTE_PAIRS, _FROM_BYTES),
    "unigram": (_split(_PRE_TOKEN, "Isolated", False), _UNIGRAM, _FROM_BYTES),
}


def fixed_tokens(kind: str) -> list[str]:
    """The tokens with which every vocabulary of a kind begins."""
    return [*SPECIAL_TOKENS, *BYTE_TOKENS] if kind in ("bpe", "unigram") else [*SPECIAL_TOKENS]


def tokenizer_json(kind: str, vocabulary: dict[str, Any]) -> dict[str, Any]:
    """The content of a `tokenizer.json`; `vocabulary` is the model's `vocab` (and `merges`)."""
    pre_tokenizer, model, decoder = PIPELINES[kind]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added_token(number, text) for number, text in enumerate(SPECIAL_TOKENS)],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None,
        "decoder": decoder,
        "model": {**model, **vocabulary},
    }


def _added_token(number: int, text: str) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": number, "content": text, **flags}


def initial_vocabulary(kind: str) -> dict[str, Any]:
    """The vocabulary before training: only the fixed tokens."""
    tokens = fixed_tokens(kind)
    if kind == "unigram":
        return {"vocab": [[token, 0.0] for token in tokens]}
    vocabulary: dict[str, Any] = {"vocab": {token: number for number, token in enumerate(tokens)}}
    return vocabulary | {"merges": []} if kind == "bpe" else vocabulary


def build(content: dict[str, Any]) -> LibraryTokenizer:
    """The library's tokenizer for this content; names of special tokens in a text are ordinary text."""
    library = LibraryTokenizer.from_str(json.dumps(content))
    library.encode_special_tokens = True
    return library


def read_tokenizer_json(path: Path) -> tuple[str, dict[str, Any]]:
    """The kind and the content of a `tokenizer.json`, after all checks."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise _invalid_file(path, f"it is larger than {MAX_BYTES >> 20} MB")
        content = loads(read_regular(path, MAX_BYTES).decode("utf-8"), object_pairs_hook=_without_repeats)
        kind = _detect_kind(content)
    except OSError as error:
        raise UserError(f"The tokenizer cannot be read: {error.strerror}.", location=str(path)) from None
    except ValueError as error:
        raise _invalid_file(path, f"{error}") from None
    fault = _vocabulary_error(kind, content["model"]) if kind else "it differs from the pipelines of our tokenizers"
    if fault:
        raise _invalid_file(path, fault)
    return str(kind), content


def read_own_vocabulary(path: Path) -> tuple[str, dict[str, int]] | None:
    """The kind and the vocabulary of a tokenizer of `register_tokenizer`; None for any other file."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        if file.read(len(OWN_FILE)) != OWN_FILE or path.stat().st_size > MAX_BYTES:
            return None
        with contextlib.suppress(ValueError):
            content = load_json(path, object_pairs_hook=_without_repeats)
            kind, vocabulary = str(content["kind"]), content["model"]["vocab"]
            if not _vocabulary_error(kind, {"vocab": vocabulary}):
                return kind, vocabulary
    return None


def _invalid_file(path: Path, reason: str) -> UserError:
    hint = "Restore it from a copy, or train the tokenizer again."
    return UserError(f"This is not a valid tokenizer file: {reason}.", location=str(path), hint=hint)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for index, name in enumerate(names) if name in names[:index])
        raise ValueError(f"the key {repeated!r} occurs twice")
    return unique


def _detect_kind(content: Any) -> str | None:
    """The kind of this content, if everything but its vocabulary equals the pipeline of that kind."""
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        return None
    model = {name: value for name, value in content["model"].items() if name not in ("vocab", "merges")}
    vocabulary_keys = set(content["model"]) - set(model)
    # Compared as text, because 1, 1.0 and True are equal in Python.
    pipeline = json.dumps({**content, "model": model}, sort_keys=True)
    for kind in PIPELINES:
        if vocabulary_keys == set(initial_vocabulary(kind)) and pipeline == json.dumps(
            tokenizer_json(kind, {}), sort_keys=True
        ):
            return kind
    return None


def _vocabulary_error(kind: str, model: dict[str, Any]) -> str:
    """The first fault of the vocabulary, or an empty string."""
    vocabulary = model["vocab"]
    if not isinstance(vocabulary, list if kind == "unigram" else dict):
        return "its vocabulary is not a table of tokens"
    if len(vocabulary) > MAX_VOCAB_SIZE:
        return f"it has more than {MAX_VOCAB_SIZE:,} tokens"
    if isinstance(vocabulary, list):
        if not all(_is_scored(entry) for entry in vocabulary):
            return "a token has no finite score"
        tokens = [token for token, _ in vocabulary]
    else:
        if any(type(number) is not int for number in vocabulary.values()):
            return "a token has no id"
        if sorted(vocabulary.values()) != list(range(len(vocabulary))):
            return "the token ids are not 0, 1, 2, ... each once"
        tokens = sorted(vocabulary, key=lambda token: vocabulary[token])
    return _token_error(kind, tokens) or _merge_error(model.get("merges", []), tokens)


def _is_scored(entry: Any) -> bool:
    return (
        isinstance(entry, list)
        and len(entry) == 2
        and isinstance(entry[0], str)
        and isinstance(entry[1], float)
        and math.isfinite(entry[1])
    )


def _token_error(kind: str, tokens: list[str]) -> str:
    fixed = fixed_tokens(kind)
    if tokens[: len(fixed)] != fixed:
        return f"the vocabulary does not begin with {', '.join(SPECIAL_TOKENS)} and the other fixed tokens of its kind"
    if len(set(tokens)) < len(tokens):
        return "a token occurs twice"
    if "" in tokens:
        return "a token is empty"
    try:
        "".join(tokens).encode("utf-8")
    except UnicodeEncodeError:
        return "a token is not valid Unicode"
    return ""


def _merge_error(merges: Any, tokens: list[str]) -> str:
    vocabulary = set(tokens)
    for merge in merges if isinstance(merges, list) else [None]:
        if not isinstance(merge, list) or len(merge) != 2 or not all(isinstance(part, str) for part in merge):
            return "a merge is not a pair of tokens"
        if not vocabulary.issuperset([*merge, "".join(merge)]):
            return f"the merge {merge} has tokens that are not in the vocabulary"
    return ""
