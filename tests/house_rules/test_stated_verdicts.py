"""Verdicts on the pages: each has a stored result, of the prediction that is in the source today."""

from __future__ import annotations

import json
import shutil
import sys

import pytest
from source_tree import ROOT, project_files

sys.path.append(str(ROOT / "docs"))

import experiments
from languages import chinese, english

RESULTS = ROOT / "benchmarks" / "results" / "labs"


def test_every_verdict_on_a_page_has_a_stored_result():
    wrong = [
        f"{page.name}: {each}"
        for page in project_files()
        if page.suffix == ".md"
        for each in experiments.wrong_verdicts(page.read_text(encoding="utf-8"), RESULTS)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_stored_result_is_of_todays_prediction():
    stored = experiments.results_in(RESULTS)
    assert len(stored) >= 25
    assert not [name for name, result in stored.items() if experiments.is_stale(name, result)]


@pytest.fixture
def copied_results(tmp_path):
    shutil.copy(RESULTS / "C34.json", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("`seq2see lab C34`: holds", ""),
        ("`seq2see lab C34`：成立", ""),
        ("`seq2see lab C34`: does not hold", "C34: the stored verdict is “holds”"),
        ("`seq2see lab C34`：不成立", "C34: the stored verdict is “holds”"),
        ("`seq2see lab C36`: holds", "C36: there is no stored result"),
    ],
)
def test_a_verdict_without_its_result_is_noticed(copied_results, text, message):
    assert list(experiments.wrong_verdicts(f"| a | {text} |", copied_results)) == ([message] if message else [])


def test_a_result_of_another_prediction_is_noticed(copied_results):
    path = copied_results / "C34.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"registration": "0"}), encoding="utf-8")
    (wrong,) = experiments.wrong_verdicts("`seq2see lab C34`: holds", copied_results)
    assert "another prediction" in wrong


def test_the_table_has_estimate_interval_and_verdict_in_both_languages(copied_results):
    tables = [experiments.verdicts_table(translate, copied_results) for translate in (english, chinese)]
    (row,) = tables[0].splitlines()[2:]
    assert row == (
        "| C34 both forms of the brevity penalty are equal: **holds** | largest difference of the two forms | 0.000 | "
        "200 cases | always ≤ 1e-12 | holds |"
    )
    assert "**成立** | 两式的最大差 | 0.000 |" in tables[1]
    assert "1 hold, 0 do not, and 0 cannot be decided" in experiments.counts_sentence(english, copied_results)
    assert experiments.unexpected_list(english, copied_results) == "–"
