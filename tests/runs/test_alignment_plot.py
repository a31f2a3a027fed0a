"""The attention plot of an evaluation: selected heads between words, or the last layer between tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from seq2see.data.examples import Example
from seq2see.data.generated.pocket.pocket_corpus import PocketCorpus
from seq2see.data.tokenizers.tokenizer import Characters, WordLevel
from seq2see.decoding.engine import Decoding
from seq2see.inspection import attention_plots
from seq2see.metrics.alignment import HeadSelection, word_attention
from seq2see.models.build import fresh_model
from seq2see.models.recurrent import RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.settings import Text, TextTarget
from seq2see.models.transformer import TransformerSettings
from seq2see.runs.load import open_model
from seq2see.runs.run_folder import RunFolder
from seq2see.tasks.generative import collect_attention
from seq2see.tasks.model import Model, TextAttention
from seq2see.tasks.model_folder import ModelConfig, StoredModel
from seq2see.tasks.task import pretrained_task, task_of
from seq2see.tasks.translate import TranslateRecipe, alignment_figure

LINKED = [
    Example(
        "我有笔", "I have pens", sure_links=((0, 0), (1, 1)), possible_links=((2, 2),), source_words=("我", "有", "笔"),
        target_words=("I", "have", "pens"),
    ),
    Example("笔我", "pens I", sure_links=((0, 0), (1, 1)), source_words=("笔", "我"), target_words=("pens", "I")),
]  # fmt: skip
PLAIN = [Example("我有笔" * 40, "I have pens " * 40), Example("我有笔", "I have pens"), Example("有", "have")]


@pytest.fixture
def drawn(monkeypatch):
    calls = []
    draw = attention_plots.draw_alignments
    monkeypatch.setattr(
        attention_plots, "draw_alignments", lambda *arguments: (calls.append(arguments), draw(*arguments))
    )
    return calls


def recipe_with(**parts) -> TranslateRecipe:
    stack = TransformerSettings(width=12, depth=2, heads=3, dropout=0.0)
    return TranslateRecipe(
        name="tiny", corpus=PocketCorpus(), source=Text(tokenizer=Characters()),
        target=TextTarget(tokenizer=WordLevel()), decoding=Decoding(max_new_tokens=5),
        **{"encoder": stack, "decoder": stack, **parts},
    )  # fmt: skip


def untrained(run: RunFolder, recipe: TranslateRecipe) -> Model:
    run.recipe_file.write_text(recipe.toml(), encoding="utf-8")
    tokenizers = task_of(recipe).fit(recipe, LINKED)
    module = fresh_model(recipe.model, tokenizers.sizes, "xavier", 1).eval()
    config = ModelConfig(
        task=pretrained_task(recipe.model), name="tiny", step=1, model=recipe.model, decoding=recipe.decoding
    )
    return open_model(StoredModel(config, module, tokenizers))


def draw_attention(run: RunFolder, model: Model, examples, selection=None) -> Path | None:
    recipe, path = run.recipe(), run.path / "attention" / "alignment.png"
    figure = alignment_figure(
        model, lambda each: model.task.dataset(recipe, model.tokenizers, [each]), examples, selection
    )
    return None if figure is None else figure(path) or path


def test_with_gold_links_the_selected_heads_are_drawn_between_words(tmp_path, drawn):
    run, recipe = RunFolder(tmp_path), recipe_with()
    model = untrained(run, recipe)
    path = draw_attention(run, model, [*PLAIN, *LINKED], HeadSelection(1, (0, 2), 0.5))
    assert path == tmp_path / "attention" / "alignment.png"
    assert path.stat().st_size > 5000
    ((alignments, _, title),) = drawn
    assert "layer 2, head 1, 3" in title
    assert [tuple(each.source) for each in alignments] == [("我", "有", "笔"), ("笔", "我")]
    assert alignments[0].target == ("I", "have", "pens")
    assert (alignments[0].links, alignments[0].possible) == (LINKED[0].sure_links, LINKED[0].possible_links)
    for example, alignment in zip(LINKED, alignments, strict=True):
        pairs = task_of(recipe).dataset(recipe, model.tokenizers, [example])
        words = word_attention(collect_attention(model.module, pairs, model.tokenizers)[0][0])
        assert np.allclose(alignment.weights, (words[1, 0] + words[1, 2]) / 2)


def test_without_gold_links_the_tokens_of_short_sentences_are_drawn(tmp_path, drawn):
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


def test_a_model_without_attention_has_no_plot(tmp_path, drawn):
    run = RunFolder(tmp_path)
    decoder = RecurrentDecoderSettings(width=12, attention="none")
    recipe = recipe_with(encoder=RecurrentEncoderSettings(width=12), decoder=decoder)
    assert draw_attention(run, untrained(run, recipe), PLAIN) is None
    assert not drawn
