"""Downsampling of long curves: which rows are kept, computed by hand."""

from __future__ import annotations

import math

import pytest

from seq2see.explorer.views.runs import downsample


def curve(count: int, **more) -> list[dict]:
    return [{"step": step, "loss": 1.0, **more} for step in range(count)]


def test_up_to_four_thousand_lines_are_kept():
    assert downsample(curve(4_000)) == (curve(4_000), None)
    assert downsample(curve(4_001))[1] is not None


def test_of_a_constant_curve_the_first_line_of_each_segment_and_the_last_line_are_kept():
    """A step is no metric: if nothing rises or falls, the first line of each of 1,000 segments of 5 lines is kept."""
    kept, means = downsample(curve(5_000, note="of no use", broken=math.nan))
    assert [line["step"] for line in kept] == [*range(0, 5_000, 5), 4_999]
    assert means == [{"loss": 1.0, "step": 5 * segment + 2} for segment in range(1_000)]


def test_minimum_and_maximum_are_kept_and_means_are_of_the_logged_values():
    lines = curve(5_000)
    lines[11]["loss"], lines[12]["loss"], lines[13]["valid"] = 0.5, 4.0, 3.0
    del lines[14]["loss"]
    kept, means = downsample(lines)
    assert [line["step"] for line in kept if 10 <= line["step"] < 15] == [11, 12, 13]
    assert means[2] == pytest.approx({"loss": (1.0 + 0.5 + 4.0 + 1.0) / 4, "valid": 3.0, "step": 12})
