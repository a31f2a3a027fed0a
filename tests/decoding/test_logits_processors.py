import torch

from seq2see.decoding.hypotheses import History
from seq2see.decoding.logits_processors import MinNewTokens, NoRepeatNGram, RepetitionPenalty


def history_of(rows, prompt_lengths=None):
    tokens = torch.tensor(rows, dtype=torch.long)
    room = torch.nn.functional.pad(tokens, (0, 2))
    prompt_lengths = (
        torch.zeros(len(rows), dtype=torch.long) if prompt_lengths is None else torch.tensor(prompt_lengths)
    )
    return History(room, torch.zeros(room.shape), prompt_lengths, tokens.size(1))


def forbidden(rule, history, vocab=7):
    scores = rule(history, torch.zeros(history.tokens.size(0), vocab))
    assert set(scores.flatten().tolist()) <= {0.0, -torch.inf}  # what is not forbidden stays as it is
    return [(row == -torch.inf).nonzero().flatten().tolist() for row in scores]


def test_minimum_length_forbids_the_end_until_enough_is_said():
    assert forbidden(MinNewTokens(2), history_of([[4]])) == [[2]]
    assert forbidden(MinNewTokens(2), history_of([[4, 4]])) == [[]]


def test_minimum_length_does_not_count_what_was_forced():
    assert forbidden(MinNewTokens(2), history_of([[4, 4, 4], [4, 4, 4]], prompt_lengths=[1, 2])) == [[], [2]]


def test_no_repeat_forbids_what_would_complete_a_sequence_said_before():
    said = history_of([[3, 4, 5, 3, 4], [3, 4, 5, 4, 3]])
    assert forbidden(NoRepeatNGram(1), said) == [[3, 4, 5], [3, 4, 5]]
    assert forbidden(NoRepeatNGram(2), said) == [[0, 5], [0, 4]]  # PAD is forbidden anyway
    assert forbidden(NoRepeatNGram(3), said) == [[0, 5], [0]]


def test_no_repeat_counts_sequences_that_overlap():
    assert forbidden(NoRepeatNGram(2), history_of([[3, 3]])) == [[3]]


def test_no_repeat_has_nothing_to_say_before_one_sequence_is_complete():
    assert forbidden(NoRepeatNGram(3), history_of([[3, 3]])) == [[]]


def test_discourage_leaves_all_probabilities_as_they_are_while_nothing_is_said():
    scores = torch.randn(2, 7).log_softmax(1)
    assert torch.allclose(RepetitionPenalty(3.0)(history_of([[], []]), scores), scores, atol=1e-6)


def test_discourage_makes_what_each_row_has_said_less_probable_and_forbids_nothing():
    weighed = RepetitionPenalty(2.0)(history_of([[3, 3], [1, 2]]), torch.full((2, 4), 0.25).log())
    # A quarter twice over is a sixteenth, whether a token was said once or twice.
    expected = torch.tensor([[4, 4, 4, 1], [4, 1, 1, 4]]) / torch.tensor([[13], [10]])
    assert torch.allclose(weighed.exp(), expected)


def test_discourage_does_not_bring_back_what_is_impossible():
    weighed = RepetitionPenalty(1.5)(history_of([[1]]), torch.tensor([[-torch.inf, -torch.inf, 0.0]]))
    assert weighed.tolist() == [[-torch.inf, -torch.inf, 0.0]]
