"""Puzzle talk: right answers, splits without overlap, and the same questions in every mixture."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from seq2see.core.errors import UserError
from seq2see.core.settings import read_tree
from seq2see.data.generated.puzzle_talk import HELD_OUT_SIZES, WORDINGS, PuzzleTalk
from seq2see.tasks.dialogue_scores import cases_of, exact_scores
from seq2see.training.rewards import arithmetic_value

ALL = (*WORDINGS, "name")


@pytest.fixture(scope="module")
def splits():
    return PuzzleTalk(puzzles=ALL, size=2100).splits()


def content(question: str) -> str:
    """The lists or numbers of a question, in order."""
    return "/".join(re.findall(r"\b\w(?: \w)*\b", question))


def test_the_answers_are_right(splits):
    for split in splits.values():
        for dialogue in split:
            question, answer = dialogue.messages[0].content, dialogue.messages[1].content
            items = content(question).split()
            if dialogue.topic in ("add", "subtract"):
                assert str(arithmetic_value(question)) == answer.replace(" ", "")
            elif dialogue.topic == "name":
                assert answer in WORDINGS
            else:
                assert Counter(answer.split()) == Counter(items)
                wanted = {
                    "reverse": items[::-1],
                    "rotate": items[1:] + items[:1],
                    "sort": sorted(items),
                    "descend": sorted(items)[::-1],
                }
                assert answer.split() == wanted[dialogue.topic]


def test_every_puzzle_has_its_share_and_its_own_held_out_questions(splits):
    counts = {name: Counter(each.topic for each in split) for name, split in splits.items()}
    assert counts["train"] == dict.fromkeys(ALL, 300)
    for name, size in HELD_OUT_SIZES.items():
        assert counts[name] == dict.fromkeys(ALL, size)
        questions = [each.source for each in splits[name]]
        assert len(set(questions)) == len(questions)


def test_a_puzzle_is_in_one_split_in_all_its_wordings_and_inside_a_question_about_it(splits):
    def puzzles(split: str) -> set[tuple[str, str]]:
        return {
            (each.target if each.topic == "name" else each.topic, content(each.messages[0].content))
            for each in splits[split]
        }

    train, valid, test = (puzzles(each) for each in ("train", "valid", "test"))
    assert not train & test
    assert not train & valid
    assert not valid & test


def test_the_questions_of_a_puzzle_do_not_depend_on_the_mixture(splits):
    alone = PuzzleTalk(puzzles=("sort",), size=300).splits()
    for name in ("train", "valid", "test"):
        assert alone[name] == [each for each in splits[name] if each.topic == "sort"]
    assert PuzzleTalk(puzzles=("sort",), size=1).splits()["test"] == alone["test"]


def test_a_puzzle_that_is_named_twice_has_twice_the_share():
    mixed = PuzzleTalk(puzzles=("add", "sort", "add"), size=300).splits()
    assert Counter(each.topic for each in mixed["train"]) == {"add": 200, "sort": 100}
    assert Counter(each.topic for each in mixed["test"]) == {"add": 200, "sort": 200}


def test_naming_covers_all_puzzles(splits):
    named = Counter(each.target for each in splits["test"] if each.topic == "name")
    assert named.keys() == set(WORDINGS)
    assert min(named.values()) > 15


def test_no_puzzle_at_all_is_an_error():
    with pytest.raises(UserError, match="puzzles"):
        read_tree(PuzzleTalk, {"puzzles": []})


def test_scores_count_right_answers_by_task(splits):
    cases = cases_of([each for each in splits["test"] if each.topic in ("add", "sort")])
    texts = [each.text if each.topic == "add" else f"{each.text} 1" for each in cases]
    scores = exact_scores(cases, texts)
    assert scores["replies"] == 400
    assert scores["all"]["value"] == 50
    assert {topic: each["value"] for topic, each in scores["by_topic"].items()} == {"add": 100, "sort": 0}
