"""Masks: every word by hand, and sentences made of them against loops."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2see.core.batch import Sequences
from seq2see.layers.masks import AttentionMask, cache_mask, causal_mask, full_mask, padding_mask

CPU = torch.device("cpu")


def written(attention_mask: AttentionMask, queries: int, keys: int) -> list:
    """The table of each row, as zeros and ones."""
    return attention_mask.to_dense(queries, keys, CPU)[:, 0].int().tolist()


def ragged(lengths: list[int], time: int) -> Sequences:
    return Sequences(torch.zeros(len(lengths), time, dtype=torch.long), torch.tensor(lengths))


def test_everyone_may_look_at_everyone():
    assert written(full_mask(), 2, 3) == [[[1, 1, 1], [1, 1, 1]]]


def test_causal_means_up_to_oneself():
    assert written(causal_mask(), 3, 3) == [[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]


def test_only_data_is_real():
    assert written(padding_mask(ragged([2, 3], 3)), 1, 3) == [[[1, 1, 0]], [[1, 1, 1]]]
    assert written(padding_mask(ragged([0], 2)), 2, 2) == [[[0, 0], [0, 0]]]


def test_so_far_depends_on_where_each_row_stands():
    position_ids = torch.tensor([[0, 1], [2, 3]])
    assert written(cache_mask(position_ids, max_length=5), 2, 5) == [
        [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]],
        [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]],
    ]


def test_and_means_both():
    sentence = causal_mask() & padding_mask(ragged([2, 3], 3))
    assert written(sentence, 3, 3) == [
        [[1, 0, 0], [1, 1, 0], [1, 1, 0]],
        [[1, 0, 0], [1, 1, 0], [1, 1, 1]],
    ]


def test_two_tables_are_joined_place_by_place():
    sentence = padding_mask(ragged([2, 3], 3)) & cache_mask(torch.tensor([[2], [0]]), max_length=3)
    assert written(sentence, 1, 3) == [[[1, 1, 0]], [[1, 0, 0]]]


def test_the_causal_word_stays_a_description_so_that_a_kernel_can_use_its_own():
    assert causal_mask().mask is None
    assert (causal_mask() & full_mask()).mask is None
    assert (full_mask() & causal_mask()).causal_mask
    assert not (full_mask() & full_mask()).causal


token_type_ids = st.lists(st.sampled_from(["real", "so far", "causal", "everyone"]), min_size=2, max_size=4)


@given(token_type_ids, st.lists(st.integers(0, 5), min_size=1, max_size=3), st.integers(0, 99))
def test_a_sentence_allows_what_all_of_its_words_allow(words, lengths, seed):
    random = torch.Generator().manual_seed(seed)
    position_ids = torch.randint(0, 5, (len(lengths), 5), generator=random)
    sentence = full_mask()
    for word in words:
        table = {"everyone": full_mask(), "causal": causal_mask()}
        table |= {"real": padding_mask(ragged(lengths, 5)), "so far": cache_mask(position_ids, 5)}
        sentence = sentence & table[word]
    mask = sentence.to_dense(5, 5, CPU).expand(len(lengths), 1, 5, 5)
    for row, length in enumerate(lengths):
        for query in range(5):
            for key in range(5):
                answers = {"everyone": True, "causal": key <= query, "real": key < length}
                answers["so far"] = key <= int(position_ids[row, query])
                assert bool(mask[row, 0, query, key]) == all(answers[word] for word in words)
