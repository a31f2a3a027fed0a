"""The user's own recordings with their texts, as a corpus of a recipe.

The texts come from a list, from folder names or from file names:

| form | text |
|---|---|
| `list.csv` (.tsv, .jsonl), or a folder that contains `recordings.csv` | the column `text`; the other is `path` |
| `commands/turn left/1.wav` | the name of the folder |
| `commands/turn left 1.wav` | the name of the file, without a number at its end |

A list may have a column `speaker`.

Folders train, valid and test may contain any of these. Every file and every line is counted: read = kept + skipped +
rejected.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from seq2see.core.errors import UserError, missing_file
from seq2see.core.settings import Settings
from seq2see.data.examples import short_name
from seq2see.data.hold_out import check_hold_out, split_groups
from seq2see.data.log_mel import frame_count, vectors_of
from seq2see.data.readers.data_report import DataReport, ErrorPolicy, Location
from seq2see.data.readers.image_files import parallel_map, total_memory
from seq2see.data.readers.image_sets import SPLIT_FOLDERS, is_folder
from seq2see.data.readers.lines import file_name, without_compression_suffix
from seq2see.data.readers.pair_files import TABLE_READERS, scan_pairs
from seq2see.data.readers.sound_files import (
    SUFFIX_FORMATS,
    UNSUPPORTED_SUFFIXES,
    DecodedSound,
    SoundError,
    decode_sound,
)
from seq2see.data.readers.table_columns import ColumnRule
from seq2see.data.recordings import RecordingExamples, StoredSamples, to_int16

DEFAULT_RATE = 16_000
"""The sampling rate of a check."""
LIST_NAME = "recordings"
"""The file name of the list in a folder, without its suffix."""
PATH_COLUMNS = ("path", "file", "sound", "audio", "recording", "file_name", "filename")
TEXT_COLUMNS = ("text", "sentence", "transcript", "transcription")
LIST_COLUMNS = tuple((path, text) for text in TEXT_COLUMNS for path in PATH_COLUMNS)
"""The possible names of the two columns of a list of recordings."""
SPEAKER_COLUMNS = tuple((path, "speaker") for path in PATH_COLUMNS)
FINAL_NUMBER = re.compile(r"(?<=\S)[ _-]*(?:\(\d+\)|(?<=[ _-])\d+)$")
"""The number at the end of a file name: `yes_2`, `yes 2`, `yes (2)`, but not the whole of `7`, nor `7` of `mp7`."""
SOUND_SUFFIXES = SUFFIX_FORMATS.keys() | UNSUPPORTED_SUFFIXES

ISSUE_MESSAGES = {
    "several channels": "It has {channels} channels.",
    "other sampling rate": "Its sampling rate is {rate:,} Hz.",
    "lower sampling rate": "Its sampling rate is {rate:,} Hz only.",
    "clipped recording": "Many samples are at the largest possible value.",
    "quiet recording": "Its largest sample is {peak:.4f} of 1.",
}
"""The message of each kind of issue that decoding reports."""


class UserRecordings(Settings):
    """Your own recordings with texts: a list, or a folder whose folder names or file names are the texts."""

    kind: Literal["recordings"] = "recordings"
    paths: tuple[str, ...] = Field(min_length=1)
    """The training recordings; a folder may contain folders train, valid and test."""
    valid: tuple[str, ...] = ()
    """Validation recordings; by default some of the training recordings are held out."""
    test: tuple[str, ...] = ()
    """Test recordings; by default some of the training recordings are held out: whole speakers, if they are known."""
    on_error: Literal["error", "skip"] = "skip"
    """What happens at a recording that cannot be used: stop with an error, or skip and count it."""
    max_errors: int = Field(100, ge=0)
    """The most recordings that on_error = "skip" may skip; more are an error."""

    def recordings(self, rate: int) -> tuple[dict[str, RecordingExamples], list[DataReport]]:
        """Train, valid and test at this sampling rate, and the data report."""
        scanned = self._scan(rate)
        scanned.report.raise_for_errors(ErrorPolicy(self.on_error, self.max_errors))
        return hold_out_recordings(scanned.splits), [scanned.report]

    def check(self) -> list[DataReport]:
        """The data report, without raising an error for recordings that cannot be used."""
        scanned = self._scan(DEFAULT_RATE)
        for kind in ("other sampling rate", "lower sampling rate"):  # the recipe determines the rate
            scanned.report.discard_issues(kind)
        check_hold_out(lambda: hold_out_recordings(scanned.splits), scanned.report)
        return [scanned.report]

    def _scan(self, rate: int) -> ScannedRecordings:
        items: dict[str, list[SoundItem]] = {"train": [], "valid": [], "test": []}
        report = DataReport(unit="recordings")
        for split, paths in (("train", self.paths), ("valid", self.valid), ("test", self.test)):
            for path in map(Path, paths):
                if not path.exists():
                    raise missing_file(path)
                found = find_recordings(path, report)
                for name, part in found.items():
                    # The folders train, valid and test count in `paths` only.
                    items[name if split == "train" else split] += part
        scanned = ScannedRecordings(report)
        for split, part in items.items():
            if part or split == "train":
                scanned.load(split, part, rate)
        scanned.finish(file_name(Path(self.paths[0])))
        return scanned


@dataclass(frozen=True)
class SoundItem:
    """A recording to be read, its text, and the origin of the text."""

    path: Path
    text: str
    location: Location
    """The file itself, or the line of the list that names it."""
    speaker: str = ""


@dataclass(frozen=True)
class LoadedRecordings:
    """The recordings of a split, each with a fingerprint of its samples."""

    examples: RecordingExamples
    digests: tuple[str, ...]


@dataclass
class ScannedRecordings:
    """The splits, and the report about all of them."""

    report: DataReport
    splits: dict[str, LoadedRecordings] = field(default_factory=dict)
    decoded: list[tuple[float, DecodedSound]] = field(default_factory=list)
    """The length of each recording in seconds, and its properties without its samples."""

    def load(self, split: str, items: Sequence[SoundItem], rate: int) -> None:
        """Decode all recordings of a split; those that cannot be used are rejected, with an issue in the report."""
        kept, samples, digests, size = list[SoundItem](), [], [], 0

        def decode(item: SoundItem) -> DecodedSound | SoundError:
            try:
                return decode_sound(item.path, rate, file_name(item.path))
            except SoundError as error:
                return error

        for item, result in zip(items, parallel_map(decode, items, "reading recordings"), strict=True):
            self.report.read += 1
            if isinstance(result, SoundError):
                self.report.rejected += 1
                text = "" if item.location.file == result.location else short_name(result.location)
                self.report.add_issue(result.kind, item.location, result.message, text=text, hint=result.hint)
                continue
            self.report.kept += 1
            kept.append(item)
            samples.append(result.samples)
            digests.append(hashlib.blake2b(to_int16(result.samples).data, digest_size=16).hexdigest())
            self._add_issues(item, result, rate)
            if (size := size + result.samples.nbytes) > total_memory() // 2:
                message = f"The recordings need more than {size / 2**30:.1f} GiB of memory."
                raise UserError(message, hint="Use a lower source.sampling_rate, or fewer recordings.")
        self.splits[split] = LoadedRecordings(
            RecordingExamples(
                StoredSamples.of(samples),
                rate,
                tuple(item.text for item in kept),
                tuple(file_name(item.path) for item in kept),
                tuple(item.speaker for item in kept) if any(item.speaker for item in kept) else (),
            ),
            tuple(digests),
        )

    def _add_issues(self, item: SoundItem, decoded: DecodedSound, rate: int) -> None:
        """Add the issues of one recording."""
        for kind in decoded.issues:
            self.report.add_issue(kind, item.location, ISSUE_MESSAGES[kind].format_map(vars(decoded)))
        expected = SUFFIX_FORMATS.get(item.path.suffix.lower())
        if expected and expected != decoded.format:
            message = f"The suffix is {item.path.suffix}, but the format is {decoded.format}."
            self.report.add_issue("format mismatch", item.location, message)
        seconds = len(decoded.samples) / rate
        repeats = sum(first == second for first, second in zip(item.text, item.text[1:], strict=False))
        vectors, needed = vectors_of(frame_count(len(decoded.samples), rate)), len(item.text) + repeats
        if vectors < needed:
            message = f"{seconds:.2f} s are {vectors} vectors, and its {len(item.text)} characters need {needed}."
            self.report.add_issue("text too long", item.location, message, text=item.text)
        self.decoded.append((seconds, decoded))

    def finish(self, location: str) -> None:
        """Add the issues of the whole data, and a summary."""
        self.report.files = self.report.files or [location]
        for split, loaded in self.splits.items():
            if not len(loaded.examples) and self.report.first_error is None:
                within = f" in {split}" if len(self.splits) > 1 else " in it"
                self.report.add_issue("no recordings", Location(location), f"There is no recording{within}.")
        first: dict[str, tuple[str, str, str]] = {}
        for split, loaded in self.splits.items():
            for digest, text, name in zip(loaded.digests, loaded.examples.texts, loaded.examples.names, strict=True):
                first_split, first_text, first_name = first.setdefault(digest, (split, text, name))
                if first_name is name:
                    continue
                kind = "duplicate recording" if first_split == split else "recording in two splits"
                message = f"The same recording is at {first_name} ({first_split})."
                self.report.add_issue(kind, Location(name), message)
                if first_text != text:
                    message = f"Its text is '{text}' here and '{first_text}' at {first_name}."
                    self.report.add_issue("conflicting labels", Location(name), message)
        if self.decoded:
            self.report.details += self._summary()

    def _summary(self) -> Iterator[str]:
        """Length, sampling rate, loudness, characters and speakers of all recordings that can be used."""
        seconds = np.array([each for each, _ in self.decoded])
        low, middle, high = np.quantile(seconds, [0, 0.5, 1])
        yield f"length: {low:.2f} to {high:.2f} s, median {middle:.2f} s, together {_duration(seconds.sum())}"
        rates = Counter(decoded.rate for _, decoded in self.decoded)
        yield "sampling rate: " + ", ".join(f"{rate:,} Hz ({count:,})" for rate, count in rates.most_common())
        low, middle, high = np.quantile([decoded.loudness for _, decoded in self.decoded], [0, 0.5, 1])
        yield f"loudness: {low:.0f} to {high:.0f} dB, median {middle:.0f} dB"
        texts = [text for each in self.splits.values() for text in each.examples.texts]
        characters = sorted(set("".join(texts)))
        shown = "".join(characters[:100]) + (" ..." if len(characters) > 100 else "")
        yield f"texts: {len(set(texts)):,} different, of {len(characters):,} characters: {shown}"
        speakers = Counter(speaker for each in self.splits.values() for speaker in each.examples.speakers)
        if unknown := speakers.pop("", 0):
            yield f"speakers: {len(speakers):,}; {unknown:,} recordings have none, and each counts for itself"
        elif speakers:
            yield f"speakers: {len(speakers):,}"


def _duration(seconds: float) -> str:
    """A duration in seconds, minutes or hours.

    >>> _duration(12), _duration(600), _duration(9000)
    ('12 s', '10 minutes', '2.5 hours')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def hold_out_recordings(splits: Mapping[str, LoadedRecordings]) -> dict[str, RecordingExamples]:
    """The splits, with the missing ones held out from the training recordings.

    If the speaker of every recording is known, whole speakers are held out. Otherwise equal recordings stay together,
    and of every text that occurs several times at least one recording remains in training.
    """
    loaded = splits["train"]
    examples = loaded.examples
    missing = [name for name in ("test", "valid") if name not in splits]
    counts = Counter(examples.texts)
    groups, labels = list(loaded.digests), [(text,) if counts[text] > 1 else () for text in examples.texts]
    if all(examples.speakers) and len(set(examples.speakers)) > len(missing):
        groups, labels = list(examples.speakers), []
    rows = split_groups(range(len(examples)), groups, missing, labels)
    held_out = {name: examples.select(rows[name]) for name in ("train", *missing)}
    return {"train": held_out.pop("train")} | {
        name: held_out.get(name) or splits[name].examples for name in ("valid", "test")
    }


# --- finding recordings and their texts ---


def find_recordings(path: Path, report: DataReport) -> dict[str, list[SoundItem]]:
    """The recordings of each split; all are `train` if there are no folders for splits."""
    if not path.is_dir():
        return {"train": read_list(path, report)}
    report.files.append(file_name(path))
    if lists := _lists(path):
        return {"train": read_list(lists[0], report)}
    folders = {each.name.lower(): each for each in _entries(path, DataReport()) if is_folder(each)}
    splits = {split: folders[name] for split, names in SPLIT_FOLDERS.items() for name in names if name in folders}
    if "train" in splits and len(splits) > 1:
        return {
            split: read_list(_lists(folder)[0], report) if _lists(folder) else list(_walk(folder, report))
            for split, folder in splits.items()
        }
    return {"train": list(_walk(path, report))}


def _lists(folder: Path) -> list[Path]:
    """The tables in a folder with the name recordings."""
    tables = [path for suffix in TABLE_READERS for path in folder.glob(f"{LIST_NAME}{suffix}*")]
    return sorted(path for path in tables if without_compression_suffix(path).suffix.lower() in TABLE_READERS)


def read_list(path: Path, report: DataReport) -> list[SoundItem]:
    """The recordings of a list, with their texts and speakers."""
    if has_sound_suffix(path):
        hint = "Give a folder of recordings, or a list (.csv, .tsv, .jsonl) with the columns path and text."
        raise UserError("This is one recording, not a set of recordings.", location=file_name(path), hint=hint)
    if without_compression_suffix(path).suffix.lower() not in TABLE_READERS:
        hint = f"Give a folder, or a list: {', '.join(TABLE_READERS)}."
        raise UserError("The format of this list is unknown.", location=file_name(path), hint=hint)
    rows, _ = scan_pairs([path], report, ColumnRule(LIST_COLUMNS))
    for kind in ("length ratio", "duplicate pair", "identical source and target"):
        report.discard_issues(kind)  # a path is not a translation
    report.read -= len(rows)  # recordings are counted when they are decoded
    report.kept -= len(rows)
    speakers = _speakers(path)
    items = []
    for row in rows:
        file, _, line = row.location.rpartition(":")
        text = unicodedata.normalize("NFC", row.target.strip())
        location = Location(file, int(line))
        items.append(SoundItem(path.parent / row.source.strip(), text, location, speakers.get(row.location, "")))
    return items


def _speakers(path: Path) -> dict[str, str]:
    """The speaker of each line of a list, if it has a column of speakers."""
    names = (*SPEAKER_COLUMNS, *LIST_COLUMNS)
    rows, _ = scan_pairs([path], DataReport(), ColumnRule(names))
    texts, _ = scan_pairs([path], DataReport(), ColumnRule(LIST_COLUMNS))
    same = [row.target for row in rows] == [row.target for row in texts]
    return {} if same else {row.location: row.target.strip() for row in rows}


def _walk(folder: Path, report: DataReport, text: str = "", ancestors: tuple[str, ...] = ()) -> Iterator[SoundItem]:
    """Every recording in a folder and its subfolders; the first subfolder's name is the text of all in it."""
    identity = os.path.realpath(folder)
    if identity in ancestors:
        report.add_issue("symlink loop", Location(file_name(folder)), "This folder contains itself.")
        return
    for each in _entries(folder, report):
        if is_folder(each):
            yield from _walk(each, report, text or text_of_name(each.name), (*ancestors, identity))
        else:
            yield SoundItem(each, text or text_of_name(FINAL_NUMBER.sub("", each.stem)), Location(file_name(each)))


def text_of_name(name: str) -> str:
    """The text that a name stands for; underscores are spaces.

    >>> text_of_name("turn_left"), text_of_name(FINAL_NUMBER.sub("", "turn left (2)")), FINAL_NUMBER.sub("", "7")
    ('turn left', 'turn left', '7')
    """
    return unicodedata.normalize("NFC", file_name(Path(name)).replace("_", " ").strip())


def _entries(folder: Path, report: DataReport) -> list[Path]:
    """The folders and recordings in a folder, sorted by name; other files are counted as skipped."""
    try:
        paths = sorted((Path(entry.path) for entry in os.scandir(folder)), key=lambda path: path.name)
    except OSError as error:
        message = f"The folder cannot be read: {error.strerror}."
        report.add_issue("unreadable recording", Location(file_name(folder)), message)
        return []
    entries = []
    for path in paths:
        hidden = path.name.startswith(".") or path.name == "__MACOSX"
        if not hidden and (is_folder(path) or has_sound_suffix(path)):
            entries.append(path)
            continue
        if not is_folder(path):
            report.read += 1
            report.skipped += 1
        message = "It is hidden." if hidden else "No suffix of a recording."
        report.add_issue("ignored file", Location(file_name(path)), message)
    return entries


def has_sound_suffix(path: Path) -> bool:
    """Whether a path has the suffix of a sound format, supported or not."""
    return path.suffix.lower() in SOUND_SUFFIXES
