"""Masks: each by hand, and combinations of them against loops."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2see.core.batch import Sequences
from seq2see.layers.masks import AttentionMask, cache_mask, causal_mask, full_mask, padding_mask

CPU = torch.device("cpu")


def dense(attention_mask: AttentionMask, queries: int, keys: int) -> list:
    """The dense mask of each row, as zeros and ones."""
    return attention_mask.to_dense(queries, keys, CPU)[:, 0].int().tolist()


def padded_rows(lengths: list[int], time: int) -> Sequences:
    return Sequences(torch.zeros(len(lengths), time, dtype=torch.long), torch.tensor(lengths))


def test_a_full_mask_hides_nothing():
    assert dense(full_mask(), 2, 3) == [[[1, 1, 1], [1, 1, 1]]]


def test_a_causal_mask_includes_the_own_position():
    assert dense(causal_mask(), 3, 3) == [[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]


def test_a_padding_mask_hides_padding():
    assert dense(padding_mask(padded_rows([2, 3], 3)), 1, 3) == [[[1, 1, 0]], [[1, 1, 1]]]
    assert dense(padding_mask(padded_rows([0], 2)), 2, 2) == [[[0, 0], [0, 0]]]


def test_a_cache_mask_depends_on_the_positions_of_each_row():
    position_ids = torch.tensor([[0, 1], [2, 3]])
    assert dense(cache_mask(position_ids, max_length=5), 2, 5) == [
        [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]],
        [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]],
    ]


def test_and_combines_masks():
    combined = causal_mask() & padding_mask(padded_rows([2, 3], 3))
    assert dense(combined, 3, 3) == [
        [[1, 0, 0], [1, 1, 0], [1, 1, 0]],
        [[1, 0, 0], [1, 1, 0], [1, 1, 1]],
    ]


def test_two_masks_are_combined_element_by_element():
    combined = padding_mask(padded_rows([2, 3], 3)) & cache_mask(torch.tensor([[2], [0]]), max_length=3)
    assert dense(combined, 1, 3) == [[[1, 1, 0]], [[1, 0, 0]]]


def test_a_causal_mask_stays_a_flag_for_the_attention_kernel():
    assert causal_mask().mask is None
    assert (causal_mask() & full_mask()).mask is None
    assert (full_mask() & causal_mask()).causal
    assert not (full_mask() & full_mask()).causal


mask_names = st.lists(st.sampled_from(["padding", "cache", "causal", "full"]), min_size=2, max_size=4)


@given(mask_names, st.lists(st.integers(0, 5), min_size=1, max_size=3), st.integers(0, 99))
def test_a_combination_allows_what_all_of_its_masks_allow(names, lengths, seed):
    random = torch.Generator().manual_seed(seed)
    position_ids = torch.randint(0, 5, (len(lengths), 5), generator=random)
    combined = full_mask()
    for name in names:
        masks = {"full": full_mask(), "causal": causal_mask()}
        masks |= {"padding": padding_mask(padded_rows(lengths, 5)), "cache": cache_mask(position_ids, 5)}
        combined = combined & masks[name]
    mask = combined.to_dense(5, 5, CPU).expand(len(lengths), 1, 5, 5)
    for row, length in enumerate(lengths):
        for query in range(5):
            for key in range(5):
                expected = {"full": True, "causal": key <= query, "padding": key < length}
                expected["cache"] = key <= int(position_ids[row, query])
                assert bool(mask[row, 0, query, key]) == all(expected[name] for name in names)
