"""The parts of a report that only a run on images has: sheets of images."""

from __future__ import annotations

from pathlib import Path

from seq2see.runs.report_page import bilingual, image
from seq2see.runs.report_strings import TEXTS
from seq2see.runs.run_folder import RunFolder


def image_with_note(path: Path, name: str) -> str:
    """An image with the note that goes with it; nothing if it was not drawn."""
    return image(path, TEXTS[name]) + f'<p class="note">{bilingual(f"{name}_note")}</p>' if path.exists() else ""


def attention_images(run: RunFolder) -> str:
    """Where a model of words looks, or one of images, or one of both."""
    for name in ("patches", "regions", "frames"):
        path = run.path / "attention" / f"{name}.png"
        if path.exists():
            return image(path, TEXTS["attention"]) + f'<p class="note">{bilingual(f"{name}_note")}</p>'
    drawn = sorted((run.path / "attention").glob("*.png"))
    shown = "".join(image(path, TEXTS["attention"]) for path in drawn)
    return shown + f'<p class="note">{bilingual("attention_note")}</p>' if drawn else ""
