"""Plots of recordings: the wave, the spectrogram, and the letters at their times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from seq2see.inspection.plotting import label_text, save_figure, use_chinese_font

TEXT_COLOR, ALIGNED, TRUE = "#1a1a1a", "#d95f02", "#1b6ca8"
WIDTH, ROW_HEIGHT, RESOLUTION = 10.0, 1.9, 110
BINS = 1000
"""Points of the wave: each is the smallest and the largest sample of a part of it."""


@dataclass(frozen=True)
class PlottedLetter:
    """A letter, and its start and end in seconds."""

    text: str
    start: float
    end: float


@dataclass(frozen=True)
class PlottedRecording:
    """One recording: its samples, its spectrogram, and letters."""

    title: str
    samples: NDArray[np.float32]
    features: NDArray[np.float32]  # (frame, band)
    seconds: float
    letters: Sequence[PlottedLetter] = ()
    """The letters of the model."""
    true_letters: Sequence[PlottedLetter] = ()
    """The letters as they were spoken or keyed, if their times are known."""


def envelope(samples: NDArray[np.float32], bins: int = BINS) -> NDArray[np.float32]:
    """(2, bin): the smallest and the largest sample of each of the equal parts of a recording.

    >>> envelope(np.array([0, 1, -2, 0], np.float32), 2).tolist()
    [[0.0, -2.0], [1.0, 0.0]]
    """
    edges = np.linspace(0, len(samples), min(bins, len(samples)) + 1).astype(int)
    parts = [samples[start:end] for start, end in pairwise(edges)]
    return np.array([[part.min() for part in parts], [part.max() for part in parts]], np.float32)


def draw_recordings(recordings: Sequence[PlottedRecording], path: Path) -> None:
    """Draw the wave, the spectrogram and the letters of each recording, one below the other."""
    has_chinese_font = use_chinese_font()  # names of files and syllables may be Chinese
    figure = Figure(figsize=(WIDTH, ROW_HEIGHT * len(recordings)), dpi=RESOLUTION, layout="constrained")
    ratios = [0.5, 1.0] * len(recordings)
    axes = figure.subplots(2 * len(recordings), 1, gridspec_kw={"height_ratios": ratios}, squeeze=False)[:, 0]
    for wave, spectrogram, recording in zip(axes[::2], axes[1::2], recordings, strict=True):
        _draw_wave(wave, recording)
        _draw_spectrogram(spectrogram, recording)
        wave.sharex(spectrogram)
    if len(axes):
        axes[-1].set_xlabel(label_text("seconds", has_chinese_font), fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_figure(figure, path)


def _draw_wave(axes: Axes, recording: PlottedRecording) -> None:
    low, high = envelope(recording.samples)
    times = np.linspace(0, recording.seconds, len(low))
    axes.fill_between(times, low, high, color="#8a8a8a", linewidth=0)
    axes.set_title(recording.title, fontsize=8, loc="left", color=TEXT_COLOR, parse_math=False)
    axes.set_yticks([])
    axes.tick_params(labelbottom=False, length=0)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    for letter in recording.true_letters:
        axes.axvspan(letter.start, letter.end, color=TRUE, alpha=0.12, linewidth=0)
        middle = (letter.start + letter.end) / 2
        axes.annotate(
            letter.text,
            (middle, 1),
            xycoords=("data", "axes fraction"),
            ha="center",
            va="top",
            fontsize=7,
            color=TRUE,
            parse_math=False,
        )


def _draw_spectrogram(axes: Axes, recording: PlottedRecording) -> None:
    extent = (0.0, recording.seconds, 0.0, float(recording.features.shape[1]))
    axes.imshow(recording.features.T, origin="lower", aspect="auto", cmap="Greys", extent=extent)
    axes.set_yticks([])
    axes.tick_params(labelsize=7)
    for letter in recording.letters:
        axes.axvspan(letter.start, letter.end, color=ALIGNED, alpha=0.3, linewidth=0)
        middle = (letter.start + letter.end) / 2
        axes.annotate(
            letter.text, (middle, 1), xycoords=("data", "axes fraction"), ha="center", va="top",
            fontsize=8, color=ALIGNED, weight="bold", parse_math=False,
            path_effects=[withStroke(linewidth=2, foreground="white")],  # readable where the spectrogram is dark
        )  # fmt: skip
