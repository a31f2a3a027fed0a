"""The benchmark of speech recognition, on a tiny setting."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_recipes import tiny_recipe

from seq2see.data.generated import morse

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def speech(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setattr(morse, "HELD_OUT", 8)
    import speech

    small = {"corpus.size": 12, "source.bands": 16, "training.steps": 2, "training.evaluate_every": 2}
    monkeypatch.setattr(speech, "ROWS", {"morse": lambda: tiny_recipe(None, "transcribe", **small)})
    monkeypatch.setattr(speech, "RESULTS", tmp_path / "results.json")
    return speech


def test_a_row_is_trained_scored_and_not_measured_again(speech, tmp_path, capsys):
    speech.main(["morse", "--out", str(tmp_path)])
    assert "morse seq2see: character error rate" in capsys.readouterr().out
    speech.main(["morse", "--out", str(tmp_path)])
    assert "measured already" in capsys.readouterr().out
    (tmp_path / "results.json").unlink(missing_ok=True)
    speech.main(["collect", str(tmp_path)])
    (row,) = json.loads(speech.RESULTS.read_text(encoding="utf-8"))["tables"]["errors"]["rows"]
    assert (row["row"], row["system"], row["groups resampled"]) == ("morse", "seq2see", 8)
    assert row["low"] <= row["character error %"] <= row["high"]


def test_the_latency_of_a_live_transcript_is_measured(speech, tmp_path):
    made = speech.ROWS["morse"]()
    run = speech.train_recipe(made, tmp_path / "live", speech.NullListener())
    times = speech.latency(run, made)
    assert list(times) == ["chunk, median", "chunk, 95 %", "end, median", "end, 95 %"]
    assert 0 < times["chunk, median"] <= times["chunk, 95 %"]


def test_every_row_has_a_recipe(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import speech

    for name, make in speech.ROWS.items():
        assert make().task == "transcribe", name
    assert speech.ROWS["fsdd-george"]().corpus.test_speakers == ("fsdd/george",)
    assert speech.ROWS["fsdd-george"]().corpus.max_digits == 1
