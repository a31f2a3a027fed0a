"""Hugging Face folders of BERT's shape: our layers give what `transformers` gives, and cut texts as it does."""

from __future__ import annotations

import json

import pytest
import torch
from tokenizers import Tokenizer
from torch.testing import assert_close
from transformers import PreTrainedTokenizerFast

from bert_folders import SHAPES, bert_folder
from seq2see.core.batch import Batch, Paired, Sequences, Worded
from seq2see.sequences.tokenisers import BOS, EOS
from seq2see.workbench.model_folder import read_model
from seq2see.workbench.predict import load

# The third has the length of the longest row of the shape with fewest places.
PROMPTS = ["the cat", "a dog ran after the mat, 1234!", "我有一支笔，你有一本书 Zoë Zoë ab ab ab", "?"]


@pytest.fixture(scope="module", params=SHAPES)
def both(request, tmp_path_factory):
    """Theirs and ours, of the same folder."""
    folder = tmp_path_factory.mktemp("bert") / "it"
    theirs = bert_folder(folder, request.param)
    return theirs, read_model(folder, torch.device("cpu")), folder


def rows_of(ours) -> list[list[int]]:
    longest = ours.config.model.source.longest
    return [[BOS, *ours.tokenisers.source.encode(text)[:longest], EOS] for text in PROMPTS]


def batch_of(rows) -> Batch:
    """Rows of different length side by side, in two sentences each; every piece is a word of its own."""
    source = Sequences.of(rows)
    return Batch(source, None, source.values, torch.arange(len(rows)))


def fed(ours, rows):
    """The same rows as they take them."""
    theirs = ours.tokenisers.source.numbers.theirs
    lengths = [len(row) for row in rows]
    ids = torch.zeros(len(rows), max(lengths), dtype=torch.long)
    for row, numbers in enumerate(rows):
        ids[row, : len(numbers)] = torch.tensor([theirs[number] for number in numbers])
    return {"input_ids": ids, "attention_mask": (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()}


@torch.inference_mode()
def test_every_hidden_state_is_theirs_and_padding_changes_none(both):
    theirs, ours, _ = both
    rows = rows_of(ours)
    assert len({len(row) for row in rows}) == len(rows)
    expected = theirs.base_model(**fed(ours, rows)).last_hidden_state
    found = ours.module.encode(batch_of(rows).source).values
    for row, ids in enumerate(rows):
        assert_close(found[row, : len(ids)], expected[row, : len(ids)], rtol=0, atol=1e-4)


@torch.inference_mode()
def test_second_sentences_are_told_apart_as_there(both):
    theirs, ours, _ = both
    rows = rows_of(ours)
    sentences = Sequences.of([[int(place > 2) for place in range(len(row))] for row in rows]).values
    source = batch_of(rows).source
    found = ours.module.encode(Paired(source.values, source.lengths, sentences)).values
    expected = theirs.base_model(**fed(ours, rows), token_type_ids=sentences).last_hidden_state
    for row, ids in enumerate(rows):
        assert_close(found[row, : len(ids)], expected[row, : len(ids)], rtol=0, atol=1e-4)


@torch.inference_mode()
def test_every_score_of_a_head_is_theirs(both):
    theirs, ours, _ = both
    rows, kind = rows_of(ours), ours.config.model.target.kind
    batch = batch_of(rows)
    if kind == "tags":
        words = torch.arange(batch.source.values.size(1)).expand_as(batch.source.values)
        batch = Batch(Worded(batch.source.values, batch.source.lengths, words), None, batch.labels, batch.indices)
    found, expected = ours.module(batch), theirs(**fed(ours, rows))
    order = list(ours.tokenisers.source.numbers.theirs)
    if kind == "vector":
        real = fed(ours, rows)["attention_mask"][..., None]
        means = (expected.last_hidden_state * real).sum(1) / real.sum(1)
        assert_close(found[:, 0], torch.nn.functional.normalize(means, dim=-1), rtol=0, atol=1e-4)
        return
    if kind == "label":
        assert_close(found[:, 0], expected.logits, rtol=0, atol=1e-4)
        return
    if kind == "blanks-and-pairs":
        assert_close(found[:, 0, :2], expected.seq_relationship_logits.flip(-1), rtol=0, atol=1e-4)
    for row, ids in enumerate(rows):
        places = slice(int(kind == "blanks-and-pairs"), len(ids))
        if kind == "tags":
            assert_close(found[row, places], expected.logits[row, places], rtol=0, atol=1e-4)
            continue
        scores = expected.prediction_logits if kind == "blanks-and-pairs" else expected.logits
        assert_close(found[row, places], scores[row, places][:, order], rtol=0, atol=1e-4)


def test_texts_are_cut_as_there_with_cls_before_and_sep_behind(both):
    _, ours, folder = both
    theirs = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    numbers = ours.tokenisers.source.numbers.theirs
    for text in [*PROMPTS, "THE Cát\n sat", "naïve Ω 🎉", "", "猫"]:
        cut = [BOS, *ours.tokenisers.source.encode(text), EOS]
        assert [numbers[number] for number in cut] == theirs(text)["input_ids"]


@pytest.mark.parametrize("lower", [True, False])
def test_a_vocabulary_of_lines_cuts_as_the_whole_file_does(tmp_path, lower):
    bert_folder(tmp_path / "it", "fill")
    content = json.loads((tmp_path / "it" / "tokenizer.json").read_text(encoding="utf-8"))
    content["normalizer"]["lowercase"] = lower
    whole = Tokenizer.from_str(json.dumps(content))
    pieces = [whole.id_to_token(number) for number in range(whole.get_vocab_size())]
    (tmp_path / "it" / "tokenizer.json").unlink()
    (tmp_path / "it" / "vocab.txt").write_text("".join(piece + "\n" for piece in pieces), encoding="utf-8")
    if not lower:
        (tmp_path / "it" / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    ours = load(tmp_path / "it").tokenisers.source
    for text in [*PROMPTS, "THE Cát sat", "naïve Ω 🎉"]:
        assert [ours.numbers.theirs[number] for number in ours.encode(text)] == whole.encode(text).ids[1:-1]
