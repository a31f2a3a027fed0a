"""Plots of recordings: Chinese names, names with dollar signs, and both kinds of letters."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from matplotlib.image import imread

from seq2see.inspection.plotting import use_chinese_font
from seq2see.inspection.sound_plots import PlottedLetter, PlottedRecording, draw_recordings


def recording(title: str, letter: str) -> PlottedRecording:
    rng = np.random.default_rng(0)
    samples, features = rng.uniform(-1, 1, 800).astype(np.float32), rng.normal(size=(7, 5)).astype(np.float32)
    letters = [PlottedLetter(letter, 0.02, 0.04)]
    return PlottedRecording(title, samples, features, 0.1, letters, letters)


def test_chinese_names_and_letters_are_drawn(tmp_path):
    if not use_chinese_font():
        pytest.skip("no Chinese font on this machine")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns of a glyph that is missing
        draw_recordings([recording("words/台.mp3", "台")], tmp_path / "recordings.png")
    assert imread(tmp_path / "recordings.png").std() > 0


def test_a_name_with_dollar_signs_is_no_formula(tmp_path):
    draw_recordings([recording("$\\frac$ and ^", "$_$")], tmp_path / "recordings.png")
    assert (tmp_path / "recordings.png").stat().st_size > 1000
