"""The figure of an adapter: singular values before and after, by an independent decomposition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from seq2see.adapters.adapt import adapt, adapters_of
from seq2see.adapters.settings import SVF, LoRA, NormalizedSVF
from seq2see.inspection import adapter_plots
from seq2see.runs.experts import ADAPTER_FIGURE, draw_adapter_of
from tiny_models import FAMILIES, perturbed_model


@pytest.mark.parametrize("kind", [SVF(), NormalizedSVF(), LoRA(rank=2, alpha=6.0)], ids=lambda each: each.kind)
def test_it_shows_the_singular_values_of_each_matrix_before_and_after(kind, tmp_path: Path, monkeypatch):
    model = perturbed_model(FAMILIES["transformer, pre-norm"])
    adapt(model, kind)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.requires_grad:
                weight.add_(torch.randn_like(weight))  # some z become negative
    drawn = []
    draw = adapter_plots.draw_adapter
    monkeypatch.setattr(
        adapter_plots, "draw_adapter", lambda matrices, path: (drawn.extend(matrices), draw(matrices, path))
    )
    draw_adapter_of(model, tmp_path)
    assert (tmp_path / ADAPTER_FIGURE).read_bytes().startswith(b"\x89PNG")
    adapters = adapters_of(model)
    assert [each.name for each in drawn] == list(adapters)
    for each, adapter in zip(drawn, adapters.values(), strict=True):
        for values, matrix in ((each.before, adapter.base.weight), (each.after, adapter.weight)):
            expected = np.linalg.svd(matrix.detach().double().numpy(), compute_uv=False)
            np.testing.assert_allclose(values, expected, atol=1e-4)
        assert each.change > 0
    if isinstance(kind, SVF):
        np.testing.assert_array_equal(drawn[0].factors, next(iter(adapters.values())).z.detach().numpy())
