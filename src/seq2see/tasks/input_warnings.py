"""Warnings about model inputs: unknown tokens, and words without spaces between them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from seq2see.data.tokenizers.tokenizer import UNK, Tokenizer

SHOWN = 5
"""The number of unknown tokens that are listed; the others are counted."""
LONG_WORD = 4
"""Chinese characters of a word; longer words are rare, and mostly sentences without spaces."""

_CHINESE = re.compile(f"[\u3400-\u9fff]{{{LONG_WORD + 1},}}|[\u3400-\u9fff][，。！？；：]")
_PUNCTUATION = re.compile(r"\w[,;!?]$")


def unknown_token_warnings(text: str, ids: Sequence[int], tokenizer: Tokenizer) -> tuple[str, ...]:
    """A warning that lists the parts of a text that are encoded as <unk>; `ids` are the token ids of the text."""
    if UNK not in ids:  # the common case, without tokenizing again
        return ()
    offsets = zip(tokenizer.encode(text), tokenizer.offsets(text), strict=True)
    spans = dict.fromkeys(text[start:end].strip() for token_id, (start, end) in offsets if token_id == UNK)
    unknown = [span for span in spans if span]
    more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
    return (f"unknown tokens {' '.join(unknown[:SHOWN])}{more}, replaced by <unk>",) if unknown else ()


def unspaced_word_warnings(words: Sequence[str]) -> tuple[str, ...]:
    """A warning about a word that is a sentence without spaces, or ends with a punctuation mark.

    >>> unspaced_word_warnings(["我有一支笔"])
    ("'我有一支笔' is treated as one word: put spaces between words and punctuation",)
    >>> unspaced_word_warnings("I saw Mr. Smith .".split()), unspaced_word_warnings(["笔", "。"])
    ((), ())
    """
    last = [words[-1]] if words and re.search(r"\w\.$", words[-1]) else []
    unspaced = [word for word in words if _CHINESE.search(word) or _PUNCTUATION.search(word)] + last
    return (
        (f"{unspaced[0][:40]!r} is treated as one word: put spaces between words and punctuation",) if unspaced else ()
    )
