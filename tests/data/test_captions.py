"""Images with captions as token ids: the content of a batch, and the caption of each epoch."""

from __future__ import annotations

import numpy as np
import torch

from seq2see.core.batch import IGNORE_INDEX
from seq2see.data.image_dataset import CaptionDataset
from seq2see.data.readers.user_images import CaptionedImages
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD, WordLevel, train_tokenizer

CAPTIONS = (("a cat", "one black cat sits"), ("两 只 狗",), ("a bird", "birds", "一 只 鸟"))


def caption_dataset() -> tuple[CaptionDataset, CaptionedImages, object]:
    pixels = np.arange(3 * 4 * 4 * 3, dtype=np.uint8).reshape(3, 4, 4, 3)
    examples = CaptionedImages(pixels, tuple(each[0] for each in CAPTIONS), ("1", "2", "3"), CAPTIONS)
    tokenizer = train_tokenizer(WordLevel(), [text for each in CAPTIONS for text in each])
    return CaptionDataset(examples, tokenizer, 8, torch.device("cpu")), examples, tokenizer


def test_the_decoder_inputs_are_the_labels_shifted_right():
    captions, examples, tokenizer = caption_dataset()
    batch = captions.batch(np.array([1, 0]))
    assert torch.equal(batch.source.values[0], torch.from_numpy(examples.pixels[1]).permute(2, 0, 1))
    ids = tokenizer.encode("两 只 狗")
    assert batch.labels[0].tolist() == [*ids, EOS] + [IGNORE_INDEX] * (captions.width - len(ids) - 1)
    assert batch.target.values[0].tolist() == [BOS, *ids] + [PAD] * (captions.width - len(ids) - 1)
    assert batch.target.lengths.tolist() == [4, 3]
    assert batch.indices.tolist() == [1, 0]


def test_every_epoch_uses_the_next_caption_and_all_batches_have_the_same_width():
    captions, _, tokenizer = caption_dataset()
    texts = []
    for epoch in range(3):
        batch = captions.batch(np.arange(3), epoch)
        assert batch.labels.shape == (3, captions.width)
        texts.append([tokenizer.decode([n for n in row if n >= 0 and n != EOS]) for row in batch.labels.tolist()])
    assert [row[0] for row in texts] == ["a cat", "one black cat sits", "a cat"]
    assert [row[2] for row in texts] == ["a bird", "birds", "一只鸟"]
    assert len({row[1] for row in texts}) == 1


def test_lengths_are_those_of_the_first_captions():
    assert caption_dataset()[0].lengths.tolist() == [[3], [4], [3]]
    assert caption_dataset()[0].characters == len("a cat") + len("两 只 狗") + len("a bird")


def test_captions_that_are_too_long_are_a_warning():
    captions, examples, tokenizer = caption_dataset()
    assert captions.warnings() == []
    short = CaptionDataset(examples, tokenizer, 2, torch.device("cpu"))
    assert short.warnings() == ["3 captions are longer than 2 tokens and were cut."]
    assert captions.fingerprint != short.fingerprint
