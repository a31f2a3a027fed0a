"""Running texts of the catalogue: plays, a novel, the sentences of a treebank."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from seq2see.core.settings import Settings
from seq2see.data.catalogue.catalogue import get_corpus
from seq2see.data.examples import Example
from seq2see.data.readers.texts import Splits, hold_out_end, read_text

TRAIN_SHARE = 0.9
"""The share of the plays, from their beginning, that is the usual training split."""


class CatalogueText(Settings):
    """A running text of the catalogue: `seq2see data list` shows them."""

    kind: Literal["catalogue-text"] = "catalogue-text"
    name: Literal["tinyshakespeare", "timemachine", "ptb"] = "tinyshakespeare"
    """The text: Shakespeare's plays, The Time Machine, or the sentences of the Penn Treebank."""

    def splits(self) -> Splits:
        """Train, valid and test; downloaded first if they are not on this machine."""
        return READERS[self.name](get_corpus(self.name).paths)


def read_tinyshakespeare(paths: list[Path]) -> Splits:
    """The first 90 % of the characters as train and the rest as valid, the usual split; there is no test split."""
    text, _ = read_text(paths[0])
    cut = int(TRAIN_SHARE * len(text.target))
    parts = {"train": text.target[:cut], "valid": text.target[cut:]}
    return {name: [Example("", part, location=text.location)] for name, part in parts.items()} | {"test": []}


def read_timemachine(paths: list[Path]) -> Splits:
    """One text, whose end is held out."""
    return hold_out_end({"train": [read_text(paths[0])[0]], "valid": [], "test": []})


def read_ptb(paths: list[Path]) -> Splits:
    """A file for each split; a line is a sentence, and the line ending is a token like any other."""
    return {name: [read_text(path)[0]] for name, path in zip(("train", "valid", "test"), paths, strict=True)}


READERS: dict[str, Callable[[list[Path]], Splits]] = {
    "tinyshakespeare": read_tinyshakespeare,
    "timemachine": read_timemachine,
    "ptb": read_ptb,
}
