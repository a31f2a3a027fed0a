"""Every experiment runs on a tiny size, and every claim has an experiment or a reason."""

from __future__ import annotations

import json
import math
import re

import pytest

from seq2see.cli.app import run
from seq2see.core.errors import UserError
from seq2see.labs.claims import CLAIMS, EXPERIMENTS, NOTES, UNTESTED, find_claim
from seq2see.labs.experiment import Measurement, mean_lines, run_experiment, summarize
from seq2see.labs.registry import experiment_of
from seq2see.labs.result_plot import draw_result
from seq2see.labs.results import claim_lines, read_result, result_lines, state_of
from seq2see.labs.verdicts import Verdict

IDS = list(EXPERIMENTS)
LONG = {"C36", "C81"}
CHINESE = re.compile(r"[\u4e00-\u9fff]")


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long) if name in LONG else name for name in IDS])
def test_an_experiment_runs_on_a_tiny_size(name, tmp_path):
    claim = find_claim(name)
    experiment, seeds = experiment_of(claim), []
    result = run_experiment(experiment, experiment.tiny, 2, seeds.append)
    assert seeds == [1, 1]
    assert result["claim"] == name
    assert Verdict(result["verdict"])
    for row in result["quantities"]:
        assert len(row["values"]) == 2
        assert row["low"] <= row["estimate"] <= row["high"] or math.isnan(row["estimate"])
    assert sum(row["decisive"] for row in result["quantities"]) == len(experiment.decisive) > 0
    assert bool(result["lines"]) <= (experiment.axes is not None), "lines need axes"
    draw_result(claim, result, experiment.axes, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 10_000
    for language in (0, 1):
        assert len(result_lines(result, language)) == 2 * len(result["quantities"]) + 1


@pytest.mark.parametrize("name", IDS)
def test_the_prediction_is_fixed_in_the_file(name):
    experiment = experiment_of(find_claim(name))
    assert experiment.claim == name
    assert experiment.size.keys() == experiment.tiny.keys()
    assert experiment.seeds >= 4
    for english, chinese in (experiment.prediction, experiment.would_change):
        assert len(english) > 20
        assert CHINESE.search(chinese)
        assert not CHINESE.search(english)
    quantities = (*experiment.decisive, *experiment.additional)
    assert len({each.name for each in quantities}) == len(quantities)
    for each in quantities:
        assert CHINESE.search(each.title[1])


@pytest.mark.parametrize("name", ["C34", "C42", "C02", "C67"])
def test_a_measurement_depends_on_its_seed_alone(name):
    experiment = experiment_of(find_claim(name))
    first, second, other = (experiment.measure(seed, **experiment.tiny).values for seed in (1, 1, 2))
    assert first == second
    assert name == "C34" or first != other


def test_every_claim_has_an_experiment_or_a_reason():
    ids = [claim.id for claim in CLAIMS]
    assert ids == [f"C{number:02}" for number in range(1, 83)]
    assert sorted([*EXPERIMENTS, *UNTESTED]) == ids
    assert len({claim.name for claim in CLAIMS}) == 82
    assert all(claim.quote and claim.english and 0 <= claim.note < len(NOTES) for claim in CLAIMS)
    assert all(CHINESE.search(chinese) and english.endswith(".") for english, chinese in UNTESTED.values())


def test_another_prediction_or_threshold_is_another_registration():
    from dataclasses import replace

    experiment = experiment_of(find_claim("C34"))
    hashes = {
        each.registration_hash()
        for each in (
            experiment,
            replace(experiment, prediction=("other", "其他")),
            replace(experiment, expected=Verdict.DOES_NOT_HOLD),
            replace(experiment, seeds=7),
            replace(experiment, size={"max_length": 5}),
            replace(experiment, decisive=(replace(experiment.decisive[0], threshold=1.0),)),
        )
    }
    assert len(hashes) == 6


def test_the_decisive_quantities_share_the_confidence():
    experiment = experiment_of(find_claim("C39"))
    values = [dict.fromkeys(("salient", "nearest", "kernel"), number) for number in (1.0, 2.0, 3.0)]
    row = summarize(experiment, values)[0]
    assert (row["estimate"], row["high"] - 2) == (2, pytest.approx(4.3027 / 3**0.5, rel=1e-4))


def test_lines_have_mean_minimum_and_maximum_of_the_seeds():
    lines = mean_lines([{"a": ((1, 2), (3.0, 5.0))}, {"a": ((1, 2), (5.0, 9.0))}])
    assert lines == {"a": {"x": [1, 2], "mean": [4, 7], "low": [3, 5], "high": [5, 9]}}


@pytest.fixture
def small_experiment(monkeypatch):
    """C34 at a tiny size; counts its measurements."""
    from dataclasses import replace

    from seq2see.labs import brevity_penalty

    counted = []

    def measure(seed, max_length):
        counted.append(seed)
        return Measurement({"difference": 0.0}, {"min": ((1, 2), (0.5, 1.0))})

    changed = replace(brevity_penalty.LABS["C34"], measure=measure, seeds=3)
    monkeypatch.setitem(brevity_penalty.LABS, "C34", changed)
    return counted


def test_a_claim_is_tested_once_and_again_on_request(small_experiment, tmp_path, capsys):
    out = ["--out", str(tmp_path)]
    assert run(["lab", "brevity-penalty", *out]) == 0
    printed = capsys.readouterr().out
    for part in ("C34", "prediction, written before the run", "3 cases", "holds", "what would change the verdict"):
        assert part in printed
    stored = json.loads((tmp_path / "C34.json").read_text(encoding="utf-8"))
    assert (stored["verdict"], stored["seeds"]) == ("holds", [1, 2, 3])
    assert {"torch", "python", "device", "threads"} <= stored["environment"].keys()
    assert (tmp_path / "C34.png").exists()
    assert run(["lab", "c34", *out, "--language", "zh"]) == 0
    assert "成立" in capsys.readouterr().out
    assert len(small_experiment) == 3
    assert run(["lab", "C34", *out, "--again"]) == 0
    assert len(small_experiment) == 6


def test_a_result_of_another_prediction_is_not_used(small_experiment, tmp_path):
    out = ["--out", str(tmp_path)]
    run(["lab", "C34", *out])
    path = tmp_path / "C34.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(stored | {"registration": "0"}), encoding="utf-8")
    run(["lab", "C34", *out])
    assert len(small_experiment) == 6


def test_all_resumes_after_an_interruption(small_experiment, tmp_path, monkeypatch, capsys):
    from seq2see.labs import claims

    monkeypatch.setattr(claims, "EXPERIMENTS", {"C34": "brevity_penalty", "C41": "attention_weights"})
    for _ in range(2):
        assert run(["lab", "all", "--out", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"C34.json", "C34.png", "C41.json", "C41.png"}
    assert len(small_experiment) == 3
    assert capsys.readouterr().out.count("stored result") == 2


def test_the_list_shows_every_claim_and_the_stored_verdicts(small_experiment, tmp_path, capsys):
    run(["lab", "C34", "--out", str(tmp_path)])
    capsys.readouterr()
    assert run(["lab", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert all(claim.id in printed for claim in CLAIMS)
    (line,) = (line for line in printed.splitlines() if line.startswith("C34"))
    assert line.split()[-1] == "holds"
    assert "no experiment" in printed


def test_a_claim_without_an_experiment_says_why(capsys):
    assert run(["lab", "C82"]) == 0
    assert "human vision" in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["C99"], "There is no claim 'C99'."),
        (["gradient-clip"], "Did you mean 'gradient-clipping'?"),
        (["C34", "--language", "fr"], "There is no language 'fr'."),
    ],
)
def test_a_wrong_word_is_a_user_error(words, message, capsys):
    assert run(["lab", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"verdict": "perhaps"}', "1"])
def test_a_broken_result_is_a_user_error(content, tmp_path):
    (tmp_path / "C34.json").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match="This is not the result of an experiment"):
        read_result(tmp_path, find_claim("C34"))


def test_the_words_of_a_claim_are_those_of_the_notes():
    lines = claim_lines(find_claim("C53"))
    assert lines[1] == "“Attention会把输入序列的顺序打乱”"
    assert lines[3] == "in English: attention shuffles the order of its input"
    assert len(claim_lines(find_claim("C53"), 1)) == 3
    assert state_of(find_claim("C82"), None) == "no experiment"
