import torch

from seq2see.decoding.samplers import History, MinNewTokens, NoRepeatNGram, RepetitionPenalty


def history_of(rows, prompt_lengths=None):
    tokens = torch.tensor(rows, dtype=torch.long)
    padded = torch.nn.functional.pad(tokens, (0, 2))
    prompt_lengths = (
        torch.zeros(len(rows), dtype=torch.long) if prompt_lengths is None else torch.tensor(prompt_lengths)
    )
    return History(padded, torch.zeros(padded.shape), prompt_lengths, tokens.size(1))


def forbidden(processor, history, vocab=7):
    scores = processor(history, torch.zeros(history.tokens.size(0), vocab))
    assert set(scores.flatten().tolist()) <= {0.0, -torch.inf}  # the other scores do not change
    return [(row == -torch.inf).nonzero().flatten().tolist() for row in scores]


def test_min_new_tokens_forbids_eos_until_the_minimum_length():
    assert forbidden(MinNewTokens(2), history_of([[4]])) == [[2]]
    assert forbidden(MinNewTokens(2), history_of([[4, 4]])) == [[]]


def test_min_new_tokens_does_not_count_the_prefix():
    assert forbidden(MinNewTokens(2), history_of([[4, 4, 4], [4, 4, 4]], prompt_lengths=[1, 2])) == [[], [2]]


def test_no_repeat_ngram_forbids_tokens_that_complete_an_earlier_ngram():
    history = history_of([[3, 4, 5, 3, 4], [3, 4, 5, 4, 3]])
    assert forbidden(NoRepeatNGram(1), history) == [[3, 4, 5], [3, 4, 5]]
    assert forbidden(NoRepeatNGram(2), history) == [[0, 5], [0, 4]]  # PAD stands for no token
    assert forbidden(NoRepeatNGram(3), history) == [[0, 5], [0]]


def test_no_repeat_ngram_counts_overlapping_ngrams():
    assert forbidden(NoRepeatNGram(2), history_of([[3, 3]])) == [[3]]


def test_no_repeat_ngram_forbids_nothing_before_the_first_ngram():
    assert forbidden(NoRepeatNGram(3), history_of([[3, 3]])) == [[]]


def test_repetition_penalty_changes_nothing_without_tokens():
    scores = torch.randn(2, 7).log_softmax(1)
    assert torch.allclose(RepetitionPenalty(3.0)(history_of([[], []]), scores), scores, atol=1e-6)


def test_repetition_penalty_lowers_the_probabilities_of_earlier_tokens_and_forbids_nothing():
    penalized = RepetitionPenalty(2.0)(history_of([[3, 3], [1, 2]]), torch.full((2, 4), 0.25).log())
    # The probability 1/4 becomes 1/16 before normalization, whether a token occurred once or twice.
    expected = torch.tensor([[4, 4, 4, 1], [4, 1, 1, 4]]) / torch.tensor([[13], [10]])
    assert torch.allclose(penalized.exp(), expected)


def test_repetition_penalty_does_not_allow_impossible_tokens():
    penalized = RepetitionPenalty(1.5)(history_of([[1]]), torch.tensor([[-torch.inf, -torch.inf, 0.0]]))
    assert penalized.tolist() == [[-torch.inf, -torch.inf, 0.0]]
