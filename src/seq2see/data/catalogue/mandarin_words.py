"""Spoken Mandarin words and syllables (audio-cmn), with pinyin and tone digits as the target.

The file name of a word is its characters; their pronunciation comes from the dictionary of the package pypinyin, with
the tone changes of connected speech: 你好 is pronounced ni2 hao3, so this is the target. The syllables are named by
their pinyin; they are of another speaker, so they are used in training only.

Words of the same pronunciation belong to one split: no test pronunciation is trained on.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from seq2see.core.errors import require_packages
from seq2see.core.settings import Settings
from seq2see.data.catalogue.corpus_files import get_corpus
from seq2see.data.catalogue.download import read_tar_members
from seq2see.data.hold_out import split_groups
from seq2see.data.readers.data_report import DataReport, ErrorPolicy, Location
from seq2see.data.readers.image_files import parallel_map
from seq2see.data.readers.sound_files import SoundError, decode_sound
from seq2see.data.recordings import RecordingExamples, Samples, StoredSamples

SPEAKERS = {"words": "Yue Tan", "syllables": "Chen Wang"}
PREFIX = "cmn-"
"""The beginning of every file name."""
SYLLABLE = re.compile(r"[a-z]+[1-5]")
ERHUA = re.compile(r"[^女婴]儿$")
"""Words whose last character changes the syllable before it; 女儿 and 婴儿 are pronounced as they are written."""


class MandarinWords(Settings):
    """Spoken Mandarin words of the catalogue's audio-cmn, with toned pinyin; test words are not trained on."""

    kind: Literal["mandarin-words"] = "mandarin-words"

    def recordings(self, rate: int) -> tuple[dict[str, RecordingExamples], list[DataReport]]:
        """Train, valid and test at this sampling rate, and the data report."""
        require_packages("audio", "soundfile", "pypinyin")
        report = DataReport(unit="recordings")
        words, syllables = (read_archive(path, rate, report) for path in get_corpus("audio-cmn").paths)
        report.raise_for_errors(ErrorPolicy("skip"))
        rows = split_groups(range(len(words)), words.texts, ["test", "valid"])
        splits = {name: words.select(rows[name]) for name in ("train", "valid", "test")}
        held_out = {*splits["valid"].texts, *splits["test"].texts}  # some words have one syllable
        kept = [index for index, text in enumerate(syllables.texts) if text not in held_out]
        splits["train"] = concatenate([splits["train"], syllables.select(kept)])
        return splits, [report]


def read_archive(path: Path, rate: int, report: DataReport) -> RecordingExamples:
    """The recordings of an archive; names without a certain pronunciation are skipped and counted."""
    report.files.append(str(path))
    contents = read_tar_members(path)
    targets: dict[str, str] = {}
    for name in contents:
        spelling = unicodedata.normalize("NFC", Path(name).stem.removeprefix(PREFIX))
        target = spelling if SYLLABLE.fullmatch(spelling) else pronunciation(spelling)
        report.read += 1
        if target:
            targets[name] = target
        else:
            report.skipped += 1
            message = f"'{spelling}' has no certain pronunciation."
            report.add_issue("unsupported characters", Location(f"{path}/{name}"), message, hint=SKIPPED_HINT)

    def decode(name: str) -> Samples | SoundError:
        try:
            return decode_sound(contents[name], rate, f"{path}/{name}").samples
        except SoundError as error:
            return error

    kept, samples = [], []
    for name, result in zip(targets, parallel_map(decode, list(targets), "reading recordings"), strict=True):
        if isinstance(result, SoundError):
            report.rejected += 1
            report.add_issue(result.kind, Location(f"{path}/{name}"), result.message)
        else:
            report.kept += 1
            kept.append(name)
            samples.append(result)
    return RecordingExamples(
        StoredSamples.of(samples),
        rate,
        tuple(targets[name] for name in kept),
        tuple(kept),
        (SPEAKERS.get(path.stem, path.stem),) * len(kept),
    )


SKIPPED_HINT = "Nothing to do: names with other characters, and words that end in a retroflex 儿, were skipped."


def pronunciation(word: str) -> str:
    """The pinyin of a word with tone digits as it is spoken; empty if it is uncertain."""
    from pypinyin import Style, lazy_pinyin

    if ERHUA.search(word) or not all("\u4e00" <= letter <= "\u9fff" for letter in word):
        return ""
    syllables = lazy_pinyin(word, style=Style.TONE3, neutral_tone_with_five=True, tone_sandhi=True)
    return " ".join(syllables) if all(map(SYLLABLE.fullmatch, syllables)) else ""


def concatenate(parts: Sequence[RecordingExamples]) -> RecordingExamples:
    """All recordings of the parts, which have one sampling rate."""
    samples = StoredSamples.of([part.samples[index] for part in parts for index in range(len(part))])
    texts, names, speakers = (
        tuple(each for part in parts for each in getattr(part, field)) for field in ("texts", "names", "speakers")
    )
    return RecordingExamples(samples, parts[0].rate, texts, names, speakers)
