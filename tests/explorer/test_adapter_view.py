"""The view "Adapter": the numbers are those of the expert and of its base."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from seq2see.core.errors import UserError
from seq2see.explorer.routes import views_of
from seq2see.explorer.schemas import RunRequest
from seq2see.explorer.views import adapter
from seq2see.explorer.workspace import Workspace
from seq2see.runs.load import load, read_adapted_model
from tiny_runs import tiny_run

Q_PROJ = "encoder.blocks.0.self_attention.q_proj"


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> list[Path]:
    root = tmp_path_factory.mktemp("runs")
    return [tiny_run(name, root) for name in ("adapter", "transformer")]


@pytest.fixture(scope="module")
def workspace(folders) -> Workspace:
    return Workspace.open([str(each) for each in folders])


def test_only_a_run_with_an_adapter_has_the_view(workspace):
    assert "adapter" in views_of(workspace.run("r1"))
    assert "adapter" not in views_of(workspace.run("r2"))
    with pytest.raises(UserError, match="has no adapter"):
        adapter.matrices(workspace, RunRequest(run="r2"))
    with pytest.raises(UserError, match="has no adapter"):
        read_adapted_model(workspace.run("r2").weights)


def test_the_factors_are_the_trained_numbers(workspace):
    names = [each["name"] for each in adapter.matrices(workspace, RunRequest(run="r1"))["matrices"]]
    table = adapter.factors(workspace, RunRequest(run="r1")).array
    expert = workspace.run("r1").model.stored.expert
    assert table.shape == (len(names), 96)
    z = expert.weights[f"{Q_PROJ}.scales"].numpy()  # 16 numbers, each of which fills six columns
    np.testing.assert_allclose(table[names.index(Q_PROJ)], np.repeat(z, 6), atol=1e-6)
    assert np.abs(z - 1).max() > 0.01
    shown = adapter.matrix(workspace, adapter.MatrixRequest(run="r1", matrix=Q_PROJ))
    np.testing.assert_allclose(shown["factors"], z, atol=1e-6)


def test_the_singular_values_are_those_of_the_base_and_of_the_changed_matrix(workspace, folders):
    shown = adapter.matrix(workspace, adapter.MatrixRequest(run="r1", matrix=Q_PROJ))
    for folder, name in zip(folders, ("after", "before"), strict=True):
        weight = load(folder).module.get_submodule("encoder.blocks.0.self_attention.qkv_proj").weight[:16]
        np.testing.assert_allclose(shown[name], torch.linalg.svdvals(weight.detach()).numpy(), atol=1e-5)
    with pytest.raises(UserError, match="no matrix 'x'"):
        adapter.matrix(workspace, adapter.MatrixRequest(run="r1", matrix="x"))


def test_the_summary_counts_the_trained_weights(workspace):
    summary = adapter.matrices(workspace, RunRequest(run="r1"))
    assert (summary["kind"], summary["base"]) == ("svf", "transformer <i>&")
    assert summary["adapter_weights"] == sum(each["count"] for each in summary["matrices"])
    assert summary["model_weights"] == sum(
        each.numel() for each in load(workspace.run("r2").folder.path).module.parameters()
    )
    change = next(each["change"] for each in summary["matrices"] if each["name"] == Q_PROJ)
    factors = np.array(adapter.matrix(workspace, adapter.MatrixRequest(run="r1", matrix=Q_PROJ))["factors"])
    assert change == pytest.approx(np.sqrt(np.mean((factors - 1) ** 2)), rel=1e-5)
