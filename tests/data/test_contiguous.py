"""Contiguous batches: inputs and labels, and that segments follow each other without a gap."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from seq2see.core.batch import IGNORE_INDEX
from seq2see.core.errors import UserError
from seq2see.data.examples import Example
from seq2see.data.tokenizers.tokenizer import BOS, PAD, Characters, train_tokenizer
from seq2see.data.windows import ContiguousSampler, TextDataset, contiguous_batches, segment_ends

TEXT = "甲乙丙abcdefg\nhijklmn\n" * 20


def texts(content: str = TEXT, width: int = 7) -> TextDataset:
    return TextDataset([Example("", content)], train_tokenizer(Characters(), [content]), width)


def epoch_of(streams: ContiguousSampler, number: int) -> list:
    """The segments of one epoch: they begin where every row is reset."""
    batches, step = [], 0
    while True:
        batch = streams.batch_at(step)
        number -= bool(batch.reset.all())
        if number < -1:
            return batches
        batches += [batch] if number == -1 else []
        step += 1


class TestStreams:
    @pytest.mark.parametrize("number", [0, 1, 2])
    def test_an_epoch_reads_the_text_once_and_in_order(self, number):
        dataset = texts()
        segments = epoch_of(ContiguousSampler(dataset, batch_tokens=21, seed=3), number)
        labels = torch.cat([each.labels for each in segments], dim=1)
        length, read = len(dataset.ids) // 3, labels.size(1)
        assert length - 14 < read <= length
        possible = [[np.roll(dataset.ids, -at - row * length)[:read].tolist() for row in range(3)]
                    for at in range(len(dataset.ids))]  # fmt: skip
        assert labels.tolist() in possible

    def test_epochs_begin_elsewhere_and_continue_after_the_end_with_the_beginning(self):
        """Positions do not always share a batch; and over the epochs every token is a label."""
        dataset = texts("".join(chr(0x4E00 + offset) for offset in range(380)))
        streams = ContiguousSampler(dataset, batch_tokens=21, seed=3)
        batches = [streams.batch_at(step) for step in range(2000)]
        assert {token for batch in batches for token in batch.labels.flatten().tolist()} == set(dataset.ids.tolist())
        assert len({int(batch.labels[0, 0]) for batch in batches if batch.reset.all()}) > 80
        assert all(len(set(batch.labels.flatten().tolist())) == batch.labels.numel() for batch in batches)
        for batch in batches:
            assert dataset.text_at(int(batch.indices[2]))  # every row can be traced to its text

    def test_each_token_is_the_input_where_the_next_is_the_label(self):
        segments = epoch_of(ContiguousSampler(texts(), batch_tokens=21, seed=3), 1)
        inputs = torch.cat([each.target.values for each in segments], dim=1)
        labels = torch.cat([each.labels for each in segments], dim=1)
        assert inputs[:, 0].tolist() == [BOS] * 3
        assert inputs[:, 1:].tolist() == labels[:, :-1].tolist()
        assert [bool(each.reset.all()) for each in segments] == [True, *[False] * (len(segments) - 1)]

    def test_a_step_is_a_function_of_its_number(self):
        forwards, backwards = ContiguousSampler(texts(), 21, seed=3), ContiguousSampler(texts(), 21, seed=3)
        one = [forwards.batch_at(step) for step in range(60)]
        other = [backwards.batch_at(step) for step in reversed(range(60))][::-1]
        for first, second in zip(one, other, strict=True):
            assert first.labels.tolist() == second.labels.tolist()
            assert first.reset.tolist() == second.reset.tolist()
        different = ContiguousSampler(texts(), 21, seed=4)
        assert any(each.labels.shape != different.batch_at(step).labels.shape for step, each in enumerate(one))

    def test_the_learning_rate_is_scaled_by_the_length_of_a_segment(self):
        for batch in epoch_of(ContiguousSampler(texts(), batch_tokens=21, seed=3), 0):
            assert batch.lr_scale == batch.labels.size(1) / 7

    def test_a_row_can_be_traced_to_its_text(self):
        dataset = texts()
        batch = epoch_of(ContiguousSampler(dataset, batch_tokens=21, seed=3), 0)[4]
        ids = batch.labels[2].tolist()
        window = dataset.tokenizer.encode(dataset.text_at(int(batch.indices[2])))
        assert set(ids) & set(window)

    def test_a_batch_that_is_too_small_is_refused(self):
        with pytest.raises(UserError, match="too small for segments of 7"):
            ContiguousSampler(texts(), batch_tokens=6, seed=1)

    def test_a_text_that_is_too_short_is_refused(self):
        count = len(texts().ids)
        with pytest.raises(UserError, match=rf"too few for 60 streams.*set training\.batch_tokens to {count} or less"):
            ContiguousSampler(texts(), batch_tokens=420, seed=1)
        ContiguousSampler(texts(), batch_tokens=count, seed=1)  # the hint is correct


class TestLengths:
    def test_lengths_vary_around_the_usual_one_and_some_are_halved(self):
        lengths = np.diff(segment_ends(7_000_000, 70, seed=1, epoch=0), prepend=0)
        assert set((lengths % 5).tolist()) == {0}
        long = lengths[lengths > 50]
        assert long.mean() == pytest.approx(70, abs=0.2)
        assert long.std() == pytest.approx((5**2 + 25 / 12) ** 0.5, abs=0.1)  # and what rounding to fives adds
        assert len(long) / len(lengths) == pytest.approx(0.95, abs=0.01)
        assert lengths[lengths < 50].mean() == pytest.approx(35, abs=0.5)
        assert len(set(lengths.tolist())) < 20  # few shapes, because each needs a capture or a compilation

    def test_other_epochs_have_other_segments(self):
        first, second = (segment_ends(700, 70, seed=1, epoch=epoch).tolist() for epoch in (0, 1))
        assert first != second
        assert min(first[-1], second[-1]) > 700 - 100
        assert max(first[-1], second[-1]) <= 700

    def test_a_stream_that_is_shorter_than_its_first_segment_is_one_segment(self):
        assert {segment_ends(7, 7, seed, 0).tolist()[-1] for seed in range(20)} <= {3, 4, 5, 6, 7}
        assert any(segment_ends(70, 70, seed, 0).tolist() == [70] for seed in range(5))


class TestEvaluation:
    @pytest.mark.parametrize("rows", [1, 3, 16])
    def test_every_token_is_a_label_once(self, rows):
        dataset = texts()
        segments = list(contiguous_batches(dataset, rows))
        labels = torch.cat([each.labels for each in segments], dim=1)
        label_mask = labels != IGNORE_INDEX
        assert labels[label_mask].tolist() == dataset.ids.tolist()
        inputs = torch.cat([each.target.values for each in segments], dim=1)
        assert inputs[:, 0].tolist() == [BOS] * rows
        assert (inputs[~label_mask] == PAD).all()
        assert (inputs[:, 1:][label_mask[:, 1:]] == labels[:, :-1][label_mask[:, 1:]]).all()
