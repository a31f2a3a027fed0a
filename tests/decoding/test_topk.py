import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2see.decoding.topk import maybe_any, stable_argmax, stable_topk, stable_topk_indices, strided_topk


def test_the_highest_come_first_and_among_equals_the_lower_index():
    scores = torch.tensor([[1.0, 3.0, 2.0, 3.0, 3.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    assert stable_topk_indices(scores, 4).tolist() == [[1, 3, 4, 2], [0, 1, 2, 3]]


def test_among_equals_at_the_limit_the_lowest_indices_are_selected():
    assert stable_topk_indices(torch.tensor([[1.0, 5.0, 1.0, 1.0]]), 2).tolist() == [[1, 0]]


def test_among_equals_the_lower_index_comes_first_wherever_higher_scores_are():
    scores = torch.zeros(1, 300)
    scores[0, [5, 71, 200]] = 2.0
    scores[0, 70] = 3.0
    assert stable_topk_indices(scores, 3).tolist() == [[70, 5, 71]]


def test_ties_at_the_limit_are_resolved_even_if_the_other_scores_differ():
    for size in (300, 20_000):
        scores = torch.zeros(1, size)
        scores[0, [250, 70]] = torch.tensor([3.0, 2.0])
        assert stable_topk_indices(scores, 4).tolist() == [[250, 70, 0, 1]]
        assert stable_topk_indices(scores, 3).tolist() == [[250, 70, 0]]


def test_the_first_score_of_a_shorter_last_block_is_found():
    scores = torch.zeros(2, 20_001)
    scores[:, 312 * 64] = 1.0  # 312 whole blocks, and 33 choices
    assert stable_argmax(scores).tolist() == [312 * 64] * 2
    assert stable_topk_indices(scores, 2).tolist() == [[312 * 64, 0]] * 2


def test_all_indices_are_returned_if_there_are_fewer_than_requested():
    assert stable_topk_indices(torch.tensor([[1.0, 2.0]]), 5).tolist() == [[1, 0]]


@given(
    choices=st.integers(1, 1000),
    values=st.sampled_from([1, 2, 5, 10**6]),
    seed=st.integers(0, 999),
    data=st.data(),
)
def test_it_equals_the_start_of_a_stable_sort(choices, values, seed, data):
    count = data.draw(st.integers(1, min(choices, 12)))
    random = torch.Generator().manual_seed(seed)
    scores = torch.randint(0, values, (3, choices), generator=random).float().log()  # with many ties, and -inf
    expected = scores.sort(dim=1, descending=True, stable=True).indices[:, :count]
    assert stable_topk_indices(scores, count).tolist() == expected.tolist()


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
    assert stable_argmax(scores).tolist() == expected.indices[:, 0].tolist()
    best, places = stable_topk(scores, 8)
    assert places.tolist() == expected.indices[:, :8].tolist()
    assert best.tolist() == expected.values[:, :8].tolist()


def test_maybe_any_is_exact_on_a_cpu():
    assert maybe_any(torch.tensor([[False, True]]))
    assert not maybe_any(torch.tensor([[False], [False]]))


def test_a_shorter_last_block_is_not_read_beyond_its_end():
    scores = torch.linspace(-9.0, -1.0, 3 * 8003).view(3, 8003)  # the best stand last, and all are below 0
    assert stable_argmax(scores).tolist() == [8002] * 3
    assert stable_topk_indices(scores, 3).tolist() == [[8002, 8001, 8000]] * 3
    assert stable_topk_indices(scores.round(), 1).tolist() == [[int(row.round().argmax())] for row in scores]


@given(choices=st.integers(1, 2000), count=st.integers(1, 12), seed=st.integers(0, 999))
def test_strided_blocks_find_the_highest_scores(choices, count, seed):
    scores = torch.randn(3, choices, generator=torch.Generator().manual_seed(seed))
    count = min(count, choices)
    best, places = strided_topk(scores, count)
    assert best.tolist() == scores.topk(count, dim=1).values.tolist()
    assert scores.gather(1, places).tolist() == best.tolist()
