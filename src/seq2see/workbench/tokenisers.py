"""The two tokenisers of a model, and the files that hold them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from seq2see.sequences.tokenisers import Tokeniser


@dataclass(frozen=True)
class Tokenisers:
    """How the two sides are cut into tokens; one object twice if the vocabulary is shared."""

    source: Tokeniser
    target: Tokeniser

    @property
    def sizes(self) -> tuple[int, int]:
        """The two vocabularies' sizes."""
        return len(self.source), len(self.target)

    @property
    def shared(self) -> bool:
        """Whether both sides have one vocabulary."""
        return self.source is self.target

    def save(self, folder: Path) -> None:
        """Write the files that hold them."""
        if self.shared:
            self.source.save(folder / "tokenizer.json")
        else:
            self.source.save(folder / "source_tokenizer.json")
            self.target.save(folder / "target_tokenizer.json")

    @staticmethod
    def load(folder: Path) -> Tokenisers:
        """Read them back from a folder."""
        if (folder / "tokenizer.json").exists():
            both = Tokeniser.load(folder / "tokenizer.json")
            return Tokenisers(both, both)
        return Tokenisers(
            Tokeniser.load(folder / "source_tokenizer.json"), Tokeniser.load(folder / "target_tokenizer.json")
        )
