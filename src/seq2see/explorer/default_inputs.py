"""What is looked at before anybody has typed anything: an example of the run's own."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from seq2see.explorer.inputs import reject_image_model
from seq2see.explorer.workspace import OpenRun
from seq2see.models.image_settings import ImageSource, VideoSource
from seq2see.models.settings import MaskedTokensNSPTarget, MaskedTokensTarget, Series
from seq2see.runs.report_examples import read_table
from seq2see.sequences.tokenizers import MASK_TEXT

DEFAULT_TEXT, DEFAULT_MASKED_TEXT = "I have a pen", f"I have a {MASK_TEXT}"
"""For models that came without examples: to go on from or to read, and to fill."""
DEFAULT_SERIES = " ".join(f"{math.sin(time / 4):.3f}" for time in range(64))
"""The same for a model of numbers: as many as it sees are read."""


def example_of(run: OpenRun, text: str = "") -> Any:
    """What a model is given to read: a text that was typed, else the first that its samples show.

    Where images are looked at, and none was given, a gray one stands in: its shapes are those of any other.
    """
    source = run.settings.source
    if isinstance(source, ImageSource):
        if text:
            reject_image_model(run)
        frames = (source.frames,) if isinstance(source, VideoSource) else ()
        return np.full((*frames, source.image_size, source.image_size, source.channels), 128, dtype=np.uint8)
    usual = (
        DEFAULT_MASKED_TEXT
        if isinstance(run.settings.target, MaskedTokensTarget | MaskedTokensNSPTarget)
        else DEFAULT_TEXT
    )
    usual = DEFAULT_SERIES if isinstance(run.settings.target, Series) else usual
    return text or next((_unescape(row[0]) for row in _samples(run)), usual)


def first_example(run: OpenRun) -> dict[str, str] | None:
    """A text of the run's own validation data and its reference, as typed, or what is usual; None of images.

    Samples name images by their files, which are no texts; what is said of one may be.
    """
    looks = isinstance(run.settings.source, ImageSource)
    if looks and not run.settings.generates:
        return None
    for text, target, *_ in _samples(run):
        return {"text": "" if looks else _unescape(text), "target": _unescape(target)}
    return None if looks else {"text": example_of(run), "target": ""}


def _samples(run: OpenRun) -> Iterator[list[str]]:
    """What the samples of a run ask, what the reference is and what was answered, the newest first.

    No more files are read than somebody wants rows of; one that is damaged, or gone by now, has none.
    """
    for path in sorted(run.folder.samples.glob("step-*.tsv"), reverse=True) if run.folder else ():
        with contextlib.suppress(FileNotFoundError, UnicodeDecodeError):
            yield from (row for row in read_table(path, 3) if row[0].strip())


def _unescape(text: str) -> str:
    """A text as it was before it was made to fit on one line of a table."""
    return text.replace("⏎", "\n").replace("⇥", "\t")
