"""The view "Vision Transformer": predictions and attention, also for images with reordered or masked patches."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from seq2see.core.batch import Images
from seq2see.core.errors import UserError
from seq2see.data.examples import ImageExamples
from seq2see.data.image_dataset import ImageProcessor
from seq2see.data.tokenizers.tokenizer import WordLevel, train_tokenizer
from seq2see.decoding.engine import Decoding
from seq2see.explorer import inputs
from seq2see.explorer.schemas import RunRequest
from seq2see.explorer.views import vit
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.inspection.attention_measures import rollout
from seq2see.models.build import fresh_model
from seq2see.models.image_settings import ImageSource, PatchEmbeddingSettings
from seq2see.models.resnet_encoder import PixelEmbeddingSettings, ResNetSettings
from seq2see.models.settings import ImageLabel, ModelSettings, TextTarget
from seq2see.models.transformer import TransformerSettings
from seq2see.runs.load import open_model
from seq2see.runs.reordering import without_position_embeddings
from seq2see.tasks.model_folder import ModelConfig, StoredModel, Tokenizers
from seq2see.tasks.task import pretrained_task

LABELS = ("star", "月亮", "ring")
STACK = TransformerSettings(width=16, depth=2, heads=2, dropout=0.0)
SOURCE = ImageSource(image_size=16, channels=3, embedding=PatchEmbeddingSettings(size=4))
SHAPES = {
    "r1": ModelSettings(source=SOURCE, target=ImageLabel(), encoder=STACK),
    "r2": ModelSettings(source=SOURCE, target=TextTarget(), encoder=STACK, decoder=STACK),
    "r3": ModelSettings(
        source=SOURCE.with_(embedding=PixelEmbeddingSettings()),
        target=ImageLabel(pooling="mean"),
        encoder=ResNetSettings(width=16, depth=1, stages=2, norm="group"),
    ),
}


@pytest.fixture(scope="module")
def workspace() -> Workspace:
    runs = {}
    processor, tokenizer = ImageProcessor(16, 3), train_tokenizer(WordLevel(), ["a red star at the top"])
    for id, settings in SHAPES.items():
        tokenizers = (
            Tokenizers(processor, tokenizer) if settings.generates else Tokenizers(processor, processor, LABELS)
        )
        module = fresh_model(settings, tokenizers.sizes, "xavier", seed=3).eval()
        with torch.no_grad():
            for weight in module.parameters():
                weight += 0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1))
        config = ModelConfig(
            task=pretrained_task(settings), name=id, step=1, model=settings, decoding=Decoding(max_new_tokens=6)
        )
        runs[id] = OpenRun(id, id, None, Path(id))
        runs[id].__dict__["model"] = open_model(StoredModel(config, module, tokenizers))
    return Workspace(runs)


PIXELS = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)


def request(kind=inputs.ImageRequest, run: str = "r1", pixels=PIXELS, **fields):
    """A request as the page sends it."""
    content = base64.b64encode(pixels.tobytes()).decode()
    return kind.model_validate_json(json.dumps({"run": run, "pixels": content, **fields}))


def test_the_info_has_the_sizes_of_the_model(workspace: Workspace):
    info = vit.model_info(workspace, request())
    assert (info["grid"], info["patch_size"], info["prefix_tokens"], info["layers"], info["heads"]) == (
        [4, 4],
        4,
        ["class"],
        2,
        2,
    )
    assert (info["positions"], info["count"], info["generates"]) == ("learned-grid", 0, False)
    convolution = vit.model_info(workspace, request(run="r3"))
    assert (convolution["layers"], convolution["grid"], convolution["prefix_tokens"]) == (0, [8, 8], [])


def test_only_the_requested_patches_are_reordered_and_masked(workspace: Workspace):
    order = [1, 2, 0, *range(3, 16)]
    found = inputs.image(workspace, request(order=order, cover=[5])).array
    np.testing.assert_array_equal(found[:4, :4], PIXELS[:4, 4:8])
    np.testing.assert_array_equal(found[:4, 4:8], PIXELS[:4, 8:12])
    np.testing.assert_array_equal(found[:4, 8:12], PIXELS[:4, :4])
    assert (found[4:8, 4:8] == 128).all()
    unchanged = np.ones((16, 16), bool)
    unchanged[:4, :12] = unchanged[4:8, 4:8] = False
    np.testing.assert_array_equal(found[unchanged], PIXELS[unchanged])
    for fields in ({"order": [0, 1]}, {"order": [0] * 16}, {"cover": [16]}):
        with pytest.raises(UserError, match="16 patches"):
            inputs.image(workspace, request(**fields))


@torch.no_grad()
def test_predictions_are_those_of_the_model(workspace: Workspace):
    model = workspace.run("r1").model
    masked = PIXELS.copy()
    masked[:4, :4] = 128
    scores = model.module.head(
        model.module.pooled(Images(torch.from_numpy(masked.transpose(2, 0, 1)[None].copy())))
    ).softmax(-1)[0]
    info = vit.predict_image(workspace, request(vit.ImagePredictRequest, cover=[0]))
    assert {each["text"]: each["probability"] for each in info["candidates"]} == pytest.approx(
        dict(zip(LABELS, scores.flatten().tolist(), strict=True)), abs=1e-5
    )
    assert info["text"] == max(info["candidates"], key=lambda each: each["probability"])["text"]
    caption = vit.predict_image(workspace, request(vit.ImagePredictRequest, "r2"))
    assert caption["text"] == workspace.run("r2").model.predict([PIXELS])[0].text
    assert len(caption["tokens"]) >= 1


def test_without_positions_the_order_of_patches_has_no_effect(workspace: Workspace):
    order = list(np.random.default_rng(1).permutation(16))

    def probabilities(mode: str, order: list[int]) -> list[float]:
        info = vit.predict_image(workspace, request(vit.ImagePredictRequest, order=order, positions=mode))["candidates"]
        return [each["probability"] for each in sorted(info, key=lambda each: each["text"])]

    shuffled = [int(index) for index in order]
    assert probabilities("off", shuffled) == pytest.approx(probabilities("off", []), abs=1e-5)
    assert probabilities("on", shuffled) != pytest.approx(probabilities("on", []), abs=1e-5)
    assert probabilities("off", []) != pytest.approx(probabilities("on", []), abs=1e-5)


def test_without_positions_attention_is_that_of_a_model_without_position_encoding(workspace: Workspace):
    for run, kind, fields in (
        ("r1", vit.ImageAttentionRequest, {"layer": 1, "head": 1}),
        ("r1", vit.RolloutRequest, {}),
    ):
        handler = vit.attention_map if kind is vit.ImageAttentionRequest else vit.attention_rollout
        on, off = (handler(workspace, request(kind, run, positions=mode, **fields)).array for mode in ("on", "off"))
        layers = [
            each.values for each in without_position_embeddings(workspace.run(run).model).trace(PIXELS).of("attention")
        ]
        np.testing.assert_allclose(off, layers[1][1] if fields else rollout(layers), atol=1e-6)
        assert np.abs(on - off).max() > 1e-3
    caption = {"target": "a b", "head": 0}
    on, off = (
        vit.regions(workspace, request(vit.RegionsRequest, "r2", positions=mode, **caption)) for mode in ("on", "off")
    )
    record = without_position_embeddings(workspace.run("r2").model).trace(PIXELS, "a b")
    layers = [each.values for each in record.of("attention") if each.is_cross_attention]
    np.testing.assert_allclose(off.array, layers[-1][0], atol=1e-6)
    assert np.abs(on.array - off.array).max() > 1e-4


def test_attention_maps_are_those_of_the_layers(workspace: Workspace):
    layers = [each.values for each in workspace.run("r1").model.trace(PIXELS).of("attention")]
    for layer in range(2):
        for head in range(2):
            found = vit.attention_map(workspace, request(vit.ImageAttentionRequest, layer=layer, head=head)).array
            np.testing.assert_allclose(found, layers[layer][head], atol=1e-6)
    np.testing.assert_allclose(
        vit.attention_map(workspace, request(vit.ImageAttentionRequest)).array, layers[-1].mean(0), atol=1e-6
    )
    found = vit.attention_rollout(workspace, request(vit.RolloutRequest, fusion="max", discard=0.5)).array
    np.testing.assert_allclose(found, rollout(layers, "max", 0.5), atol=1e-6)
    with pytest.raises(UserError, match="2 attention layers"):
        vit.attention_map(workspace, request(vit.ImageAttentionRequest, layer=2))
    with pytest.raises(UserError, match="no attention"):
        vit.attention_rollout(workspace, request(vit.RolloutRequest, run="r3"))


def test_the_similarity_of_patches_is_that_of_their_position_vectors(workspace: Workspace):
    table = workspace.run("r1").model.module.source.positions.embedding.weight.detach().numpy()
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    np.testing.assert_allclose(vit.patch_similarity(workspace, RunRequest(run="r1")).array, unit @ unit.T, atol=1e-5)
    with pytest.raises(UserError, match="no position encoding"):
        vit.patch_similarity(workspace, RunRequest(run="r3"))


def test_regions_are_the_cross_attention_of_tokens(workspace: Workspace):
    record = workspace.run("r2").model.trace(PIXELS, "a red star")
    layers = [each.values for each in record.of("attention") if each.is_cross_attention]
    found = vit.regions(workspace, request(vit.RegionsRequest, "r2", target="a red star")).array
    assert found.shape == (4, 16)
    np.testing.assert_allclose(found, layers[-1].mean(0), atol=1e-6)
    with pytest.raises(UserError, match="no captions"):
        vit.regions(workspace, request(vit.RegionsRequest, target="a"))


def encoded_file(pixels: np.ndarray, kind: str = "PNG") -> str:
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, kind)
    return base64.b64encode(content.getvalue()).decode()


def test_a_file_is_preprocessed_and_an_invalid_one_is_an_error(workspace: Workspace):
    found = inputs.upload(workspace, inputs.UploadRequest(run="r1", files=(encoded_file(PIXELS),))).array
    np.testing.assert_array_equal(found, PIXELS)
    large = inputs.upload(
        workspace, inputs.UploadRequest(run="r1", files=(encoded_file(PIXELS.repeat(9, 0).repeat(9, 1)),))
    ).array
    assert large.shape == (16, 16, 3)
    for content, message in ((b"<svg>", "SVG"), (b"", "empty"), (b"\x89PNG\r\n\x1a\nxx", "damaged")):
        with pytest.raises(UserError, match=message):
            inputs.upload(workspace, inputs.UploadRequest(run="r1", files=(base64.b64encode(content).decode(),)))
    with pytest.raises(UserError, match="2 files"):
        inputs.upload(workspace, inputs.UploadRequest(run="r1", files=(encoded_file(PIXELS),) * 2))
    with pytest.raises(UserError, match="not base64"):
        inputs.image(workspace, inputs.ImageRequest(run="r1", pixels="***"))
    with pytest.raises(UserError, match="768"):
        inputs.image(workspace, inputs.ImageRequest(run="r1", pixels="AAAA"))


def test_a_number_that_no_test_image_has_is_an_error(workspace: Workspace, monkeypatch: pytest.MonkeyPatch):
    asked = inputs.ImageRequest(run="r1", number=3)
    with pytest.raises(UserError, match="no test image 3: this run has none"):
        inputs.image(workspace, asked)
    three = ImageExamples(np.stack([PIXELS] * 3), ("a", "b", "a"), ("1.png", "2.png", "3.png"))
    monkeypatch.setattr(inputs, "test_images", lambda run: three)
    with pytest.raises(UserError, match="no test image 3: the last one is 2"):
        inputs.image(workspace, asked)
    np.testing.assert_array_equal(inputs.image(workspace, inputs.ImageRequest(run="r1", number=2)).array, PIXELS)
