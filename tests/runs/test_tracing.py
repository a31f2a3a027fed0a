"""One look for every kind of model: what it reads and writes is named, and the numbers are those it answers with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from seq2see.decoding.settings import Decoding
from seq2see.inspection.record import ActivationRecord
from seq2see.inspection.trace import ALL_KINDS
from seq2see.models.build import fresh_model
from seq2see.models.image_settings import ImageSource, PatchEmbeddingSettings
from seq2see.models.recurrent import RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.settings import ModelSettings, Series, Text, TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.runs.model import Model, open_model
from seq2see.runs.model_folder import ModelConfig, StoredModel
from seq2see.runs.model_tokenizers import Tokenizers
from seq2see.sequences.image_dataset import ImageProcessor
from seq2see.sequences.series_dataset import StandardScaler
from seq2see.sequences.tokenizer_training import train_tokenizer
from seq2see.sequences.tokenizers import Characters

STACK = TransformerSettings(width=16, depth=2, heads=2, dropout=0.0)
LETTERS = train_tokenizer(Characters(), ["我有一支笔abc"])
PLAIN = TokenEmbeddingSettings(positions="none")
IMAGE: NDArray[np.uint8] = np.random.default_rng(1).integers(0, 256, (8, 12, 3), dtype=np.uint8)


def model_of(settings: ModelSettings, source, target=LETTERS) -> Model:
    """A model with random weights."""
    module = fresh_model(settings, (len(source), len(target)), "xavier", seed=1).eval()
    config = ModelConfig(name="x", step=1, model=settings, decoding=Decoding(max_new_tokens=4))
    return open_model(StoredModel(config, module, Tokenizers(source, target)))


def describer() -> Model:
    source = ImageSource(image_size=8, embedding=PatchEmbeddingSettings(size=4, positions="sinusoidal"))
    return model_of(
        ModelSettings(source=source, target=TextTarget(), encoder=STACK, decoder=STACK), ImageProcessor(8, 3)
    )


def remembering() -> Model:
    """A pair of LSTMs that read both ways and look back."""
    encoder = RecurrentEncoderSettings(width=16, cell="lstm", dropout=0.0)
    decoder = RecurrentDecoderSettings(width=16, cell="lstm", attention="additive", dropout=0.0)
    text, target = Text(embedding=PLAIN), TextTarget(embedding=PLAIN)
    return model_of(ModelSettings(source=text, target=target, encoder=encoder, decoder=decoder), LETTERS)


def counting_on() -> Model:
    decoder = RecurrentDecoderSettings(width=8, cell="gru", attention="none", dropout=0.0)
    scale = StandardScaler(mean=1.0, std=2.0)
    return model_of(ModelSettings(target=Series(), decoder=decoder), scale, scale)


def test_scores_are_those_that_the_target_is_judged_by():
    model = remembering()
    record = model.trace("我有笔", "ab", kinds=("logits",))
    (logits,) = record.of("logits")
    assert record.tokens["written"] == ["a", "b", "<eos>"]
    ids = [*LETTERS.encode("ab"), 2]
    shifted = logits.values - logits.values.max(-1, keepdims=True)
    chances = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    assert chances[range(3), ids].sum() == pytest.approx(model.score("我有笔", "ab"), abs=1e-5)


def test_without_a_target_it_is_the_models_own_answer():
    model = remembering()
    own = model.trace("我有笔")
    assert "".join(own.tokens["written"]).replace("▁", " ").startswith(model("我有笔").text)
    assert own.special["source"] == [False, False, False, True]


def test_a_image_has_a_grid_and_a_caption_looks_at_it():
    model = describer()
    record = model.trace(IMAGE, "ab")
    assert record.grid == (2, 3)
    assert len(record.tokens["source"]) == 6
    across = [each for each in record.of("attention") if each.is_cross_attention]
    assert [each.values.shape for each in across] == [(2, 3, 6)] * 2
    assert record.written(across[0]) == ["a", "b", "<eos>"]


def test_a_series_has_numbers_for_tokens_and_the_next_is_not_known():
    record = counting_on().trace("1 3 5", kinds=("hidden", "gate"))
    assert record.tokens["target"] == ["1", "3", "5"]
    assert record.tokens["written"] == ["3", "5", "·"]
    (hidden,) = record.of("hidden")
    assert hidden.values.shape == (3, 8)
    assert {each.part for each in record.of("gate")} == {"reset", "update", "candidate"}


def test_everything_that_was_seen_can_be_kept(tmp_path: Path):
    """Also what a cell shows that reads backwards, whose array runs the other way through memory."""
    record = remembering().trace("我有笔", "ab", kinds=ALL_KINDS)
    record.save(tmp_path / "all.safetensors")
    back = ActivationRecord.load(tmp_path / "all.safetensors")
    assert {each.kind for each in back.signals} == set(ALL_KINDS) - {"attention_bias"}
    for one, other in zip(record.signals, back.signals, strict=True):
        assert np.array_equal(one.values, other.values)
