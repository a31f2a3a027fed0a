"""Every epoch cuts the training texts anew; what they say, the plan of batches and other runs stay the same."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2see.core.settings import read_tree
from seq2see.sequences.bpe_dropout import (
    MAX_SEGMENTATIONS,
    MIN_SEGMENTATIONS,
    BPEDropoutDataset,
    BPEDropoutSide,
    SegmentationPools,
)
from seq2see.sequences.bpe_merges import BPEMerges
from seq2see.sequences.buckets import BucketSampler, bucket_widths
from seq2see.sequences.labeled import LabeledTextDataset
from seq2see.sequences.pair_dataset import EncodedTexts, PairDataset, pad_batch
from seq2see.sequences.tokenizer_training import train_tokenizer
from seq2see.sequences.tokenizers import BPE, EOS, Characters
from seq2see.sources.examples import Example

WORDS = ["the", "cat", "sat", "on", "another", "umbrella", "yesterday", "morning", "while", "nobody", "looked"]
SENTENCES = [
    " ".join(WORDS[(start * step) % len(WORDS)] for start in range(size)) for step in (1, 3, 4) for size in range(20)
]
TOKENIZER = train_tokenizer(BPE(vocab_size=400), SENTENCES)
EXAMPLES = [Example(one, other) for one, other in zip(SENTENCES, SENTENCES[::-1], strict=True)]
BOTH = {"source": 0.2, "target": 0.1}


def pairs(examples=EXAMPLES, max_tokens=100):
    return PairDataset(examples, TOKENIZER, TOKENIZER, max_tokens)


def written(side: EncodedTexts):
    """The ids of each text, <eos> included."""
    return [side.ids[start:end].tolist() for start, end in zip(side.starts, side.starts[1:], strict=False)]


def test_choosing_cuts_by_hand():
    # Word 0 is usually (7,) and may be cut (4, 5) or (4, 6, 5); word 1 is <eos>.
    pools = SegmentationPools.of([[(7,), (4, 5), (4, 6, 5)], [(EOS,), (EOS,)]])
    usual = EncodedTexts(np.array([7, 7, EOS, EOS, 7, EOS], np.int32), np.array([0, 3, 4, 6]), np.array([], np.int64))
    side = BPEDropoutSide(usual, [[0, 0, 1], [1], [0, 1]], pools)
    random_bits = np.array([0, 65535, 40000, 0, 32768, 9])  # below one half: the first choice, else the second
    found = side.resample(random_bits, max_lengths=np.array([9, 9, 9]))
    assert written(found) == [[4, 5, 4, 6, 5, EOS], [EOS], [4, 6, 5, EOS]]
    assert found.ids.dtype == np.int32
    assert found.lengths.tolist() == [6, 1, 4]
    # A text without room keeps its usual cut; a text that just fits does not.
    assert written(side.resample(random_bits, max_lengths=np.array([5, 9, 4]))) == [[7, 7, EOS], [EOS], [4, 6, 5, EOS]]


def test_there_is_room_for_what_stands_in_front_of_a_text():
    labeled = LabeledTextDataset([Example(text, "a") for text in SENTENCES], TOKENIZER, ["a"], 100)
    recut = BPEDropoutDataset(labeled, {"source": 0.2}, seed=1)
    assert (recut.lengths >= labeled.lengths).all()
    for epoch in range(3):
        assert (recut.epoch(epoch).lengths[:, 0] <= bucket_widths(recut.lengths)).all()


def test_room_by_hand():
    # Both cuts are as likely: 2.5 tokens on average and 1/2 standard deviation; two words 5 and sqrt(1/2).
    pools = SegmentationPools.of([[(7,), (4, 5), (4, 6, 5)], [(EOS,), (EOS,)], [(9, 8), (9,), (9,)]])
    usual = EncodedTexts(
        np.array([7, 7, EOS, 7, EOS, 9, 8, EOS], np.int32), np.array([0, 3, 5, 8]), np.array([], dtype=np.int64)
    )
    side = BPEDropoutSide(usual, [[0, 0, 1], [0, 1], [2, 1]], pools)
    assert side.estimate_lengths(max_tokens=100).tolist() == [7, 4, 3]  # 6.71, 4.0; the usual cut always fits
    assert side.estimate_lengths(max_tokens=4).tolist() == [5, 4, 3]


@given(epoch=st.integers(0, 50), seed=st.integers(0, 3))
def test_every_epoch_says_the_same_in_other_pieces(epoch, seed):
    found = RECUT[seed].epoch(epoch)
    for name, side in found.sides.items():
        for row, text in zip(written(side), (getattr(example, name) for example in EXAMPLES), strict=True):
            assert row[-1] == EOS
            assert EOS not in row[:-1]
            assert TOKENIZER.decode(row) == text
    assert (found.lengths <= bucket_widths(RECUT[seed].lengths)[:, None]).all()
    assert written(found.sides["source"]) != written(RECUT[seed].epoch(epoch + 1).sides["source"])
    assert found.examples is EXAMPLES


RECUT = {seed: BPEDropoutDataset(pairs(), BOTH, seed) for seed in range(4)}


def test_every_cut_comes_from_the_pool_of_its_word_and_all_are_used():
    text = [Example("another umbrella", "umbrella")] * 40
    recut = BPEDropoutDataset(pairs(text), {"source": 0.5, "target": 0.0}, seed=3)
    merges = BPEMerges(*TOKENIZER.merges)
    pool = set(merges.sample(" umbrella", 40, 0.5, seed=3))  # as many as it occurs
    seen = set()
    for epoch in range(40):
        for row in written(recut.epoch(epoch).sides["source"]):
            texts = TOKENIZER.pieces(row)
            seen.add(tuple(row[next(i for i, piece in enumerate(texts) if piece.startswith("▁")) : -1]))
    # In 1,600 choices each of 40 is made; a row that is too long shows the usual cut, which is in the pool too.
    assert seen == pool | {merges.usual(" umbrella")}
    assert recut.epoch(1).sides["target"] is recut.pairs.sides["target"]


@pytest.mark.parametrize(
    "occurrences,size",
    [
        (1, MIN_SEGMENTATIONS),
        (MIN_SEGMENTATIONS + 3, MIN_SEGMENTATIONS + 3),
        (MAX_SEGMENTATIONS + 5, MAX_SEGMENTATIONS),
    ],
)
def test_a_pool_has_as_many_cuts_as_its_word_occurs_within_bounds(occurrences, size):
    recut = BPEDropoutDataset(pairs([Example("morning", "")] * occurrences), {"source": 0.1, "target": 0.1}, seed=1)
    assert recut.sides["source"].pools.choices.tolist() == [size, 1]
    assert recut.sides["target"].pools.choices.tolist() == [1]


def test_occurrences_and_epochs_choose_each_for_itself():
    recut = BPEDropoutDataset(pairs([Example("umbrella", "umbrella")] * 200), {"source": 0.5, "target": 0.5}, seed=1)
    choices = [tuple(map(tuple, written(recut.epoch(epoch).sides[name]))) for epoch in range(3) for name in BOTH]
    assert len(set(choices)) == 6
    assert min(len(set(rows)) for rows in choices) > 5


def test_an_epoch_is_a_function_of_seed_and_number():
    def ids(recut, epoch):
        return [side.ids.tolist() for side in recut.epoch(epoch).sides.values()]

    again = BPEDropoutDataset(pairs(), BOTH, seed=1)
    later, earlier = ids(again, 7), ids(again, 2)  # in another order, and without the epochs before
    assert earlier == ids(RECUT[1], 2) != later == ids(RECUT[1], 7)
    assert earlier != ids(RECUT[2], 2)


def test_without_dropout_nothing_is_recut():
    found = pairs()
    recut = BPEDropoutDataset(found, {"source": 0.0, "target": 0.0}, seed=1)
    assert recut.epoch(0) is recut.epoch(5) is found
    assert recut.lengths.tolist() == found.lengths.tolist()
    letters = train_tokenizer(Characters(), SENTENCES)
    assert BPEDropoutDataset(PairDataset(EXAMPLES, letters, letters, 9), {"source": 0.0, "target": 0.0}, 1).sides == {}


def test_a_language_model_is_recut_too():
    recut = BPEDropoutDataset(PairDataset(EXAMPLES, None, TOKENIZER, 100), BOTH, seed=1)
    assert recut.lengths.shape == (len(EXAMPLES), 1)
    assert recut.epoch(0).sides["target"].ids.tolist() != recut.pairs.sides["target"].ids.tolist()


@pytest.mark.parametrize("limit", [2, 7, 12])
def test_limits_hold_and_a_text_that_was_cut_short_stays_as_it_is(max_tokens):
    usual = pairs(max_tokens=max_tokens)
    recut = BPEDropoutDataset(usual, {"source": 0.5, "target": 0.5}, seed=1)
    assert len(usual.sides["source"].truncated) > 0
    assert (recut.lengths >= usual.lengths).all()
    assert recut.lengths.max() == max_tokens + 1
    for epoch in range(5):
        for name, side in recut.epoch(epoch).sides.items():
            assert side.lengths.max() <= max_tokens + 1
            now, before = written(side), written(usual.sides[name])
            assert all(now[index] == before[index] for index in usual.sides[name].truncated)
            assert side.truncated.tolist() == usual.sides[name].truncated.tolist()
        assert recut.epoch(epoch).warnings() == usual.warnings()


def test_few_texts_are_too_long_for_their_room():
    usual, kept, count = pairs(), 0, 0
    recut = BPEDropoutDataset(usual, {"source": 0.3, "target": 0.3}, seed=1)
    for epoch in range(20):
        for name, side in recut.epoch(epoch).sides.items():
            long = [
                (row, old) for row, old in zip(written(side), written(usual.sides[name]), strict=True) if len(old) > 8
            ]
            kept, count = kept + sum(row == old for row, old in long), count + len(long)
    assert 0 < kept / count < 0.05


def test_every_step_has_a_batch_of_its_planned_shape_and_resumes():
    recut = BPEDropoutDataset(pairs(), BOTH, seed=1)
    buckets = BucketSampler(recut.lengths, 256, seed=1)
    shapes = set()
    for step in islice(buckets.steps(), 3 * buckets.steps_per_epoch):
        batch = pad_batch(recut.epoch(step.epoch).batch(step.indices), step.rows, step.width)
        shapes.add(tuple(batch.labels.shape))
        resumed = BPEDropoutDataset(pairs(), BOTH, seed=1) if step.number == buckets.steps_per_epoch + 1 else None
        if resumed is not None:
            again = pad_batch(resumed.epoch(step.epoch).batch(step.indices), step.rows, step.width)
            assert again.labels.tolist() == batch.labels.tolist()
            assert again.source.values.tolist() == batch.source.values.tolist()
    assert len(shapes) == len({width for _, width in shapes})


def test_dropout_is_a_chance_below_one():
    assert read_tree(BPE, {"dropout": 0.1}).dropout == 0.1
    assert BPE().dropout == 0
    for wrong in (1.0, -0.1):
        with pytest.raises(Exception, match="'dropout' cannot be"):
            read_tree(BPE, {"dropout": wrong})
