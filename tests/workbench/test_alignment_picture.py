"""The attention picture of an evaluation: the chosen heads, the right words, or a sensible substitute."""

from __future__ import annotations

import numpy as np
import pytest

from seq2see.decoding.settings import Decoding
from seq2see.inspection import attention_maps
from seq2see.metrics.alignment import HeadChoice, word_attention
from seq2see.models.build import fresh_model
from seq2see.models.recurrent import RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.settings import Text, TextTarget
from seq2see.models.transformer import TransformerSettings
from seq2see.sequences.tokenisers import Characters, Words
from seq2see.sources.examples import Example
from seq2see.sources.pocket.corpus import PocketCorpus
from seq2see.workbench.alignment_picture import draw_attention
from seq2see.workbench.attention import TextAttention
from seq2see.workbench.model_folder import ModelConfig, StoredModel
from seq2see.workbench.predict import Model
from seq2see.workbench.prepare import encode, learn_tokenisers
from seq2see.workbench.reading import read_attention
from seq2see.workbench.recipe import Recipe
from seq2see.workbench.run_folder import RunFolder

LINKED = [
    Example(
        "我有笔", "I have pens", links=((0, 0), (1, 1)), possible=((2, 2),), source_words=("我", "有", "笔"),
        target_words=("I", "have", "pens"),
    ),
    Example("笔我", "pens I", links=((0, 0), (1, 1)), source_words=("笔", "我"), target_words=("pens", "I")),
]  # fmt: skip
PLAIN = [Example("我有笔" * 40, "I have pens " * 40), Example("我有笔", "I have pens"), Example("有", "have")]


@pytest.fixture
def drawn(monkeypatch):
    calls = []
    draw = attention_maps.draw_alignments
    monkeypatch.setattr(
        attention_maps, "draw_alignments", lambda *arguments: (calls.append(arguments), draw(*arguments))
    )
    return calls


def recipe_with(**parts) -> Recipe:
    stack = TransformerSettings(width=12, depth=2, heads=3, dropout=0.0)
    return Recipe(
        name="tiny", corpus=PocketCorpus(), source=Text(tokeniser=Characters()),
        target=TextTarget(tokeniser=Words()), decoding=Decoding(max_new_tokens=5),
        **{"encoder": stack, "decoder": stack, **parts},
    )  # fmt: skip


def untrained(run: RunFolder, recipe: Recipe) -> Model:
    run.recipe_file.write_text(recipe.toml(), encoding="utf-8")
    tokenisers = learn_tokenisers(recipe, LINKED)
    module = fresh_model(recipe.model, tokenisers.sizes, "xavier", 1).eval()
    config = ModelConfig(name="tiny", step=1, model=recipe.model, decoding=recipe.decoding)
    return Model(StoredModel(config, module, tokenisers))


def test_with_gold_links_the_chosen_heads_are_drawn_between_words(tmp_path, drawn):
    run, recipe = RunFolder(tmp_path), recipe_with()
    model = untrained(run, recipe)
    path = draw_attention(run, model, [*PLAIN, *LINKED], HeadChoice(1, (0, 2), 0.5))
    assert path == tmp_path / "attention" / "alignment.png"
    assert path.stat().st_size > 5000
    ((alignments, _, title),) = drawn
    assert "layer 2, head 1, 3" in title
    assert [tuple(each.source) for each in alignments] == [("我", "有", "笔"), ("笔", "我")]
    assert alignments[0].target == ("I", "have", "pens")
    assert (alignments[0].links, alignments[0].possible) == (LINKED[0].links, LINKED[0].possible)
    for example, alignment in zip(LINKED, alignments, strict=True):
        pairs = encode(recipe, model.tokenisers, [example])
        words = word_attention(read_attention(model.module, pairs, model.tokenisers)[0][0])
        assert np.allclose(alignment.weights, (words[1, 0] + words[1, 2]) / 2)


def test_without_gold_links_the_pieces_of_short_sentences_are_drawn(tmp_path, drawn):
    run = RunFolder(tmp_path)
    model = untrained(run, recipe_with())
    assert draw_attention(run, model, PLAIN) is not None
    ((alignments, _, title),) = drawn
    assert "last decoder layer" in title
    assert [each.source for each in alignments] == [["我", "有", "笔", "<eos>"], ["有", "<eos>"]]
    assert np.allclose(alignments[0].weights, TextAttention.of(model.trace("我有笔")).matrix)


def test_long_sentences_are_drawn_if_there_are_no_others_and_never_more_than_four(tmp_path, drawn):
    run = RunFolder(tmp_path)
    model = untrained(run, recipe_with())
    draw_attention(run, model, PLAIN[:1])
    draw_attention(run, model, PLAIN[1:] * 5)
    assert [len(alignments) for alignments, *_ in drawn] == [1, 4]


def test_a_model_without_attention_has_no_picture(tmp_path, drawn):
    run = RunFolder(tmp_path)
    decoder = RecurrentDecoderSettings(width=12, look="first-state")
    recipe = recipe_with(encoder=RecurrentEncoderSettings(width=12), decoder=decoder)
    assert draw_attention(run, untrained(run, recipe), PLAIN) is None
    assert not drawn
