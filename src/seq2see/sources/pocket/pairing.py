"""From one meaning to a pair of sentences with its gold alignment.

Words that express the same part of the meaning are *surely* linked (笔 and "pen"). A word that only helps to
express a part (了, 的, 支, "last") is *possibly* linked to the word that does express it. Words without a
counterpart (吗, "do", "the") have no link at all. Sure and possible links are what the alignment error
rate is computed from (Och & Ney 2003, section 4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from seq2see.sources.examples import Example
from seq2see.sources.pocket import chinese, english
from seq2see.sources.pocket.meaning import Meaning, Word


class Language(NamedTuple):
    """What a language must be able to do: put a meaning into words, and words into a line of text."""

    realize: Callable[[Meaning], list[Word]]
    detokenize: Callable[[list[Word]], str]


LanguageCode = Literal["zh", "en"]
LANGUAGES: dict[str, Language] = {
    "zh": Language(chinese.realize, chinese.detokenize),
    "en": Language(english.realize, english.detokenize),
}


def translate(meaning: Meaning, source: Language, target: Language) -> Example:
    """Say one meaning in two languages and link the words.

    The words reproduce the text: joined by nothing they are the Chinese line, joined by spaces the
    English one, except that no space stands before a question mark.
    """
    source_words, target_words = source.realize(meaning), target.realize(meaning)
    links, possible_links = align(source_words, target_words)
    source_texts, source_tags, *_ = zip(*source_words, strict=True)
    target_texts, target_tags, *_ = zip(*target_words, strict=True)
    return Example(
        source.detokenize(source_words),
        target.detokenize(target_words),
        sure_links=links,
        possible_links=possible_links,
        source_words=source_texts,
        target_words=target_texts,
        source_tags=source_tags,
        target_tags=target_tags,
    )


Links = tuple[tuple[int, int], ...]


def align(source: list[Word], target: list[Word]) -> tuple[Links, Links]:
    """Sure and possible links between two ways of saying the same."""
    source_nodes = {word.node: place for place, word in enumerate(source) if word.node}
    target_nodes = {word.node: place for place, word in enumerate(target) if word.node}
    sure = [(place, target_nodes[node]) for node, place in source_nodes.items() if node in target_nodes]
    possible_links = []
    for place, word in enumerate(source):
        possible_links += [(place, target_nodes[node]) for node in word.secondary_nodes if node in target_nodes]
    for place, word in enumerate(target):
        possible_links += [(source_nodes[node], place) for node in word.secondary_nodes if node in source_nodes]
    return tuple(sure), tuple(dict.fromkeys(possible_links))
