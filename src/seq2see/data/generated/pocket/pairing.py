"""From one meaning to a pair of sentences with its gold alignment.

Two words that express the same path of the meaning have a *sure* link (笔 and "pen"). A word that only helps to
express a path (了, 的, 支, "last") has a *possible* link to the word that expresses it. Words without a
counterpart (吗, "do", "the") have no link. The alignment error rate is computed from sure and possible links
(Och & Ney 2003, section 4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from seq2see.data.examples import Example
from seq2see.data.generated.pocket import chinese, english
from seq2see.data.generated.pocket.meaning import Meaning, Word


class Language(NamedTuple):
    """The two functions of a language: surface realization (meaning to words) and detokenization (words to text)."""

    realize: Callable[[Meaning], list[Word]]
    detokenize: Callable[[list[Word]], str]


LanguageCode = Literal["zh", "en"]
LANGUAGES: dict[str, Language] = {
    "zh": Language(chinese.realize, chinese.detokenize),
    "en": Language(english.realize, english.detokenize),
}


def translate(meaning: Meaning, source: Language, target: Language) -> Example:
    """Realize one meaning in two languages and align the words.

    Chinese text is the words joined without spaces, English text the words joined by spaces, except that
    there is no space before a question mark.
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
    """Sure and possible links between two realizations of one meaning."""
    source_nodes = {word.node: index for index, word in enumerate(source) if word.node}
    target_nodes = {word.node: index for index, word in enumerate(target) if word.node}
    sure = [(index, target_nodes[node]) for node, index in source_nodes.items() if node in target_nodes]
    possible_links = []
    for index, word in enumerate(source):
        possible_links += [(index, target_nodes[node]) for node in word.secondary_nodes if node in target_nodes]
    for index, word in enumerate(target):
        possible_links += [(source_nodes[node], index) for node in word.secondary_nodes if node in source_nodes]
    return tuple(sure), tuple(dict.fromkeys(possible_links))
