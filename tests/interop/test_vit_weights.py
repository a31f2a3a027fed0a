"""ViT files that are damaged, of another kind or in a rarer form: refused by name, or read by the formula."""

from __future__ import annotations

import contextlib
import json
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional
from torch.testing import assert_close

from seq2see.core.batch import Batch, Images
from seq2see.core.errors import UserError
from seq2see.interop.vit_layouts import BIG_VISION, TIMM, VISION_TRANSFORMER, hugging_face_names, vit_mappings
from seq2see.interop.vit_weights import NpzFile, fold_normalization
from seq2see.models.vit import PixelNormalization, patchify
from seq2see.runs.load import read_model
from seq2see.tasks.model_folder import fingerprint_of
from vit_folders import SHAPE, google_arrays, like_timm_and_google, timm_folder, vit_folder

CPU, WIDTH = torch.device("cpu"), SHAPE["hidden_size"]


@pytest.fixture
def folder(tmp_path):
    vit_folder(tmp_path / "it", "vit")
    return tmp_path / "it"


def change_config(folder, **changes) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"model_type": "swin"}, "model_type 'swin'.*vit, deit"),
        ({"architectures": ["ViTForMaskedImageModeling"]}, "ViTForMaskedImageModeling"),
        ({"qkv_bias": False}, "qkv_bias"),
        ({"hidden_act": "quick_gelu"}, "hidden_act"),
        ({"hidden_size": 30, "num_attention_heads": 5}, "should be"),
        ({"num_hidden_layers": 1}, "is not part of the model"),
        ({"num_hidden_layers": 3}, "is missing"),
        ({"image_size": 24}, "positions, but 36 patches"),
        ({"image_size": 16}, "positions, but 16 patches"),
        ({"image_size": 22}, "multiple"),
        ({"patch_size": 5}, "should be"),
        ({"image_size": [20, 20]}, "whole number"),
        ({"id2label": {"0": "a", "1": "b"}}, "5 rows for labels"),
    ],
)
def test_a_config_that_does_not_fit_is_refused_with_the_reason(folder, changes, message):
    change_config(folder, **changes)
    with pytest.raises(UserError, match=message):
        read_model(folder, CPU)


def test_a_weight_that_is_missing_or_damaged_is_named(folder):
    weights = load_file(folder / "model.safetensors")
    gone = weights.pop("vit.encoder.layer.1.attention.attention.key.weight")
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(UserError, match=r"layer.1.attention.attention.key.weight. \(24 x 24\) is missing"):
        read_model(folder, CPU)
    save_file(
        weights | {"vit.encoder.layer.1.attention.attention.key.weight": gone[:5].clone()}, folder / "model.safetensors"
    )
    with pytest.raises(UserError, match="should be 24 x 24"):
        read_model(folder, CPU)
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:500])
    with pytest.raises(UserError, match="cannot be read"):
        read_model(folder, CPU)


@pytest.mark.parametrize(
    "content, message",
    [
        ("{", "cannot be read"), ('{"image_mean": [0.5]}', "not the numbers of 3 channels"),
        ('{"do_rescale": false}', "not rescaled"), ('{"image_mean": "gray"}', "cannot be read"),
        ('{"rescale_factor": 1}', "not rescaled"), ('{"image_mean": [0.5, NaN, 0.5]}', "not the numbers of 3"),
        ('{"image_std": [0.5, 0, 0.5]}', "cannot be divided by"),
    ],
)  # fmt: skip
def test_a_preprocessor_that_cannot_be_followed_is_refused(folder, content, message):
    (folder / "preprocessor_config.json").write_text(content)
    with pytest.raises(UserError, match=message):
        read_model(folder, CPU)


def test_unused_weights_are_ignored(folder):
    weights = load_file(folder / "model.safetensors")
    unused = {"vit.embeddings.mask_token": torch.ones(1, 1, WIDTH), "vit.pooler.dense.bias": torch.ones(WIDTH)}
    save_file(weights | unused, folder / "model.safetensors")
    assert len(read_model(folder, CPU).tokenizers.labels) == 5


@pytest.mark.parametrize("names", [hugging_face_names("vit.", False), TIMM, BIG_VISION, VISION_TRANSFORMER])
def test_every_mapping_round_trips(folder, names):
    settings = read_model(folder, CPU).config.model
    for mapping in vit_mappings(names, settings, 26, 5):
        reference = {name: torch.randn(shape) for name, shape in zip(mapping.external, mapping.shapes, strict=True)}
        back = mapping.to_external(mapping.from_external(list(reference.values())))
        assert {name: back[name].tolist() for name in back} == {name: reference[name].tolist() for name in reference}


def test_a_token_without_position_is_reported(tmp_path):
    vit_folder(tmp_path / "it", "deit, with teacher")
    weights = load_file(tmp_path / "it" / "model.safetensors")
    name = "deit.embeddings.position_embeddings"
    weights[name] = weights[name][:, 1:].clone()  # 25 patches and one of two tokens
    save_file(weights, tmp_path / "it" / "model.safetensors")
    with pytest.raises(UserError, match="26 positions, but 25 patches and 2 tokens"):
        read_model(tmp_path / "it", CPU)


def test_normalization_is_folded_into_the_projection_exactly():
    weight, bias = torch.randn(7, 3 * 4, dtype=torch.float64), torch.randn(7, dtype=torch.float64)
    pixels = torch.randint(0, 256, (2, 3, 4, 6), dtype=torch.uint8)
    mean, std = (0.1, 0.5, 0.9), (0.2, 0.3, 0.7)
    means, stds = (torch.tensor(each, dtype=torch.float64)[:, None, None] for each in (mean, std))
    reference = functional.linear(patchify((pixels.double() / 255 - means) / stds, 2), weight, bias)
    actual = functional.linear(
        patchify(PixelNormalization().double()(pixels.double()), 2), *fold_normalization(weight, bias, mean, std)
    )
    assert_close(actual, reference, rtol=0, atol=1e-12)


# timm


def test_timm_heads_follow_from_the_model_name(tmp_path):
    timm_folder(tmp_path / "it", like_timm_and_google(hidden_size=128, num_attention_heads=2))
    change_config(tmp_path / "it", num_heads=None)
    assert read_model(tmp_path / "it", CPU).config.model.encoder.heads == 2  # 64 numbers each


def test_timms_other_models_are_refused(tmp_path):
    timm_folder(tmp_path / "it", like_timm_and_google(), name="resnet50")
    with pytest.raises(UserError, match="resnet50"):
        read_model(tmp_path / "it", CPU)


def test_other_timm_pooling_is_refused(tmp_path):
    timm_folder(tmp_path / "it", like_timm_and_google())
    change_config(tmp_path / "it", global_pool="avg")
    with pytest.raises(UserError, match="global_pool='avg'"):
        read_model(tmp_path / "it", CPU)


def test_how_timms_model_was_made_is_followed_or_refused(tmp_path):
    timm_folder(tmp_path / "it", like_timm_and_google())
    change_config(tmp_path / "it", num_heads=None, model_args={"num_heads": 3, "depth": 2, "drop_path_rate": 0.1})
    assert read_model(tmp_path / "it", CPU).config.model.encoder.heads == 3
    change_config(tmp_path / "it", model_args={"num_heads": 3, "act_layer": "quick_gelu"})
    with pytest.raises(UserError, match=r"model_args\.act_layer='quick_gelu'"):
        read_model(tmp_path / "it", CPU)


@pytest.mark.parametrize(
    "content, message",
    [
        ({"mean": [0.5]}, "not the numbers of 3 channels"), ({"std": [0.5, 0, 0.5]}, "cannot be divided by"),
        ({"mean": 0.5}, "cannot be read"), ({"input_size": [20]}, "cannot be read"),
        ({"input_size": None}, "input_size"),
    ],
)  # fmt: skip
def test_timms_pixels_that_cannot_be_followed_are_refused(tmp_path, content, message):
    timm_folder(tmp_path / "it", like_timm_and_google(), **content)
    with pytest.raises(UserError, match=message):
        read_model(tmp_path / "it", CPU)


def test_timms_labels(tmp_path):
    timm_folder(tmp_path / "it", like_timm_and_google(), label_names=["a", "b", "猫", "d", "e"])
    assert read_model(tmp_path / "it", CPU).tokenizers.labels == ("a", "b", "猫", "d", "e")


# Google


@pytest.fixture
def arrays(tmp_path):
    model = like_timm_and_google(hidden_act="gelu_pytorch_tanh")
    return google_arrays(model, tmp_path / "hf", "big_vision")


def scores_of(path, side: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    """The scores, and the vectors of all places that they are made of."""
    stored = read_model(path, CPU)
    pixels = torch.randint(0, 256, (2, 3, side, side), dtype=torch.uint8)
    with torch.no_grad():
        batch = Batch(Images(pixels), None, torch.zeros(2, 1), torch.arange(2))
        return stored.module(batch)[:, 0], stored.module.encode(batch.source).values


def dense(x, arrays, name):
    kernel, bias = (torch.from_numpy(np.ascontiguousarray(arrays[f"{name}/{part}"])) for part in ("kernel", "bias"))
    return torch.tensordot(x, kernel, dims=x.ndim - (x.ndim - 1)) + bias


def test_pre_logits_by_the_formula(arrays, tmp_path):
    arrays |= {"pre_logits/kernel": np.random.randn(WIDTH, WIDTH).astype("f4"), "pre_logits/bias": np.ones(WIDTH, "f4")}
    np.savez(tmp_path / "it.npz", **arrays)
    scores, places = scores_of(tmp_path / "it.npz")
    expected = dense(dense(places[:, 0], arrays, "pre_logits").tanh(), arrays, "head")
    assert_close(scores, expected, rtol=0, atol=1e-4)


def test_a_mean_of_all_patches_by_the_formula(arrays, tmp_path):
    del arrays["cls"]
    np.savez(tmp_path / "it.npz", **arrays)
    scores, places = scores_of(tmp_path / "it.npz", 24)
    assert places.shape == (2, 36, WIDTH)
    assert_close(scores, dense(places.mean(1), arrays, "head"), rtol=0, atol=1e-4)


def test_attention_pooling_by_the_formula(arrays, tmp_path):
    """big_vision's MAP head, with einsum over the axes as JAX has them."""
    del arrays["cls"]
    draw = np.random.default_rng(0)
    attention, heads, size = "MAPHead_0/MultiHeadDotProductAttention_0", 3, WIDTH // 3
    shapes = {
        "MAPHead_0/probe": (1, 1, WIDTH), f"{attention}/out/kernel": (heads, size, WIDTH),
        f"{attention}/out/bias": (WIDTH,),
        "MAPHead_0/LayerNorm_0/scale": (WIDTH,), "MAPHead_0/LayerNorm_0/bias": (WIDTH,),
        "MAPHead_0/MlpBlock_0/Dense_0/kernel": (WIDTH, 37), "MAPHead_0/MlpBlock_0/Dense_0/bias": (37,),
        "MAPHead_0/MlpBlock_0/Dense_1/kernel": (37, WIDTH), "MAPHead_0/MlpBlock_0/Dense_1/bias": (WIDTH,),
    }  # fmt: skip
    for name in ("query", "key", "value"):
        shapes |= {f"{attention}/{name}/kernel": (WIDTH, heads, size), f"{attention}/{name}/bias": (heads, size)}
    arrays |= {name: draw.normal(size=shape).astype("f4") for name, shape in shapes.items()}
    np.savez(tmp_path / "it.npz", **arrays)
    scores, places = scores_of(tmp_path / "it.npz")
    weights_by_name = {name: torch.from_numpy(arrays[name]) for name in shapes}
    query, key, value = (
        torch.einsum("bnw,whd->bnhd", inputs, weights_by_name[f"{attention}/{name}/kernel"])
        + weights_by_name[f"{attention}/{name}/bias"]
        for name, inputs in (
            ("query", weights_by_name["MAPHead_0/probe"].expand(2, 1, -1)),
            ("key", places),
            ("value", places),
        )
    )
    weights = (torch.einsum("bqhd,bnhd->bhqn", query, key) / size**0.5).softmax(-1)
    found = torch.einsum("bhqn,bnhd->bqhd", weights, value)
    found = (
        torch.einsum("bqhd,hdw->bqw", found, weights_by_name[f"{attention}/out/kernel"])
        + weights_by_name[f"{attention}/out/bias"]
    )
    norm = [weights_by_name[f"MAPHead_0/LayerNorm_0/{part}"] for part in ("scale", "bias")]
    inner = dense(functional.layer_norm(found, (WIDTH,), *norm, 1e-6), arrays, "MAPHead_0/MlpBlock_0/Dense_0")
    found = found + dense(functional.gelu(inner, approximate="tanh"), arrays, "MAPHead_0/MlpBlock_0/Dense_1")
    assert_close(scores, dense(found[:, 0], arrays, "head"), rtol=1e-4, atol=1e-4)


def test_a_file_without_a_head_gives_vectors(arrays, tmp_path):
    np.savez(tmp_path / "it.npz", **{name: each for name, each in arrays.items() if not name.startswith("head")})
    stored = read_model(tmp_path / "it.npz", CPU)
    assert stored.config.model.target.kind == "embedding"
    assert not stored.tokenizers.labels


def test_bfloat16_is_read_from_npz(arrays, tmp_path):
    numbers = torch.randn(5, 3).bfloat16()
    np.savez(tmp_path / "it.npz", it=numbers.view(torch.int16).numpy().view("V2"), other=np.ones(2))
    file = NpzFile(tmp_path / "it.npz")
    assert torch.equal(file.read("it"), numbers.float())
    assert file.read("other").dtype == torch.float32
    assert file.shapes() == {"it": (5, 3), "other": (2,)}


@pytest.mark.parametrize("kind", ["int8", "uint16", "bool"])
def test_weights_in_whole_numbers_are_refused_by_name(arrays, tmp_path, kind):
    arrays["head/bias"] = arrays["head/bias"].astype(kind)
    np.savez(tmp_path / "it.npz", **arrays)
    with pytest.raises(UserError, match=rf"it\.npz: The weight 'head/bias' has integers \({kind}\).*float32"):
        read_model(tmp_path / "it.npz", CPU)


def test_weights_that_are_no_numbers_are_refused_by_name(arrays, tmp_path):
    arrays["head/bias"][1] = np.nan
    np.savez(tmp_path / "it.npz", **arrays)
    with pytest.raises(UserError, match=r"'head/bias' has a value that is not finite"):
        read_model(tmp_path / "it.npz", CPU)


def test_rarer_forms_of_an_npz_are_read(tmp_path):
    """A long header has another version; an archive may hold other files; a number is no stack of blocks."""
    arrays = {"long": np.arange(6.0).reshape(2, 3), "Transformer/encoderblock/step": np.array(7.0)}
    with zipfile.ZipFile(tmp_path / "it.npz", "w") as archive:
        archive.writestr("license.txt", "free")
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, array, version=(2, 0))
    file = NpzFile(tmp_path / "it.npz")
    assert file.shapes() == {"long": (2, 3), "Transformer/encoderblock/step": ()}
    assert torch.equal(file.read("long"), torch.arange(6.0).reshape(2, 3))


def test_a_pickle_in_an_npz_is_not_opened(tmp_path):
    np.savez(tmp_path / "it.npz", **{"embedding/kernel": np.array([{"a": 1}], dtype=object)})
    with pytest.raises(UserError, match=r"cannot be read.*allow_pickle"):
        NpzFile(tmp_path / "it.npz").read("embedding/kernel")


def test_files_that_are_no_vit_are_refused(arrays, tmp_path):
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(UserError, match="cannot be read"):
        read_model(tmp_path / "text.npz", CPU)
    for strange in ({"weights": np.ones(3)}, {"embedding/kernel": np.ones((4, 4, 24))}):
        np.savez(tmp_path / "other.npz", **strange)
        with pytest.raises(UserError, match="not a ViT"):
            read_model(tmp_path / "other.npz", CPU)
    np.savez(tmp_path / "more.npz", **arrays, strange=np.ones(3))
    with pytest.raises(UserError, match="'strange' is not part of the model"):
        read_model(tmp_path / "more.npz", CPU)
    np.savez(tmp_path / "it.npz", **arrays)
    whole = (tmp_path / "it.npz").read_bytes()
    (tmp_path / "half.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="cannot be read"):
        read_model(tmp_path / "half.npz", CPU)
    assert fingerprint_of(tmp_path / "it.npz") != fingerprint_of(tmp_path / "half.npz")


def test_a_damaged_npz_is_refused_wherever_the_damage_is(tmp_path):
    np.savez_compressed(tmp_path / "it.npz", **{"embedding/kernel": np.random.default_rng(1).normal(size=(9, 9))})
    whole = (tmp_path / "it.npz").read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x55
        (tmp_path / "it.npz").write_bytes(damaged)
        with contextlib.suppress(UserError, KeyError):  # or it is read: some bytes mean nothing, some are its name
            NpzFile(tmp_path / "it.npz").read("embedding/kernel")
