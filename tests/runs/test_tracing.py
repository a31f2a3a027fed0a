"""Tracing of every kind of model: tokens have names, and activations are those of the prediction."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from seq2see.data.image_dataset import ImageProcessor
from seq2see.data.series_dataset import StandardScaler
from seq2see.data.tokenizers.tokenizer import Characters, train_tokenizer
from seq2see.decoding.engine import Decoding
from seq2see.inspection.record import ActivationRecord
from seq2see.inspection.trace import ALL_KINDS
from seq2see.models.build import fresh_model
from seq2see.models.image_settings import ImageSource, PatchEmbeddingSettings
from seq2see.models.recurrent import RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.settings import ModelSettings, Series, Text, TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.runs.load import open_model
from seq2see.tasks.model import Model
from seq2see.tasks.model_folder import ModelConfig, StoredModel, Tokenizers
from seq2see.tasks.task import pretrained_task

STACK = TransformerSettings(width=16, depth=2, heads=2, dropout=0.0)
LETTERS = train_tokenizer(Characters(), ["我有一支笔abc"])
PLAIN = TokenEmbeddingSettings(positions="none")
IMAGE: NDArray[np.uint8] = np.random.default_rng(1).integers(0, 256, (8, 12, 3), dtype=np.uint8)


def model_of(settings: ModelSettings, source, target=LETTERS) -> Model:
    """A model with random weights."""
    module = fresh_model(settings, (len(source), len(target)), "xavier", seed=1).eval()
    config = ModelConfig(
        task=pretrained_task(settings), name="x", step=1, model=settings, decoding=Decoding(max_new_tokens=4)
    )
    return open_model(StoredModel(config, module, Tokenizers(source, target)))


def captioner() -> Model:
    source = ImageSource(image_size=8, embedding=PatchEmbeddingSettings(size=4, positions="sinusoidal"))
    return model_of(
        ModelSettings(source=source, target=TextTarget(), encoder=STACK, decoder=STACK), ImageProcessor(8, 3)
    )


def lstm_pair() -> Model:
    """A bidirectional LSTM encoder and an LSTM decoder with attention."""
    encoder = RecurrentEncoderSettings(width=16, cell="lstm", dropout=0.0)
    decoder = RecurrentDecoderSettings(width=16, cell="lstm", attention="additive", dropout=0.0)
    text, target = Text(embedding=PLAIN), TextTarget(embedding=PLAIN)
    return model_of(ModelSettings(source=text, target=target, encoder=encoder, decoder=decoder), LETTERS)


def series_model() -> Model:
    decoder = RecurrentDecoderSettings(width=8, cell="gru", attention="none", dropout=0.0)
    scale = StandardScaler(mean=1.0, std=2.0)
    return model_of(ModelSettings(target=Series(), decoder=decoder), scale, scale)


def test_the_logits_give_the_score_of_the_target():
    model = lstm_pair()
    record = model.trace("我有笔", "ab", kinds=("logits",))
    (logits,) = record.of("logits")
    assert record.tokens["labels"] == ["a", "b", "<eos>"]
    ids = [*LETTERS.encode("ab"), 2]
    shifted = logits.values - logits.values.max(-1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    assert log_probabilities[range(3), ids].sum() == pytest.approx(model.score("我有笔", "ab"), abs=1e-5)


def test_without_a_target_it_is_the_models_own_output():
    model = lstm_pair()
    own = model.trace("我有笔")
    assert "".join(own.tokens["labels"]).replace("▁", " ").startswith(model("我有笔").text)
    assert own.special["source"] == [False, False, False, True]


def test_an_image_has_a_grid_and_captions_have_attention_to_it():
    model = captioner()
    record = model.trace(IMAGE, "ab")
    assert record.grid == (2, 3)
    assert len(record.tokens["source"]) == 6
    cross_attention = [each for each in record.of("attention") if each.is_cross_attention]
    assert [each.values.shape for each in cross_attention] == [(2, 3, 6)] * 2
    assert record.query_tokens(cross_attention[0]) == ["a", "b", "<eos>"]


def test_a_series_has_numbers_as_tokens_and_no_last_label():
    record = series_model().trace("1 3 5", kinds=("hidden", "gate"))
    assert record.tokens["target"] == ["1", "3", "5"]
    assert record.tokens["labels"] == ["3", "5", "·"]
    (hidden,) = record.of("hidden")
    assert hidden.values.shape == (3, 8)
    assert {each.component for each in record.of("gate")} == {"reset", "update", "candidate"}


def test_all_activations_can_be_saved(tmp_path: Path):
    """Including those of a backward cell, whose arrays have negative strides."""
    record = lstm_pair().trace("我有笔", "ab", kinds=ALL_KINDS)
    record.save(tmp_path / "all.safetensors")
    loaded = ActivationRecord.load(tmp_path / "all.safetensors")
    assert {each.kind for each in loaded.signals} == set(ALL_KINDS) - {"attention_bias"}
    for saved, restored in zip(record.signals, loaded.signals, strict=True):
        assert np.array_equal(saved.values, restored.values)
