import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2see.decoding.ranking import highest


def test_the_highest_come_first_and_of_equals_the_earlier():
    scores = torch.tensor([[1.0, 3.0, 2.0, 3.0, 3.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    assert highest(scores, 4).tolist() == [[1, 3, 4, 2], [0, 1, 2, 3]]


def test_only_the_earliest_of_equals_get_in_when_there_is_not_room_for_all():
    assert highest(torch.tensor([[1.0, 5.0, 1.0, 1.0]]), 2).tolist() == [[1, 0]]


def test_of_equals_the_earlier_comes_first_wherever_higher_scores_stand():
    scores = torch.zeros(1, 300)
    scores[0, [5, 71, 200]] = 2.0
    scores[0, 70] = 3.0
    assert highest(scores, 3).tolist() == [[70, 5, 71]]


def test_fewer_choices_than_asked_for_are_all_given():
    assert highest(torch.tensor([[1.0, 2.0]]), 5).tolist() == [[1, 0]]


@given(
    choices=st.integers(1, 1000),
    values=st.sampled_from([1, 2, 5, 10**6]),
    seed=st.integers(0, 999),
    data=st.data(),
)
def test_it_is_a_stable_sort_cut_short(choices, values, seed, data):
    count = data.draw(st.integers(1, min(choices, 12)))
    random = torch.Generator().manual_seed(seed)
    scores = torch.randint(0, values, (3, choices), generator=random).float().log()  # with many ties, and -inf
    expected = scores.sort(dim=1, descending=True, stable=True).indices[:, :count]
    assert highest(scores, count).tolist() == expected.tolist()
