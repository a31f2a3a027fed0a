"""Our ViTs as Hugging Face folders: `transformers` opens them and gives our scores; what has no place is refused."""

from __future__ import annotations

import json

import pytest
import torch
from torch.testing import assert_close
from transformers import AutoImageProcessor, AutoModelForImageClassification

from seq2see.core.batch import Batch, Images
from seq2see.core.errors import UserError
from seq2see.data.image_dataset import ImageProcessor
from seq2see.decoding.engine import Decoding
from seq2see.interop.ctranslate2 import check_ct2
from seq2see.interop.hugging_face_seq2seq import seq2seq_layout
from seq2see.interop.onnx_export import check_onnx
from seq2see.interop.vit_weights import vit_layout, write_vit
from seq2see.models.build import fresh_model
from seq2see.models.image_settings import ImageSource, PatchEmbeddingSettings
from seq2see.models.resnet_encoder import ConvStemSettings, PixelEmbeddingSettings, ResNetSettings
from seq2see.models.settings import ImageLabel, ModelSettings, TextTarget
from seq2see.models.transformer import TransformerSettings
from seq2see.runs.load import read_model
from seq2see.tasks.model_folder import ModelConfig, StoredModel, Tokenizers
from seq2see.tasks.task import pretrained_task

LABELS = ("cat", "狗", "mat")
BLOCKS = TransformerSettings(width=24, depth=2, heads=3, activation="gelu", mlp_ratio=1.5)


def settings(pooling="cls", positions="learned", channels=3, **changes) -> ModelSettings:
    embedding = PatchEmbeddingSettings(size=4, positions=positions)
    return ModelSettings(
        source=ImageSource(image_size=20, channels=channels, embedding=embedding),
        target=ImageLabel(pooling=pooling),
        encoder=BLOCKS.model_copy(update=changes),
    )


def stored_model(shape: ModelSettings) -> StoredModel:
    """A model with no weight at 0 or 1."""
    processor = ImageProcessor(20, shape.source.channels)
    module = fresh_model(shape, (256, 3), "xavier", 1).eval()
    with torch.no_grad():
        for weight in module.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    config = ModelConfig(
        task=pretrained_task(shape), name="it", step=1, model=shape, decoding=Decoding(max_new_tokens=1)
    )
    return StoredModel(config, module, Tokenizers(processor, processor, LABELS))


SHAPES = {
    "vit": settings(),
    "two tokens": settings("distilled"),
    "sines": settings(positions="sinusoidal"),
    "no positions": settings(positions="none"),
    "gray, tanh": settings(channels=1, activation="gelu-tanh", norm_eps=1e-3),
}


@pytest.mark.parametrize("name", SHAPES)
def test_transformers_gives_our_scores(name, tmp_path):
    actual = stored_model(SHAPES[name])
    write_vit(actual, tmp_path / "out")
    reference = AutoModelForImageClassification.from_pretrained(tmp_path / "out").eval()
    if name == "two tokens":  # the class that Auto takes reads one of the two
        from transformers import DeiTForImageClassificationWithTeacher

        reference = DeiTForImageClassificationWithTeacher.from_pretrained(tmp_path / "out").eval()
    pixels = torch.randint(0, 256, (3, actual.tokenizers.source.channels, 20, 20), dtype=torch.uint8)
    batch = Batch(Images(pixels), None, torch.zeros(3, 1), torch.arange(3))
    with torch.no_grad():
        found = reference(pixels / 127.5 - 1).logits
        assert_close(found, actual.module(batch)[:, 0], rtol=0, atol=1e-4)
    assert tuple(reference.config.id2label.values()) == LABELS
    assert type(reference).__name__ == vit_layout(SHAPES[name])


@pytest.mark.parametrize("name", ["vit", "two tokens", "gray, tanh"])
def test_what_was_written_is_read_again_and_gives_the_same_at_any_size(name, tmp_path):
    actual = stored_model(SHAPES[name])
    write_vit(actual, tmp_path / "out")
    again = read_model(tmp_path / "out", torch.device("cpu"))
    assert again.tokenizers.labels == LABELS
    assert again.config.model.encoder == actual.config.model.encoder
    for side in (20, 32):
        pixels = torch.randint(0, 256, (2, actual.tokenizers.source.channels, side, side), dtype=torch.uint8)
        batch = Batch(Images(pixels), None, torch.zeros(2, 1), torch.arange(2))
        with torch.no_grad():
            assert_close(again.module(batch), actual.module(batch), rtol=0, atol=1e-5)


def test_the_exported_preprocessor_normalizes_alike(tmp_path):
    actual = stored_model(SHAPES["vit"])
    write_vit(actual, tmp_path / "out")
    processor = AutoImageProcessor.from_pretrained(tmp_path / "out")
    pixels = torch.randint(0, 256, (20, 20, 3), dtype=torch.uint8)
    found = processor(pixels.numpy(), return_tensors="pt")["pixel_values"][0]
    assert_close(found, actual.module.source.normalize(pixels.permute(2, 0, 1)[None])[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "shape, message",
    [
        (settings("mean"), "target.pooling=mean"),
        (settings("pre-logits"), "target.pooling=pre-logits"),
        (settings(norm_order="post"), "encoder.norm_order=post"),
        (settings(norm="rms"), "encoder.norm=rms"),
        (settings(activation="swiglu"), "encoder.activation=swiglu"),
        (settings(bias=False), "encoder.bias=false"),
        (settings(kv_heads=1), "encoder.kv_heads=1"),
        (
            settings().model_copy(update={"source": ImageSource(image_size=20, embedding=ConvStemSettings(depth=2))}),
            "embedding.kind=conv-stem",
        ),
        (
            ModelSettings(
                source=ImageSource(image_size=20, embedding=PixelEmbeddingSettings()),
                target=ImageLabel(pooling="mean"),
                encoder=ResNetSettings(width=16),
            ),
            "encoder.kind=resnet",
        ),
    ],
)
def test_what_the_layout_has_no_place_for_is_refused_before_anything_is_written(shape, message, tmp_path):
    with pytest.raises(UserError, match=message):
        write_vit(stored_model(shape), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("check", [seq2seq_layout, check_onnx, check_ct2])
def test_image_captioning_models_are_refused(check):
    writes = ModelSettings(
        source=ImageSource(image_size=20, embedding=PatchEmbeddingSettings(size=4)),
        target=TextTarget(),
        encoder=TransformerSettings(),
        decoder=TransformerSettings(),
    )
    with pytest.raises(UserError, match=r"source\.kind=image"):
        check(writes)


def test_the_files_say_what_they_are(tmp_path):
    write_vit(stored_model(SHAPES["two tokens"]), tmp_path / "out")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (config["model_type"], config["image_size"], config["patch_size"]) == ("deit", 20, 4)
    assert config["architectures"] == ["DeiTForImageClassificationWithTeacher"]
