"""The page is told what a model of images sees, says and looks at, also of images that were changed."""

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
from seq2see.decoding.settings import Decoding
from seq2see.explorer.schemas import RunRequest
from seq2see.explorer.views import image_input, vit
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.inspection.rollout import rollout
from seq2see.models.build import fresh_model
from seq2see.models.image_settings import ImageSource, PatchEmbeddingSettings
from seq2see.models.resnet_encoder import PixelEmbeddingSettings
from seq2see.models.resnet_encoder import ResNetSettings
from seq2see.models.settings import ImageLabel, ModelSettings, TextTarget
from seq2see.models.transformer import TransformerSettings
from seq2see.runs.model import open_model
from seq2see.runs.model_folder import ModelConfig, StoredModel
from seq2see.runs.model_tokenizers import Tokenizers
from seq2see.runs.reordering import without_position_embeddings
from seq2see.sequences.image_dataset import ImageProcessor
from seq2see.sequences.tokenizer_training import train_tokenizer
from seq2see.sequences.tokenizers import WordLevel

LABELS = ("star", "月亮", "ring")
STACK = TransformerSettings(width=16, depth=2, heads=2, dropout=0.0)
SIGHT = ImageSource(image_size=16, channels=3, embedding=PatchEmbeddingSettings(size=4))
SHAPES = {
    "r1": ModelSettings(source=SIGHT, target=ImageLabel(), encoder=STACK),
    "r2": ModelSettings(source=SIGHT, target=TextTarget(), encoder=STACK, decoder=STACK),
    "r3": ModelSettings(
        source=SIGHT.with_(embedding=PixelEmbeddingSettings()),
        target=ImageLabel(pooling="mean"),
        encoder=ResNetSettings(width=16, depth=1, stages=2, norm="group"),
    ),
}


@pytest.fixture(scope="module")
def workspace() -> Workspace:
    runs = {}
    eyes, words = ImageProcessor(16, 3), train_tokenizer(WordLevel(), ["a red star at the top"])
    for id, shape in SHAPES.items():
        known = Tokenizers(eyes, words) if shape.generates else Tokenizers(eyes, eyes, LABELS)
        module = fresh_model(shape, known.sizes, "xavier", seed=3).eval()
        with torch.no_grad():
            for weight in module.parameters():
                weight += 0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1))
        config = ModelConfig(name=id, step=1, model=shape, decoding=Decoding(max_new_tokens=6))
        runs[id] = OpenRun(id, id, None, Path(id))
        runs[id].__dict__["model"] = open_model(StoredModel(config, module, known))
    return Workspace(runs)


PIXELS = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)


def asked(kind=image_input.ImageRequest, run: str = "r1", pixels=PIXELS, **more):
    """As it comes from the page."""
    content = base64.b64encode(pixels.tobytes()).decode()
    return kind.model_validate_json(json.dumps({"run": run, "pixels": content, **more}))


def test_it_is_told_what_there_is_to_see(workspace: Workspace):
    told = vit.model_info(workspace, asked())
    assert (told["grid"], told["patch_size"], told["prefix_tokens"], told["layers"], told["heads"]) == (
        [4, 4],
        4,
        ["class"],
        2,
        2,
    )
    assert (told["positions"], told["count"], told["generates"]) == ("learned-grid", 0, False)
    convolution = vit.model_info(workspace, asked(run="r3"))
    assert (convolution["layers"], convolution["grid"], convolution["prefix_tokens"]) == (0, [8, 8], [])


def test_patches_are_moved_and_covered_and_nothing_else(workspace: Workspace):
    order = [1, 2, 0, *range(3, 16)]
    found = image_input.image(workspace, asked(order=order, cover=[5])).array
    np.testing.assert_array_equal(found[:4, :4], PIXELS[:4, 4:8])
    np.testing.assert_array_equal(found[:4, 4:8], PIXELS[:4, 8:12])
    np.testing.assert_array_equal(found[:4, 8:12], PIXELS[:4, :4])
    assert (found[4:8, 4:8] == 128).all()
    rest = np.ones((16, 16), bool)
    rest[:4, :12] = rest[4:8, 4:8] = False
    np.testing.assert_array_equal(found[rest], PIXELS[rest])
    for wrong in ({"order": [0, 1]}, {"order": [0] * 16}, {"cover": [16]}):
        with pytest.raises(UserError, match="16 patches"):
            image_input.image(workspace, asked(**wrong))


@torch.no_grad()
def test_answers_are_the_models_own(workspace: Workspace):
    model = workspace.run("r1").model
    covered = PIXELS.copy()
    covered[:4, :4] = 128
    scores = model.module.head(
        model.module.pooled(Images(torch.from_numpy(covered.transpose(2, 0, 1)[None].copy())))
    ).softmax(-1)[0]
    told = vit.predict_image(workspace, asked(vit.ImagePredictRequest, cover=[0]))
    assert {each["text"]: each["probability"] for each in told["candidates"]} == pytest.approx(
        dict(zip(LABELS, scores.flatten().tolist(), strict=True)), abs=1e-5
    )
    assert told["text"] == max(told["candidates"], key=lambda each: each["probability"])["text"]
    caption = vit.predict_image(workspace, asked(vit.ImagePredictRequest, "r2"))
    assert caption["text"] == workspace.run("r2").model.predict([PIXELS])[0].text
    assert len(caption["pieces"]) >= 1


def test_with_positions_off_shuffled_patches_are_the_same_image(workspace: Workspace):
    order = list(np.random.default_rng(1).permutation(16))

    def chances(way: str, places: list[int]) -> list[float]:
        told = vit.predict_image(workspace, asked(vit.ImagePredictRequest, order=places, positions=way))["candidates"]
        return [each["probability"] for each in sorted(told, key=lambda each: each["text"])]

    places = [int(place) for place in order]
    assert chances("off", places) == pytest.approx(chances("off", []), abs=1e-5)
    assert chances("told", places) != pytest.approx(chances("told", []), abs=1e-5)
    assert chances("off", []) != pytest.approx(chances("told", []), abs=1e-5)


def test_with_positions_off_looks_are_those_of_a_model_that_is_told_nothing(workspace: Workspace):
    for run, kind, more in (("r1", vit.ImageAttentionRequest, {"layer": 1, "head": 1}), ("r1", vit.RolloutRequest, {})):
        answer = vit.attention_map if kind is vit.ImageAttentionRequest else vit.attention_rollout
        told, off = (answer(workspace, asked(kind, run, positions=way, **more)).array for way in ("told", "off"))
        layers = [
            each.values for each in without_position_embeddings(workspace.run(run).model).trace(PIXELS).of("attention")
        ]
        np.testing.assert_allclose(off, layers[1][1] if more else rollout(layers), atol=1e-6)
        assert np.abs(told - off).max() > 1e-3
    caption = {"target": "a b", "head": 0}
    told, off = (
        vit.regions(workspace, asked(vit.RegionsRequest, "r2", positions=way, **caption)) for way in ("told", "off")
    )
    record = without_position_embeddings(workspace.run("r2").model).trace(PIXELS, "a b")
    looks = [each.values for each in record.of("attention") if each.across]
    np.testing.assert_allclose(off.array, looks[-1][0], atol=1e-6)
    assert np.abs(told.array - off.array).max() > 1e-4


def test_looks_are_those_of_the_layers(workspace: Workspace):
    layers = [each.values for each in workspace.run("r1").model.trace(PIXELS).of("attention")]
    for layer in range(2):
        for head in range(2):
            found = vit.attention_map(workspace, asked(vit.ImageAttentionRequest, layer=layer, head=head)).array
            np.testing.assert_allclose(found, layers[layer][head], atol=1e-6)
    np.testing.assert_allclose(
        vit.attention_map(workspace, asked(vit.ImageAttentionRequest)).array, layers[-1].mean(0), atol=1e-6
    )
    found = vit.attention_rollout(workspace, asked(vit.RolloutRequest, fusion="max", discard=0.5)).array
    np.testing.assert_allclose(found, rollout(layers, "max", 0.5), atol=1e-6)
    with pytest.raises(UserError, match="2 layers"):
        vit.attention_map(workspace, asked(vit.ImageAttentionRequest, layer=2))
    with pytest.raises(UserError, match="no attention"):
        vit.attention_rollout(workspace, asked(vit.RolloutRequest, run="r3"))


def test_places_are_alike_by_their_learned_vectors(workspace: Workspace):
    table = workspace.run("r1").model.module.source.positions.table.weight.detach().numpy()
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    np.testing.assert_allclose(vit.position_similarity(workspace, RunRequest(run="r1")).array, unit @ unit.T, atol=1e-5)
    with pytest.raises(UserError, match="not told"):
        vit.position_similarity(workspace, RunRequest(run="r3"))


def test_regions_are_where_words_look(workspace: Workspace):
    record = workspace.run("r2").model.trace(PIXELS, "a red star")
    across = [each.values for each in record.of("attention") if each.across]
    found = vit.regions(workspace, asked(vit.RegionsRequest, "r2", target="a red star")).array
    assert found.shape == (4, 16)
    np.testing.assert_allclose(found, across[-1].mean(0), atol=1e-6)
    with pytest.raises(UserError, match="no captions"):
        vit.regions(workspace, asked(vit.RegionsRequest, target="a"))


def as_file(pixels: np.ndarray, kind: str = "PNG") -> str:
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, kind)
    return base64.b64encode(content.getvalue()).decode()


def test_a_file_is_seen_as_the_model_sees_it_and_a_bad_one_says_why(workspace: Workspace):
    found = image_input.upload(workspace, image_input.UploadRequest(run="r1", files=(as_file(PIXELS),))).array
    np.testing.assert_array_equal(found, PIXELS)
    large = image_input.upload(
        workspace, image_input.UploadRequest(run="r1", files=(as_file(PIXELS.repeat(9, 0).repeat(9, 1)),))
    ).array
    assert large.shape == (16, 16, 3)
    for content, what in ((b"<svg>", "SVG"), (b"", "empty"), (b"\x89PNG\r\n\x1a\nxx", "damaged")):
        with pytest.raises(UserError, match=what):
            image_input.upload(
                workspace, image_input.UploadRequest(run="r1", files=(base64.b64encode(content).decode(),))
            )
    with pytest.raises(UserError, match="2 files"):
        image_input.upload(workspace, image_input.UploadRequest(run="r1", files=(as_file(PIXELS),) * 2))
    with pytest.raises(UserError, match="not base64"):
        image_input.image(workspace, image_input.ImageRequest(run="r1", pixels="***"))
    with pytest.raises(UserError, match="768"):
        image_input.image(workspace, image_input.ImageRequest(run="r1", pixels="AAAA"))
    with pytest.raises(UserError, match="no number 3"):
        image_input.image(workspace, image_input.ImageRequest(run="r1", number=3))
