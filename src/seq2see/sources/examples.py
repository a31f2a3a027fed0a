"""An example: one source text with its target text and their annotation.

Readers and generated corpora both return `Example`s, so tokenizers, batches and metrics do not depend on the origin
of a pair.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """One pair of texts; the optional fields are the gold annotation of generated corpora.

    >>> Example("我 有 笔", "I have a pen", sure_links=((0, 0), (1, 1), (2, 3))).target
    'I have a pen'
    """

    source: str
    target: str
    sure_links: tuple[tuple[int, int], ...] = ()
    """Sure links of the gold alignment: (source word, target word), counted from 0."""
    possible_links: tuple[tuple[int, int], ...] = ()
    """Possible links of the gold alignment."""
    source_words: tuple[str, ...] = ()
    """The source words that the links index, if the source is not split at spaces (Chinese)."""
    target_words: tuple[str, ...] = ()
    """The target words that the links index."""
    source_tags: tuple[str, ...] = ()
    """Part of speech of each source word."""
    target_tags: tuple[str, ...] = ()
    """Part of speech of each target word."""
    references: tuple[str, ...] = ()
    """All references, if there are several (a word with two pronunciations); else empty."""
    location: str = ""
    """"file:line" of data that were read from a file."""

    @property
    def all_references(self) -> tuple[str, ...]:
        """All references; without several, the target alone."""
        return self.references or (self.target,)
