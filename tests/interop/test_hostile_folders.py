"""Model folders of others that lie about their sizes: one sentence, before the memory is filled."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from seq2see.core.errors import UserError
from seq2see.core.files import MANIFEST, file_entry, manifest_bytes
from seq2see.interop.checkpoint_files import JsonConfig
from seq2see.interop.vit_weights import NpzFile
from seq2see.recipes.registry import recipe
from seq2see.runs.load import read_model
from seq2see.runs.train import NullListener, dry_run, train_recipe


@pytest.mark.parametrize(
    "name", ["num_hidden_layers", "n_layer", "hidden_size", "vocab_size", "max_position_embeddings"]
)
@pytest.mark.parametrize("value", [10**9, 10**400])
def test_a_size_that_no_model_has_is_refused_before_its_weights_are_listed(name, value):
    with pytest.raises(UserError, match="is supported") as caught:
        JsonConfig({name: value}, "config.json").positive_int(name)
    assert len(str(caught.value)) < 300
    assert JsonConfig({name: 96}, "config.json").positive_int(name) == 96


def test_an_archive_that_expands_to_a_multiple_of_its_size_is_refused(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", weight=np.zeros(1 << 24, np.float32))
    assert (tmp_path / "a.npz").stat().st_size < 1 << 17
    with pytest.raises(UserError, match=r"bytes expand to"):
        NpzFile(tmp_path / "a.npz")


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 4), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': " + "(" * 3000 + ", }",
        "{'descr': '<f4'",
    ],
)
def test_an_array_whose_header_lies_is_refused(tmp_path, header):
    text = (header + "\n").encode()
    content = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("weight.npy", content)
    with pytest.raises(UserError, match="These weights cannot be read"):
        NpzFile(tmp_path / "a.npz")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    small = {"encoder.width": 8, "decoder.width": 8, "corpus.size": 50, "training.steps": 1}
    return train_recipe(recipe("pocket-rnn").with_(**small), folder / "a", NullListener()).path


def sealed(folder: Path) -> Path:
    """The folder with a manifest of the files that it has now."""
    files = {path.name: file_entry(path.read_bytes()) for path in folder.iterdir() if path.name != MANIFEST}
    (folder / MANIFEST).write_bytes(manifest_bytes(json.loads((folder / MANIFEST).read_text())["step"], files))
    return folder


@pytest.mark.parametrize("part, name", [("encoder", "depth"), ("decoder", "width")])
def test_a_run_whose_config_is_larger_than_its_weights_is_not_built(run, tmp_path, part, name):
    model = Path(shutil.copytree(run / "model", tmp_path / "model"))
    config = json.loads((model / "config.json").read_text())
    config["model"][part][name] = 10**6
    (model / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=f"{part}.{name} is 1000000, more than its weights allow"):
        read_model(sealed(model), torch.device("cpu"))


def test_a_run_with_bad_weights_is_one_sentence(run, tmp_path):
    model = Path(shutil.copytree(run / "model", tmp_path / "model"))
    (model / "model.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(UserError, match=r"model\.safetensors holds no tensors"):
        read_model(sealed(model), torch.device("cpu"))
    save_file({"a": torch.zeros(9)}, model / "model.safetensors")
    with pytest.raises(UserError):
        read_model(sealed(model), torch.device("cpu"))


def test_a_dry_run_of_gpt3_prints_its_size_and_builds_nothing(tmp_path):
    (tmp_path / "a.txt").write_text("once upon a time there was a hill\n" * 400)
    gpt3 = {"decoder.width": 12288, "decoder.heads": 96, "decoder.depth": 96, "corpus.kind": "texts"}
    described: list[str] = []
    dry_run(recipe("write").with_(**gpt3, **{"corpus.paths": [str(tmp_path / "a.txt")]}), described.append)
    weights = next(line for line in described if line.startswith("model"))
    assert 173e9 < int(weights.split()[1].replace(",", "")) < 176e9
    assert described[-1].endswith("no step was timed")
