"""Complaints about data: counted, listed with file and line, and never lost.

A reader does not stop at the first bad line and does not drop one silently. It tells a `DataReport`,
which keeps the books (read = kept + skipped + rejected), lists what was found, and in the end decides
whether the data may be used.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from seq2see.core.errors import UserError, unknown_name

Severity = Literal["error", "warning", "repair"]

MAX_PRINTED = 20
"""How many findings of a kind a terminal shows."""

MAX_LISTED: dict[Severity, int] = {"error": 10_000, "warning": 100, "repair": 10_000}
"""How many findings of a kind the report lists; all of them are counted."""


@dataclass(frozen=True)
class IssueKind:
    """A kind of finding: how bad it is and what to do about it."""

    severity: Severity
    hint: str
    invalidates_file: bool = False
    """True where leaving out one pair would not help: the whole file cannot be trusted."""


ISSUE_KINDS: dict[str, IssueKind] = {
    # What makes a whole file useless.
    "unreadable file": IssueKind("error", "Check the path and the file.", invalidates_file=True),
    "other encoding": IssueKind("error", "Convert the file to UTF-8.", invalidates_file=True),
    "empty file": IssueKind("error", "Give a file with at least one line.", invalidates_file=True),
    "line counts differ": IssueKind(
        "error", "Find the missing or extra line: line n translates line n.", invalidates_file=True
    ),
    "ambiguous header": IssueKind("error", "Rename one of the columns.", invalidates_file=True),
    "no pairs": IssueKind("error", "Give a file with at least one of them.", invalidates_file=True),
    "damaged set": IssueKind("error", "Copy or download it again.", invalidates_file=True),
    "no images": IssueKind(
        "error",
        "Put images (.png, .jpg, .gif, .bmp, .webp) there, into a folder a class or on a list; a split that is left "
        "out is held out.",
        invalidates_file=True,
    ),
    "one class": IssueKind("error", "Give images of other classes too, in a folder a class.", invalidates_file=True),
    "classes differ": IssueKind(
        "error",
        "Call the folders of a class alike everywhere, or leave out what was not learned.",
        invalidates_file=True,
    ),
    # What makes one pair useless.
    "invalid UTF-8": IssueKind(
        "error",
        "Repair the line, or if the whole file is in another encoding convert it, "
        "say with `iconv -f GB18030 -t UTF-8` or `iconv -f ISO-8859-1 -t UTF-8`.",
    ),
    "NUL character": IssueKind("error", "Delete it: `tr -d '\\000'` does for a whole file."),
    "byte order mark inside": IssueKind("error", "Delete it; it is usually left where files were joined."),
    "lone surrogate": IssueKind("error", "Write the character itself, or both halves of its \\u escape."),
    "over-long line": IssueKind(
        "error", "Check that the file has line ends (\\n), and break up what stands on this line."
    ),
    "empty side": IssueKind("error", "Fill it in, or leave out the whole pair."),
    "wrong column count": IssueKind(
        "error", "Give every line the same columns, with commas (.csv) or tabs between them."
    ),
    "bare quote": IssueKind("error", 'Put the whole field in quotes and double those inside: "say ""hi""".'),
    "broken JSON": IssueKind("error", 'Write one object a line: {"source": "...", "target": "..."}.'),
    "wrong type": IssueKind("error", 'Write texts in quotes: {"source": "...", "target": "..."}.'),
    "unknown phoneme": IssueKind(
        "error", "Write vowels with their stress (AH0, EY1, OW2), consonants without: HH AH0 L OW1."
    ),
    "no number": IssueKind(
        "error", "Every line must have one, written as 12.5 or 1e-3; fill gaps, or leave these lines out."
    ),
    "missing key": IssueKind("error", "Every object needs the keys source and target."),
    "duplicate key": IssueKind("error", "Keep one of the two."),
    # What makes one image useless.
    "broken image": IssueKind("error", "Copy or download it again, or delete it."),
    "no image": IssueKind("error", "Save it as PNG or JPEG, or delete it."),
    "no video": IssueKind(
        "error", "Make an animated GIF or WebP of it, or a folder of frames: `ffmpeg -i video.mp4 frames/%04d.png`."
    ),
    "too many pixels": IssueKind("error", "Shrink it."),
    "unreadable image": IssueKind("error", "Check the path and who may read it."),
    "image without a class": IssueKind("error", "Move it into the folder of its class, or list files with labels."),
    "empty class": IssueKind("error", "Put images into the folder, or delete it."),
    # What was put right, always the same way.
    "byte order mark": IssueKind("repair", "Nothing to do: it was removed from the start of the file."),
    "CRLF line ends": IssueKind("repair", "Nothing to do: the carriage return was removed."),
    "blank pair": IssueKind("repair", "Nothing to do: a pair with two empty sides was left out."),
    "other signs": IssueKind("repair", "Nothing to do: words with other signs than a-z ' - and . were left out."),
    "repeated pronunciation": IssueKind("repair", "Nothing to do: what was there before was left out."),
    "other file": IssueKind("repair", "Nothing to do: what is hidden or not called like an image was left out."),
    "other format": IssueKind("repair", "Nothing to do: it was read as what it is, whatever its name says."),
    "turned by EXIF": IssueKind("repair", "Nothing to do: it was turned as its camera says."),
    "transparent image": IssueKind("repair", "Nothing to do: it was laid over white."),
    "several frames": IssueKind("repair", "Nothing to do: the first frame was taken."),
    "one frame only": IssueKind("repair", "Nothing to do: it is shown all the time."),
    "not on the list": IssueKind("repair", "Nothing to do: what no line of the list names was left out."),
    "16-bit image": IssueKind("repair", "Nothing to do: its gray was rounded to 8 bits."),
    "CMYK colors": IssueKind("repair", "Nothing to do: they were turned into red, green and blue."),
    # What is kept as it is, but is seldom meant.
    "small image": IssueKind(
        "warning", "It was enlarged, and shows little; take a smaller source.image_size, or leave it out."
    ),
    "duplicate image": IssueKind("warning", "It was kept, and counts as often as it occurs."),
    "image in two splits": IssueKind("warning", "It is tested on what was learned: take it out of one of the two."),
    "image with two labels": IssueKind("warning", "It was kept with both; decide which is right."),
    "nothing to hold out": IssueKind("warning", "Give more, or name some to validate and to test on."),
    "class not tested": IssueKind("warning", "Nothing will be known about this class; give it images there too."),
    "folder loop": IssueKind("warning", "A link leads back to a folder it lies in; it was not followed."),
    "mixed line ends": IssueKind("warning", "The file was probably joined from two; check the seam."),
    "lone carriage return": IssueKind("warning", "It was kept in the text; it is never a line end here."),
    "unusual line separator": IssueKind("warning", "It was kept in the text; it is never a line end here."),
    "control character": IssueKind("warning", "It was kept in the text and will be learned."),
    "line break inside": IssueKind("warning", "It was kept in the text; outputs are written one a line."),
    "mojibake": IssueKind("warning", "UTF-8 was probably read as Latin-1 before it came here; convert it back."),
    "special token text": IssueKind("warning", "It is read as plain text, never as the control token."),
    "length ratio": IssueKind("warning", "Check that the two texts belong together."),
    "same source and target": IssueKind("warning", "Check that the pair is translated, if it should be."),
    "duplicate pair": IssueKind("warning", "It was kept, and counts as often as it occurs."),
    "mixed normal forms": IssueKind("warning", "Bring all files to NFC, so that equal words have equal letters."),
}


@dataclass(frozen=True)
class Location:
    """Where something stands: line and column count from 1 (0: the whole file or line), offset in bytes."""

    file: str
    line: int = 0
    column: int = 0
    offset: int = 0

    def __str__(self) -> str:
        numbers = [str(number) for number in (self.line, self.column) if number]
        return ":".join([self.file, *numbers])


@dataclass(frozen=True)
class Issue:
    """One thing that was found in the data."""

    kind: str
    place: Location
    message: str
    text: str = ""
    """The first 80 characters of what stands there, escaped."""
    hint: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data for `data_report.json`."""
        place = self.place
        return {
            "file": place.file,
            "line": place.line,
            "column": place.column,
            "offset": place.offset,
            "message": self.message,
            "text": self.text,
        }


@dataclass(frozen=True)
class ErrorPolicy:
    """What to do with a pair that cannot be used."""

    action: str = "error"
    """`error`: one bad pair stops the reading; `skip`: it is left out, and counted as rejected."""
    max_errors: int = 100
    """The most pairs that `skip` leaves out; one more is an error."""

    def __post_init__(self) -> None:
        if self.action not in ("error", "skip"):
            raise unknown_name("way to treat bad pairs", self.action, ["error", "skip"])
        if self.max_errors < 0:
            raise UserError(f"The most bad pairs cannot be {self.max_errors}.", hint="Give 0 or more.")


def escape(text: str, max_length: int = 80) -> str:
    """The beginning of a text, with whatever does not print shown as an escape.

    >>> print(escape("a\\tb 我\\u2028"))
    a\\tb 我\\u2028
    """
    return "".join(
        letter if letter.isprintable() and letter != "\\" else letter.encode("unicode_escape").decode()
        for letter in text[:max_length]
    )


@dataclass
class DataReport:
    """The books of one reading: every pair that was read is kept, skipped or rejected."""

    files: list[str] = field(default_factory=list)
    unit: str = "pairs"
    """What is counted: pairs, lines of running text, tagged sentences, images, or videos."""
    read: int = 0
    kept: int = 0
    skipped: int = 0
    """Pairs with nothing in them, left out."""
    rejected: int = 0
    """Pairs with an error."""
    counts: Counter[str] = field(default_factory=Counter)
    issues: dict[str, list[Issue]] = field(default_factory=dict)
    _first_errors: list[Issue] = field(default_factory=list)  # the first error of each kind, in reading order

    def add_issue(
        self, kind: str, place: Location, what: str, *, text: str = "", hint: str = "", times: int = 1
    ) -> None:
        """Count a finding (or `times` equal ones told as one) and list it while there is room."""
        details = ISSUE_KINDS[kind]
        listed = self.issues.setdefault(kind, [])
        if len(listed) < MAX_LISTED[details.severity]:
            finding = Issue(kind, place, what, escape(text), hint or details.hint)
            if not listed and details.severity == "error":
                self._first_errors.append(finding)
            listed.append(finding)
        self.counts[kind] += times

    def discard_issues(self, kind: str) -> None:
        """Take back all findings of a kind that means nothing in these data."""
        self.counts.pop(kind, None)
        self.issues.pop(kind, None)

    def count_severity(self, severity: Severity) -> int:
        """How many findings there are of one severity."""
        return sum(count for kind, count in self.counts.items() if ISSUE_KINDS[kind].severity == severity)

    @property
    def first_error(self) -> Issue | None:
        """The error to tell first; one that spoils a whole file explains the others."""
        spoiling = [finding for finding in self._first_errors if ISSUE_KINDS[finding.kind].invalidates_file]
        return next(iter(spoiling + self._first_errors), None)

    def is_invalid(self, file: str) -> bool:
        """Whether a whole file cannot be used."""
        return any(
            finding.place.file == file
            for kind, listed in self.issues.items()
            if ISSUE_KINDS[kind].invalidates_file
            for finding in listed
        )

    def raise_for_errors(self, policy: ErrorPolicy) -> None:
        """Raise one `UserError` if the data may not be used; it names the first error and counts the rest."""
        first = self.first_error
        if first is None:
            return
        place, hint = str(first.place), first.hint
        if policy.action == "error" or ISSUE_KINDS[first.kind].invalidates_file or not self.kept:
            raise UserError(f"{first.message}{self._other_errors(first)}", location=place, hint=hint)
        if self.rejected > policy.max_errors:
            what = (
                f"{self.rejected:,} {self.unit} are bad and at most {policy.max_errors:,} may be skipped. The first: "
            )
            raise UserError(f"{what}{first.message}{self._other_errors(first)}", location=place, hint=hint)

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
        """Plain data for `data_report.json`."""
        return {
            "files": self.files,
            "totals": {name: getattr(self, name) for name in ("read", "kept", "skipped", "rejected")},
            "findings": [
                {
                    "kind": kind,
                    "severity": ISSUE_KINDS[kind].severity,
                    "count": self.counts[kind],
                    "rate": self.counts[kind] / max(self.read, 1),
                    "hint": self.issues[kind][0].hint,
                    "listed": [finding.to_json() for finding in self.issues[kind]],
                }
                for kind in self._by_severity()
            ],
        }

    def to_lines(self, shown: int = MAX_PRINTED) -> list[str]:
        """Lines for a terminal: the totals, then the first findings of each kind."""
        parts = f"{self.kept:,} kept + {self.skipped:,} skipped + {self.rejected:,} rejected"
        lines = [f"{self.read:,} {self.unit} read = {parts}"]
        for kind in self._by_severity():
            count, issues = self.counts[kind], self.issues[kind]
            place = issues[0].place
            whole = not place.line and place.file in self.files  # of what is wrong with a file or set there is no share
            share = f" ({count / self.read:.2%} of the {self.unit})" if self.read and not whole else ""
            lines.append(f"{ISSUE_KINDS[kind].severity}: {kind}, {count:,} found{share}. {issues[0].hint}")
            for finding in issues[:shown]:
                quoted = f" | {finding.text}" if finding.text else ""
                lines.append(f"    {finding.place}: {finding.message}{quoted}")
            if len(issues) > shown:
                lines.append(f"    ... and {count - shown:,} more")
        return lines
