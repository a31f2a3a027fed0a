"""Hugging Face folders of BERT's shape: our layers give what `transformers` gives, and cut texts as it does."""

from __future__ import annotations

import json

import pytest
import torch
from tokenizers import Tokenizer
from torch.testing import assert_close
from transformers import PreTrainedTokenizerFast

from bert_folders import SHAPES, bert_folder
from seq2see.core.batch import Batch, SequencePairs, Sequences, WordSequences
from seq2see.data.tokenizers.tokenizer import BOS, EOS
from seq2see.runs.load import load, read_model

# The third has the length of the longest row of the shape with fewest places.
PROMPTS = ["the cat", "a dog ran after the mat, 1234!", "我有一支笔，你有一本书 Zoë Zoë ab ab ab", "?"]


@pytest.fixture(scope="module", params=SHAPES)
def both(request, tmp_path_factory):
    """Theirs and ours, of the same folder."""
    folder = tmp_path_factory.mktemp("bert") / "it"
    theirs = bert_folder(folder, request.param)
    return theirs, read_model(folder, torch.device("cpu")), folder


def rows_of(actual) -> list[list[int]]:
    longest = actual.config.model.source.max_tokens
    return [[BOS, *actual.tokenizers.source.encode(text)[:longest], EOS] for text in PROMPTS]


def batch_of(rows) -> Batch:
    """Rows of different length side by side, in two sentences each; every piece is a word of its own."""
    source = Sequences.of(rows)
    return Batch(source, None, source.values, torch.arange(len(rows)))


def fed(actual, rows):
    """The same rows as they take them."""
    theirs = actual.tokenizers.source.id_map.original_ids
    lengths = [len(row) for row in rows]
    ids = torch.zeros(len(rows), max(lengths), dtype=torch.long)
    for row, numbers in enumerate(rows):
        ids[row, : len(numbers)] = torch.tensor([theirs[number] for number in numbers])
    return {"input_ids": ids, "attention_mask": (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()}


@torch.inference_mode()
def test_hidden_states_match_transformers_with_padding(both):
    theirs, actual, _ = both
    rows = rows_of(actual)
    assert len({len(row) for row in rows}) == len(rows)
    expected = theirs.base_model(**fed(actual, rows)).last_hidden_state
    found = actual.module.encode(batch_of(rows).source).values
    for row, ids in enumerate(rows):
        assert_close(found[row, : len(ids)], expected[row, : len(ids)], rtol=0, atol=1e-4)


@torch.inference_mode()
def test_token_type_ids_match_transformers(both):
    theirs, actual, _ = both
    rows = rows_of(actual)
    sentences = Sequences.of([[int(place > 2) for place in range(len(row))] for row in rows]).values
    source = batch_of(rows).source
    found = actual.module.encode(SequencePairs(source.values, source.lengths, sentences)).values
    expected = theirs.base_model(**fed(actual, rows), token_type_ids=sentences).last_hidden_state
    for row, ids in enumerate(rows):
        assert_close(found[row, : len(ids)], expected[row, : len(ids)], rtol=0, atol=1e-4)


@torch.inference_mode()
def test_head_logits_match_transformers(both):
    theirs, actual, _ = both
    rows, kind = rows_of(actual), actual.config.model.target.kind
    batch = batch_of(rows)
    if kind == "tags":
        words = torch.arange(batch.source.values.size(1)).expand_as(batch.source.values)
        batch = Batch(
            WordSequences(batch.source.values, batch.source.lengths, words), None, batch.labels, batch.indices
        )
    found, expected = actual.module(batch), theirs(**fed(actual, rows))
    order = list(actual.tokenizers.source.id_map.original_ids)
    if kind == "embedding":
        real = fed(actual, rows)["attention_mask"][..., None]
        means = (expected.last_hidden_state * real).sum(1) / real.sum(1)
        assert_close(found[:, 0], torch.nn.functional.normalize(means, dim=-1), rtol=0, atol=1e-4)
        return
    if kind == "label":
        assert_close(found[:, 0], expected.logits, rtol=0, atol=1e-4)
        return
    if kind == "masked-tokens-nsp":
        assert_close(found[:, 0, :2], expected.seq_relationship_logits.flip(-1), rtol=0, atol=1e-4)
    for row, ids in enumerate(rows):
        places = slice(int(kind == "masked-tokens-nsp"), len(ids))
        if kind == "tags":
            assert_close(found[row, places], expected.logits[row, places], rtol=0, atol=1e-4)
            continue
        scores = expected.prediction_logits if kind == "masked-tokens-nsp" else expected.logits
        assert_close(found[row, places], scores[row, places][:, order], rtol=0, atol=1e-4)


def test_tokenization_matches_transformers(both):
    _, actual, folder = both
    theirs = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    numbers = actual.tokenizers.source.id_map.original_ids
    for text in [*PROMPTS, "THE Cát\n sat", "naïve Ω 🎉", "", "猫"]:
        cut = [BOS, *actual.tokenizers.source.encode(text), EOS]
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
    actual = load(tmp_path / "it").tokenizers.source
    for text in [*PROMPTS, "THE Cát sat", "naïve Ω 🎉"]:
        assert [actual.id_map.original_ids[number] for number in actual.encode(text)] == whole.encode(text).ids[1:-1]
