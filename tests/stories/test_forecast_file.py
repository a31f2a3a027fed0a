"""`predict RUN --file sales.csv --steps 30`: values beyond the end of the user's own table."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import numpy as np
import pytest

from seq2see.cli.app import run as command
from seq2see.data.readers.number_series import read_dates
from seq2see.runs.forecast_file import _interval, future_times


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of a line with a wave of 7 days, and a run that was trained on it."""
    folder = tmp_path_factory.mktemp("sales")
    first = datetime(2024, 1, 1)
    lines = [f"{(first + timedelta(days=day)).date()};{10 + day % 7},5" for day in range(200)]
    (folder / "sales.csv").write_text("\n".join(["date;sales", *lines]) + "\n")
    settings = ["training.steps=150", "training.learning_rate=0.01", "decoder.context=7", "training.batch_tokens=256"]
    changes = [part for setting in settings for part in ("--set", setting)]
    assert command(["train", "forecast", str(folder / "sales.csv"), "--out", str(folder / "run"), *changes]) == 0
    return folder


def test_the_next_days_are_printed_with_dates_and_an_interval(folder, capsys):
    assert command(["predict", str(folder / "run"), "--file", str(folder / "sales.csv"), "--steps", "9"]) == 0
    header, *rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert header == ["time", "value", "low 10 %", "high 90 %"]
    assert [row[0] for row in rows[:2]] == ["2024-07-19", "2024-07-20"]
    assert len(rows) == 9
    for number, (_, value, low, high) in enumerate(rows):
        assert float(low) <= float(high)
        assert abs(float(value) - (10.5 + (200 + number) % 7)) < 2
    arguments = ["--file", str(folder / "sales.csv"), "--steps", "1", "--json"]
    assert command(["predict", str(folder / "run"), *arguments]) == 0
    assert json.loads(capsys.readouterr().out)["time"] == "2024-07-19"


@pytest.mark.parametrize("more", [["--steps", "3"], ["--steps", "0", "--file", "sales.csv"]])
def test_a_missing_table_and_no_steps_are_refused(folder, capsys, monkeypatch, more):
    monkeypatch.chdir(folder)
    assert command(["predict", "run", *more]) == 2
    assert "--steps" in capsys.readouterr().err


def test_the_interval_is_of_the_errors_at_each_distance():
    values, origins = np.arange(20.0), np.arange(4, 20)
    predicted = np.stack([values[origins] + 1, values[origins] - 3], axis=1)  # errors -1, and 4 one step later
    low, high = _interval(values, origins, predicted)
    assert low.tolist() == high.tolist() == [-1, 4]
    assert np.isnan(_interval(values, origins[:3], predicted[:3])[0]).all()


def test_dates_at_irregular_distances_are_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("a,day\n1,2024-01-01\n2,2024-01-02\n3,2024-01-09\n")
    dates = read_dates(tmp_path / "a.csv")
    assert dates[2] == datetime(2024, 1, 9)
    assert future_times(dates, 3, 1) == ["4"]
    assert future_times(dates[:2], 2, 1) == ["2024-01-03"]
    (tmp_path / "b.csv").write_text("1,-2\n3,4\n")
    assert read_dates(tmp_path / "b.csv") == []
