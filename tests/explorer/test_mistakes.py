"""The tables of an evaluation, as the view "Mistakes" gets them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from seq2see.core.errors import UserError
from seq2see.core.files import write_json, write_text
from seq2see.explorer.views.runs import row_fields, without_paths
from seq2see.runs.evaluate import SORT_KEYS, confusion, evaluated_rows, filter_rows, splits
from seq2see.runs.run_folder import RunFolder
from seq2see.tasks.task import task_named

TEXTS = """source\treference\toutput\tchrf\tscore
我有一支笔\tI have a pen\tI have a pen\t100.00\t-0.1000
你有书\tyou have books\tyou had pens\t31.00\t-0.2000
他来\the comes\tshe comes\t31.00\t-4.5000
"""
LABELS = """text\tlabel\tanswer\tprobability
good food\tpos\tpos\t0.9000
bad food\tneg\tpos\t0.8000
no food\tneg\tpos\t0.9900
fine\tpos\tneg\t0.5000
"""
TAGS = """text\tlabel\tanswer\tprobability
I see\tI/PRON see/VERB\tI/PRON see/NOUN\t0.5000
saws saw\tsaws/NOUN saw/VERB\tsaws/NOUN saw/VERB\t0.9000
"""


def model_of(task, *labels):
    return SimpleNamespace(task=task_named(task), tokenizers=SimpleNamespace(labels=labels, source=Letters()))


class Letters:
    """A tokenizer whose tokens are letters; the first is a space."""

    def __len__(self):
        return 3

    def tokens(self, ids):
        return ["▁ab"[number] for number in ids]

    def decode(self, ids):
        return "".join(" ab"[number] for number in ids)


TEXT, RUNNING = model_of("translate"), model_of("write")
LABEL, TAG = model_of("classify-text", "neg", "pos"), model_of("tag", "NOUN", "PRON", "VERB")


@pytest.fixture
def run(tmp_path):
    folder = RunFolder(tmp_path / "a-run")
    write_text(folder.evaluation / "test.tsv", TEXTS)
    write_text(folder.evaluation / "roles-predictions.tsv", LABELS)
    write_text(folder.evaluation / "tags-predictions.tsv", TAGS)
    write_json(folder.evaluation / "token_losses.json", [{"tokens": ["a", "▁", "b"], "losses": [1.0, 2.0, 6.0]}])
    write_json(folder.evaluation / "scores.json", {})
    return folder


def numbers(rows, order):
    return [row.number for row in sorted(rows, key=SORT_KEYS[order])]


def test_the_test_split_comes_first(run):
    assert list(splits(run)) == ["test", "roles", "tags", "token_losses"]


def test_of_equally_bad_answers_the_most_confident_are_the_worst(run):
    rows = evaluated_rows(run, TEXT, "test")
    assert numbers(rows, "worst") == [1, 2, 0]
    assert numbers(rows, "best") == [0, 1, 2]
    assert numbers(rows, "least-confident") == [2, 1, 0]
    assert numbers(evaluated_rows(run, LABEL, "roles"), "worst") == [2, 1, 3, 0]


def test_differences_are_marked(run):
    row = row_fields(evaluated_rows(run, TEXT, "test")[1])
    assert [part for part in row["answer"] if part[1]] == [("had", True), ("pens", True)]
    assert not row["correct"]
    assert row_fields(evaluated_rows(run, TEXT, "test")[0])["correct"]


def test_a_cell_of_the_confusion_matrix_has_the_counted_number_of_rows(run):
    rows = evaluated_rows(run, LABEL, "roles")
    found = confusion(rows, LABEL)
    assert found.counts == ((0, 2), (1, 1))
    for row, truth in enumerate(found.labels):
        for column, answer in enumerate(found.labels):
            assert len(filter_rows(rows, LABEL, (truth, answer), "")) == found.counts[row][column]


def test_tags_are_counted_word_by_word(run):
    rows = evaluated_rows(run, TAG, "tags")
    assert confusion(rows, TAG).counts == ((1, 0, 0), (0, 1, 0), (1, 0, 1))
    assert [row.number for row in filter_rows(rows, TAG, ("VERB", "NOUN"), "")] == [0]
    assert rows[0].quality == 0.5


def test_a_search_covers_texts_references_and_answers(run):
    rows = evaluated_rows(run, TEXT, "test")
    assert [row.number for row in filter_rows(rows, LABEL, None, "HAD")] == [1]
    assert [row.number for row in filter_rows(rows, LABEL, None, "他")] == [2]


def test_running_text_has_the_loss_of_each_token(run):
    (row,) = evaluated_rows(run, RUNNING, "token_losses")
    assert (row.text, row.quality, row.losses) == ("a b", -3.0, (1.0, 2.0, 6.0))


def test_a_run_without_evaluation_has_a_hint(tmp_path):
    with pytest.raises(UserError, match="seq2see eval nothing") as error:
        evaluated_rows(RunFolder(tmp_path / "nothing"), LABEL, "test")
    assert str(tmp_path) not in str(error.value)


def test_an_image_is_named_by_its_folder_and_file_without_its_path(run):
    line = f"{run.path}/photos/cat/3.png\tneg\tpos\t0.9000\n"
    write_text(run.evaluation / "test-predictions.tsv", f"text\tlabel\tanswer\tprobability\n{line}")
    (run.evaluation / "test.tsv").unlink()
    model = model_of("classify-image", "neg", "pos")
    (row,) = without_paths(evaluated_rows(run, model, "test"), model)
    assert row.text == "cat/3.png"


def test_no_split_is_a_path_outside_the_folder(run):
    with pytest.raises(UserError, match="no table"):
        evaluated_rows(run, LABEL, "../recipe")
