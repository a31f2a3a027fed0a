"""Decoding of CTC: best path, prefix search, alignment, and prediction label by label."""

from __future__ import annotations

from itertools import groupby, product

import numpy as np
import pytest
import torch

from seq2see.core.batch import Sequences
from seq2see.data.tokenizers.tokenizer import BOS, EOS
from seq2see.decoding.beam import BeamSampler
from seq2see.decoding.ctc import CTCPrefixModel, align, best_path, prefix_search
from seq2see.decoding.engine import Limits, decode
from seq2see.layers.ctc import BLANK, CTCLoss
from seq2see.models.encoder_model import EncoderOutput

A, B, C = 4, 5, 6
TOKENS = 7


def random_scores(frames: int, seed: int = 1, tokens: int = TOKENS) -> torch.Tensor:
    """Log-probabilities in which <bos>, <eos> and <unk> are impossible, as in a trained model."""
    logits = torch.randn(1, frames, tokens, generator=torch.Generator().manual_seed(seed))
    logits[..., 1:4] = -30.0
    return logits.log_softmax(-1)


def probabilities_of_labels(scores: torch.Tensor) -> dict[tuple[int, ...], float]:
    """The log-probability of all labels, by all paths."""
    sums: dict[tuple[int, ...], list[float]] = {}
    choices = [BLANK, *range(4, scores.size(1))]
    for path in product(choices, repeat=len(scores)):
        labels = tuple(token for token, _ in groupby(path) if token != BLANK)
        sums.setdefault(labels, []).append(float(scores[range(len(path)), list(path)].sum()))
    return {labels: float(np.logaddexp.reduce(values)) for labels, values in sums.items()}


def one_hot(path: list[int]) -> np.ndarray:
    """Log-probabilities of a path that is nearly certain."""
    return (torch.eye(TOKENS)[path] * 12).log_softmax(-1).numpy()


class FramesModel:
    """A model whose hidden states are logits of frames, given as the source."""

    def encode(self, source: Sequences) -> EncoderOutput:
        return EncoderOutput(source.values, source.lengths, source.values[:, 0])


def prefix_model() -> CTCPrefixModel:
    return CTCPrefixModel(FramesModel(), lambda logits: logits)


def test_the_best_path_merges_repeats_and_drops_blanks():
    found = best_path(one_hot([BLANK, A, A, BLANK, A, B, B, B, BLANK]))
    assert [(each.token, each.start, each.end) for each in found] == [(A, 1, 3), (A, 4, 5), (B, 5, 8)]
    assert all(each.log_probability > -0.1 for each in found)
    assert best_path(one_hot([BLANK, BLANK])) == []


def test_prefix_search_of_full_width_finds_the_most_probable_labels():
    scores = random_scores(5)[0]
    truth = probabilities_of_labels(scores)
    found = dict(prefix_search(scores.numpy(), width=500))
    for labels, value in found.items():
        assert value == pytest.approx(truth[labels], abs=1e-3)
    assert max(found, key=found.get) == max(truth, key=truth.get)  # type: ignore[arg-type]


def test_prefix_search_adds_paths_where_the_best_path_does_not():
    """Two frames of "blank 0.6, a 0.4": the best path is empty (0.36), but the label a has 0.64."""
    frame = torch.full((TOKENS,), 1e-9)
    frame[BLANK], frame[A] = 0.6, 0.4
    scores = frame.log().repeat(2, 1).numpy()
    assert best_path(scores) == []
    (labels, value), (other, _) = prefix_search(scores, 2)
    assert (labels, other) == ((A,), ())
    assert np.exp(value) == pytest.approx(0.64)


@pytest.mark.parametrize("labels", [[A], [A, A], [A, B, A], [B, B, C]])
def test_the_alignment_is_the_best_of_all_paths_with_these_labels(labels):
    scores = random_scores(6, seed=len(labels))[0]
    choices = [BLANK, A, B, C]
    paths = [p for p in product(choices, repeat=6) if [t for t, _ in groupby(p) if t != BLANK] == labels]
    best = max(paths, key=lambda path: float(scores[range(6), list(path)].sum()))
    found = align(scores.numpy(), labels)
    runs, time = [], 0
    for token, run in groupby(best):
        end = time + len(list(run))
        if token != BLANK:
            runs.append((token, time, end))
        time = end
    assert [(each.token, each.start, each.end) for each in found] == runs


def test_too_few_frames_have_no_alignment():
    assert align(one_hot([A, A]), [A, A]) == []
    assert align(one_hot([A, A]), []) == []


def test_the_probabilities_of_the_next_label_sum_to_one():
    model = prefix_model()
    state = model.start(Sequences(random_scores(7), torch.tensor([7])), 1, 10)
    for token in (BOS, A, A, B):
        scores, state = model.step(torch.tensor([[token]]), state)
        assert float(scores.exp().sum()) == pytest.approx(1, abs=1e-4)


def test_label_by_label_the_product_is_the_probability_of_the_labels():
    logits, labels = random_scores(8, seed=3), [A, A, C, B]
    model = prefix_model()
    scores, _ = model.step(torch.tensor([[BOS, *labels]]), model.start(Sequences(logits, torch.tensor([8])), 1, 9))
    total = scores[0, range(5), [*labels, EOS]].sum()
    expected = -CTCLoss()(logits, torch.tensor([8]), Sequences.of([labels]))
    assert float(total) == pytest.approx(float(expected), rel=1e-4)


def test_rows_with_padding_equal_each_row_alone():
    model, logits = prefix_model(), torch.cat([random_scores(6, 1), random_scores(6, 2)])
    logits[1, 4:] = torch.nan
    tokens = torch.tensor([[BOS, A, B], [BOS, C, C]])
    together, _ = model.step(tokens, model.start(Sequences(logits, torch.tensor([6, 4])), 2, 5))
    for row, length in enumerate((6, 4)):
        source = Sequences(logits[row : row + 1, :length], torch.tensor([length]))
        alone, _ = model.step(tokens[row : row + 1], model.start(source, 1, 5))
        torch.testing.assert_close(together[row : row + 1], alone, rtol=1e-4, atol=1e-4)


def test_beam_search_over_labels_finds_the_most_probable_labels():
    logits = random_scores(5, seed=9)
    truth = probabilities_of_labels(logits[0])
    ((best, *_),) = decode(prefix_model(), Sequences(logits, torch.tensor([5])), BeamSampler(200), Limits(6))
    assert best.tokens == max(truth, key=truth.get)  # type: ignore[arg-type]
    assert best.log_probability == pytest.approx(max(truth.values()), abs=1e-3)


def test_the_sums_of_a_prefix_move_with_its_row():
    """Beam search reorders the rows of a state: the sums of a prefix follow it, the frames stay."""
    logits = random_scores(9, seed=4)
    for width in (2, 3):
        ((best, *_),) = decode(prefix_model(), Sequences(logits, torch.tensor([9])), BeamSampler(width), Limits(9))
        expected = -CTCLoss()(logits, torch.tensor([9]), Sequences.of([list(best.tokens)]))
        assert best.log_probability == pytest.approx(float(expected), rel=1e-4)


def test_an_alignment_does_not_begin_again_after_its_end():
    """The label a occurs twice in the sound; only the longer part can be the text "a"."""
    for path, frames in (([A, BLANK, BLANK, A, A], (3, 5)), ([A, A, A, BLANK, BLANK, A], (0, 3))):
        (found,) = align(one_hot(path), [A])
        assert (found.start, found.end) == frames


def test_the_probability_of_an_aligned_label_is_the_highest_of_its_frames():
    scores = one_hot([BLANK, A, A, A, BLANK])
    scores[2, A] = -1e-9
    (found,) = align(scores, [A])
    assert (found.start, found.end, found.log_probability) == (1, 4, pytest.approx(-1e-9))
