"""What is allowed in a text but seldom meant: told as a warning, never changed.

Each test is about a mistake that trains without a murmur: texts decoded twice, pairs that do not belong
together, letters written in two ways. Most lines are plain, so one quick search decides whether a text
needs a closer look at all.
"""

from __future__ import annotations

import re
import unicodedata

from seq2see.sources.data_report import DataReport, Location, escape
from seq2see.sources.lines import Line

MAX_LENGTH_RATIO = 9
"""How many times longer, in bytes, one text of a pair may be before it is suspicious."""

# The bytes 80 to BF, which continue a UTF-8 character, as Latin-1 and Windows-1252 show them.
_REST = "[\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]"

PATTERNS: dict[str, tuple[re.Pattern[str], str]] = {
    "lone carriage return": (re.compile("\r"), "A carriage return stands inside the text."),
    "unusual line separator": (
        re.compile("[\x0b\x0c\x1c-\x1f\x85\u2028\u2029]"),
        "{} stands inside the text, which other programs take for a line end.",
    ),
    "control character": (
        re.compile("[\x01-\x09\x0e-\x1b\x7f-\x84\x86-\x9f]"),
        "The control character {} stands inside the text.",
    ),
    "line break inside": (re.compile("\n"), "A line break stands inside the text."),
    # Accented letters ("Ã©"), punctuation ("â€™"), then runs of Cyrillic, Greek and Chinese. The runs must be
    # two long because one alone can be French: "é", a no-break space and "»".
    "mojibake": (
        re.compile(f"[ÂÃ]{_REST}|â[€\x80]{_REST}|(?:[ÐÑ]{_REST}){{2}}|(?:[ÎÏ]{_REST}){{2}}|(?:[ã-é]{_REST}{{2}}){{2}}"),
        "This looks like UTF-8 read as Latin-1: {}.",
    ),
    "special token text": (re.compile("</s>|<(?:pad|bos|eos|unk)>"), "The text holds {}."),
}

_SUSPECT = re.compile(f"[\x01-\x1f\x7f-\x9f\u2028\u2029<]|[ÂÃâÐÑÎÏã-é]{_REST}")


class TextChecker:
    """Looks at every pair that is kept, and remembers what only the whole corpus can show."""

    def __init__(self, report: DataReport):
        self.report = report
        self.first_locations: dict[tuple[str, str], str] = {}
        self.composed = False
        self.decomposed: list[tuple[Location, str]] = []

    def check_text(self, text: str, line: Line, column: int) -> None:
        """Test one text; `column` is where it starts in its line, 0 if it stands there in other letters."""
        if _SUSPECT.search(text):
            for kind, (pattern, what) in PATTERNS.items():
                if match := pattern.search(text):
                    place = line.place(column + match.start() if column else 0)
                    self.report.add_issue(kind, place, what.format(_quoted(match.group())), text=text)
        if not text.isascii():
            if not unicodedata.is_normalized("NFC", text):
                self.decomposed.append((line.place(), text))
            elif not self.composed:
                self.composed = not unicodedata.is_normalized("NFD", text)

    def check_pair(self, source: str, target: str, line: Line, place: str) -> None:
        """Test what two texts say about each other, and whether the pair was there before."""
        short, long = sorted((len(source), len(target)))
        # A character has one to four bytes, so most pairs need no counting of bytes.
        if 4 * long > MAX_LENGTH_RATIO * short and (ratio := _byte_ratio(source, target)) > MAX_LENGTH_RATIO:
            what = f"One text is {ratio:.1f} times as long as the other."
            self.report.add_issue("length ratio", line.place(), what, text=f"{source}\t{target}")
        if source == target:
            self.report.add_issue("same source and target", line.place(), "Both texts are equal.", text=source)
        first = self.first_locations.setdefault((source, target), place)
        if first is not place:
            what = f"The pair was there before, at {first}."
            self.report.add_issue("duplicate pair", line.place(), what, text=f"{source}\t{target}")

    def finish(self) -> None:
        """Tell what the whole corpus shows: accents written as one letter here and as two there."""
        if self.composed and self.decomposed:
            place, text = self.decomposed[0]
            times = len(self.decomposed)
            what = f"{times:,} texts, this one first, are not in the normal form NFC; others are."
            self.report.add_issue("mixed normal forms", place, what, text=text, times=times)


def _byte_ratio(source: str, target: str) -> float:
    """Length ratio in UTF-8 bytes, where a Chinese character weighs as much as the letters it stands for."""
    short, long = sorted((len(source.encode()), len(target.encode())))
    return long / max(short, 1)


def _quoted(found: str) -> str:
    """A character by its number, a longer text in quotes."""
    return f"U+{ord(found):04X}" if len(found) == 1 else f"'{escape(found)}'"
