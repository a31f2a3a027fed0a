"""What a `tokenizer.json` of ours may contain, written down whole, and a reader that takes nothing else.

The file is the `tokenizers` library's own format, so other tools open it too. That format can also carry
patterns that run for ever and parts we never write. Therefore each kind's pipeline is a literal here, a
file must equal one of them, and only its vocabulary is taken from it, piece by piece.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as LibraryTokenizer

from seq2see.core.errors import UserError

SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>", "<unk>")
"""The pieces that control; their place here is their id in every vocabulary."""

BYTE_TOKENS = tuple(f"<0x{byte:02X}>" for byte in range(256))
"""One piece for each byte: what a character outside the vocabulary is spelt with."""

MAX_BYTES = 64 * 2**20
MAX_VOCAB_SIZE = 1_000_000

# None of these patterns can take more than linear time: no two parts of one can match the same
# character in two ways. A special's name mixes letters with "<" and ">"; every pattern parts the two, so
# no piece of a text can ever be "<eos>", whatever the text says. Text that somebody has cut already is
# written with <unk> where that somebody knew no word, and only there a special's name means the special.
_NO_SPACE_SCRIPTS = r"\p{Han}\p{Hiragana}\p{Katakana}"  # scripts without spaces: each character stands alone
_LETTER = rf"[\w&&[^{_NO_SPACE_SCRIPTS}]]"
_WORD = rf"[{_NO_SPACE_SCRIPTS}]|{_LETTER}+(?:['’\-]{_LETTER}+|[.,]\d{_LETTER}*)*|[^\w\s]+"
_WHITESPACE = r"(?:[^\s<]|<(?!(?:pad|bos|eos)>))+|<|\n"
_PRE_TOKEN = r" ?\w+| ?[^\w\s]+| +|\s"  # a word or a run of signs keeps the space before it

# Where the spaces between words are taken out again: before what closes, after what opens, and
# between two characters of a script that is written without spaces.
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

# kind: how text is cut, the model, and how pieces become text again
PIPELINES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "characters": ({"type": "FixedLength", "length": 1}, _WORD_LEVEL, {"type": "Fuse"}),
    "words": (_split(_WORD, "Removed", True), _WORD_LEVEL, _NATURAL),
    "whitespace": (_split(_WHITESPACE, "Removed", True), _WORD_LEVEL, _BETWEEN),
    "bpe": (_split(_PRE_TOKEN, "Isolated", False), _BYTE_PAIRS, _FROM_BYTES),
    "unigram": (_split(_PRE_TOKEN, "Isolated", False), _UNIGRAM, _FROM_BYTES),
}


def fixed_tokens(kind: str) -> list[str]:
    """The pieces every vocabulary of a kind begins with."""
    return [*SPECIAL_TOKENS, *BYTE_TOKENS] if kind in ("bpe", "unigram") else [*SPECIAL_TOKENS]


def tokenizer_json(kind: str, vocabulary: dict[str, Any]) -> dict[str, Any]:
    """The content of a `tokenizer.json`; `vocabulary` is the model's `vocab` (and `merges`)."""
    cut, model, join = PIPELINES[kind]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added_token(number, text) for number, text in enumerate(SPECIAL_TOKENS)],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": cut,
        "post_processor": None,
        "decoder": join,
        "model": {**model, **vocabulary},
    }


def _added_token(number: int, text: str) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": number, "content": text, **flags}


def initial_vocabulary(kind: str) -> dict[str, Any]:
    """The vocabulary before training: only the pieces that are always there."""
    tokens = fixed_tokens(kind)
    if kind == "unigram":
        return {"vocab": [[token, 0.0] for token in tokens]}
    vocabulary: dict[str, Any] = {"vocab": {token: number for number, token in enumerate(tokens)}}
    return vocabulary | {"merges": []} if kind == "bpe" else vocabulary


def build(content: dict[str, Any]) -> LibraryTokenizer:
    """The library's tokenizer for a document; the names of specials in a text are just text to it."""
    library = LibraryTokenizer.from_str(json.dumps(content))
    library.encode_special_tokens = True
    return library


def read_tokenizer_json(path: Path) -> tuple[str, dict[str, Any]]:
    """The kind and the content of a `tokenizer.json`, after every check."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise _invalid_file(path, f"it is larger than {MAX_BYTES >> 20} MB")
        text = path.read_bytes().decode("utf-8")
        content = json.loads(text, object_pairs_hook=_without_repeats)
        kind = _detect_kind(content)
    except OSError as error:
        raise UserError(f"The tokenizer cannot be read: {error.strerror}.", location=str(path)) from None
    except RecursionError:
        raise _invalid_file(path, "it is nested too deeply") from None
    except ValueError as error:
        raise _invalid_file(path, f"{error}") from None
    fault = _vocabulary_error(kind, content["model"]) if kind else "its parts are not those of our tokenizers"
    if fault:
        raise _invalid_file(path, fault)
    return str(kind), content


def _invalid_file(path: Path, why: str) -> UserError:
    hint = "Restore it from a copy, or train the tokenizer again."
    return UserError(f"This is not a tokenizer file we can use: {why}.", location=str(path), hint=hint)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for place, name in enumerate(names) if name in names[:place])
        raise ValueError(f"{repeated!r} stands there twice")
    return found


def _detect_kind(content: Any) -> str | None:
    """Which of our kinds a document is, if everything but its vocabulary equals that kind's."""
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        return None
    model = {name: value for name, value in content["model"].items() if name not in ("vocab", "merges")}
    parts = set(content["model"]) - set(model)
    # As text, since Python takes 1, 1.0 and True for equal.
    rest = json.dumps({**content, "model": model}, sort_keys=True)
    for kind in PIPELINES:
        if parts == set(initial_vocabulary(kind)) and rest == json.dumps(tokenizer_json(kind, {}), sort_keys=True):
            return kind
    return None


def _vocabulary_error(kind: str, model: dict[str, Any]) -> str:
    """What is wrong with the vocabulary, or nothing."""
    vocabulary = model["vocab"]
    if not isinstance(vocabulary, list if kind == "unigram" else dict):
        return "its vocabulary is not a table of pieces"
    if len(vocabulary) > MAX_VOCAB_SIZE:
        return f"it has more than {MAX_VOCAB_SIZE:,} pieces"
    if isinstance(vocabulary, list):
        if not all(_is_scored(entry) for entry in vocabulary):
            return "a piece has no finite score"
        tokens = [token for token, _ in vocabulary]
    else:
        if any(type(number) is not int for number in vocabulary.values()):
            return "a piece has no number"
        if sorted(vocabulary.values()) != list(range(len(vocabulary))):
            return "the numbers of the pieces are not 0, 1, 2, ... each once"
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
        return f"the vocabulary does not begin with {', '.join(SPECIAL_TOKENS)} and what else its kind begins with"
    if len(set(tokens)) < len(tokens):
        return "a piece stands there twice"
    if "" in tokens:
        return "a piece is empty"
    try:
        "".join(tokens).encode("utf-8")
    except UnicodeEncodeError:
        return "a piece is not valid Unicode"
    return ""


def _merge_error(merges: Any, tokens: list[str]) -> str:
    known = set(tokens)
    for merge in merges if isinstance(merges, list) else [None]:
        if not isinstance(merge, list) or len(merge) != 2 or not all(isinstance(part, str) for part in merge):
            return "a merge is not a pair of pieces"
        if not known.issuperset([*merge, "".join(merge)]):
            return f"the merge {merge} is of pieces that are not there"
    return ""
