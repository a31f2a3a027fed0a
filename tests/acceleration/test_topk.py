"""Top-k and argmax in two stages give the results of one stage."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2see.acceleration.fast_search import blockwise_argmax, blockwise_topk, strided_topk
from seq2see.decoding.samplers import stable_topk


def test_ties_at_the_limit_are_resolved_even_if_the_other_scores_differ():
    for size in (300, 20_000):
        scores = torch.zeros(1, size)
        scores[0, [250, 70]] = torch.tensor([3.0, 2.0])
        assert blockwise_topk(scores, 4)[1].tolist() == [[250, 70, 0, 1]]
        assert blockwise_topk(scores, 3)[1].tolist() == [[250, 70, 0]]


def test_the_first_score_of_a_shorter_last_block_is_found():
    scores = torch.zeros(2, 20_001)
    scores[:, 312 * 64] = 1.0  # 312 whole blocks, and 33 choices
    assert blockwise_argmax(scores).tolist() == [312 * 64] * 2
    assert blockwise_topk(scores, 2)[1].tolist() == [[312 * 64, 0]] * 2


@given(
    choices=st.integers(1, 1000),
    values=st.sampled_from([1, 2, 5, 10**6]),
    seed=st.integers(0, 999),
    data=st.data(),
)
def test_top_k_in_blocks_equals_the_definition(choices, values, seed, data):
    count = data.draw(st.integers(1, 12))
    random = torch.Generator().manual_seed(seed)
    scores = torch.randint(0, values, (3, choices), generator=random).float().log()  # with many ties, and -inf
    (best, places), (expected, indices) = blockwise_topk(scores, count), stable_topk(scores, count)
    assert places.tolist() == indices.tolist()
    assert best.tolist() == expected.tolist()


@given(
    rows=st.integers(1, 5),
    choices=st.sampled_from([100, 4096, 8003, 20_000]),
    values=st.sampled_from([3, 50, 10**7]),
    seed=st.integers(0, 999),
)
def test_argmax_and_top_k_of_large_vocabularies_are_found_in_two_stages(rows, choices, values, seed):
    random = torch.Generator().manual_seed(seed)
    scores = -torch.randint(0, values, (rows, choices), generator=random).float()
    expected = scores.sort(dim=1, descending=True, stable=True)
    assert blockwise_argmax(scores).tolist() == expected.indices[:, 0].tolist()
    best, places = blockwise_topk(scores, 8)
    assert places.tolist() == expected.indices[:, :8].tolist()
    assert best.tolist() == expected.values[:, :8].tolist()


@pytest.mark.parametrize("topk", [blockwise_topk, stable_topk])
def test_a_shorter_last_block_is_not_read_beyond_its_end(topk):
    scores = torch.linspace(-9.0, -1.0, 3 * 8003).view(3, 8003)  # the best stand last, and all are below 0
    assert blockwise_argmax(scores).tolist() == [8002] * 3
    assert topk(scores, 3)[1].tolist() == [[8002, 8001, 8000]] * 3
    assert topk(scores.round(), 1)[1].tolist() == [[int(row.round().argmax())] for row in scores]


@given(choices=st.integers(1, 2000), count=st.integers(1, 12), seed=st.integers(0, 999))
def test_strided_blocks_find_the_highest_scores(choices, count, seed):
    scores = torch.randn(3, choices, generator=torch.Generator().manual_seed(seed))
    best, places = strided_topk(scores, count)
    assert best.tolist() == scores.topk(min(count, choices), dim=1).values.tolist()
    assert scores.gather(1, places).tolist() == best.tolist()
