"""Hugging Face folders of GPT-2's and Llama's shape: our layers and our decoding give what `transformers` gives."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from real_folders import SHAPES, real_folder
from seq2see.core.batch import Batch, Sequences
from seq2see.decoding.engine import decode
from seq2see.decoding.settings import Decoding, chooser_of, limits_of
from seq2see.sequences.tokenisers import BOS, EOS, PAD
from seq2see.workbench.model_folder import read_model
from seq2see.workbench.predict import load

PROMPTS = ["the cat", "", "你有一支笔", "a dog ran after the cat and 12"]
NEW = 8


@pytest.fixture(scope="module", params=SHAPES)
def both(request, tmp_path_factory):
    """Theirs and ours, of the same folder."""
    folder = tmp_path_factory.mktemp("real") / "it"
    theirs = real_folder(folder, request.param)
    return theirs, read_model(folder, torch.device("cpu"))


def numbers_of(ours, rows):
    """Our numbers as theirs; <bos> is whatever stands before a text."""
    numbers = ours.tokenisers.target.numbers
    return [[numbers.beginning if each == BOS else numbers.theirs[each] for each in row] for row in rows]


def prompts_of(ours):
    return [ours.tokenisers.target.encode(text) for text in PROMPTS]


@torch.inference_mode()
def test_every_score_is_theirs(both):
    theirs, ours = both
    rows = [[BOS, *ids] for ids in prompts_of(ours)]
    fed = Sequences.of(rows)
    logits = ours.module(Batch(None, fed, fed.values, torch.arange(len(rows))))
    numbers = ours.tokenisers.target.numbers
    there = [place for place, number in enumerate(numbers.theirs) if number is not None]
    for row, ids in enumerate(numbers_of(ours, rows)):
        expected = theirs(torch.tensor([ids])).logits[0]
        found = logits[row, : len(ids)]
        assert_close(found[:, there], expected[:, [numbers.theirs[place] for place in there]], rtol=0, atol=1e-4)
        # Nothing that only we have takes part in a softmax.
        assert_close(found.log_softmax(-1)[:, there].exp().sum(-1), torch.ones(len(ids)))


def generated(theirs, ours, rows, **settings):
    """What `generate` adds to a batch of prompts, padded on the left; <pad> and <bos> are never said, as with us."""
    numbers = ours.tokenisers.target.numbers
    longest = max(map(len, rows))
    ids = torch.tensor([[0] * (longest - len(row)) + row for row in rows])
    real = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    unsaid = [numbers.theirs[place] for place in (PAD, BOS) if numbers.theirs[place] is not None]
    end = numbers.theirs[EOS]
    said = theirs.generate(
        ids,
        attention_mask=real,
        max_new_tokens=NEW,
        suppress_tokens=unsaid or None,
        eos_token_id=end,
        pad_token_id=0 if end is None else end,
        do_sample=False,
        **settings,
    )[:, longest:].tolist()
    return [row[: row.index(end)] if end in row else row for row in said]


@pytest.mark.parametrize("beams", [1, 4])
def test_decoding_gives_the_same_tokens(both, beams):
    theirs, ours = both
    prompts = prompts_of(ours)
    decoding = Decoding(max_new_tokens=NEW, num_beams=beams)
    prefix = Sequences.of(prompts)
    answers = decode(ours.module, None, chooser_of(decoding), limits_of(decoding), prefix=prefix)
    found = [answer[0].tokens[len(prompt) :] for answer, prompt in zip(answers, prompts, strict=True)]
    searching = {"num_beams": beams, "length_penalty": 0.0, "early_stopping": "never"} if beams > 1 else {}
    expected = generated(theirs, ours, numbers_of(ours, [[BOS, *ids] for ids in prompts]), **searching)
    assert numbers_of(ours, found) == expected
    assert len({tuple(row) for row in expected}) > 1


def test_texts_come_back_as_they_were(both):
    _, ours = both
    for text in [
        "",
        " ",
        "the  cat\n\tsat",
        "我有一支笔。",
        "🎉👩‍👩‍👧",
        "naïve Ω \u0301",
        "<|endoftext|> is just text",
    ]:
        assert ours.tokenisers.target.decode(ours.tokenisers.target.encode(text)) == text


def test_shards_are_one_model(tmp_path):
    theirs = real_folder(tmp_path / "shards", "llama", shard="20kB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 2
    ours = load(tmp_path / "shards")
    ids = numbers_of(ours, [[BOS, *ours.tokenisers.target.encode("the cat")]])
    with torch.inference_mode():
        expected = theirs(torch.tensor(ids)).logits[0, -1].log_softmax(-1)
    (piece,) = ours.tokenisers.target.encode(" sat"[:1])
    number = ours.tokenisers.target.numbers.theirs[piece]
    assert ours.score("the cat", " ") == pytest.approx(float(expected[number]), abs=1e-4)
