"""Masks: every word by hand, and sentences made of them against loops."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2see.core.batch import Sequences
from seq2see.layers.masks import MayLook, causal, everyone, real, so_far

CPU = torch.device("cpu")


def written(may_look: MayLook, queries: int, keys: int) -> list:
    """The table of each row, as zeros and ones."""
    return may_look.table(queries, keys, CPU)[:, 0].int().tolist()


def ragged(lengths: list[int], time: int) -> Sequences:
    return Sequences(torch.zeros(len(lengths), time, dtype=torch.long), torch.tensor(lengths))


def test_everyone_may_look_at_everyone():
    assert written(everyone(), 2, 3) == [[[1, 1, 1], [1, 1, 1]]]


def test_causal_means_up_to_oneself():
    assert written(causal(), 3, 3) == [[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]


def test_only_data_is_real():
    assert written(real(ragged([2, 3], 3)), 1, 3) == [[[1, 1, 0]], [[1, 1, 1]]]
    assert written(real(ragged([0], 2)), 2, 2) == [[[0, 0], [0, 0]]]


def test_so_far_depends_on_where_each_row_stands():
    times = torch.tensor([[0, 1], [2, 3]])
    assert written(so_far(times, room=5), 2, 5) == [
        [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]],
        [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]],
    ]


def test_and_means_both():
    sentence = causal() & real(ragged([2, 3], 3))
    assert written(sentence, 3, 3) == [
        [[1, 0, 0], [1, 1, 0], [1, 1, 0]],
        [[1, 0, 0], [1, 1, 0], [1, 1, 1]],
    ]


def test_two_tables_are_joined_place_by_place():
    sentence = real(ragged([2, 3], 3)) & so_far(torch.tensor([[2], [0]]), room=3)
    assert written(sentence, 1, 3) == [[[1, 1, 0]], [[1, 0, 0]]]


def test_the_causal_word_stays_a_description_so_that_a_kernel_can_use_its_own():
    assert causal().allowed is None
    assert (causal() & everyone()).allowed is None
    assert (everyone() & causal()).causal
    assert not (everyone() & everyone()).causal


sentences = st.lists(st.sampled_from(["real", "so far", "causal", "everyone"]), min_size=2, max_size=4)


@given(sentences, st.lists(st.integers(0, 5), min_size=1, max_size=3), st.integers(0, 99))
def test_a_sentence_allows_what_all_of_its_words_allow(words, lengths, seed):
    random = torch.Generator().manual_seed(seed)
    times = torch.randint(0, 5, (len(lengths), 5), generator=random)
    sentence = everyone()
    for word in words:
        table = {"everyone": everyone(), "causal": causal()}
        table |= {"real": real(ragged(lengths, 5)), "so far": so_far(times, 5)}
        sentence = sentence & table[word]
    allowed = sentence.table(5, 5, CPU).expand(len(lengths), 1, 5, 5)
    for row, length in enumerate(lengths):
        for query in range(5):
            for key in range(5):
                answers = {"everyone": True, "causal": key <= query, "real": key < length}
                answers["so far"] = key <= int(times[row, query])
                assert bool(allowed[row, 0, query, key]) == all(answers[word] for word in words)
