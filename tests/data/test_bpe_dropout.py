"""Each epoch has new segmentations of the training texts; the texts and the plan of batches do not change."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2see.core.settings import read_tree
from seq2see.data.examples import Example
from seq2see.data.labeled_dataset import LabeledTextDataset
from seq2see.data.pair_dataset import BucketSampler, EncodedTexts, PairDataset, bucket_widths, pad_batch
from seq2see.data.tokenizers.bpe_dropout import (
    MAX_SEGMENTATIONS,
    MIN_SEGMENTATIONS,
    BPEDropoutDataset,
    BPEDropoutSide,
    BPEMerges,
    SegmentationPools,
)
from seq2see.data.tokenizers.tokenizer import BPE, EOS, Characters, train_tokenizer

WORDS = ["the", "cat", "sat", "on", "another", "umbrella", "yesterday", "morning", "while", "nobody", "looked"]
SENTENCES = [
    " ".join(WORDS[(start * step) % len(WORDS)] for start in range(size)) for step in (1, 3, 4) for size in range(20)
]
TOKENIZER = train_tokenizer(BPE(vocab_size=400), SENTENCES)
EXAMPLES = [Example(one, other) for one, other in zip(SENTENCES, SENTENCES[::-1], strict=True)]
BOTH = {"source": 0.2, "target": 0.1}


def pair_dataset(examples=EXAMPLES, max_tokens=100):
    return PairDataset(examples, TOKENIZER, TOKENIZER, max_tokens)


def rows_of(side: EncodedTexts):
    """The ids of each text, <eos> included."""
    return [side.ids[start:end].tolist() for start, end in zip(side.starts, side.starts[1:], strict=False)]


def test_choosing_segmentations_by_hand():
    # The default of word 0 is (7,), its alternatives are (4, 5) and (4, 6, 5); word 1 is <eos>.
    pools = SegmentationPools.of([[(7,), (4, 5), (4, 6, 5)], [(EOS,), (EOS,)]])
    default = EncodedTexts(np.array([7, 7, EOS, EOS, 7, EOS], np.int32), np.array([0, 3, 4, 6]), np.array([], np.int64))
    side = BPEDropoutSide(default, [[0, 0, 1], [1], [0, 1]], pools)
    random_bits = np.array([0, 65535, 40000, 0, 32768, 9])  # below one half: the first alternative, else the second
    found = side.resample(random_bits, max_lengths=np.array([9, 9, 9]))
    assert rows_of(found) == [[4, 5, 4, 6, 5, EOS], [EOS], [4, 6, 5, EOS]]
    assert found.ids.dtype == np.int32
    assert found.lengths.tolist() == [6, 1, 4]
    # A text that would be too long keeps its default; a text that just fits does not.
    assert rows_of(side.resample(random_bits, max_lengths=np.array([5, 9, 4]))) == [[7, 7, EOS], [EOS], [4, 6, 5, EOS]]


def test_the_prefix_of_a_text_is_part_of_its_estimated_length():
    labeled = LabeledTextDataset([Example(text, "a") for text in SENTENCES], TOKENIZER, ["a"], 100)
    resampled = BPEDropoutDataset(labeled, {"source": 0.2}, seed=1)
    assert (resampled.lengths >= labeled.lengths).all()
    for epoch in range(3):
        assert (resampled.epoch(epoch).lengths[:, 0] <= bucket_widths(resampled.lengths)).all()


def test_estimated_lengths_by_hand():
    # Both alternatives are as likely: 2.5 tokens on average and 1/2 standard deviation; two words 5 and sqrt(1/2).
    pools = SegmentationPools.of([[(7,), (4, 5), (4, 6, 5)], [(EOS,), (EOS,)], [(9, 8), (9,), (9,)]])
    default = EncodedTexts(
        np.array([7, 7, EOS, 7, EOS, 9, 8, EOS], np.int32), np.array([0, 3, 5, 8]), np.array([], dtype=np.int64)
    )
    side = BPEDropoutSide(default, [[0, 0, 1], [0, 1], [2, 1]], pools)
    assert side.estimate_lengths(max_tokens=100).tolist() == [7, 4, 3]  # 6.71, 4.0; the default always fits
    assert side.estimate_lengths(max_tokens=4).tolist() == [5, 4, 3]


@given(epoch=st.integers(0, 50), seed=st.integers(0, 3))
def test_every_epoch_has_the_same_texts_in_other_tokens(epoch, seed):
    dataset = RESAMPLED[seed].epoch(epoch)
    for name, side in dataset.sides.items():
        for row, text in zip(rows_of(side), (getattr(example, name) for example in EXAMPLES), strict=True):
            assert row[-1] == EOS
            assert EOS not in row[:-1]
            assert TOKENIZER.decode(row) == text
    assert (dataset.lengths <= bucket_widths(RESAMPLED[seed].lengths)[:, None]).all()
    assert rows_of(dataset.sides["source"]) != rows_of(RESAMPLED[seed].epoch(epoch + 1).sides["source"])
    assert dataset.examples is EXAMPLES


RESAMPLED = {seed: BPEDropoutDataset(pair_dataset(), BOTH, seed) for seed in range(4)}


def test_every_segmentation_is_from_the_pool_of_its_word_and_all_are_used():
    text = [Example("another umbrella", "umbrella")] * 40
    resampled = BPEDropoutDataset(pair_dataset(text), {"source": 0.5, "target": 0.0}, seed=3)
    merges = BPEMerges(*TOKENIZER.merges)
    pool = set(merges.sample(" umbrella", 40, 0.5, seed=3))  # one per occurrence
    seen = set()
    for epoch in range(40):
        for row in rows_of(resampled.epoch(epoch).sides["source"]):
            texts = TOKENIZER.tokens(row)
            seen.add(tuple(row[next(i for i, token in enumerate(texts) if token.startswith("▁")) : -1]))
    # In 1,600 choices each of 40 is made; a row that is too long has the default, which is in the pool, too.
    assert seen == pool | {merges.segment(" umbrella")}
    assert resampled.epoch(1).sides["target"] is resampled.pairs.sides["target"]


@pytest.mark.parametrize(
    "occurrences,size",
    [
        (1, MIN_SEGMENTATIONS),
        (MIN_SEGMENTATIONS + 3, MIN_SEGMENTATIONS + 3),
        (MAX_SEGMENTATIONS + 5, MAX_SEGMENTATIONS),
    ],
)
def test_a_pool_has_one_segmentation_per_occurrence_within_bounds(occurrences, size):
    examples = [Example("morning", "")] * occurrences
    resampled = BPEDropoutDataset(pair_dataset(examples), {"source": 0.1, "target": 0.1}, seed=1)
    assert resampled.sides["source"].pools.alternatives.tolist() == [size, 1]
    assert resampled.sides["target"].pools.alternatives.tolist() == [1]


def test_occurrences_and_epochs_are_sampled_independently():
    examples = [Example("umbrella", "umbrella")] * 200
    resampled = BPEDropoutDataset(pair_dataset(examples), {"source": 0.5, "target": 0.5}, seed=1)
    choices = [tuple(map(tuple, rows_of(resampled.epoch(epoch).sides[name]))) for epoch in range(3) for name in BOTH]
    assert len(set(choices)) == 6
    assert min(len(set(rows)) for rows in choices) > 5


def test_an_epoch_is_a_function_of_seed_and_number():
    def ids(resampled, epoch):
        return [side.ids.tolist() for side in resampled.epoch(epoch).sides.values()]

    again = BPEDropoutDataset(pair_dataset(), BOTH, seed=1)
    later, earlier = ids(again, 7), ids(again, 2)  # in another order, and without the epochs before
    assert earlier == ids(RESAMPLED[1], 2) != later == ids(RESAMPLED[1], 7)
    assert earlier != ids(RESAMPLED[2], 2)


def test_without_dropout_nothing_is_resampled():
    pairs = pair_dataset()
    resampled = BPEDropoutDataset(pairs, {"source": 0.0, "target": 0.0}, seed=1)
    assert resampled.epoch(0) is resampled.epoch(5) is pairs
    assert resampled.lengths.tolist() == pairs.lengths.tolist()
    letters = train_tokenizer(Characters(), SENTENCES)
    characters = PairDataset(EXAMPLES, letters, letters, 9)
    assert BPEDropoutDataset(characters, {"source": 0.0, "target": 0.0}, 1).sides == {}


def test_a_language_model_is_resampled_too():
    resampled = BPEDropoutDataset(PairDataset(EXAMPLES, None, TOKENIZER, 100), BOTH, seed=1)
    assert resampled.lengths.shape == (len(EXAMPLES), 1)
    assert resampled.epoch(0).sides["target"].ids.tolist() != resampled.pairs.sides["target"].ids.tolist()


@pytest.mark.parametrize("max_tokens", [2, 7, 12])
def test_limits_hold_and_a_truncated_text_does_not_change(max_tokens):
    pairs = pair_dataset(max_tokens=max_tokens)
    resampled = BPEDropoutDataset(pairs, {"source": 0.5, "target": 0.5}, seed=1)
    assert len(pairs.sides["source"].truncated) > 0
    assert (resampled.lengths >= pairs.lengths).all()
    assert resampled.lengths.max() == max_tokens + 1
    for epoch in range(5):
        for name, side in resampled.epoch(epoch).sides.items():
            assert side.lengths.max() <= max_tokens + 1
            now, before = rows_of(side), rows_of(pairs.sides[name])
            assert all(now[index] == before[index] for index in pairs.sides[name].truncated)
            assert side.truncated.tolist() == pairs.sides[name].truncated.tolist()
        assert resampled.epoch(epoch).warnings() == pairs.warnings()


def test_few_texts_are_longer_than_estimated():
    pairs, unchanged, count = pair_dataset(), 0, 0
    resampled = BPEDropoutDataset(pairs, {"source": 0.3, "target": 0.3}, seed=1)
    for epoch in range(20):
        for name, side in resampled.epoch(epoch).sides.items():
            long = [
                (row, old) for row, old in zip(rows_of(side), rows_of(pairs.sides[name]), strict=True) if len(old) > 8
            ]
            unchanged, count = unchanged + sum(row == old for row, old in long), count + len(long)
    assert 0 < unchanged / count < 0.05


def test_every_step_has_a_batch_of_its_planned_shape_and_resumes():
    resampled = BPEDropoutDataset(pair_dataset(), BOTH, seed=1)
    buckets = BucketSampler(resampled.lengths, 256, seed=1)
    shapes = set()
    for step in islice(buckets.steps(), 3 * buckets.steps_per_epoch):
        batch = pad_batch(resampled.epoch(step.epoch).batch(step.indices), step.rows, step.width)
        shapes.add(tuple(batch.labels.shape))
        resumed = (
            BPEDropoutDataset(pair_dataset(), BOTH, seed=1) if step.number == buckets.steps_per_epoch + 1 else None
        )
        if resumed is not None:
            again = pad_batch(resumed.epoch(step.epoch).batch(step.indices), step.rows, step.width)
            assert again.labels.tolist() == batch.labels.tolist()
            assert again.source.values.tolist() == batch.source.values.tolist()
    assert len(shapes) == len({width for _, width in shapes})


def test_dropout_is_a_probability_below_one():
    assert read_tree(BPE, {"dropout": 0.1}).dropout == 0.1
    assert BPE().dropout == 0
    for wrong in (1.0, -0.1):
        with pytest.raises(Exception, match="'dropout' cannot be"):
            read_tree(BPE, {"dropout": wrong})
