"""ViT and DeiT folders: our layers give the outputs of `transformers`, at the image size of training and at another."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from seq2see.core.batch import Batch, Images
from seq2see.runs.load import read_model
from vit_folders import (
    DEFAULT_CONFIG,
    NORMALIZATION,
    SHAPES,
    body_folder,
    google_arrays,
    like_timm_and_google,
    timm_folder,
    vit_folder,
    vit_of,
)

CPU = torch.device("cpu")


def batch_of(model, side: int) -> Batch:
    pixels = torch.randint(0, 256, (3, model.config.num_channels, side, side), dtype=torch.uint8)
    return Batch(Images(pixels), None, torch.zeros(3, 1, dtype=torch.long), torch.arange(3))


@torch.no_grad()
def theirs_of(model, batch: Batch, mean: list[float], std: list[float]) -> torch.Tensor:
    channels = batch.source.values.size(1)
    means, stds = (torch.tensor(each[:channels])[:, None, None] for each in (mean, std))
    values = (batch.source.values / 255 - means) / stds
    return model.eval()(values, interpolate_pos_encoding=True)


@pytest.fixture(scope="module", params=SHAPES)
def both(request, tmp_path_factory):
    """Theirs and ours, of the same folder."""
    folder = tmp_path_factory.mktemp("vit") / "it"
    return vit_folder(folder, request.param), read_model(folder, CPU)


@pytest.mark.parametrize("larger", [0, 1, 3])
def test_logits_match_transformers_at_any_size(both, larger):
    theirs, actual = both
    size = theirs.config.patch_size
    batch = batch_of(theirs, theirs.config.image_size + larger * size)
    expected = theirs_of(theirs, batch, *NORMALIZATION.values()).logits
    with torch.no_grad():
        assert_close(actual.module(batch)[:, 0], expected, rtol=0, atol=1e-4)
    assert expected.abs().max() > 0.05


def test_labels_and_sizes_match_transformers(both):
    theirs, actual = both
    assert actual.tokenizers.labels == tuple(theirs.config.id2label.values())
    assert actual.config.model.source.image_size == theirs.config.image_size
    assert actual.tokenizers.source.image_size == theirs.config.image_size


def test_a_base_model_gives_its_class_token(tmp_path):
    theirs, actual = body_folder(tmp_path / "it"), read_model(tmp_path / "it", CPU)
    batch = batch_of(theirs, 20)
    expected = theirs_of(theirs, batch, [0.5] * 3, [0.5] * 3).last_hidden_state[:, 0]
    with torch.no_grad():
        assert_close(actual.module.encode(batch.source).values[:, 0], expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["vit", "deit, with teacher"])
def test_timms_folder_of_the_same_weights(name, tmp_path):
    theirs = vit_of(name) if name != "vit" else like_timm_and_google()
    theirs.config.layer_norm_eps = 1e-6
    for part in theirs.modules():
        if isinstance(part, torch.nn.LayerNorm):
            part.eps = 1e-6
    timm_folder(tmp_path / "it", theirs)
    actual, batch = read_model(tmp_path / "it", CPU), batch_of(theirs, 24)
    with torch.no_grad():
        expected = theirs_of(theirs, batch, [0.4] * 3, [0.2] * 3).logits
        assert_close(actual.module(batch)[:, 0], expected, rtol=0, atol=1e-4)
    assert actual.config.model.encoder.heads == 3


@pytest.mark.parametrize("layout", ["vision_transformer", "big_vision"])
@pytest.mark.parametrize("prefix", ["", "params/", "opt/target/"])
def test_googles_file_of_the_same_weights(layout, prefix, tmp_path):
    theirs = like_timm_and_google(hidden_act="gelu_pytorch_tanh")
    arrays = google_arrays(theirs, tmp_path / "hf", layout)
    more = {"opt/state/step": np.array(3)} if prefix.startswith("opt") else {}
    np.savez(tmp_path / "it.npz", **{prefix + name: each for name, each in arrays.items()}, **more)
    actual = read_model(tmp_path / "it.npz", CPU)
    for side in (20, 28):
        batch = batch_of(theirs, side)
        expected = theirs_of(theirs, batch, [0.5] * 3, [0.5] * 3).logits
        with torch.no_grad():
            assert_close(actual.module(batch)[:, 0], expected, rtol=0, atol=1e-4)
    assert actual.config.model.target.pooling == "cls"
    assert actual.config.model.source.image_size == DEFAULT_CONFIG["image_size"]


def test_googles_file_whose_blocks_lie_on_top_of_each_other(tmp_path):
    theirs = like_timm_and_google(hidden_act="gelu_pytorch_tanh")
    arrays = google_arrays(theirs, tmp_path / "hf", "big_vision")
    stacked = {name: each for name, each in arrays.items() if "encoderblock_" not in name}
    for name in [name for name in arrays if "encoderblock_0/" in name]:
        both = [arrays[name.replace("block_0", f"block_{number}")] for number in (0, 1)]
        stacked[name.replace("encoderblock_0", "encoderblock")] = np.stack(both)
    np.savez(tmp_path / "it.npz", **{f"params/{name}": each for name, each in stacked.items()})
    actual, batch = read_model(tmp_path / "it.npz", CPU), batch_of(theirs, 20)
    with torch.no_grad():
        expected = theirs_of(theirs, batch, [0.5] * 3, [0.5] * 3).logits
        assert_close(actual.module(batch)[:, 0], expected, rtol=0, atol=1e-4)
    assert actual.config.model.encoder.depth == 2


def test_googles_older_files_have_a_position_for_the_class_token(tmp_path):
    theirs = like_timm_and_google(hidden_act="gelu_pytorch_tanh")
    arrays = google_arrays(theirs, tmp_path / "hf", "big_vision")
    arrays["pos_embedding"] = theirs.state_dict()["vit.embeddings.position_embeddings"].numpy()
    arrays["cls"] = theirs.state_dict()["vit.embeddings.cls_token"].numpy()
    np.savez(tmp_path / "it.npz", **arrays)
    actual, batch = read_model(tmp_path / "it.npz", CPU), batch_of(theirs, 20)
    with torch.no_grad():
        expected = theirs_of(theirs, batch, [0.5] * 3, [0.5] * 3).logits
        assert_close(actual.module(batch)[:, 0], expected, rtol=0, atol=1e-4)
