"""Default inputs of the views: an example from the samples of the run, or a fixed text."""

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
"""The default text of models without samples, and that of masked language models."""
DEFAULT_SERIES = " ".join(f"{math.sin(time / 4):.3f}" for time in range(64))
"""The default input of forecasting models; the model reads as many of the last values as its context has."""


def example_of(run: OpenRun, text: str = "") -> Any:
    """The input of a model: the text of the user if there is one, else the first text of the samples.

    For models of images or videos it is a gray image.
    """
    source = run.settings.source
    if isinstance(source, ImageSource):
        if text:
            reject_image_model(run)
        frames = (source.frames,) if isinstance(source, VideoSource) else ()
        return np.full((*frames, source.image_size, source.image_size, source.channels), 128, dtype=np.uint8)
    default = (
        DEFAULT_MASKED_TEXT
        if isinstance(run.settings.target, MaskedTokensTarget | MaskedTokensNSPTarget)
        else DEFAULT_TEXT
    )
    default = DEFAULT_SERIES if isinstance(run.settings.target, Series) else default
    return text or next((_unescape(row[0]) for row in _samples(run)), default)


def first_example(run: OpenRun) -> dict[str, str] | None:
    """The first sample of the run (a text of the validation split and its reference) or the default; None for images.

    Samples name images by their files, which are no input texts; so an image has only a target, its caption.
    """
    has_images = isinstance(run.settings.source, ImageSource)
    if has_images and not run.settings.generates:
        return None
    for text, target, *_ in _samples(run):
        return {"text": "" if has_images else _unescape(text), "target": _unescape(target)}
    return None if has_images else {"text": example_of(run), "target": ""}


def _samples(run: OpenRun) -> Iterator[list[str]]:
    """The samples of a run (source, reference, output), the newest file first.

    The files are read lazily; damaged and missing files are skipped.
    """
    for path in sorted(run.folder.samples.glob("step-*.tsv"), reverse=True) if run.folder else ():
        with contextlib.suppress(FileNotFoundError, UnicodeDecodeError):
            yield from (row for row in read_table(path, 3) if row[0].strip())


def _unescape(text: str) -> str:
    """The original text of a table cell, with its line breaks and tabs."""
    return text.replace("⏎", "\n").replace("⇥", "\t")
