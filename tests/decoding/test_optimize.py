"""Inference optimization: which version is used on which device."""

import copy
import sys
from types import SimpleNamespace

import pytest
import torch

from seq2see.core.errors import UserError
from seq2see.decoding import graphed_decoding, native, optimize
from seq2see.decoding.optimize import optimize_for_inference
from seq2see.decoding.packed_weights import PackedLinearInt8
from tiny_models import tiny_model
from toy_decoders import TableModel

NAME = "transformer, pre-norm"


def test_on_a_cpu_the_native_model_is_used_with_the_requested_threads(monkeypatch):
    calls, optimized_model = [], TableModel()
    monkeypatch.setattr(native, "make_native_model", lambda *arguments: calls.append(arguments) or optimized_model)
    assert optimize_for_inference(tiny_model(NAME), "bf16", threads=3) is optimized_model
    assert optimize_for_inference(tiny_model(NAME)) is optimized_model
    assert calls == [(tiny_model(NAME), "bf16", 3), (tiny_model(NAME), "float32", torch.get_num_threads())]


def test_without_a_native_model_the_packed_one_is_used(monkeypatch):
    monkeypatch.setattr(native, "make_native_model", lambda *arguments: None)
    assert isinstance(optimize_for_inference(tiny_model(NAME), "int8").head, PackedLinearInt8)


class Graphed(TableModel):
    """A stand-in for a model with CUDA graphs."""

    def __init__(self, model):
        super().__init__()
        self.model = model


@pytest.fixture
def meta_model(monkeypatch):
    """A model that is not on the CPU."""
    monkeypatch.setattr(graphed_decoding, "GraphedModel", Graphed)
    return copy.deepcopy(tiny_model(NAME)).to("meta")


def test_on_a_gpu_the_model_is_graphed_in_the_requested_precision(meta_model):
    assert optimize_for_inference(meta_model, "float32").model is meta_model
    half = optimize_for_inference(meta_model, "bf16").model
    assert {weight.dtype for weight in half.parameters()} == {torch.bfloat16}
    assert {weight.dtype for weight in meta_model.parameters()} == {torch.float32}
    assert {table.dtype for table in half.buffers()} == {torch.float32}  # sinusoidal positions would be wrong in bf16


def test_on_a_gpu_with_triton_the_small_batch_model_is_graphed(meta_model, monkeypatch):
    calls, optimized_model = [], TableModel()
    kernels = SimpleNamespace(make_small_batch_model=lambda model: calls.append(model) or optimized_model)
    monkeypatch.setitem(sys.modules, "seq2see.decoding.small_batch", kernels)
    monkeypatch.setattr(optimize, "device_of", lambda model: torch.device("cuda"))
    monkeypatch.setattr(optimize, "TRITON", True)
    assert optimize_for_inference(meta_model, "bf16").model is optimized_model
    assert {weight.dtype for weight in calls[0].parameters()} == {torch.bfloat16}
    monkeypatch.setattr(optimize, "TRITON", False)
    assert optimize_for_inference(meta_model, "float32").model is meta_model


def test_int8_on_a_gpu_is_an_error_with_a_hint(meta_model):
    with pytest.raises(UserError, match="precision=bf16"):
        optimize_for_inference(meta_model, "int8")


def test_every_precision_of_the_settings_has_packers():
    from seq2see.decoding.packed_weights import PACKERS
    from seq2see.decoding.settings import Decoding

    for precision in PACKERS:
        assert Decoding(max_new_tokens=3, precision=precision).precision == precision
    with pytest.raises(ValueError, match="precision"):
        Decoding(max_new_tokens=3, precision="int4")
    assert optimize.Precision.__args__ == tuple(PACKERS)
