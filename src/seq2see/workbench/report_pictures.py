"""The parts of a report that only a run on pictures has: sheets of pictures."""

from __future__ import annotations

from pathlib import Path

from seq2see.workbench.report_page import picture, say
from seq2see.workbench.report_words import TEXTS
from seq2see.workbench.run_folder import RunFolder


def sheet(path: Path, name: str) -> str:
    """A picture with the note that goes with it; nothing if it was not drawn."""
    return picture(path, TEXTS[name]) + f'<p class="note">{say(f"{name}_note")}</p>' if path.exists() else ""


def looks(run: RunFolder) -> str:
    """Where a model of words looks, or one of pictures, or one of both."""
    for name in ("patches", "regions", "frames"):
        path = run.path / "attention" / f"{name}.png"
        if path.exists():
            return picture(path, TEXTS["attention"]) + f'<p class="note">{say(f"{name}_note")}</p>'
    drawn = sorted((run.path / "attention").glob("*.png"))
    shown = "".join(picture(path, TEXTS["attention"]) for path in drawn)
    return shown + f'<p class="note">{say("attention_note")}</p>' if drawn else ""
