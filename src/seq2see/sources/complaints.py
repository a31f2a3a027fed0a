"""Complaints about data: counted, listed with file and line, and never lost.

A reader does not stop at the first bad line and does not drop one silently. It tells a `DataReport`,
which keeps the books (read = kept + skipped + rejected), lists what was found, and in the end decides
whether the data may be used.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from seq2see.core.errors import UserError, unknown

Severity = Literal["error", "warning", "repair"]

SHOWN = 20
"""How many findings of a kind a terminal shows."""

LISTED: dict[Severity, int] = {"error": 10_000, "warning": 100, "repair": 10_000}
"""How many findings of a kind the report lists; all of them are counted."""


@dataclass(frozen=True)
class Kind:
    """A kind of finding: how bad it is and what to do about it."""

    severity: Severity
    remedy: str
    spoils_file: bool = False
    """True where leaving out one pair would not help: the whole file cannot be trusted."""


KINDS: dict[str, Kind] = {
    # What makes a whole file useless.
    "unreadable file": Kind("error", "Check the path and the file.", spoils_file=True),
    "other encoding": Kind("error", "Convert the file to UTF-8.", spoils_file=True),
    "empty file": Kind("error", "Give a file with at least one line.", spoils_file=True),
    "line counts differ": Kind("error", "Find the missing or extra line: line n translates line n.", spoils_file=True),
    "ambiguous header": Kind("error", "Rename one of the columns.", spoils_file=True),
    "no pairs": Kind("error", "Give a file with at least one of them.", spoils_file=True),
    "damaged set": Kind("error", "Copy or download it again.", spoils_file=True),
    "no pictures": Kind(
        "error",
        "Put pictures (.png, .jpg, .gif, .bmp, .webp) there, into a folder a class or on a list; a split that is left "
        "out is held out.",
        spoils_file=True,
    ),
    "one class": Kind("error", "Give pictures of other classes too, in a folder a class.", spoils_file=True),
    "classes differ": Kind(
        "error", "Call the folders of a class alike everywhere, or leave out what was not learnt.", spoils_file=True
    ),
    # What makes one pair useless.
    "invalid UTF-8": Kind(
        "error",
        "Repair the line, or if the whole file is in another encoding convert it, "
        "say with `iconv -f GB18030 -t UTF-8` or `iconv -f ISO-8859-1 -t UTF-8`.",
    ),
    "NUL character": Kind("error", "Delete it: `tr -d '\\000'` does for a whole file."),
    "byte order mark inside": Kind("error", "Delete it; it is usually left where files were joined."),
    "lone surrogate": Kind("error", "Write the character itself, or both halves of its \\u escape."),
    "over-long line": Kind("error", "Check that the file has line ends (\\n), and break up what stands on this line."),
    "empty side": Kind("error", "Fill it in, or leave out the whole pair."),
    "wrong column count": Kind("error", "Give every line the same columns, with commas (.csv) or tabs between them."),
    "bare quote": Kind("error", 'Put the whole field in quotes and double those inside: "say ""hi""".'),
    "broken JSON": Kind("error", 'Write one object a line: {"source": "...", "target": "..."}.'),
    "wrong type": Kind("error", 'Write texts in quotes: {"source": "...", "target": "..."}.'),
    "unknown phoneme": Kind(
        "error", "Write vowels with their stress (AH0, EY1, OW2), consonants without: HH AH0 L OW1."
    ),
    "no number": Kind(
        "error", "Every line must have one, written as 12.5 or 1e-3; fill gaps, or leave these lines out."
    ),
    "missing key": Kind("error", "Every object needs the keys source and target."),
    "duplicate key": Kind("error", "Keep one of the two."),
    # What makes one picture useless.
    "broken picture": Kind("error", "Copy or download it again, or delete it."),
    "no picture": Kind("error", "Save it as PNG or JPEG, or delete it."),
    "no film": Kind(
        "error", "Make an animated GIF or WebP of it, or a folder of frames: `ffmpeg -i film.mp4 frames/%04d.png`."
    ),
    "too many pixels": Kind("error", "Shrink it."),
    "unreadable picture": Kind("error", "Check the path and who may read it."),
    "picture without a class": Kind("error", "Move it into the folder of its class, or list files with labels."),
    "empty class": Kind("error", "Put pictures into the folder, or delete it."),
    # What was put right, always the same way.
    "byte order mark": Kind("repair", "Nothing to do: it was removed from the start of the file."),
    "CRLF line ends": Kind("repair", "Nothing to do: the carriage return was removed."),
    "blank pair": Kind("repair", "Nothing to do: a pair with two empty sides was left out."),
    "other signs": Kind("repair", "Nothing to do: words with other signs than a-z ' - and . were left out."),
    "repeated pronunciation": Kind("repair", "Nothing to do: what was there before was left out."),
    "other file": Kind("repair", "Nothing to do: what is hidden or not called like a picture was left out."),
    "other format": Kind("repair", "Nothing to do: it was read as what it is, whatever its name says."),
    "turned by EXIF": Kind("repair", "Nothing to do: it was turned as its camera says."),
    "transparent picture": Kind("repair", "Nothing to do: it was laid over white."),
    "several frames": Kind("repair", "Nothing to do: the first frame was taken."),
    "one frame only": Kind("repair", "Nothing to do: it is shown all the time."),
    "not on the list": Kind("repair", "Nothing to do: what no line of the list names was left out."),
    "16-bit picture": Kind("repair", "Nothing to do: its grey was rounded to 8 bits."),
    "CMYK colours": Kind("repair", "Nothing to do: they were turned into red, green and blue."),
    # What is kept as it is, but is seldom meant.
    "small picture": Kind("warning", "It was enlarged, and shows little; take a smaller source.side, or leave it out."),
    "duplicate picture": Kind("warning", "It was kept, and counts as often as it occurs."),
    "picture in two splits": Kind("warning", "It is tested on what was learnt: take it out of one of the two."),
    "picture with two labels": Kind("warning", "It was kept with both; decide which is right."),
    "nothing to hold out": Kind("warning", "Give more, or name some to validate and to test on."),
    "class not tested": Kind("warning", "Nothing will be known about this class; give it pictures there too."),
    "folder loop": Kind("warning", "A link leads back to a folder it lies in; it was not followed."),
    "mixed line ends": Kind("warning", "The file was probably joined from two; check the seam."),
    "lone carriage return": Kind("warning", "It was kept in the text; it is never a line end here."),
    "unusual line separator": Kind("warning", "It was kept in the text; it is never a line end here."),
    "control character": Kind("warning", "It was kept in the text and will be learnt."),
    "line break inside": Kind("warning", "It was kept in the text; outputs are written one a line."),
    "mojibake": Kind("warning", "UTF-8 was probably read as Latin-1 before it came here; convert it back."),
    "special token text": Kind("warning", "It is read as plain text, never as the control token."),
    "length ratio": Kind("warning", "Check that the two texts belong together."),
    "same source and target": Kind("warning", "Check that the pair is translated, if it should be."),
    "duplicate pair": Kind("warning", "It was kept, and counts as often as it occurs."),
    "mixed normal forms": Kind("warning", "Bring all files to NFC, so that equal words have equal letters."),
}


@dataclass(frozen=True)
class Place:
    """Where something stands: line and column count from 1 (0: the whole file or line), offset in bytes."""

    file: str
    line: int = 0
    column: int = 0
    offset: int = 0

    def __str__(self) -> str:
        numbers = [str(number) for number in (self.line, self.column) if number]
        return ":".join([self.file, *numbers])


@dataclass(frozen=True)
class Finding:
    """One thing that was found in the data."""

    kind: str
    place: Place
    what: str
    text: str = ""
    """The first 80 characters of what stands there, escaped."""
    remedy: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data for `data_report.json`."""
        place = self.place
        return {
            "file": place.file,
            "line": place.line,
            "column": place.column,
            "offset": place.offset,
            "what": self.what,
            "text": self.text,
        }


@dataclass(frozen=True)
class OnBad:
    """What to do with a pair that cannot be used."""

    action: str = "error"
    """`error`: one bad pair stops the reading; `skip`: it is left out, and counted as rejected."""
    maximum: int = 100
    """The most pairs that `skip` leaves out; one more is an error."""

    def __post_init__(self) -> None:
        if self.action not in ("error", "skip"):
            raise unknown("way to treat bad pairs", self.action, ["error", "skip"])
        if self.maximum < 0:
            raise UserError(f"The most bad pairs cannot be {self.maximum}.", remedy="Give 0 or more.")


def escape(text: str, most: int = 80) -> str:
    """The beginning of a text, with whatever does not print shown as an escape.

    >>> print(escape("a\\tb 我\\u2028"))
    a\\tb 我\\u2028
    """
    return "".join(
        letter if letter.isprintable() and letter != "\\" else letter.encode("unicode_escape").decode()
        for letter in text[:most]
    )


@dataclass
class DataReport:
    """The books of one reading: every pair that was read is kept, skipped or rejected."""

    files: list[str] = field(default_factory=list)
    unit: str = "pairs"
    """What is counted: pairs, lines of running text, tagged sentences, pictures, or films."""
    read: int = 0
    kept: int = 0
    skipped: int = 0
    """Pairs with nothing in them, left out."""
    rejected: int = 0
    """Pairs with an error."""
    counts: Counter[str] = field(default_factory=Counter)
    findings: dict[str, list[Finding]] = field(default_factory=dict)
    _order: list[Finding] = field(default_factory=list)  # the first error of each kind, in reading order

    def complain(self, kind: str, place: Place, what: str, *, text: str = "", remedy: str = "", times: int = 1) -> None:
        """Count a finding (or `times` equal ones told as one) and list it while there is room."""
        details = KINDS[kind]
        listed = self.findings.setdefault(kind, [])
        if len(listed) < LISTED[details.severity]:
            finding = Finding(kind, place, what, escape(text), remedy or details.remedy)
            if not listed and details.severity == "error":
                self._order.append(finding)
            listed.append(finding)
        self.counts[kind] += times

    def forget(self, kind: str) -> None:
        """Take back all findings of a kind that means nothing in these data."""
        self.counts.pop(kind, None)
        self.findings.pop(kind, None)

    def number_of(self, severity: Severity) -> int:
        """How many findings there are of one severity."""
        return sum(count for kind, count in self.counts.items() if KINDS[kind].severity == severity)

    @property
    def first_error(self) -> Finding | None:
        """The error to tell first; one that spoils a whole file explains the others."""
        spoiling = [finding for finding in self._order if KINDS[finding.kind].spoils_file]
        return next(iter(spoiling + self._order), None)

    def spoilt(self, file: str) -> bool:
        """Whether a whole file cannot be used."""
        return any(
            finding.place.file == file
            for kind, listed in self.findings.items()
            if KINDS[kind].spoils_file
            for finding in listed
        )

    def judge(self, on_bad: OnBad) -> None:
        """Raise one `UserError` if the data may not be used; it names the first error and counts the rest."""
        first = self.first_error
        if first is None:
            return
        place, remedy = str(first.place), first.remedy
        if on_bad.action == "error" or KINDS[first.kind].spoils_file or not self.kept:
            raise UserError(f"{first.what}{self._how_many_more(first)}", where=place, remedy=remedy)
        if self.rejected > on_bad.maximum:
            what = f"{self.rejected:,} {self.unit} are bad and at most {on_bad.maximum:,} may be skipped. The first: "
            raise UserError(f"{what}{first.what}{self._how_many_more(first)}", where=place, remedy=remedy)

    def _how_many_more(self, first: Finding) -> str:
        same = self.counts[first.kind] - 1
        parts = [f"and {same:,} more like it"] if same else []
        others = [kind for kind in self.counts if kind != first.kind and KINDS[kind].severity == "error"]
        if others:
            parts.append("also " + ", ".join(f"{self.counts[kind]:,} x {kind}" for kind in others))
        return f" ({'; '.join(parts)})" if parts else ""

    def _by_severity(self) -> list[str]:
        order = ["error", "warning", "repair"]
        return sorted(self.counts, key=lambda kind: (order.index(KINDS[kind].severity), -self.counts[kind]))

    def to_json(self) -> dict[str, Any]:
        """Plain data for `data_report.json`."""
        return {
            "files": self.files,
            "totals": {name: getattr(self, name) for name in ("read", "kept", "skipped", "rejected")},
            "findings": [
                {
                    "kind": kind,
                    "severity": KINDS[kind].severity,
                    "count": self.counts[kind],
                    "rate": self.counts[kind] / max(self.read, 1),
                    "remedy": self.findings[kind][0].remedy,
                    "listed": [finding.to_json() for finding in self.findings[kind]],
                }
                for kind in self._by_severity()
            ],
        }

    def summary(self, shown: int = SHOWN) -> list[str]:
        """Lines for a terminal: the totals, then the first findings of each kind."""
        parts = f"{self.kept:,} kept + {self.skipped:,} skipped + {self.rejected:,} rejected"
        lines = [f"{self.read:,} {self.unit} read = {parts}"]
        for kind in self._by_severity():
            count, findings = self.counts[kind], self.findings[kind]
            place = findings[0].place
            whole = not place.line and place.file in self.files  # of what is wrong with a file or set there is no share
            rate = f" ({count / self.read:.2%} of the {self.unit})" if self.read and not whole else ""
            lines.append(f"{KINDS[kind].severity}: {kind}, {count:,} found{rate}. {findings[0].remedy}")
            for finding in findings[:shown]:
                quoted = f" | {finding.text}" if finding.text else ""
                lines.append(f"    {finding.place}: {finding.what}{quoted}")
            if len(findings) > shown:
                lines.append(f"    ... and {count - shown:,} more")
        return lines
