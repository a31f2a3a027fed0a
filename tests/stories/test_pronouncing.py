"""Grapheme-to-phoneme conversion from a dictionary to its scores, in a phonetically spelt language."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import pytest

from seq2see.cli.evaluate import print_scores
from seq2see.metrics.speech_errors import pronunciation_errors
from seq2see.recipes.registry import recipe
from seq2see.runs.evaluate import evaluate
from seq2see.runs.report import write_report
from seq2see.runs.run_folder import RunFolder, read_scores
from seq2see.runs.train import train_recipe
from seq2see.tasks import text_scores
from seq2see.tasks.task import task_named
from seq2see.tasks.text_scores import score_outputs

SOUNDS = {"b": "B", "d": "D", "f": "F", "k": "K", "a": "AA1", "o": "OW1", "u": "UW1"}
SMALL = {
    "encoder.width": 32, "decoder.width": 32, "encoder.depth": 1, "decoder.depth": 1, "encoder.dropout": 0.0,
    "decoder.dropout": 0.0, "training.steps": 180, "training.evaluate_every": 90, "training.batch_tokens": 256,
    "training.learning_rate": 1e-2, "training.schedule.warmup": 20, "training.average.decay": 0.9,
}  # fmt: skip


def pronunciation(word: str) -> str:
    return " ".join(SOUNDS[letter] for letter in word)


@pytest.fixture(scope="module")
def references() -> list[Sequence[Sequence[str]]]:
    """The references of all evaluations."""
    return []


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, references: list) -> Iterator[RunFolder]:
    """A run on 288 words such as `bako`; long words that start with `b` have a second pronunciation."""
    folder = tmp_path_factory.mktemp("data")
    short = ["".join(letters) for letters in product("bdfk", "aou", "bdfk", "aou")]
    lines = [f"{word} {pronunciation(word)}\n" for word in short + [word + word[:2] for word in short]]
    lines += [f"{word}{word[:2]}(2) {pronunciation(word + word[:2])} D\n" for word in short if word.startswith("b")]
    (folder / "cmudict").mkdir()
    (folder / "cmudict" / "cmudict.dict").write_text("".join(lines), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQ2SEE_DATA", str(folder))
        finished = train_recipe(recipe("g2p").with_(**SMALL), tmp_path_factory.mktemp("runs") / "g2p")

        def recording(outputs, all_references):
            references.append(all_references)
            return pronunciation_errors(outputs, all_references)

        patch.setattr(text_scores, "pronunciation_errors", recording)
        evaluate(finished)
        yield finished


def test_unseen_words_are_pronounced_as_they_are_spelt(run: RunFolder):
    scores = read_scores(run)
    assert scores["test"]["pairs"] == 288 // 20
    assert scores["test"]["pronunciation"]["word_error_rate"] < 50
    rows = [line.split("\t") for line in (run.evaluation / "test.tsv").read_text().splitlines()[1:]]
    assert sum(output == pronunciation(source) for source, _, output, *_ in rows) > 7


def test_an_evaluation_uses_all_pronunciations_of_a_word(run: RunFolder, references: list):
    (all_references,) = references
    both = [(first, second) for first, *others in all_references for second in others]
    assert both
    assert all(second == f"{first} D" for first, second in both)


def test_the_error_rates_are_shown_on_the_terminal_and_in_the_report(run: RunFolder, capsys):
    part = {
        "pairs": 7,
        "pronunciation": {
            "word_error_rate": 12.34, "phoneme_error_rate": 3.21,
            "word_error_rate_with_stress": 45.67, "phoneme_error_rate_with_stress": 6.54,
        },
    }  # fmt: skip
    truth = {"per_token": 1.5, "bits_per_character": 0.7, "token_accuracy": 91.0}
    print_scores(task_named("translate"), "runs/g2p", {"test": part, "perplexity": truth})
    shown = " ".join(capsys.readouterr().out.split())  # lines are wrapped at 80 columns
    assert "test: word error rate 12.3 %, phoneme error rate 3.2 % (with stress 45.7 % and 6.5 %)" in shown
    assert "BLEU" not in shown
    page = Path(write_report(run)).read_text(encoding="utf-8")
    assert "word error rate %, with stress" in page
    assert "音素错误率 %" in page


def test_every_pronunciation_of_a_word_is_correct():
    outputs, first = ["EY1", "K AE1 T"], ["AH0", "K AE1 T"]
    chosen = recipe("g2p").metrics
    assert score_outputs(chosen, first, outputs)["pronunciation"]["word_error_rate"] == 50
    references = [("AH0", "EY1"), ("K AE1 T",)]
    assert score_outputs(chosen, first, outputs, references)["pronunciation"]["word_error_rate"] == 0
    scores = score_outputs(recipe("translate").metrics, first, outputs, references)
    assert scores.keys() == {"pairs", "bleu", "chrf", "exact_match"}
