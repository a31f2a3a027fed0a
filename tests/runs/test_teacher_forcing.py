"""Evaluation with teacher forcing: scores computed by hand, and attention between tokens and words."""

from __future__ import annotations

import math

import pytest
import torch

from seq2see.data.examples import Example
from seq2see.data.pair_dataset import PairDataset
from seq2see.data.tokenizers.tokenizer import Characters, WordLevel, train_tokenizer
from seq2see.data.windows import TextDataset
from seq2see.models.build import fresh_model
from seq2see.models.recurrent import RecurrentDecoderSettings
from seq2see.models.settings import ModelSettings, TextTarget, TokenEmbeddingSettings
from seq2see.tasks.generative import batch_count, collect_attention, evaluate_teacher_forced
from seq2see.tasks.model_folder import Tokenizers
from tiny_models import FAMILIES

EXAMPLES = [
    Example("我有笔", "I have a pen", ((0, 0), (1, 1), (2, 3)), (), ("我", "有", "笔"), ("I", "have", "a", "pen")),
    Example("苹果红", "red apples", ((0, 1), (1, 0)), ((1, 1),), ("苹果", "红"), ("red", "apples")),
    Example("没有", "nothing"),
]
TOKENIZERS = Tokenizers(
    train_tokenizer(Characters(), [example.source for example in EXAMPLES]),
    train_tokenizer(WordLevel(), [example.target for example in EXAMPLES]),
)
PAIRS = PairDataset(EXAMPLES, TOKENIZERS.source, TOKENIZERS.target, 9)


def model(name: str = "transformer, pre-norm") -> torch.nn.Module:
    return fresh_model(FAMILIES[name], TOKENIZERS.sizes, "xavier", 1).eval()


def test_a_model_with_zero_weights_has_the_perplexity_of_a_uniform_distribution():
    uniform = model()
    with torch.no_grad():
        for weight in uniform.parameters():
            weight.zero_()
    perplexity, accuracy = evaluate_teacher_forced(uniform, PAIRS)
    words = 4 + 2 + 1 + 3  # with one <eos> for each sentence
    assert perplexity.count == accuracy.total == words
    assert perplexity.value == pytest.approx(len(TOKENIZERS.target), rel=1e-6)
    characters = len("I have a pen") + len("red apples") + len("nothing")
    bits = words * math.log2(len(TOKENIZERS.target)) / characters
    assert perplexity.bits_per_character == pytest.approx(bits, rel=1e-6)


def test_tokens_have_word_ids_and_eos_has_none():
    sentences, golds = collect_attention(model(), PAIRS, TOKENIZERS)
    assert len(sentences) == 2  # the third has no gold links
    by_length = {len(sentence.target_words): (sentence, gold) for sentence, gold in zip(sentences, golds, strict=True)}
    apples, gold = by_length[3]
    assert apples.source_words == [0, 0, 1, None]
    assert apples.target_words == [0, 1, None]
    assert apples.weights.shape == (2, 2, 3, 4)  # layer, head, target token, source token
    assert gold.sure == {(0, 1), (1, 0)}
    assert gold.possible == {(0, 1), (1, 0), (1, 1)}


def test_attention_of_every_layer_sums_to_1():
    for name in ("transformer, pre-norm", "recurrent, additive"):
        for sentence in collect_attention(model(name), PAIRS, TOKENIZERS)[0]:
            assert sentence.weights.sum(axis=-1) == pytest.approx(1.0, abs=1e-5)


def test_a_recurrent_model_carries_its_state_through_a_text():
    """In segments of seven, and as one window of the whole text: the same loss, to 1e-5 per token."""
    text = [Example("", "the cat 猫 sat on the mat.\n" * 9)]
    tokenizer = train_tokenizer(Characters(), [text[0].target])
    settings = ModelSettings(
        target=TextTarget(embedding=TokenEmbeddingSettings(positions="none")),
        decoder=RecurrentDecoderSettings(cell="lstm", attention="none", width=8, depth=2),
    )
    recurrent = fresh_model(settings, (len(tokenizer), len(tokenizer)), "xavier", 1).eval()
    short, long = (TextDataset(text, tokenizer, width) for width in (7, 1000))
    (found, _), (expected, _) = (evaluate_teacher_forced(recurrent, texts) for texts in (short, long))
    assert found.count == expected.count == len(short.ids)
    assert found.loss / found.count == pytest.approx(expected.loss / expected.count, abs=1e-5)
    several, _ = evaluate_teacher_forced(recurrent, short, streams=4)
    assert several.count == found.count
    assert several.loss != pytest.approx(found.loss, abs=1e-3)  # each stream starts with the initial state
    assert batch_count(recurrent, short) == len(short)
