"""Masked tokens: how many, which, their replacement; and texts that contain [MASK]."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch

from seq2see.core.batch import IGNORE_INDEX
from seq2see.core.errors import UserError
from seq2see.data.examples import Example
from seq2see.data.masking import (
    SHORT_SEQUENCE_PROBABILITY,
    MaskedTextDataset,
    MaskedTextPairDataset,
    crop_around_masks,
    encode_with_masks,
    mask_tokens,
)
from seq2see.data.tokenizers.tokenizer import (
    BOS,
    BPE,
    EOS,
    PAD,
    UNK,
    Characters,
    Tokenizer,
    Unigram,
    WordLevel,
    add_mask_token,
    train_tokenizer,
)
from seq2see.data.windows import WindowSampler

TEXT = "the cat sat on the mat.\n猫坐在垫子上。\nthe dog ran after the cat.\n"
MASK = 50


def uniforms(selection, replacement, random_token):
    return np.array([[selection], [replacement], [random_token]])


def letters(width: int = 12, lines: int = 60, kind: type[MaskedTextDataset] = MaskedTextDataset) -> MaskedTextDataset:
    text = TEXT * (lines // 3)
    return kind([Example("", text)], add_mask_token(train_tokenizer(Characters(), [text])), width)


# Which tokens are masked


def test_the_smallest_numbers_select_and_the_second_ones_decide_on_the_replacement():
    ids = np.array([[BOS, 10, 11, 12, 13, EOS, PAD]])
    inputs, labels = mask_tokens(ids, uniforms([0, 0.9, 0.1, 0.8, 0.7, 0, 0], [0.79] * 7, [0.5] * 7), MASK)
    assert labels.tolist() == [[IGNORE_INDEX, IGNORE_INDEX, 11, IGNORE_INDEX, IGNORE_INDEX, IGNORE_INDEX, IGNORE_INDEX]]
    assert inputs.tolist() == [[BOS, 10, MASK, 12, 13, EOS, PAD]]
    inputs, labels = mask_tokens(ids, uniforms([0, 0.9, 0.1, 0.8, 0.7, 0, 0], [0.9] * 7, [0.5] * 7), MASK)
    assert inputs[0, 2] == UNK + 1 + (MASK - UNK - 1) // 2
    inputs, labels = mask_tokens(ids, uniforms([0, 0.9, 0.1, 0.8, 0.7, 0, 0], [0.8] * 7, [0.5] * 7), MASK)
    assert inputs[0, 2] == 11
    assert labels[0, 2] == 11


def test_fifteen_per_cent_of_tokens_have_labels_and_of_these_eighty_are_masked_ten_random_ten_unchanged():
    generator = np.random.default_rng(1)
    ids = generator.integers(UNK + 1, MASK, (400, 100))
    inputs, labels = mask_tokens(ids, generator.random((3, 400, 100)), MASK)
    label_mask = labels != IGNORE_INDEX
    assert (label_mask.sum(1) == 15).all()
    assert (labels[label_mask] == ids[label_mask]).all()
    assert (inputs[~label_mask] == ids[~label_mask]).all()
    masked, unchanged = (inputs[label_mask] == MASK).mean(), (inputs[label_mask] == ids[label_mask]).mean()
    assert masked == pytest.approx(0.8, abs=0.02)
    assert unchanged == pytest.approx(0.1 + 0.1 / (MASK - UNK - 1), abs=0.02)
    random_tokens = inputs[label_mask & (inputs != MASK) & (inputs != ids)]
    assert set(random_tokens) == set(range(UNK + 1, MASK))  # any token, but no special token


def test_a_random_token_is_never_the_mask():
    inputs, _ = mask_tokens(np.array([[BOS, 10, EOS]]), uniforms([0.5] * 3, [0.95] * 3, [1 - 2**-53] * 3), MASK)
    assert inputs[0, 1] == MASK - 1


def test_a_short_text_has_one_label_and_special_or_unknown_tokens_have_none():
    ids = np.array([[BOS, 7, EOS], [BOS, UNK, EOS]])
    _, labels = mask_tokens(ids, np.full((3, 2, 3), 0.5), MASK)
    assert labels.tolist() == [[IGNORE_INDEX, 7, IGNORE_INDEX], [IGNORE_INDEX] * 3]


# Windows


def test_a_window_is_the_text_with_some_tokens_masked():
    texts = letters()
    batch = texts.batch(np.arange(4))
    whole = torch.where(batch.label_mask, batch.labels, batch.source.values)
    assert (whole[:, 0] == BOS).all()
    assert (whole[:, -1] == EOS).all()
    assert texts.tokenizer.decode(whole[:, 1:-1].flatten().tolist()) == (TEXT * 3)[:48]
    assert (batch.label_mask.sum(1) == 2).all()


def test_evaluation_windows_are_masked_by_their_index_alone():
    texts = letters()
    together, alone = texts.batch(np.array([3, 5])), texts.batch(np.array([5]))
    assert torch.equal(together.source.values[1], alone.source.values[0])
    assert torch.equal(together.labels[1], alone.labels[0])


def test_every_step_masks_other_tokens_depending_on_the_seed():
    texts = letters()

    def label_mask(seed, step):
        return texts.training_batch(np.zeros(8, np.int64), np.zeros(8, np.int64), seed, step).label_mask

    assert torch.equal(label_mask(1, 7), label_mask(1, 7))
    assert not torch.equal(label_mask(1, 7), label_mask(1, 8))
    assert not torch.equal(label_mask(1, 7), label_mask(2, 7))
    assert not torch.equal(label_mask(1, 7)[0], label_mask(1, 7)[1])


def test_some_training_windows_are_short_and_all_batches_have_one_shape():
    texts = letters()
    windows = WindowSampler(texts, batch_tokens=48, seed=1)
    batches = [windows.batch_at(step) for step in range(60)]
    assert {tuple(batch.source.values.shape) for batch in batches} == {(4, 14)}
    lengths = torch.cat([batch.source.lengths for batch in batches])
    assert int((lengths < 14).sum()) / len(lengths) == pytest.approx(SHORT_SEQUENCE_PROBABILITY, abs=0.08)
    assert int(lengths.min()) >= 3


# Pairs


def test_a_pair_is_cut_where_a_line_ends_and_labeled_by_whether_it_follows():
    texts = letters(width=20, kind=MaskedTextPairDataset)
    batch = texts.batch(np.arange(len(texts)))
    whole = torch.where(batch.label_mask, batch.labels, batch.source.values)
    follow = []
    for row, segments, length in zip(whole, batch.source.token_type_ids, batch.source.lengths, strict=True):
        ids = row[:length].tolist()
        end = ids.index(EOS)
        first, second = texts.tokenizer.decode(ids[1:end]), texts.tokenizer.decode(ids[end + 1 : -1])
        assert first.endswith("\n")
        assert any(line.startswith(second[:5]) for line in TEXT.splitlines())
        assert segments[:length].tolist() == [0] * (end + 1) + [1] * (len(ids) - end - 1)
        follow.append(int(row[0]))
        if row[0]:
            assert first + second in TEXT * 20
    assert 0.3 < np.mean(follow) < 0.8  # the text repeats three lines, so a random line follows in one of three cases
    assert set(batch.labels[:, 0].tolist()) == {0, 1}


@pytest.mark.parametrize(
    ("coin", "other", "second", "follows"),
    [(0.49, 0.9, "bb\nccc\ndddd\n", 1), (0.5, 0.4, "ccc\ndddd\n", 0), (0.5, 0.0, "bb\nccc\ndddd\n", 1)],
)
def test_a_pair_by_hand(coin, other, second, follows):
    """The first text is shorter than half of a window; a random line that follows counts as following."""
    text = "a\nbb\nccc\ndddd\n"
    pairs = MaskedTextPairDataset([Example("", text)], add_mask_token(train_tokenizer(Characters(), [text])), 30)
    numbers = np.full((4, 1, pairs.row_width), 0.5)
    numbers[0, 0, :4] = (1, 0, coin, other)
    batch = pairs.masked_batch(np.array([0]), np.array([0]), numbers, short=0.0)
    whole = torch.where(batch.label_mask, batch.labels, batch.source.values)[0, 1 : batch.source.lengths[0]].tolist()
    parts = [pairs.tokenizer.decode(whole[: whole.index(EOS)]), pairs.tokenizer.decode(whole[whole.index(EOS) + 1 :])]
    assert (*parts, int(batch.labels[0, 0])) == ("a\n", second, follows)


@pytest.mark.parametrize("count", [2, 3])
def test_pairs_need_three_lines(count):
    text = "a line\n" * count
    tokenizer = add_mask_token(train_tokenizer(Characters(), [text]))
    with pytest.raises(UserError, match="fewer than three lines") if count < 3 else nullcontext():
        MaskedTextPairDataset([Example("", text)], tokenizer, 8)


def test_pairs_need_lines():
    text = "one line without an end " * 50
    with pytest.raises(UserError, match=r"short\.txt: Pairs .* fewer than three lines"):
        MaskedTextPairDataset(
            [Example("", text, location="short.txt")], add_mask_token(train_tokenizer(Characters(), [text])), 8
        )


# Vocabularies and texts with [MASK]


@pytest.mark.parametrize("settings", [Characters(), WordLevel(), BPE(vocab_size=300), Unigram(vocab_size=300)], ids=str)
def test_every_kind_of_vocabulary_can_have_a_mask_that_no_text_is_split_into(settings, tmp_path):
    plain = train_tokenizer(settings, [TEXT])
    masked = add_mask_token(plain)
    assert masked.mask_id == len(plain) == len(masked) - 1
    assert masked.encode(TEXT) == plain.encode(TEXT)
    assert masked.mask_id not in masked.encode("a [MASK] b[MASK][MASK]")
    assert masked.decode([masked.mask_id]) == "[MASK]"
    masked.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json").mask_id == masked.mask_id
    with pytest.raises(AssertionError, match=r"no \[MASK\]"):
        _ = plain.mask_id


def test_a_mask_includes_the_preceding_space_if_tokens_do():
    byte_pairs = add_mask_token(train_tokenizer(BPE(vocab_size=320), [TEXT]))
    ids = encode_with_masks("the [MASK] sat", byte_pairs)
    assert ids == [*byte_pairs.encode("the"), byte_pairs.mask_id, *byte_pairs.encode(" sat")]
    assert encode_with_masks("the [MASK] ", byte_pairs)[-1:] == byte_pairs.encode(" ")  # the last space is no mask's
    characters = add_mask_token(train_tokenizer(Characters(), [TEXT]))
    assert encode_with_masks("on [MASK]he", characters) == [
        *characters.encode("on "),
        characters.mask_id,
        *characters.encode("he"),
    ]


def test_several_masks_and_chinese():
    characters = add_mask_token(train_tokenizer(Characters(), [TEXT]))
    mask = characters.mask_id
    assert encode_with_masks("[MASK]坐在[MASK][MASK]上", characters) == [
        mask, *characters.encode("坐在"), mask, mask, *characters.encode("上")
    ]  # fmt: skip


def test_a_text_without_a_mask_is_refused():
    with pytest.raises(UserError, match=r"no \[MASK\] in 'the cat'.*Write \[MASK\]"):
        encode_with_masks("the cat", letters().tokenizer)


def test_a_long_text_is_cropped_around_its_masks():
    ids = [*range(10, 30), MASK, *range(30, 35)]
    assert crop_around_masks(ids, MASK, 30) == ids
    assert crop_around_masks(ids, MASK, 5) == [28, 29, MASK, 30, 31]
    assert crop_around_masks([MASK, *ids], MASK, 22) == [MASK, *range(10, 30), MASK]
    with pytest.raises(UserError, match="span 22 tokens; the model reads 21"):
        crop_around_masks([MASK, *ids], MASK, 21)
    assert crop_around_masks([1, 2, 3, MASK], MASK, 3) == [2, 3, MASK]
    assert crop_around_masks([MASK, 1, 2, 3], MASK, 2) == [MASK, 1]
