"""Running text in windows: inputs and labels, and that every epoch reads the text once, from another offset."""

from __future__ import annotations

import numpy as np
import pytest

from seq2see.core.batch import IGNORE_INDEX
from seq2see.core.errors import UserError
from seq2see.data.examples import Example
from seq2see.data.tokenizers.tokenizer import BOS, BPE, EOS, PAD, Characters, Whitespace, WordLevel, train_tokenizer
from seq2see.data.windows import TextDataset, WindowSampler

TEXT = "abcdefg\nhijklmn\n"


def texts(*contents: str, width: int = 5, tokenizer=None) -> TextDataset:
    tokenizer = tokenizer or train_tokenizer(Characters(), contents)
    return TextDataset([Example("", content) for content in contents], tokenizer, width)


class TestTextDataset:
    def test_windows_by_hand(self):
        dataset = texts(TEXT)
        assert len(dataset) == 4
        assert dataset.lengths.tolist() == [[5], [5], [5], [1]]
        batch = dataset.batch(np.array([1, 3]))
        whole = dataset.tokenizer.encode(TEXT)
        assert batch.source is None
        assert batch.target.values.tolist() == [[BOS, *whole[5:9]], [BOS, PAD, PAD, PAD, PAD]]
        assert batch.labels.tolist() == [whole[5:10], [whole[15], *[IGNORE_INDEX] * 4]]
        assert batch.target.lengths.tolist() == [5, 1]
        assert batch.indices.tolist() == [1, 3]

    def test_the_context_of_a_window_has_no_labels(self):
        tokenizer = train_tokenizer(Characters(), [TEXT])
        dataset, whole = TextDataset([Example("", TEXT)], tokenizer, 5, context=3), tokenizer.encode(TEXT)
        batch = dataset.batch(np.array([0, 1, 3]))
        assert batch.target.values.tolist() == [
            [BOS, *whole[:4], *[PAD] * 3], [BOS, *whole[2:9]], [BOS, *whole[12:15], *[PAD] * 4]
        ]  # fmt: skip
        ignored = [IGNORE_INDEX] * 3
        assert batch.labels.tolist() == [
            [*whole[:5], *ignored], [*ignored, *whole[5:10]], [*ignored, whole[15], IGNORE_INDEX, *ignored]
        ]  # fmt: skip
        assert batch.target.lengths.tolist() == [5, 8, 4]
        labels = dataset.batch(np.arange(len(dataset))).labels
        assert labels[labels != IGNORE_INDEX].tolist() == whole

    @pytest.mark.parametrize(
        ("kind", "unit"),
        [(Characters(), "character"), (WordLevel(), "word"), (Whitespace(), "word"), (BPE(vocab_size=300), "token")],
        ids=str,
    )
    def test_a_unit_has_a_name(self, kind, unit):
        assert texts(TEXT, tokenizer=train_tokenizer(kind, [TEXT])).unit == unit

    def test_every_token_is_a_label_once(self):
        dataset = texts(TEXT)
        labels = dataset.batch(np.arange(len(dataset))).labels
        assert labels[labels != IGNORE_INDEX].tolist() == dataset.tokenizer.encode(TEXT)

    def test_between_two_texts_is_an_eos(self):
        dataset = texts("ab\n", "cd", "e")
        ids = dataset.tokenizer.encode_many(["ab\n", "cd", "e"])
        assert dataset.ids.tolist() == [*ids[0], EOS, *ids[1], EOS, *ids[2]]
        assert dataset.characters == 6

    def test_the_starts_of_lines_are_stored(self):
        dataset = texts("", "ab\ncd", "", "e\n\nf\n", "")
        ids = dict(zip("abcdef\n", dataset.tokenizer.encode("abcdef\n"), strict=True))
        expected = [EOS if letter == "|" else ids[letter] for letter in "|ab\ncd||e\n\nf\n|"]
        assert dataset.ids.tolist() == expected
        assert dataset.line_starts.tolist() == [1, 4, 8, 10, 11]
        assert dataset.ids.dtype == np.int32

    def test_line_ends_are_part_of_the_text_and_other_separators_end_no_line(self):
        content = "one\u2028two\x85\r\nthree\n\nfour"
        bpe = train_tokenizer(BPE(vocab_size=300), [content])
        dataset = texts(content, width=100, tokenizer=bpe)
        assert bpe.decode(dataset.ids.tolist()) == content

    def test_fingerprints_of_other_texts_differ(self):
        tokenizer = train_tokenizer(Characters(), [TEXT])
        assert texts(TEXT, tokenizer=tokenizer).fingerprint == texts(TEXT, tokenizer=tokenizer).fingerprint
        assert texts(TEXT, tokenizer=tokenizer).fingerprint != texts(TEXT[:-1], tokenizer=tokenizer).fingerprint

    def test_unknown_characters_are_a_warning(self):
        tokenizer = train_tokenizer(Characters(), ["abc"])
        assert texts("abcx" * 10, tokenizer=tokenizer).warnings() == ["25.0% of the characters are unknown."]
        assert texts("abc" * 10, tokenizer=tokenizer).warnings() == []

    def test_only_in_pre_tokenized_text_the_name_of_the_unknown_token_is_a_word(self):
        characters, words = (train_tokenizer(kind, ["a b c"]) for kind in (Characters(), Whitespace()))
        assert texts("<unk>", tokenizer=characters).unknown_rate == 1
        assert texts("<unk> a x", tokenizer=words).unknown_rate == 1 / 3

    def test_files_are_named_once_and_texts_without_a_file_are_skipped(self):
        examples = [Example("", "a", location=location) for location in ("a.txt", "", "b.txt", "a.txt")]
        assert TextDataset(examples, train_tokenizer(Characters(), ["a"]), 5).location == "a.txt, b.txt"


class TestWindows:
    def test_an_epoch_reads_every_window_once_and_the_next_begins_elsewhere(self):
        dataset = texts("".join(map(chr, range(0x4E00, 0x4F50))), width=7)  # no character twice
        windows = WindowSampler(dataset, batch_tokens=21, seed=3)
        assert windows.rows == 3
        orders, offsets = [], []
        for epoch in range(2):
            steps = range(epoch * windows.steps_per_epoch, (epoch + 1) * windows.steps_per_epoch)
            indices = [index for step in steps for index in windows.batch_at(step).indices.tolist()]
            orders.append(indices)
            batch = windows.batch_at(epoch * windows.steps_per_epoch)
            row = batch.labels[0].tolist()
            starts = [at for at in range(len(dataset.ids) - 6) if dataset.ids[at : at + 7].tolist() == row]
            offsets.append({start % 7 for start in starts})
            assert set(indices) == set(range(windows.window_count))
            assert len(indices) - windows.window_count < windows.rows  # a last batch is filled up
        assert orders[0] != orders[1]
        assert offsets[0] != offsets[1]

    def test_a_last_batch_is_filled_up_from_the_beginning_of_its_epoch(self):
        windows = WindowSampler(texts(TEXT * 20, width=7), batch_tokens=28, seed=3)
        assert (windows.window_count, windows.rows, windows.steps_per_epoch) == (44, 4, 11)
        windows = WindowSampler(texts(TEXT * 20, width=7), batch_tokens=49, seed=3)
        first, last = (
            windows.batch_at(0).indices.tolist(),
            windows.batch_at(windows.steps_per_epoch - 1).indices.tolist(),
        )
        assert last[44 % 7 :] == first[: 7 - 44 % 7]

    def test_batches_are_full_and_of_one_shape(self):
        windows = WindowSampler(texts(TEXT * 20, width=7), batch_tokens=21, seed=3)
        for step in range(3 * windows.steps_per_epoch):
            batch = windows.batch_at(step)
            assert batch.labels.shape == (3, 7)
            assert (batch.labels != IGNORE_INDEX).all()

    def test_a_step_does_not_depend_on_the_steps_before_it(self):
        dataset = texts(TEXT * 20, width=7)
        one, other = WindowSampler(dataset, 21, seed=3), WindowSampler(dataset, 21, seed=3)
        for step in range(20):
            one.batch_at(step)
        assert one.batch_at(11).labels.tolist() == other.batch_at(11).labels.tolist()
        assert WindowSampler(dataset, 21, seed=4).batch_at(11).labels.tolist() != other.batch_at(11).labels.tolist()

    def test_a_text_that_is_too_short_is_refused(self):
        dataset = texts(TEXT, width=10)
        message = r"16 tokens: too few for two windows of 10.*target\.max_tokens to 8 or less"
        with pytest.raises(UserError, match=message):
            WindowSampler(dataset, batch_tokens=20, seed=1)
        WindowSampler(texts(TEXT, width=8), batch_tokens=20, seed=1)  # the hint is correct

    @pytest.mark.parametrize(
        ("text", "hint"), [("abcd", "longer text, or set target.max_tokens to 2 or less."), ("abc", "longer text.")]
    )
    def test_a_window_of_one_token_is_no_hint(self, text, hint):
        with pytest.raises(UserError) as caught:
            WindowSampler(texts(text, width=3), batch_tokens=20, seed=1)
        assert caught.value.hint == f"Give a {hint}"

    def test_a_batch_that_is_too_small_is_refused(self):
        with pytest.raises(UserError, match="too small for windows of 5"):
            WindowSampler(texts(TEXT), batch_tokens=4, seed=1)
        assert WindowSampler(texts(TEXT), batch_tokens=5, seed=1).rows == 1
