"""The image grids and attention maps of a report."""

from __future__ import annotations

from pathlib import Path

from seq2see.runs.report_page import bilingual, image
from seq2see.runs.report_strings import TEXTS
from seq2see.runs.run_folder import RunFolder


def image_with_note(path: Path, name: str) -> str:
    """An image with its note; empty if there is no file."""
    return image(path, TEXTS[name]) + f'<p class="note">{bilingual(f"{name}_note")}</p>' if path.exists() else ""


def attention_images(run: RunFolder) -> str:
    """The attention maps of a text, image, captioning or video model."""
    for name in ("patches", "regions", "frames"):
        path = run.path / "attention" / f"{name}.png"
        if path.exists():
            return image(path, TEXTS["attention"]) + f'<p class="note">{bilingual(f"{name}_note")}</p>'
    drawn = sorted((run.path / "attention").glob("*.png"))
    shown = "".join(image(path, TEXTS["attention"]) for path in drawn)
    return shown + f'<p class="note">{bilingual("attention_note")}</p>' if drawn else ""
