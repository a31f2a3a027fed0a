"""The source and target tokenizers of a model, its labels, their files, and what they warn of: unknown tokens."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from seq2see.core.errors import UserError
from seq2see.core.files import write_json
from seq2see.data.image_dataset import ImageProcessor
from seq2see.data.series_dataset import StandardScaler
from seq2see.data.tokenizers.pretrained_tokenizer import PretrainedTokenizer, TokenIdMap, read_pretrained_tokenizer
from seq2see.data.tokenizers.tokenizer import UNK, Tokenizer


@dataclass(frozen=True)
class Tokenizers:
    """The source and target tokenizers; the same object if the vocabulary is shared."""

    source: Tokenizer
    target: Tokenizer
    labels: tuple[str, ...] = ()
    """The labels of a classifier or tagger."""

    @property
    def sizes(self) -> tuple[int, int]:
        """The sizes of source and target vocabulary; labels count as the target vocabulary."""
        return len(self.source), len(self.labels or self.target)

    @property
    def fingerprint(self) -> str:
        """A hash of the mapping from texts and labels to ids."""
        labels = hashlib.sha256(json.dumps(self.labels).encode()).hexdigest() if self.labels else ""
        return self.source.fingerprint + self.target.fingerprint + labels

    @property
    def shared(self) -> bool:
        """Whether source and target share one vocabulary."""
        return self.source is self.target

    def save(self, folder: Path) -> None:
        """Write tokenizers and labels to a folder."""
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
        """Read tokenizers and labels from a folder."""
        if (folder / StandardScaler.file).exists():
            scale = StandardScaler.load(folder / StandardScaler.file)
            return Tokenizers(scale, scale)
        if (folder / ImageProcessor.file).exists():
            processor, path = ImageProcessor.load(folder / ImageProcessor.file), folder / Tokenizer.file
            target = Tokenizer.load(path) if path.exists() else processor
            return Tokenizers(processor, target, _labels(folder / "labels.json"))
        if (folder / "tokenizer.json").exists():
            has_id_map = (folder / "token_ids.json").exists()
            tokenizer = _read_pretrained(folder) if has_id_map else Tokenizer.load(folder / "tokenizer.json")
            return Tokenizers(tokenizer, tokenizer, _labels(folder / "labels.json"))
        return Tokenizers(
            Tokenizer.load(folder / "source_tokenizer.json"), Tokenizer.load(folder / "target_tokenizer.json")
        )


def _read_pretrained(folder: Path) -> PretrainedTokenizer:
    """The tokenizer that a run loaded from a pretrained model, with its id map."""
    try:
        id_map = TokenIdMap.of(**json.loads((folder / "token_ids.json").read_bytes()))
    except (ValueError, TypeError) as error:
        raise UserError(f"This id map cannot be read: {error}.", location=str(folder / "token_ids.json")) from None
    return PretrainedTokenizer(read_pretrained_tokenizer(folder), id_map)


def _labels(path: Path) -> tuple[str, ...]:
    """The labels of a model; none without a labels file."""
    if not path.exists():
        return ()
    labels = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels) or not labels:
        raise UserError("This is not a list of labels.", location=str(path), hint="Restore it from a backup.")
    return tuple(labels)


SHOWN = 5
"""The number of unknown tokens that are listed; the others are counted."""
LONG_WORD = 4
"""Chinese characters of a word; longer words are rare, and mostly sentences without spaces."""

_CHINESE = re.compile(f"[\u3400-\u9fff]{{{LONG_WORD + 1},}}|[\u3400-\u9fff][，。！？；：]")
_PUNCTUATION = re.compile(r"\w[,;!?]$")


def unknown_token_warnings(text: str, ids: Sequence[int], tokenizer: Tokenizer) -> tuple[str, ...]:
    """A warning that lists the parts of a text that are encoded as <unk>; `ids` are the token ids of the text."""
    if UNK not in ids:  # the common case, without tokenizing again
        return ()
    offsets = zip(tokenizer.encode(text), tokenizer.offsets(text), strict=True)
    spans = dict.fromkeys(text[start:end].strip() for token_id, (start, end) in offsets if token_id == UNK)
    unknown = [span for span in spans if span]
    more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
    return (f"unknown tokens {' '.join(unknown[:SHOWN])}{more}, replaced by <unk>",) if unknown else ()


def unspaced_word_warnings(words: Sequence[str]) -> tuple[str, ...]:
    """A warning about a word that is a sentence without spaces, or ends with a punctuation mark.

    >>> unspaced_word_warnings(["我有一支笔"])
    ("'我有一支笔' is treated as one word: put spaces between words and punctuation",)
    >>> unspaced_word_warnings("I saw Mr. Smith .".split()), unspaced_word_warnings(["笔", "。"])
    ((), ())
    """
    last = [words[-1]] if words and re.search(r"\w\.$", words[-1]) else []
    unspaced = [word for word in words if _CHINESE.search(word) or _PUNCTUATION.search(word)] + last
    return (
        (f"{unspaced[0][:40]!r} is treated as one word: put spaces between words and punctuation",) if unspaced else ()
    )
