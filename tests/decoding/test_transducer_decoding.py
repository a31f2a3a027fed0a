"""Decoding of transducers: the search and the alignment, against all paths."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
import torch

from seq2see.core.batch import Batch, Sequences
from seq2see.data.tokenizers.tokenizer import BOS, EOS, UNK
from seq2see.decoding.transducer import TransducerDecoder
from seq2see.layers.ctc import BLANK
from seq2see.models.build_speech import build_speech_model
from seq2see.models.recurrent import RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.sound_settings import Sound, SpeechModelSettings, TransducerTarget
from seq2see.tasks.speech_outputs import output_of

TOKENS = 6


def tiny_transducer(attention: str = "none", seed: int = 0) -> Any:
    torch.manual_seed(seed)
    settings = SpeechModelSettings(
        source=Sound(bands=8),
        target=TransducerTarget(joint_width=7),
        encoder=RecurrentEncoderSettings(width=6),
        decoder=RecurrentDecoderSettings(width=5, attention=attention),
    )
    model = build_speech_model(settings, TOKENS).eval()
    with torch.no_grad():  # far from uniform, and without <bos>, <eos> and <unk>
        model.head.project.weight *= 8
        model.head.project.bias[1:4] = -40.0
    return model


def sounds(frames: list[int]) -> Sequences:
    torch.manual_seed(5)
    return Sequences(torch.randn(len(frames), max(frames), 8), torch.tensor(frames))


def lattice(model: Any, source: Sequences, labels: list[int]) -> np.ndarray:
    """(frame, position, token) for one recording and given labels."""
    encoded = model.encode(source)
    prediction, state = model.step_prediction(torch.tensor([1]), model.start_prediction(encoded))
    predictions = [prediction]
    for label in labels:
        prediction, state = model.step_prediction(torch.tensor([label]), state)
        predictions.append(prediction)
    return model.head(encoded.values, torch.cat(predictions, 1))[0].log_softmax(-1).detach().numpy()


def paths(scores: np.ndarray, labels: list[int]) -> dict[tuple[int, ...], float]:
    """The log-probability of each path: the frame of each label to the total."""
    found, steps = {}, len(scores) - 1 + len(labels)
    for emissions in combinations(range(steps), len(labels)):
        time = position = 0
        total, frames = 0.0, []
        for step in range(steps):
            if step in emissions:
                total, frames = total + scores[time, position, labels[position]], [*frames, time]
                position += 1
            else:
                total, time = total + scores[time, position, BLANK], time + 1
        found[tuple(frames)] = total + scores[time, position, BLANK]
    return found


@pytest.mark.parametrize("attention", ["none", "additive"])
def test_the_alignment_is_the_best_of_all_paths(attention):
    model, source, labels = tiny_transducer(attention), sounds([18]), [4, 5, 5]
    with torch.inference_mode():
        aligned = TransducerDecoder.rows(model, source)[0].align(labels)
    truth = paths(lattice(model, source, labels), labels)
    assert tuple(each.start for each in aligned) == max(truth, key=truth.get)  # type: ignore[arg-type]
    assert [each.token for each in aligned] == labels


@torch.inference_mode()
def test_a_wide_beam_finds_the_most_probable_labels():
    model, source = tiny_transducer(), sounds([10])
    best = TransducerDecoder.rows(model, source)[0].beam_search(60)[0]
    totals = {
        labels: float(np.logaddexp.reduce(list(paths(lattice(model, source, [*labels]), [*labels]).values())))
        for length in range(5)
        for labels in product((4, 5), repeat=length)
    }
    assert best.labels == max(totals, key=totals.get)  # type: ignore[arg-type]
    assert best.log_probability == pytest.approx(totals[best.labels], abs=0.02)


@torch.no_grad()
def test_greedy_takes_the_best_token_of_each_frame_until_the_blank():
    model, source = tiny_transducer(), sounds([20])
    with torch.no_grad():
        model.head.project.bias[BLANK] += 3
    (found,) = TransducerDecoder.rows(model, source)[0].greedy()
    scores, position = lattice(model, source, list(found.labels)), 0
    for time in range(len(scores)):
        while position < len(found.labels) and found.tokens[position].start == time:
            assert scores[time, position].argmax() == found.labels[position]
            position += 1
        assert scores[time, position].argmax() == BLANK
    assert 0 < position == len(found.labels)


@torch.inference_mode()
@pytest.mark.parametrize("attention", ["none", "additive"])
def test_a_row_of_a_batch_equals_the_row_alone(attention):
    model, source = tiny_transducer(attention), sounds([31, 18])
    source.values[1, 18:] = torch.nan
    together = [decoder.greedy()[0] for decoder in TransducerDecoder.rows(model, source)]
    for row, frames in enumerate((31, 18)):
        alone = Sequences(source.values[row : row + 1, :frames], torch.tensor([frames]))
        (expected,) = TransducerDecoder.rows(model, alone)[0].greedy()
        assert together[row].labels == expected.labels
        assert together[row].log_probability == pytest.approx(expected.log_probability, abs=1e-4)


def test_the_prediction_network_sees_the_sound_only_with_attention():
    for attention, differs in (("none", False), ("additive", True)):
        model = tiny_transducer(attention)
        predictions = []
        for scale in (1.0, 3.0):
            source = sounds([12])
            encoded = model.encode(Sequences(source.values * scale, source.lengths))
            predictions.append(model.step_prediction(torch.tensor([1]), model.start_prediction(encoded))[0])
        assert bool((predictions[0] - predictions[1]).abs().max() > 1e-6) == differs


@torch.inference_mode()
def test_the_score_of_the_task_is_the_probability_of_the_labels():
    model, source, labels = tiny_transducer(), sounds([14]), [5, 4]
    truth = np.logaddexp.reduce(list(paths(lattice(model, source, labels), labels).values()))
    batch = Batch(source, Sequences.of([[1, *labels]]), torch.tensor([[*labels, 2]]), torch.zeros(1, dtype=torch.long))
    loss = output_of(model).objective.loss(model.hidden(batch), model.head, batch.labels)
    assert float(loss) == pytest.approx(-truth, rel=1e-4)


@torch.inference_mode()
def test_an_output_has_at_most_the_requested_number_of_tokens():
    model = tiny_transducer()
    model.head.project.bias[BLANK] = -60.0  # there is always a further token
    (found,) = TransducerDecoder.rows(model, sounds([10]), 5)[0].greedy()
    assert len(found.labels) == 5


@torch.inference_mode()
def test_without_a_blank_a_frame_has_eight_tokens_whose_score_is_that_of_the_tokens():
    model = tiny_transducer()
    model.head.project.bias[BLANK] = -60.0
    (found,) = TransducerDecoder.rows(model, sounds([10]))[0].greedy()
    assert [each.start for each in found.tokens] == [0] * 8 + [1] * 8 + [2] * 8
    assert found.log_probability == pytest.approx(sum(each.log_probability for each in found.tokens), abs=1e-4)


@torch.inference_mode()
def test_an_unknown_token_may_be_an_output_and_the_ends_of_a_text_may_not():
    model = tiny_transducer()
    model.head.project.bias[BOS], model.head.project.bias[EOS], model.head.project.bias[UNK] = 70.0, 60.0, 50.0
    (found,) = TransducerDecoder.rows(model, sounds([4]))[0].greedy()
    assert set(found.labels) == {UNK}
