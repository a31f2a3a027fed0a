"""The two tokenisers of a model, its labels if it has any, and the files that hold them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from seq2see.core.errors import UserError
from seq2see.core.files import write_json
from seq2see.sequences.given import GivenTokeniser, Renumbered, read_given
from seq2see.sequences.pixels import Pixels
from seq2see.sequences.series import Scale
from seq2see.sequences.tokenisers import Tokeniser


@dataclass(frozen=True)
class Tokenisers:
    """How the two sides are cut into tokens; one object twice if the vocabulary is shared."""

    source: Tokeniser
    target: Tokeniser
    labels: tuple[str, ...] = ()
    """The answers, where they are no texts."""

    @property
    def sizes(self) -> tuple[int, int]:
        """The two vocabularies' sizes; labels count as the second."""
        return len(self.source), len(self.labels or self.target)

    @property
    def fingerprint(self) -> str:
        """What decides which numbers texts and labels get."""
        labels = hashlib.sha256(json.dumps(self.labels).encode()).hexdigest() if self.labels else ""
        return self.source.fingerprint + self.target.fingerprint + labels

    @property
    def shared(self) -> bool:
        """Whether both sides have one vocabulary."""
        return self.source is self.target

    def save(self, folder: Path) -> None:
        """Write the files that hold them."""
        if self.labels:
            write_json(folder / "labels.json", list(self.labels))
        if self.shared:
            self.source.save(folder / self.source.file)
            if isinstance(self.source, GivenTokeniser):
                write_json(folder / "numbers.json", self.source.numbers.told)
        elif isinstance(self.source, Pixels):
            self.source.save(folder / self.source.file)
            self.target.save(folder / self.target.file)
        else:
            self.source.save(folder / "source_tokenizer.json")
            self.target.save(folder / "target_tokenizer.json")

    @staticmethod
    def load(folder: Path) -> Tokenisers:
        """Read them back from a folder."""
        if (folder / Scale.file).exists():
            scale = Scale.load(folder / Scale.file)
            return Tokenisers(scale, scale)
        if (folder / Pixels.file).exists():
            pixels, words = Pixels.load(folder / Pixels.file), folder / Tokeniser.file
            target = Tokeniser.load(words) if words.exists() else pixels
            return Tokenisers(pixels, target, _labels(folder / "labels.json"))
        if (folder / "tokenizer.json").exists():
            both = _given(folder) if (folder / "numbers.json").exists() else Tokeniser.load(folder / "tokenizer.json")
            return Tokenisers(both, both, _labels(folder / "labels.json"))
        return Tokenisers(
            Tokeniser.load(folder / "source_tokenizer.json"), Tokeniser.load(folder / "target_tokenizer.json")
        )


def _given(folder: Path) -> GivenTokeniser:
    """The vocabulary that a run took over from real weights, under the numbers that it had there."""
    try:
        numbers = Renumbered.of(**json.loads((folder / "numbers.json").read_bytes()))
    except (ValueError, TypeError) as error:
        raise UserError(f"These numbers cannot be read: {error}.", where=str(folder / "numbers.json")) from None
    return GivenTokeniser(read_given(folder), numbers)


def _labels(path: Path) -> tuple[str, ...]:
    """The labels of a model; none if it has no file of them."""
    if not path.exists():
        return ()
    labels = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels) or not labels:
        raise UserError("This is not a list of labels.", where=str(path), remedy="Restore it from a copy.")
    return tuple(labels)
