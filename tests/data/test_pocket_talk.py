"""Pocket talk: what is asked for stands in an earlier message, and no combination of facts is in two splits."""

from __future__ import annotations

from collections import Counter

import pytest

from seq2see.data.generated.pocket_talk import LANGUAGES, MAX_DISTANCE, SIZES, PocketTalk, combination_split
from seq2see.metrics.dialogue import words_in
from seq2see.tasks.dialogue_scores import cases_of, recall_scores


@pytest.fixture(scope="module", params=["en", "zh"])
def splits(request):
    return request.param, PocketTalk(language=request.param, size=400).splits()


def test_the_answer_is_in_the_message_that_the_distance_names(splits):
    for dialogue in splits[1]["test"]:
        assert dialogue.probes
        for probe in dialogue.probes:
            assert probe.answer in dialogue.messages[probe.index].content
            question = probe.index - 1
            stated = dialogue.messages[question - 2 * probe.distance]
            assert stated.role == "user"
            assert probe.answer in stated.content
            between = dialogue.messages[question - 2 * probe.distance + 1 : probe.index]
            spoken = [words_in(each.content) for each in between if each.role == "assistant"]
            assert not any(probe.answer.lower() in each for each in spoken)


def test_user_and_assistant_alternate_and_no_small_talk_is_repeated(splits):
    small_talk = {question for question, _ in LANGUAGES[splits[0]].small_talk}
    for dialogue in splits[1]["train"]:
        assert [each.role for each in dialogue.messages] == ["user", "assistant"] * (len(dialogue.messages) // 2)
        spoken = [each.content for each in dialogue.messages[::2] if each.content in small_talk]
        assert len(set(spoken)) == len(spoken)


def test_sizes_do_not_depend_on_the_size_of_training(splits):
    language, found = splits
    assert {name: len(found[name]) for name in SIZES} == SIZES
    assert PocketTalk(language=language, size=1).splits()["test"] == found["test"]


def test_no_combination_of_facts_is_in_two_splits(splits):
    language, found = splits
    topics = LANGUAGES[language].topics
    pairs = {name: set() for name in found}
    for name, dialogues in found.items():
        for dialogue in dialogues:
            answers = list(dict.fromkeys(each.answer for each in dialogue.probes))
            if len(answers) == 2:
                assert combination_split(*answers) == name
                pairs[name].add(frozenset(answers))
    assert not pairs["train"] & pairs["test"]
    assert not pairs["valid"] & pairs["test"]
    words = {value for topic in topics for value in topic.values}
    trained = {each.answer for dialogue in found["train"] for each in dialogue.probes}
    assert len(trained) > 0.9 * len(words)


def test_the_distances_of_the_first_question_are_equally_frequent(splits):
    first = Counter(each.probes[0].distance for each in splits[1]["test"])
    assert set(first) == set(range(1, MAX_DISTANCE + 1))
    assert max(first.values()) == min(first.values()) == SIZES["test"] // MAX_DISTANCE


def test_recall_is_100_for_the_true_replies_and_0_for_a_fixed_one(splits):
    cases = cases_of(splits[1]["test"])
    assert recall_scores(cases, [each.text for each in cases])["all"]["value"] == 100
    fixed = recall_scores(cases, ["i do not know 我不知道"] * len(cases))
    assert fixed["all"]["value"] == 0
    assert sum(each["probes"] for each in fixed["by_distance"].values()) == fixed["probes"]
