"""Hugging Face folders of GPT-2's and Llama's shape: our layers and our decoding give what `transformers` gives."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from causal_folders import SHAPES, causal_folder
from seq2see.core.batch import Batch, Sequences
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD
from seq2see.decoding.engine import Decoding, decode, make_limits, make_sampler
from seq2see.runs.load import load, read_model

PROMPTS = ["the cat", "", "你有一支笔", "a dog ran after the cat and 12"]
NEW = 8


@pytest.fixture(scope="module", params=SHAPES)
def both(request, tmp_path_factory):
    """Theirs and ours, of the same folder."""
    folder = tmp_path_factory.mktemp("real") / "it"
    theirs = causal_folder(folder, request.param)
    return theirs, read_model(folder, torch.device("cpu"))


def numbers_of(actual, rows):
    """Our numbers as theirs; <bos> is whatever stands before a text."""
    numbers = actual.tokenizers.target.id_map
    return [[numbers.bos_id if each == BOS else numbers.original_ids[each] for each in row] for row in rows]


def prompts_of(actual):
    return [actual.tokenizers.target.encode(text) for text in PROMPTS]


@torch.inference_mode()
def test_logits_match_transformers(both):
    theirs, actual = both
    rows = [[BOS, *ids] for ids in prompts_of(actual)]
    fed = Sequences.of(rows)
    logits = actual.module(Batch(None, fed, fed.values, torch.arange(len(rows))))
    numbers = actual.tokenizers.target.id_map
    there = [place for place, number in enumerate(numbers.original_ids) if number is not None]
    for row, ids in enumerate(numbers_of(actual, rows)):
        expected = theirs(torch.tensor([ids])).logits[0]
        found = logits[row, : len(ids)]
        assert_close(found[:, there], expected[:, [numbers.original_ids[place] for place in there]], rtol=0, atol=1e-4)
        # Nothing that only we have takes part in a softmax.
        assert_close(found.log_softmax(-1)[:, there].exp().sum(-1), torch.ones(len(ids)))


def generated(theirs, actual, rows, **settings):
    """What `generate` adds to a batch of prompts, padded on the left; <pad> and <bos> are never said, as with us."""
    numbers = actual.tokenizers.target.id_map
    longest = max(map(len, rows))
    ids = torch.tensor([[0] * (longest - len(row)) + row for row in rows])
    real = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    suppress_tokens = [numbers.original_ids[place] for place in (PAD, BOS) if numbers.original_ids[place] is not None]
    end = numbers.original_ids[EOS]
    said = theirs.generate(
        ids,
        attention_mask=real,
        max_new_tokens=NEW,
        suppress_tokens=suppress_tokens or None,
        eos_token_id=end,
        pad_token_id=0 if end is None else end,
        do_sample=False,
        **settings,
    )[:, longest:].tolist()
    return [row[: row.index(end)] if end in row else row for row in said]


@pytest.mark.parametrize("beams", [1, 4])
def test_decoding_gives_the_same_tokens(both, beams):
    theirs, actual = both
    prompts = prompts_of(actual)
    decoding = Decoding(max_new_tokens=NEW, num_beams=beams)
    prefix = Sequences.of(prompts)
    answers = decode(actual.module, None, make_sampler(decoding), make_limits(decoding), prefix=prefix)
    found = [answer[0].tokens[len(prompt) :] for answer, prompt in zip(answers, prompts, strict=True)]
    searching = {"num_beams": beams, "length_penalty": 0.0, "early_stopping": "never"} if beams > 1 else {}
    expected = generated(theirs, actual, numbers_of(actual, [[BOS, *ids] for ids in prompts]), **searching)
    assert numbers_of(actual, found) == expected
    assert len({tuple(row) for row in expected}) > 1


def test_texts_come_back_as_they_were(both):
    _, actual = both
    for text in [
        "",
        " ",
        "the  cat\n\tsat",
        "我有一支笔。",
        "🎉👩‍👩‍👧",
        "naïve Ω \u0301",
        "<|endoftext|> is just text",
    ]:
        assert actual.tokenizers.target.decode(actual.tokenizers.target.encode(text)) == text


def test_shards_are_one_model(tmp_path):
    theirs = causal_folder(tmp_path / "shards", "llama", shard="20kB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 2
    actual = load(tmp_path / "shards")
    ids = numbers_of(actual, [[BOS, *actual.tokenizers.target.encode("the cat")]])
    with torch.inference_mode():
        expected = theirs(torch.tensor(ids)).logits[0, -1].log_softmax(-1)
    (piece,) = actual.tokenizers.target.encode(" sat"[:1])
    number = actual.tokenizers.target.id_map.original_ids[piece]
    assert actual.score("the cat", " ") == pytest.approx(float(expected[number]), abs=1e-4)
