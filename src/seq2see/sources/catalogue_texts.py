"""Running texts of the catalogue: plays, a novel, a treebank's sentences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from seq2see.core.settings import Settings
from seq2see.sources.catalogue import get
from seq2see.sources.examples import Example
from seq2see.sources.texts import Splits, hold_out_end, read_text

TRAIN_SHARE = 0.9
"""The share of the plays, from their beginning, that everybody learns from."""


class CatalogueText(Settings):
    """A running text of the catalogue: `seq2see data list` shows them."""

    kind: Literal["catalogue-text"] = "catalogue-text"
    name: Literal["tinyshakespeare", "timemachine", "ptb"] = "tinyshakespeare"
    """Which text: Shakespeare's plays, The Time Machine, or the sentences of the Penn Treebank."""

    def splits(self) -> Splits:
        """Train, valid and test; fetched first if they are not on this machine."""
        return READERS[self.name](get(self.name).paths)


def read_tinyshakespeare(paths: list[Path]) -> Splits:
    """The first nine tenths and the last, by characters, as all who use these plays cut them; no test of its own."""
    text, _ = read_text(paths[0])
    cut = int(TRAIN_SHARE * len(text.target))
    parts = {"train": text.target[:cut], "valid": text.target[cut:]}
    return {name: [Example("", part, location=text.location)] for name, part in parts.items()} | {"test": []}


def read_timemachine(paths: list[Path]) -> Splits:
    """One text, whose end is held out."""
    return hold_out_end({"train": [read_text(paths[0])[0]], "valid": [], "test": []})


def read_ptb(paths: list[Path]) -> Splits:
    """A file for each split; a line is a sentence, and the end of a line is a token like any other."""
    return {name: [read_text(path)[0]] for name, path in zip(("train", "valid", "test"), paths, strict=True)}


READERS: dict[str, Callable[[list[Path]], Splits]] = {
    "tinyshakespeare": read_tinyshakespeare,
    "timemachine": read_timemachine,
    "ptb": read_ptb,
}
