"""The report of a data validation: every issue with its file, line and column, and the number of records.

A reader neither stops at the first bad line nor drops one silently. It adds an issue to a `DataReport`, which counts
the records (read = kept + skipped + rejected), stores the issues, and at the end raises an error if the data cannot
be used.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from seq2see.core.errors import UserError, unknown_name

Severity = Literal["error", "warning", "repair"]

MAX_PRINTED = 20
"""The number of issues of a kind that a terminal shows."""

MAX_STORED: dict[Severity, int] = {"error": 10_000, "warning": 100, "repair": 10_000}
"""The number of issues of a kind that the report stores; all of them are counted."""


@dataclass(frozen=True)
class IssueKind:
    """A kind of issue: its severity, and what to do about it."""

    severity: Severity
    hint: str
    invalidates_file: bool = False
    """True if skipping one record does not help: the whole file cannot be used."""


ISSUE_KINDS: dict[str, IssueKind] = {
    # Errors that invalidate a whole file.
    "unreadable file": IssueKind("error", "Check the path, the permissions and the file.", invalidates_file=True),
    "wrong encoding": IssueKind("error", "Convert the file to UTF-8.", invalidates_file=True),
    "empty file": IssueKind("error", "Use a file with at least one line.", invalidates_file=True),
    "line count mismatch": IssueKind(
        "error",
        "Find the missing or extra line: line n of one file must be the translation of line n of the other.",
        invalidates_file=True,
    ),
    "duplicate column": IssueKind("error", "Rename one of the columns.", invalidates_file=True),
    "unclear columns": IssueKind(
        "error",
        "Choose them by name or number: --columns text=review label=sentiment, or --columns text=1 label=3.",
        invalidates_file=True,
    ),
    "no examples": IssueKind("error", "Use a file with at least one example.", invalidates_file=True),
    "damaged dataset": IssueKind("error", "Copy or download the file again.", invalidates_file=True),
    "no images": IssueKind(
        "error",
        "Add images (.png, .jpg, .gif, .bmp, .webp): one folder for each class, or a list. A split that is missing is "
        "held out from the training images.",
        invalidates_file=True,
    ),
    "single class": IssueKind(
        "error", "Add images of other classes: one folder for each class.", invalidates_file=True
    ),
    "unknown class": IssueKind(
        "error",
        "Use the same class names in every split, or remove the classes that have no training images.",
        invalidates_file=True,
    ),
    # Errors of one record.
    "invalid UTF-8": IssueKind(
        "error",
        "Correct the line; if the whole file has another encoding, convert it, "
        "for example with `iconv -f GB18030 -t UTF-8` or `iconv -f ISO-8859-1 -t UTF-8`.",
    ),
    "NUL character": IssueKind("error", "Delete it; `tr -d '\\000'` removes all NUL characters of a file."),
    "embedded byte order mark": IssueKind("error", "Delete it; usually it remains where files were concatenated."),
    "lone surrogate": IssueKind("error", "Write the character itself, or both halves of its \\u escape."),
    "line too long": IssueKind("error", "Check that the file has line endings (\\n), and split this line."),
    "empty field": IssueKind("error", "Fill in the field, or delete the whole record."),
    "wrong column count": IssueKind(
        "error", "Every line needs the same number of columns, separated by commas (.csv) or tabs."
    ),
    "bare quote": IssueKind("error", 'Put the whole field in quotes and double those inside: "say ""hi""".'),
    "invalid JSON": IssueKind("error", 'Write one object per line: {"source": "...", "target": "..."}.'),
    "wrong type": IssueKind("error", 'Write texts in quotes: {"source": "...", "target": "..."}.'),
    "unknown phoneme": IssueKind(
        "error", "Write vowels with their stress (AH0, EY1, OW2), consonants without: HH AH0 L OW1."
    ),
    "not a number": IssueKind(
        "error", "Every line needs a number, written as 12.5 or 1e-3; fill the gaps, or delete these lines."
    ),
    "missing key": IssueKind("error", "Every object needs the keys source and target."),
    "duplicate key": IssueKind("error", "Delete one of the two."),
    # Errors of one dialogue.
    "unknown role": IssueKind("error", "The roles are user, assistant and system."),
    "role order": IssueKind("error", "User and assistant alternate, the user first; join messages of one role."),
    "no reply": IssueKind("error", "Add a message of the assistant, or delete the dialogue."),
    "broken ChatML": IssueKind("error", "Write <|im_start|>role, the text on the next lines, and <|im_end|>."),
    # Errors of one image.
    "corrupt image": IssueKind("error", "Copy or download it again, or delete it."),
    "not an image": IssueKind("error", "Save it as PNG or JPEG, or delete it."),
    "not a video": IssueKind(
        "error",
        "Convert it to an animated GIF or WebP, or to a folder of frames: `ffmpeg -i video.mp4 frames/%04d.png`.",
    ),
    "too many pixels": IssueKind("error", "Reduce its size."),
    "unreadable image": IssueKind("error", "Check the path and the permissions."),
    "image without a class": IssueKind(
        "error", "Move it into the folder of its class, or use a list of files with labels."
    ),
    "empty class": IssueKind("error", "Put images into the folder, or delete it."),
    # Errors of one recording.
    "corrupt recording": IssueKind("error", "Record, copy or download it again, or delete it."),
    "not a recording": IssueKind("error", "Convert it to WAV (`ffmpeg -i FILE recording.wav`), or delete it."),
    "unreadable recording": IssueKind("error", "Check the path and the permissions."),
    "silent recording": IssueKind("error", "Record it again with the right microphone, or delete it."),
    "recording too short": IssueKind("error", "Record at least 25 ms, or delete it."),
    "recording too long": IssueKind("error", "Split it at pauses into recordings of at most a few minutes."),
    "no recordings": IssueKind(
        "error",
        "Add recordings (.wav; .flac, .ogg and .mp3 with the extra audio): a folder whose folder names or file names "
        "are the texts, or a list with the columns path and text.",
        invalidates_file=True,
    ),
    # Repairs, each done in one fixed way.
    "byte order mark": IssueKind("repair", "Nothing to do: it was removed from the start of the file."),
    "CRLF line endings": IssueKind("repair", "Nothing to do: the carriage return was removed."),
    "blank record": IssueKind("repair", "Nothing to do: records with two empty fields were skipped."),
    "unanswered message": IssueKind("repair", "Nothing to do: it was left out, and the dialogue ends before it."),
    "unsupported characters": IssueKind(
        "repair", "Nothing to do: words with other characters than a-z ' - and . were skipped."
    ),
    "duplicate pronunciation": IssueKind("repair", "Nothing to do: the repetition was skipped."),
    "ignored file": IssueKind(
        "repair", "Nothing to do: hidden files and files without the suffix of an image or a recording were skipped."
    ),
    "decimal comma": IssueKind("repair", "Nothing to do: in a table with semicolons 3,5 is three and a half."),
    "format mismatch": IssueKind("repair", "Nothing to do: it was decoded by its content, not by its suffix."),
    "EXIF rotation": IssueKind("repair", "Nothing to do: it was rotated by its EXIF data."),
    "transparent image": IssueKind("repair", "Nothing to do: it was composited on white."),
    "multiple frames": IssueKind("repair", "Nothing to do: the first frame was used."),
    "single frame": IssueKind("repair", "Nothing to do: the frame was repeated."),
    "unlisted file": IssueKind("repair", "Nothing to do: files that are not in the list were skipped."),
    "16-bit image": IssueKind("repair", "Nothing to do: its gray was rounded to 8 bits."),
    "CMYK colors": IssueKind("repair", "Nothing to do: they were converted to red, green and blue."),
    "several channels": IssueKind("repair", "Nothing to do: the channels were averaged."),
    "other sampling rate": IssueKind("repair", "Nothing to do: it was converted to source.sampling_rate."),
    # Warnings: the data are used as they are, but may contain a mistake.
    "small image": IssueKind(
        "warning", "It was enlarged and has little detail; use a smaller source.image_size, or remove the image."
    ),
    "duplicate image": IssueKind("warning", "It was kept, and counts as often as it occurs."),
    "image in two splits": IssueKind("warning", "A test image was trained on: remove it from one of the two splits."),
    "conflicting labels": IssueKind("warning", "It was kept with both labels; correct the wrong one."),
    "too small to split": IssueKind("warning", "Add examples, or give files for validation and test."),
    "class missing in split": IssueKind("warning", "This class will not be evaluated; add images of it to the split."),
    "lower sampling rate": IssueKind(
        "warning",
        "It was converted, but has no high frequencies; use a lower source.sampling_rate.",
    ),
    "clipped recording": IssueKind("warning", "It is distorted because it was too loud; record it again, less loud."),
    "quiet recording": IssueKind("warning", "Its loudest sample is below -40 dB; record it again, louder."),
    "text too long": IssueKind("warning", "Check that this is the text of this recording."),
    "duplicate recording": IssueKind("warning", "It was kept, and counts as often as it occurs."),
    "recording in two splits": IssueKind("warning", "It was trained on: remove it from one of the two splits."),
    "symlink loop": IssueKind("warning", "A link leads back to a folder that contains it; it was not followed."),
    "mixed line endings": IssueKind(
        "warning", "The file was probably concatenated from two; check the line where they meet."
    ),
    "lone carriage return": IssueKind("warning", "It was kept in the text; only \\n ends a line."),
    "unusual line separator": IssueKind("warning", "It was kept in the text; only \\n ends a line."),
    "control character": IssueKind("warning", "It was kept in the text, and the model is trained on it."),
    "embedded line break": IssueKind("warning", "It was kept in the text; outputs have one text per line."),
    "mojibake": IssueKind("warning", "UTF-8 was probably decoded as Latin-1 earlier; convert it back."),
    "special token text": IssueKind("warning", "It is encoded as plain text, never as the special token."),
    "length ratio": IssueKind("warning", "Check that the two texts belong together."),
    "identical source and target": IssueKind("warning", "Check that the pair is translated, if it should be."),
    "duplicate pair": IssueKind("warning", "It was kept, and counts as often as it occurs."),
    "mixed Unicode normalization": IssueKind(
        "warning", "Convert all files to NFC, so that equal words have equal characters."
    ),
}


@dataclass(frozen=True)
class Location:
    """A position in a file: line and column count from 1 (0: the whole file or line), the offset is in bytes."""

    file: str
    line: int = 0
    column: int = 0
    offset: int = 0

    def __str__(self) -> str:
        numbers = [str(number) for number in (self.line, self.column) if number]
        return ":".join([self.file, *numbers])


@dataclass(frozen=True)
class Issue:
    """One problem in the data."""

    kind: str
    location: Location
    message: str
    text: str = ""
    """The first 80 characters of the text at this location, escaped."""
    hint: str = ""

    def to_json(self) -> dict[str, Any]:
        """The issue as it is written to `data_report.json`."""
        location = self.location
        return {
            "file": location.file,
            "line": location.line,
            "column": location.column,
            "offset": location.offset,
            "message": self.message,
            "text": self.text,
        }


@dataclass(frozen=True)
class ErrorPolicy:
    """What happens to a record that cannot be used."""

    action: str = "error"
    """`error`: one bad record makes the data invalid; `skip`: the record is omitted and counted as rejected."""
    max_errors: int = 100
    """The most records that `skip` omits; one more is an error."""

    def __post_init__(self) -> None:
        if self.action not in ("error", "skip"):
            raise unknown_name("error policy", self.action, ["error", "skip"])
        if self.max_errors < 0:
            raise UserError(f"max_errors is {self.max_errors}, and must not be negative.", hint="Use 0 or more.")


def escape(text: str, max_length: int = 80) -> str:
    """The beginning of a text, with unprintable characters as escapes.

    >>> print(escape("a\\tb 我\\u2028"))
    a\\tb 我\\u2028
    """
    return "".join(
        letter if letter.isprintable() and letter != "\\" else letter.encode("unicode_escape").decode()
        for letter in text[:max_length]
    )


@dataclass
class DataReport:
    """The record counts and issues of one reading: every record that was read is kept, skipped or rejected."""

    files: list[str] = field(default_factory=list)
    unit: str = "pairs"
    """The name of a record: pairs, lines of running text, tagged sentences, images, videos, or recordings."""
    read: int = 0
    kept: int = 0
    skipped: int = 0
    """Empty records, which are omitted."""
    rejected: int = 0
    """Records with an error."""
    counts: Counter[str] = field(default_factory=Counter)
    issues: dict[str, list[Issue]] = field(default_factory=dict)
    details: list[str] = field(default_factory=list)
    """Lines about the data as a whole, such as the lengths of recordings."""
    _first_errors: list[Issue] = field(default_factory=list)  # the first error of each kind, in reading order

    def add_issue(
        self, kind: str, location: Location, message: str, *, text: str = "", hint: str = "", times: int = 1
    ) -> None:
        """Count an issue (or `times` equal ones, reported as one); store it while `MAX_STORED` is not reached."""
        details = ISSUE_KINDS[kind]
        issues = self.issues.setdefault(kind, [])
        if len(issues) < MAX_STORED[details.severity]:
            issue = Issue(kind, location, message, escape(text), hint or details.hint)
            if not issues and details.severity == "error":
                self._first_errors.append(issue)
            issues.append(issue)
        self.counts[kind] += times

    def discard_issues(self, kind: str) -> None:
        """Remove all issues of a kind that does not apply to these data."""
        self.counts.pop(kind, None)
        self.issues.pop(kind, None)

    def count_severity(self, severity: Severity) -> int:
        """The number of issues of one severity."""
        return sum(count for kind, count in self.counts.items() if ISSUE_KINDS[kind].severity == severity)

    @property
    def first_error(self) -> Issue | None:
        """The error that is reported first: one that invalidates a whole file, since it may cause the others."""
        file_errors = [issue for issue in self._first_errors if ISSUE_KINDS[issue.kind].invalidates_file]
        return next(iter(file_errors + self._first_errors), None)

    def is_invalid(self, file: str) -> bool:
        """Whether a whole file cannot be used."""
        return any(
            issue.location.file == file
            for kind, issues in self.issues.items()
            if ISSUE_KINDS[kind].invalidates_file
            for issue in issues
        )

    def raise_for_errors(self, policy: ErrorPolicy) -> None:
        """Raise one `UserError` if the data cannot be used; it has the first error and the number of all others."""
        first = self.first_error
        if first is None:
            return
        location, hint = str(first.location), first.hint
        if policy.action == "error" or ISSUE_KINDS[first.kind].invalidates_file or not self.kept:
            raise UserError(f"{first.message}{self._other_errors(first)}", location=location, hint=hint)
        if self.rejected > policy.max_errors:
            counts = f"{self.rejected:,} {self.unit} have errors, and at most {policy.max_errors:,} may be skipped."
            message = f"{counts} The first: {first.message}{self._other_errors(first)}"
            raise UserError(message, location=location, hint=hint)

    def _other_errors(self, first: Issue) -> str:
        same = self.counts[first.kind] - 1
        parts = [f"and {same:,} more like it"] if same else []
        others = [kind for kind in self.counts if kind != first.kind and ISSUE_KINDS[kind].severity == "error"]
        if others:
            parts.append("also " + ", ".join(f"{self.counts[kind]:,} x {kind}" for kind in others))
        return f" ({'; '.join(parts)})" if parts else ""

    def _by_severity(self) -> list[str]:
        order = ["error", "warning", "repair"]
        return sorted(self.counts, key=lambda kind: (order.index(ISSUE_KINDS[kind].severity), -self.counts[kind]))

    def to_json(self) -> dict[str, Any]:
        """The report as it is written to `data_report.json`."""
        return {
            "files": self.files,
            "totals": {name: getattr(self, name) for name in ("read", "kept", "skipped", "rejected")},
            "details": self.details,
            "issues": [
                {
                    "kind": kind,
                    "severity": ISSUE_KINDS[kind].severity,
                    "count": self.counts[kind],
                    "share": self.counts[kind] / max(self.read, 1),
                    "hint": self.issues[kind][0].hint,
                    "items": [issue.to_json() for issue in self.issues[kind]],
                }
                for kind in self._by_severity()
            ],
        }

    def to_lines(self, shown: int = MAX_PRINTED) -> list[str]:
        """Lines for a terminal: the totals, then the first issues of each kind."""
        parts = f"{self.kept:,} kept + {self.skipped:,} skipped + {self.rejected:,} rejected"
        lines = [f"{self.read:,} {self.unit} read = {parts}", *self.details]
        for kind in self._by_severity():
            count, issues = self.counts[kind], self.issues[kind]
            location = issues[0].location
            whole_file = not location.line and location.file in self.files  # then a share of the records means nothing
            # Both texts of a pair may have an issue of one kind: more issues than records are no share of them.
            is_share = not whole_file and 0 < count <= self.read
            percentage = f" ({count / self.read:.2%} of the {self.unit})" if is_share else ""
            lines.append(f"{ISSUE_KINDS[kind].severity}: {kind}, {count:,} found{percentage}. {issues[0].hint}")
            for issue in issues[:shown]:
                quoted = f" | {issue.text}" if issue.text else ""
                lines.append(f"    {issue.location}: {issue.message}{quoted}")
            if len(issues) > shown:
                lines.append(f"    ... and {count - shown:,} more")
        return lines
