"""Labeled texts as batches, and unknown labels."""

from __future__ import annotations

import numpy as np
import pytest

from seq2see.core.batch import IGNORE_INDEX
from seq2see.core.errors import UserError
from seq2see.data.examples import Example
from seq2see.data.labeled_dataset import LabeledTextDataset
from seq2see.data.pair_dataset import NO_EXAMPLE, pad_batch
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD, Characters, train_tokenizer

EXAMPLES = [Example("abc", "good"), Example("b", "bad"), Example("猫狗", "good")]
TOKENIZER = train_tokenizer(Characters(), [example.source for example in EXAMPLES])


def texts(max_tokens: int = 9, labels=("bad", "good")) -> LabeledTextDataset:
    return LabeledTextDataset(EXAMPLES, TOKENIZER, labels, max_tokens)


def test_a_row_begins_and_ends_and_has_one_label():
    batch = texts().batch(np.array([1, 2]))
    assert batch.source.values.tolist() == [
        [BOS, *TOKENIZER.encode("b"), EOS, PAD],
        [BOS, *TOKENIZER.encode("猫狗"), EOS],
    ]
    assert batch.source.lengths.tolist() == [3, 4]
    assert batch.labels.tolist() == [[0], [1]]
    assert batch.indices.tolist() == [1, 2]
    assert texts().lengths.tolist() == [[5], [3], [4]]


def test_a_text_that_would_fill_its_row_alone_is_complete_after_bos():
    batch = texts().batch(np.array([0]))
    assert batch.source.values.tolist() == [[BOS, *TOKENIZER.encode("abc"), EOS, PAD, PAD, PAD]]


def test_a_long_text_is_truncated_with_a_warning():
    short = texts(max_tokens=2)
    assert short.batch(np.array([0])).source.values[0, :4].tolist() == [BOS, *TOKENIZER.encode("ab"), EOS]
    assert "1 source texts are longer than 2 tokens" in short.warnings()[0]


def test_an_unknown_label_is_refused_with_its_location():
    with pytest.raises(
        UserError, match=r"x\.tsv:7: The label 'ugly' does not occur in the training examples.*bad, good"
    ):
        LabeledTextDataset([Example("a", "ugly", location="x.tsv:7")], TOKENIZER, ("bad", "good"), 9)


@pytest.mark.parametrize(("count", "names"), [(10, "g, h, i, j."), (11, "g, h, i, j, ....")])
def test_of_many_labels_ten_are_named(count, names):
    with pytest.raises(UserError) as caught:
        LabeledTextDataset([Example("a", "ugly")], TOKENIZER, "abcdefghijk"[:count], 9)
    assert caught.value.message.endswith(names)


def test_labels_count_in_the_fingerprint():
    other = LabeledTextDataset([*EXAMPLES[:2], Example("猫狗", "bad")], TOKENIZER, ("bad", "good"), 9)
    assert texts().fingerprint == texts().fingerprint != other.fingerprint
    assert texts(max_tokens=2).fingerprint != texts().fingerprint  # and so do texts


def test_a_batch_can_be_padded_to_one_shape():
    batch = pad_batch(texts().batch(np.array([1, 2])), rows=4, width=8)
    assert batch.source.values.shape == (4, 8)
    assert batch.labels.tolist() == [[0], [1], [IGNORE_INDEX], [IGNORE_INDEX]]
    assert batch.indices.tolist() == [1, 2, NO_EXAMPLE, NO_EXAMPLE]
