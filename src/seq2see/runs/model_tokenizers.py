"""The two tokenizers of a model, its labels if it has any, and the files that hold them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from seq2see.core.errors import UserError
from seq2see.core.files import write_json
from seq2see.sequences.image_dataset import ImageProcessor
from seq2see.sequences.pretrained_tokenizer import PretrainedTokenizer, TokenIdMap, read_pretrained_tokenizer
from seq2see.sequences.series_dataset import StandardScaler
from seq2see.sequences.tokenizers import Tokenizer


@dataclass(frozen=True)
class Tokenizers:
    """How the two sides are cut into tokens; one object twice if the vocabulary is shared."""

    source: Tokenizer
    target: Tokenizer
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
            if isinstance(self.source, PretrainedTokenizer):
                write_json(folder / "token_ids.json", self.source.id_map.config)
        elif isinstance(self.source, ImageProcessor):
            self.source.save(folder / self.source.file)
            self.target.save(folder / self.target.file)
        else:
            self.source.save(folder / "source_tokenizer.json")
            self.target.save(folder / "target_tokenizer.json")

    @staticmethod
    def load(folder: Path) -> Tokenizers:
        """Read them back from a folder."""
        if (folder / StandardScaler.file).exists():
            scale = StandardScaler.load(folder / StandardScaler.file)
            return Tokenizers(scale, scale)
        if (folder / ImageProcessor.file).exists():
            pixels, words = ImageProcessor.load(folder / ImageProcessor.file), folder / Tokenizer.file
            target = Tokenizer.load(words) if words.exists() else pixels
            return Tokenizers(pixels, target, _labels(folder / "labels.json"))
        if (folder / "tokenizer.json").exists():
            both = _given(folder) if (folder / "token_ids.json").exists() else Tokenizer.load(folder / "tokenizer.json")
            return Tokenizers(both, both, _labels(folder / "labels.json"))
        return Tokenizers(
            Tokenizer.load(folder / "source_tokenizer.json"), Tokenizer.load(folder / "target_tokenizer.json")
        )


def _given(folder: Path) -> PretrainedTokenizer:
    """The vocabulary that a run took over from real weights, under the numbers that it had there."""
    try:
        numbers = TokenIdMap.of(**json.loads((folder / "token_ids.json").read_bytes()))
    except (ValueError, TypeError) as error:
        raise UserError(f"These numbers cannot be read: {error}.", location=str(folder / "token_ids.json")) from None
    return PretrainedTokenizer(read_pretrained_tokenizer(folder), numbers)


def _labels(path: Path) -> tuple[str, ...]:
    """The labels of a model; none if it has no file of them."""
    if not path.exists():
        return ()
    labels = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels) or not labels:
        raise UserError("This is not a list of labels.", location=str(path), hint="Restore it from a copy.")
    return tuple(labels)
