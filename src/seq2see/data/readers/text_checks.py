"""Warnings about suspicious texts, which are kept unchanged.

Each check is for a mistake that training does not reveal: texts decoded twice, pairs that do not belong
together, characters in two Unicode normalization forms. Most lines are plain, so one fast search decides whether a
text needs the detailed checks.
"""

from __future__ import annotations

import re
import unicodedata

from seq2see.data.readers.data_report import DataReport, Location, escape
from seq2see.data.readers.lines import Line

MAX_LENGTH_RATIO = 9
"""The largest ratio of the lengths (in bytes) of the two texts of a pair without a warning."""

# The bytes 80 to BF, the continuation bytes of UTF-8, decoded as Latin-1 and as Windows-1252.
_REST = "[\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]"

PATTERNS: dict[str, tuple[re.Pattern[str], str]] = {
    "lone carriage return": (re.compile("\r"), "There is a carriage return inside the text."),
    "unusual line separator": (
        re.compile("[\x0b\x0c\x1c-\x1f\x85\u2028\u2029]"),
        "{} is inside the text; other programs treat it as a line ending.",
    ),
    "control character": (
        re.compile("[\x01-\x09\x0e-\x1b\x7f-\x84\x86-\x9f]"),
        "The control character {} is inside the text.",
    ),
    "embedded line break": (re.compile("\n"), "There is a line break inside the text."),
    # Accented letters ("Ã©"), punctuation ("â€™"), then runs of Cyrillic, Greek and Chinese. The runs need at least
    # two characters, because a single one can be French: "é", a no-break space and "»".
    "mojibake": (
        re.compile(f"[ÂÃ]{_REST}|â[€\x80]{_REST}|(?:[ÐÑ]{_REST}){{2}}|(?:[ÎÏ]{_REST}){{2}}|(?:[ã-é]{_REST}{{2}}){{2}}"),
        "This looks like UTF-8 decoded as Latin-1: {}.",
    ),
    "special token text": (re.compile("</s>|<(?:pad|bos|eos|unk)>"), "The text contains {}."),
}

_SUSPECT = re.compile(f"[\x01-\x1f\x7f-\x9f\u2028\u2029<]|[ÂÃâÐÑÎÏã-é]{_REST}")


class TextChecker:
    """Checks every pair that is kept, and collects what can only be checked over the whole corpus."""

    def __init__(self, report: DataReport):
        self.report = report
        self.first_locations: dict[tuple[str, str], str] = {}
        self.composed = False
        self.decomposed: list[tuple[Location, str]] = []

    def check_text(self, text: str, line: Line, column: int) -> None:
        """Check one text; `column` is its first column in the line, 0 if it is quoted or escaped there."""
        if _SUSPECT.search(text):
            for kind, (pattern, message) in PATTERNS.items():
                if match := pattern.search(text):
                    location = line.location(column + match.start() if column else 0)
                    self.report.add_issue(kind, location, message.format(_quoted(match.group())), text=text)
        if not text.isascii():
            if not unicodedata.is_normalized("NFC", text):
                self.decomposed.append((line.location(), text))
            elif not self.composed:
                self.composed = not unicodedata.is_normalized("NFD", text)

    def check_pair(self, source: str, target: str, line: Line, location: str) -> None:
        """Check the length ratio of two texts, whether they are equal, and whether the pair is a duplicate."""
        short, long = sorted((len(source), len(target)))
        # A character has one to four bytes, so the bytes of most pairs need not be counted.
        if 4 * long > MAX_LENGTH_RATIO * short and (ratio := _byte_ratio(source, target)) > MAX_LENGTH_RATIO:
            message = f"One text is {ratio:.1f} times as long as the other."
            self.report.add_issue("length ratio", line.location(), message, text=f"{source}\t{target}")
        if source == target:
            self.report.add_issue("identical source and target", line.location(), "Both texts are equal.", text=source)
        first = self.first_locations.setdefault((source, target), location)
        if first is not location:
            message = f"The same pair is at {first}."
            self.report.add_issue("duplicate pair", line.location(), message, text=f"{source}\t{target}")

    def finish(self) -> None:
        """Check the whole corpus: accented letters that are one character in some texts and two in others."""
        if self.composed and self.decomposed:
            location, text = self.decomposed[0]
            times = len(self.decomposed)
            message = f"{times:,} texts are not in the normalization form NFC (this is the first), others are."
            self.report.add_issue("mixed Unicode normalization", location, message, text=text, times=times)


def _byte_ratio(source: str, target: str) -> float:
    """Length ratio in UTF-8 bytes: a Chinese character has three bytes, like the letters that it replaces."""
    short, long = sorted((len(source.encode()), len(target.encode())))
    return long / max(short, 1)


def _quoted(text: str) -> str:
    """A single character as its code point, a longer text in quotes."""
    return f"U+{ord(text):04X}" if len(text) == 1 else f"'{escape(text)}'"
