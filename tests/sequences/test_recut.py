"""Every epoch cuts the training texts anew; what they say, the plan of batches and other runs stay the same."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2see.core.settings import read_tree
from seq2see.sequences.buckets import Buckets, bucket_widths
from seq2see.sequences.labelled import LabelledTexts
from seq2see.sequences.merges import Merges
from seq2see.sequences.pairs import PairSet, Side, even
from seq2see.sequences.recut import FEWEST, MOST, Pools, RecutPairs, RecutSide
from seq2see.sequences.tokenisers import EOS, BytePairs, Characters
from seq2see.sequences.vocabularies import train_tokeniser
from seq2see.sources.examples import Example

WORDS = ["the", "cat", "sat", "on", "another", "umbrella", "yesterday", "morning", "while", "nobody", "looked"]
SENTENCES = [
    " ".join(WORDS[(start * step) % len(WORDS)] for start in range(size)) for step in (1, 3, 4) for size in range(20)
]
TOKENISER = train_tokeniser(BytePairs(size=400), SENTENCES)
EXAMPLES = [Example(one, other) for one, other in zip(SENTENCES, SENTENCES[::-1], strict=True)]
BOTH = {"source": 0.2, "target": 0.1}


def pairs(examples=EXAMPLES, limit=100):
    return PairSet(examples, TOKENISER, TOKENISER, limit)


def written(side: Side):
    """The ids of each text, <eos> included."""
    return [side.ids[start:end].tolist() for start, end in zip(side.starts, side.starts[1:], strict=False)]


def test_choosing_cuts_by_hand():
    # Word 0 is usually (7,) and may be cut (4, 5) or (4, 6, 5); word 1 is <eos>.
    pools = Pools.of([[(7,), (4, 5), (4, 6, 5)], [(EOS,), (EOS,)]])
    usual = Side(np.array([7, 7, EOS, EOS, 7, EOS], np.int32), np.array([0, 3, 4, 6]), np.array([], np.int64))
    side = RecutSide(usual, [[0, 0, 1], [1], [0, 1]], pools)
    draws = np.array([0, 65535, 40000, 0, 32768, 9])  # below one half: the first choice, else the second
    found = side.cut(draws, room=np.array([9, 9, 9]))
    assert written(found) == [[4, 5, 4, 6, 5, EOS], [EOS], [4, 6, 5, EOS]]
    assert found.ids.dtype == np.int32
    assert found.lengths.tolist() == [6, 1, 4]
    # A text without room keeps its usual cut; a text that just fits does not.
    assert written(side.cut(draws, room=np.array([5, 9, 4]))) == [[7, 7, EOS], [EOS], [4, 6, 5, EOS]]


def test_there_is_room_for_what_stands_in_front_of_a_text():
    labelled = LabelledTexts([Example(text, "a") for text in SENTENCES], TOKENISER, ["a"], 100)
    recut = RecutPairs(labelled, {"source": 0.2}, seed=1)
    assert (recut.lengths >= labelled.lengths).all()
    for epoch in range(3):
        assert (recut.epoch(epoch).lengths[:, 0] <= bucket_widths(recut.lengths)).all()


def test_room_by_hand():
    # Both cuts are as likely: 2.5 tokens on average and 1/2 standard deviation; two words 5 and sqrt(1/2).
    pools = Pools.of([[(7,), (4, 5), (4, 6, 5)], [(EOS,), (EOS,)], [(9, 8), (9,), (9,)]])
    usual = Side(
        np.array([7, 7, EOS, 7, EOS, 9, 8, EOS], np.int32), np.array([0, 3, 5, 8]), np.array([], dtype=np.int64)
    )
    side = RecutSide(usual, [[0, 0, 1], [0, 1], [2, 1]], pools)
    assert side.room_for(limit=100).tolist() == [7, 4, 3]  # 6.71, 4.0; the usual cut always fits
    assert side.room_for(limit=4).tolist() == [5, 4, 3]


@given(epoch=st.integers(0, 50), seed=st.integers(0, 3))
def test_every_epoch_says_the_same_in_other_pieces(epoch, seed):
    found = RECUT[seed].epoch(epoch)
    for name, side in found.sides.items():
        for row, text in zip(written(side), (getattr(example, name) for example in EXAMPLES), strict=True):
            assert row[-1] == EOS
            assert EOS not in row[:-1]
            assert TOKENISER.decode(row) == text
    assert (found.lengths <= bucket_widths(RECUT[seed].lengths)[:, None]).all()
    assert written(found.sides["source"]) != written(RECUT[seed].epoch(epoch + 1).sides["source"])
    assert found.examples is EXAMPLES


RECUT = {seed: RecutPairs(pairs(), BOTH, seed) for seed in range(4)}


def test_every_cut_comes_from_the_pool_of_its_word_and_all_are_used():
    text = [Example("another umbrella", "umbrella")] * 40
    recut = RecutPairs(pairs(text), {"source": 0.5, "target": 0.0}, seed=3)
    merges = Merges(*TOKENISER.merges)
    pool = set(merges.draw(" umbrella", 40, 0.5, seed=3))  # as many as it occurs
    seen = set()
    for epoch in range(40):
        for row in written(recut.epoch(epoch).sides["source"]):
            texts = TOKENISER.pieces(row)
            seen.add(tuple(row[next(i for i, piece in enumerate(texts) if piece.startswith("▁")) : -1]))
    # In 1,600 choices each of 40 is made; a row that is too long shows the usual cut, which is in the pool too.
    assert seen == pool | {merges.usual(" umbrella")}
    assert recut.epoch(1).sides["target"] is recut.pairs.sides["target"]


@pytest.mark.parametrize("occurrences,size", [(1, FEWEST), (FEWEST + 3, FEWEST + 3), (MOST + 5, MOST)])
def test_a_pool_has_as_many_cuts_as_its_word_occurs_within_bounds(occurrences, size):
    recut = RecutPairs(pairs([Example("morning", "")] * occurrences), {"source": 0.1, "target": 0.1}, seed=1)
    assert recut.sides["source"].pools.choices.tolist() == [size, 1]
    assert recut.sides["target"].pools.choices.tolist() == [1]


def test_occurrences_and_epochs_choose_each_for_itself():
    recut = RecutPairs(pairs([Example("umbrella", "umbrella")] * 200), {"source": 0.5, "target": 0.5}, seed=1)
    choices = [tuple(map(tuple, written(recut.epoch(epoch).sides[name]))) for epoch in range(3) for name in BOTH]
    assert len(set(choices)) == 6
    assert min(len(set(rows)) for rows in choices) > 5


def test_an_epoch_is_a_function_of_seed_and_number():
    def ids(recut, epoch):
        return [side.ids.tolist() for side in recut.epoch(epoch).sides.values()]

    again = RecutPairs(pairs(), BOTH, seed=1)
    later, earlier = ids(again, 7), ids(again, 2)  # in another order, and without the epochs before
    assert earlier == ids(RECUT[1], 2) != later == ids(RECUT[1], 7)
    assert earlier != ids(RECUT[2], 2)


def test_without_dropout_nothing_is_recut():
    found = pairs()
    recut = RecutPairs(found, {"source": 0.0, "target": 0.0}, seed=1)
    assert recut.epoch(0) is recut.epoch(5) is found
    assert recut.lengths.tolist() == found.lengths.tolist()
    letters = train_tokeniser(Characters(), SENTENCES)
    assert RecutPairs(PairSet(EXAMPLES, letters, letters, 9), {"source": 0.0, "target": 0.0}, 1).sides == {}


def test_a_language_model_is_recut_too():
    recut = RecutPairs(PairSet(EXAMPLES, None, TOKENISER, 100), BOTH, seed=1)
    assert recut.lengths.shape == (len(EXAMPLES), 1)
    assert recut.epoch(0).sides["target"].ids.tolist() != recut.pairs.sides["target"].ids.tolist()


@pytest.mark.parametrize("limit", [2, 7, 12])
def test_limits_hold_and_a_text_that_was_cut_short_stays_as_it_is(limit):
    usual = pairs(limit=limit)
    recut = RecutPairs(usual, {"source": 0.5, "target": 0.5}, seed=1)
    assert len(usual.sides["source"].truncated) > 0
    assert (recut.lengths >= usual.lengths).all()
    assert recut.lengths.max() == limit + 1
    for epoch in range(5):
        for name, side in recut.epoch(epoch).sides.items():
            assert side.lengths.max() <= limit + 1
            now, before = written(side), written(usual.sides[name])
            assert all(now[index] == before[index] for index in usual.sides[name].truncated)
            assert side.truncated.tolist() == usual.sides[name].truncated.tolist()
        assert recut.epoch(epoch).warnings() == usual.warnings()


def test_few_texts_are_too_long_for_their_room():
    usual, kept, count = pairs(), 0, 0
    recut = RecutPairs(usual, {"source": 0.3, "target": 0.3}, seed=1)
    for epoch in range(20):
        for name, side in recut.epoch(epoch).sides.items():
            long = [
                (row, old) for row, old in zip(written(side), written(usual.sides[name]), strict=True) if len(old) > 8
            ]
            kept, count = kept + sum(row == old for row, old in long), count + len(long)
    assert 0 < kept / count < 0.05


def test_every_step_has_a_batch_of_its_planned_shape_and_resumes():
    recut = RecutPairs(pairs(), BOTH, seed=1)
    buckets = Buckets(recut.lengths, 256, seed=1)
    shapes = set()
    for step in islice(buckets.steps(), 3 * buckets.per_epoch):
        batch = even(recut.epoch(step.epoch).batch(step.indices), step.rows, step.width)
        shapes.add(tuple(batch.labels.shape))
        resumed = RecutPairs(pairs(), BOTH, seed=1) if step.number == buckets.per_epoch + 1 else None
        if resumed is not None:
            again = even(resumed.epoch(step.epoch).batch(step.indices), step.rows, step.width)
            assert again.labels.tolist() == batch.labels.tolist()
            assert again.source.values.tolist() == batch.source.values.tolist()
    assert len(shapes) == len({width for _, width in shapes})


def test_dropout_is_a_chance_below_one():
    assert read_tree(BytePairs, {"dropout": 0.1}).dropout == 0.1
    assert BytePairs().dropout == 0
    for wrong in (1.0, -0.1):
        with pytest.raises(Exception, match="'dropout' cannot be"):
            read_tree(BytePairs, {"dropout": wrong})
