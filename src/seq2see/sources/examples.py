"""An example: one source text with its target text, and what is known about the two.

Readers and generated corpora both hand out `Example`s, so everything behind them (tokenizers, batches,
metrics) need not know where a pair came from.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """One pair of texts; the optional fields are the truth that generated corpora know about it.

    >>> Example("我 有 笔", "I have a pen", links=((0, 0), (1, 1), (2, 3))).target
    'I have a pen'
    """

    source: str
    target: str
    sure_links: tuple[tuple[int, int], ...] = ()
    """Sure gold alignment: (source word, target word), counted from 0."""
    possible_links: tuple[tuple[int, int], ...] = ()
    """Further links that are not wrong."""
    source_words: tuple[str, ...] = ()
    """The words that links count, where the source is not split by spaces (Chinese)."""
    target_words: tuple[str, ...] = ()
    """The words that links count on the target side."""
    source_tags: tuple[str, ...] = ()
    """Part of speech of each source word."""
    target_tags: tuple[str, ...] = ()
    """Part of speech of each target word."""
    references: tuple[str, ...] = ()
    """Every right target, where there are several (a word with two pronunciations); else empty."""
    place: str = ""
    """"file:line" for data that was read from a file."""

    @property
    def all_references(self) -> tuple[str, ...]:
        """Every target that is right."""
        return self.references or (self.target,)
