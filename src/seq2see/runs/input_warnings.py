"""What a person should know who gives a model a text that it was not made for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from seq2see.sequences.tokenizers import UNK, Tokenizer

SHOWN = 5
"""Unknown pieces that are named; all are counted."""
LONG_WORD = 4
"""Chinese characters of a word; longer ones are rare, and more often sentences without spaces."""

_CHINESE = re.compile(f"[\u3400-\u9fff]{{{LONG_WORD + 1},}}|[\u3400-\u9fff][，。！？；：]")
_SIGN = re.compile(r"\w[,;!?]$")


def unknown_token_warnings(text: str, ids: Sequence[int], tokenizer: Tokenizer) -> tuple[str, ...]:
    """Says which pieces of a text the model reads as <unk>, if there are any; `ids` are those that it reads."""
    if UNK not in ids:  # nearly always; then nothing is cut a second time
        return ()
    offsets = zip(tokenizer.encode(text), tokenizer.offsets(text), strict=True)
    pieces = dict.fromkeys(text[start:end].strip() for number, (start, end) in offsets if number == UNK)
    found = [piece for piece in pieces if piece]
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return (f"the model does not know {' '.join(found[:SHOWN])}{more}, and reads <unk> instead",) if found else ()


def unspaced_word_warnings(words: Sequence[str]) -> tuple[str, ...]:
    """Says which word is rather a sentence, or a word with the sign behind it, if there is one.

    >>> unspaced_word_warnings(["我有一支笔"])
    ("'我有一支笔' is read as one word: put spaces between words and signs",)
    >>> unspaced_word_warnings("I saw Mr. Smith .".split()), unspaced_word_warnings(["笔", "。"])
    ((), ())
    """
    ends_bare = [words[-1]] if words and re.search(r"\w\.$", words[-1]) else []
    found = [word for word in words if _CHINESE.search(word) or _SIGN.search(word)] + ends_bare
    return (f"{found[0][:40]!r} is read as one word: put spaces between words and signs",) if found else ()
