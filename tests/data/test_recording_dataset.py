"""Recordings as batches: features with lengths, labels, and augmentation as a function of seed, epoch and index."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sound_stubs import RATE, noise, sine

from seq2see.core.batch import IGNORE_INDEX
from seq2see.data.log_mel import LogMel, vectors_of
from seq2see.data.pair_dataset import NO_EXAMPLE, BucketSampler
from seq2see.data.recording_dataset import RecordingDataset
from seq2see.data.recordings import RecordingExamples, StoredSamples
from seq2see.data.sound_augmentation import SoundAugmentation
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD, Characters, train_tokenizer
from seq2see.tasks.transcribe import Transcribe, pad_recordings

SECONDS = (0.31, 0.53, 0.2, 0.111)
TEXTS = ("ab", "aab", "b", "abba")
LOG_MEL = LogMel(RATE, 40)


def dataset(augmentation: SoundAugmentation | None = None, seed: int = 0) -> RecordingDataset:
    samples = [noise(seconds, index) + sine(seconds) for index, seconds in enumerate(SECONDS)]
    names = tuple(f"{index}.wav" for index in range(4))
    examples = RecordingExamples(StoredSamples.of(samples), RATE, TEXTS, names)
    return RecordingDataset(examples, LOG_MEL, train_tokenizer(Characters(), TEXTS), augmentation, seed)


def test_a_batch_has_features_tokens_and_lengths():
    data = dataset()
    batch = data.batch(np.array([1, 2]))
    frames = [LOG_MEL.frames(round(SECONDS[index] * RATE)) for index in (1, 2)]
    assert batch.source.lengths.tolist() == frames == data.lengths[[1, 2], 0].tolist()
    assert batch.source.values.shape[0::2] == (2, 40)
    for row, index in enumerate((1, 2)):
        expected = LOG_MEL.features(data.examples.samples[index])
        torch.testing.assert_close(batch.source.values[row, : frames[row]], expected, atol=4e-3, rtol=0)
        assert not batch.source.values[row, frames[row] :].any()
    a, b = data.tokenizer.encode("a")[0], data.tokenizer.encode("b")[0]
    assert batch.target.values[0, :4].tolist() == [BOS, a, a, b]
    assert batch.labels[0].tolist() == [a, a, b, EOS]
    assert batch.labels[1].tolist() == [b, EOS, IGNORE_INDEX, IGNORE_INDEX]
    assert batch.indices.tolist() == [1, 2]
    assert data.lengths[:, 1].tolist() == [3, 4, 2, 5]
    assert (data.vocab_size, data.characters, len(data)) == (len(data.tokenizer), 10, 4)


@pytest.mark.parametrize(
    "settings",
    [{"time_masks": 2}, {"frequency_masks": 2}, {"speed": 0.2}, {"noise_db": 5.0}, {"tract": 0.2}],
    ids=lambda settings: next(iter(settings)),
)
def test_augmentation_depends_on_seed_epoch_and_index_alone(settings):
    augmentation = SoundAugmentation(**settings)
    first = dataset(augmentation, seed=7)
    alone, together = first.batch(np.array([1]), epoch=3), dataset(augmentation, seed=7).batch(np.arange(4), epoch=3)
    length = int(alone.source.lengths[0])
    assert length == int(together.source.lengths[1])
    torch.testing.assert_close(alone.source.values[0, :length], together.source.values[1, :length], rtol=0, atol=0)
    plain = first.batch(np.arange(4)).source
    changes = [
        first.batch(np.arange(4), epoch=4).source, dataset(augmentation, seed=8).batch(np.arange(4), epoch=3).source,
        plain,
    ]  # fmt: skip
    for other in changes:
        same = other.values.shape == together.source.values.shape and torch.equal(other.values, together.source.values)
        assert not same
    assert torch.equal(plain.values, dataset().batch(np.arange(4)).source.values)


def test_two_equal_recordings_are_augmented_differently():
    examples = RecordingExamples(StoredSamples.of([noise(0.4)] * 2), RATE, ("a", "a"), ("1", "2"))
    for settings in ({"noise_db": 5.0}, {"time_masks": 3}, {"tract": 0.3}):
        data = RecordingDataset(examples, LOG_MEL, train_tokenizer(Characters(), ["a"]), SoundAugmentation(**settings))
        first, second = data.batch(np.arange(2), epoch=0).source.values
        assert not torch.equal(first, second)


def test_no_augmented_recording_is_longer_than_its_bucket():
    data = dataset(SoundAugmentation(speed=0.2))
    for epoch in range(20):
        lengths = data.batch(np.arange(4), epoch=epoch).source.lengths.numpy()
        assert (lengths <= data.lengths[:, 0]).all()
    assert (data.lengths[:, 0] > dataset().lengths[:, 0]).all()


def test_recordings_with_fewer_vectors_than_tokens_are_named():
    """0.111 s have 9 frames, 3 vectors; "abba" needs 4 of them, and one between the two b."""
    data = dataset()
    assert data.too_short().tolist() == [3]
    assert data.warnings() == ["1 recordings have fewer vectors than their text has tokens: 3.wav ('abba')."]


def test_repeated_tokens_need_a_vector_between_them():
    samples = [noise(0.2, seed) for seed in range(2)]  # 18 frames each, 5 vectors
    examples = RecordingExamples(StoredSamples.of(samples), RATE, ("abab", "abbb"), ("1", "2"))
    data = RecordingDataset(examples, LOG_MEL, train_tokenizer(Characters(), ["ab"]))
    assert data.too_short().tolist() == [1]


def test_the_vectors_that_a_text_may_use_are_those_of_the_embedding():
    """9 frames become 3 vectors, the last of them of a single frame: enough for 3 tokens, and not for 4."""
    assert vectors_of(LOG_MEL.frames(len(noise(0.111)))) == 3
    samples = StoredSamples.of([noise(0.111), noise(0.111)])
    examples = RecordingExamples(samples, RATE, ("aba", "abab"), ("1", "2"))
    data = RecordingDataset(examples, LOG_MEL, train_tokenizer(Characters(), ["ab"]))
    assert data.too_short().tolist() == [1]


def test_unknown_characters_are_named():
    examples = RecordingExamples(StoredSamples.of([noise(0.5)]), RATE, ("abcd",), ("1.wav",))
    data = RecordingDataset(examples, LOG_MEL, train_tokenizer(Characters(), ["ab"]))
    assert data.warnings() == ["50.0% of the tokens of the texts are unknown."]


def test_the_fingerprint_depends_on_sounds_texts_and_the_settings_of_the_features(monkeypatch):
    data = dataset()
    slower = LogMel(RATE, 40)
    slower.hop = 81
    others = [
        RecordingDataset(data.examples, LogMel(RATE + 40, 40), data.tokenizer),
        RecordingDataset(data.examples, slower, data.tokenizer),
        RecordingDataset(data.examples, LogMel(RATE, 20), data.tokenizer),
        RecordingDataset(data.examples[:3], LOG_MEL, data.tokenizer),
        RecordingDataset(data.examples, LOG_MEL, train_tokenizer(Characters(), ["ba "])),
    ]
    first = data.fingerprint
    assert len({first, *(each.fingerprint for each in others)}) == 6
    assert dataset().fingerprint == first
    monkeypatch.setattr("seq2see.data.log_mel.FLOOR", 1e-5)
    assert dataset().fingerprint != first


def test_masks_alone_need_the_features_of_a_recording_once(monkeypatch):
    computed = []
    monkeypatch.setattr(LogMel, "features", lambda self, samples, warp=1.0: computed.append(warp) or torch.ones(11, 40))
    masks, speed = dataset(SoundAugmentation(time_masks=2)), dataset(SoundAugmentation(speed=0.1))
    for data, times in ((masks, 2), (speed, 2 * 3)):
        computed.clear()
        for epoch in range(3):
            data.batch(np.array([0, 2]), epoch=epoch)
        assert len(computed) == times


def test_a_full_batch_has_the_recordings_and_then_rows_without_labels():
    batch = dataset().batch(np.array([1, 2]))
    full = pad_recordings(batch, rows=5, frames=67, tokens=11)
    width = batch.source.values.size(1)
    assert full.source.values.shape == (5, 67, 40)
    assert torch.equal(full.source.values[:2, :width], batch.source.values)
    assert not full.source.values[2:].any()
    assert not full.source.values[:, width:].any()
    assert full.source.lengths.tolist() == [*batch.source.lengths.tolist(), 1, 1, 1]
    assert full.target.lengths.tolist() == [*batch.target.lengths.tolist(), 1, 1, 1]
    assert full.target.values[2:].tolist() == [[BOS, *[PAD] * 10]] * 3
    assert full.labels.tolist()[2:] == [[IGNORE_INDEX] * 11] * 3
    assert torch.equal(full.labels[:2, : batch.labels.size(1)], batch.labels)
    assert full.indices.tolist() == [1, 2, NO_EXAMPLE, NO_EXAMPLE, NO_EXAMPLE]


def test_the_batches_of_a_training_are_those_of_its_steps_and_epochs(monkeypatch):
    data, requests = dataset(), []
    recipe = SimpleNamespace(training=SimpleNamespace(batch_tokens=100, seed=3))
    monkeypatch.setattr(data, "batch", lambda indices, epoch=None: requests.append((indices.tolist(), epoch)))
    batch_at, plans = Transcribe().batches(recipe, data), BucketSampler(data.lengths, 100, 3)
    for step in range(1, 12):
        batch_at(step)
    assert requests == [(plan.indices.tolist(), plan.epoch) for plan in map(plans.batch_at, range(11))]
    assert {epoch for _, epoch in requests} > {0, 1}
