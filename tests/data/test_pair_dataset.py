"""Pairs of texts become batches that can be checked by eye."""

from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2see.core.batch import IGNORE_INDEX
from seq2see.data.examples import Example
from seq2see.data.pair_dataset import NO_EXAMPLE, BucketSampler, EncodedTexts, PairDataset, pad_batch
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD, UNK, Characters, train_tokenizer

LETTERS = train_tokenizer(Characters(), ["aaabbc"])  # a = 4, b = 5, c = 6
EXAMPLES = [Example("ab", "c"), Example("", "ba"), Example("cab", "abc", location="my.tsv:3")]


def pair_dataset(examples=EXAMPLES, max_tokens=100):
    return PairDataset(examples, LETTERS, LETTERS, max_tokens)


def test_a_batch_by_hand():
    batch = pair_dataset().batch(np.array([2, 0]))
    assert batch.source.values.tolist() == [[6, 4, 5, EOS], [4, 5, EOS, PAD]]
    assert batch.source.lengths.tolist() == [4, 3]
    assert batch.target.values.tolist() == [[BOS, 4, 5, 6], [BOS, 6, PAD, PAD]]
    assert batch.target.lengths.tolist() == [4, 2]
    assert batch.labels.tolist() == [[4, 5, 6, EOS], [6, EOS, IGNORE_INDEX, IGNORE_INDEX]]
    assert batch.indices.tolist() == [2, 0]
    tensors = [batch.source.values, batch.source.lengths, batch.target.values, batch.labels, batch.indices]
    assert all(tensor.dtype == torch.int64 for tensor in tensors)


def test_an_empty_text_is_only_its_end():
    batch = pair_dataset().batch(np.array([1]))
    assert batch.source.values.tolist() == [[EOS] + [PAD] * 3]
    assert batch.source.lengths.tolist() == [1]
    nothing = pair_dataset([Example("", "")]).batch(np.array([0]))
    assert nothing.labels.tolist() == [[EOS] + [IGNORE_INDEX] * 3]
    assert nothing.target.values.tolist() == [[BOS] + [PAD] * 3]


@given(texts=st.lists(st.tuples(st.text("abc", max_size=20), st.text("abc", max_size=20)), min_size=1, max_size=9))
def test_every_row_has_the_tokens_of_its_example(texts):
    dataset = pair_dataset([Example(*pair) for pair in texts])
    order = np.arange(len(texts))[::-1].copy()
    batch = dataset.batch(order)
    for row, index in enumerate(order):
        source, target = texts[index]
        assert batch.source.values[row, batch.source.valid[row]].tolist() == [*LETTERS.encode(source), EOS]
        assert batch.target.values[row, batch.target.valid[row]].tolist() == [BOS, *LETTERS.encode(target)]
        assert batch.labels[row, batch.label_mask[row]].tolist() == [*LETTERS.encode(target), EOS]
    assert torch.equal(batch.label_mask, batch.target.valid)
    assert (batch.source.values[~batch.source.valid] == PAD).all()
    assert (batch.target.values[~batch.target.valid] == PAD).all()
    assert dataset.lengths[order].T.tolist() == [batch.source.lengths.tolist(), batch.target.lengths.tolist()]


def test_rows_are_as_wide_as_their_bucket_on_each_side():
    batch = pair_dataset([Example("a" * 8, "a" * 17)]).batch(np.array([0]))
    assert batch.source.values.shape == (1, 12)  # 8 and <eos>
    assert batch.target.values.shape == batch.labels.shape == (1, 20)


def test_a_source_can_have_a_maximum_length_of_its_own():
    dataset = PairDataset([Example("abcabc", "abcabc")], LETTERS, LETTERS, 5, source_max_tokens=2)
    assert dataset.lengths.tolist() == [[3, 6]]
    assert [text.split(" and ")[0] for text in dataset.warnings()] == [
        "1 source texts are longer than 2 tokens",
        "1 target texts are longer than 5 tokens",
    ]


def test_a_language_model_has_no_source():
    texts = PairDataset(EXAMPLES, None, LETTERS, 10)
    assert texts.batch(np.array([0])).source is None
    assert texts.lengths.tolist() == [[2], [3], [4]]
    assert list(texts.sides) == ["target"]


def test_long_texts_are_truncated_with_a_warning():
    examples = [Example("aaaa", "ab")] * 6 + EXAMPLES
    dataset = pair_dataset(examples, max_tokens=2)
    assert dataset.lengths.max() == 3
    assert dataset.batch(np.array([8])).labels[0, :3].tolist() == [4, 5, EOS]
    assert dataset.warnings() == [
        "7 source texts are longer than 2 tokens and were cut: "
        "example 1, example 2, example 3, example 4, example 5, ...",
        "1 target texts are longer than 2 tokens and were cut: my.tsv:3.",
    ]
    assert pair_dataset([Example("aaaa", "ab")] * 5, max_tokens=2).warnings()[0].endswith("example 4, example 5.")
    assert pair_dataset(max_tokens=3).warnings() == []


def test_many_unknown_symbols_are_a_warning_with_their_code_points():
    dataset = pair_dataset([Example("ab笔", "a" * 19 + "é"), Example("笔a🎉", "b")])
    # One in 21 of the target is below one in twenty: only the source has a warning.
    assert dataset.warnings() == ["50.0% of the source tokens are unknown, most often '笔' (U+7B14), '🎉' (U+1F389)."]
    assert dataset.batch(np.array([0])).source.values[0, 2] == UNK
    assert "'笔'" in pair_dataset([Example("ab", "a"), Example("笔", "b")]).warnings()[0]


def test_encoded_texts_are_read_only():
    side = EncodedTexts.of(["ab"], LETTERS, 5)
    with pytest.raises(ValueError, match="read-only"):
        side.ids[0] = 9
    assert side.ids.dtype == np.int32


def test_fingerprints_of_other_texts_and_tokenizers_differ():
    other = train_tokenizer(Characters(), ["aaabbcd"])
    datasets = [
        pair_dataset(),
        pair_dataset(EXAMPLES[::-1]),
        pair_dataset([Example("a", "bc"), *EXAMPLES[1:]]),
        pair_dataset([Example("abc", ""), *EXAMPLES[1:]]),
        pair_dataset([Example("a", "c"), Example("b", "ba"), *EXAMPLES[2:]]),  # the same letters, split elsewhere
        PairDataset(EXAMPLES, other, LETTERS, 100),
        PairDataset(EXAMPLES, None, LETTERS, 100),
    ]
    assert len({each.fingerprint for each in datasets}) == 7
    assert pair_dataset().fingerprint == pair_dataset().fingerprint


def test_a_padded_batch_by_hand():
    padded = pad_batch(pair_dataset().batch(np.array([2, 0])), rows=3, width=8)
    assert padded.source.values.tolist() == [
        [6, 4, 5, EOS, PAD, PAD, PAD, PAD],
        [4, 5, EOS, PAD, PAD, PAD, PAD, PAD],
        [EOS] + [PAD] * 7,
    ]
    assert padded.source.lengths.tolist() == [4, 3, 1]
    assert padded.target.values[:, :5].tolist() == [[BOS, 4, 5, 6, PAD], [BOS, 6, PAD, PAD, PAD], [BOS] + [PAD] * 4]
    assert padded.target.lengths.tolist() == [4, 2, 1]
    assert padded.labels[:, :5].tolist() == [
        [4, 5, 6, EOS, IGNORE_INDEX],
        [6, EOS] + [IGNORE_INDEX] * 3,
        [IGNORE_INDEX] * 5,
    ]
    assert padded.indices.tolist() == [2, 0, NO_EXAMPLE]
    assert padded.target.values.shape == padded.labels.shape == (3, 8)


@given(texts=st.lists(st.tuples(st.text("abc", max_size=40), st.text("abc", max_size=40)), min_size=1, max_size=30))
def test_padded_batches_have_one_shape_per_bucket_and_the_same_labels(texts):
    dataset = pair_dataset([Example(*pair) for pair in texts])
    buckets = BucketSampler(dataset.lengths, batch_tokens=96, seed=1)
    shapes, label_count = set(), 0
    for step in islice(buckets.steps(), buckets.steps_per_epoch):
        batch = dataset.batch(step.indices)
        full = pad_batch(batch, step.rows, step.width)
        rows = slice(len(step.indices))
        assert torch.equal(full.labels[rows][full.label_mask[rows]], batch.labels[batch.label_mask])
        assert torch.equal(full.source.values[rows][full.source.valid[rows]], batch.source.values[batch.source.valid])
        assert torch.equal(full.target.values[rows][full.target.valid[rows]], batch.target.values[batch.target.valid])
        assert full.indices[rows].tolist() == step.indices.tolist()
        assert not full.label_mask[len(step.indices) :].any()
        assert (full.source.lengths >= 1).all()
        assert (full.target.lengths >= 1).all()
        assert full.source.values.shape == full.target.values.shape == full.labels.shape
        shapes.add(tuple(full.labels.shape))
        label_count += int(full.label_mask.sum())
    assert len(shapes) == len({width for _, width in shapes})
    assert label_count == dataset.lengths[:, 1].sum()


def test_a_language_model_has_padded_batches_too():
    padded = pad_batch(PairDataset(EXAMPLES, None, LETTERS, 10).batch(np.array([0])), rows=2, width=5)
    assert padded.source is None
    assert padded.target.values.shape == padded.labels.shape == (2, 5)
