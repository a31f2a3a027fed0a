"""Inference optimization: which version is used on which device."""

import copy
import sys
from types import SimpleNamespace

import pytest
import torch

from seq2see.acceleration import graphed_decoding, inference, native
from seq2see.acceleration.attention import FusedSelfAttention
from seq2see.acceleration.compiler import load_native_library
from seq2see.acceleration.fast_search import CPULoop
from seq2see.acceleration.inference import optimize_for_inference
from seq2see.acceleration.native import NativeModel
from seq2see.acceleration.packed_weights import PackedLinearInt8, PackedLinearLargeBatch
from seq2see.acceleration.swaps import Conditions, accelerate
from seq2see.core.errors import UserError
from seq2see.layers.attention import SelfAttention
from tiny_models import tiny_model
from toy_decoders import TableModel
from ways import fast, plain

NAME = "transformer, pre-norm"


def test_on_a_cpu_the_native_model_is_used_with_the_requested_threads(monkeypatch):
    calls, optimized_model = [], TableModel()
    monkeypatch.setattr(native, "make_native_model", lambda *arguments: calls.append(arguments) or optimized_model)
    assert optimize_for_inference(tiny_model(NAME), "bf16", threads=3) is optimized_model
    assert optimize_for_inference(tiny_model(NAME)) is optimized_model
    assert [arguments[1:] for arguments in calls] == [("bf16", 3), ("float32", torch.get_num_threads())]
    assert all(share_weights(arguments[0], tiny_model(NAME)) for arguments in calls)


def test_without_a_native_model_the_packed_one_is_used(monkeypatch):
    monkeypatch.setattr(native, "make_native_model", lambda *arguments: None)
    optimized_model = optimize_for_inference(tiny_model(NAME), "int8")
    assert isinstance(optimized_model.model.head, PackedLinearInt8)
    assert optimized_model.decoding_loop is CPULoop


def test_the_layers_of_a_copy_are_fast_and_those_of_the_model_stay_plain(monkeypatch):
    monkeypatch.setattr(native, "make_native_model", lambda *arguments: None)
    for model in (tiny_model(NAME), accelerate(copy.deepcopy(tiny_model(NAME)), Conditions("cpu"))):
        before = [type(module) for module in model.modules()]
        fast_model = optimize_for_inference(model).model
        assert isinstance(fast_model.decoder.blocks[0].self_attention, FusedSelfAttention)
        assert [type(module) for module in model.modules()] == before
    assert type(tiny_model(NAME).decoder.blocks[0].self_attention) is SelfAttention


@pytest.mark.parametrize("way", [plain, fast])
def test_a_model_with_fast_layers_has_a_native_copy_too(way):
    model = way(copy.deepcopy(tiny_model(NAME)))
    if load_native_library().library is None:
        pytest.skip(str(load_native_library().reason))
    assert isinstance(optimize_for_inference(model), NativeModel)


def test_an_encoder_only_model_is_packed_for_large_batches():
    model = copy.deepcopy(tiny_model(NAME)).encoder
    packed = optimize_for_inference(model)
    assert isinstance(packed.blocks[0].feed_forward.up_proj, PackedLinearLargeBatch)
    assert not any(isinstance(module, PackedLinearLargeBatch) for module in model.modules())


def share_weights(model, other):
    weights, other_weights = dict(model.named_parameters()), dict(other.named_parameters())
    return weights.keys() == other_weights.keys() and all(weights[name] is other_weights[name] for name in weights)


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
    assert share_weights(optimize_for_inference(meta_model, "float32").model, meta_model)
    half = optimize_for_inference(meta_model, "bf16").model
    assert {weight.dtype for weight in half.parameters()} == {torch.bfloat16}
    assert {weight.dtype for weight in meta_model.parameters()} == {torch.float32}
    assert {table.dtype for table in half.buffers()} == {torch.float32}  # sinusoidal positions would be wrong in bf16


def test_on_a_gpu_with_triton_the_small_batch_model_is_graphed(meta_model, monkeypatch):
    calls, optimized_model = [], TableModel()
    kernels = SimpleNamespace(make_small_batch_model=lambda model: calls.append(model) or optimized_model)
    monkeypatch.setitem(sys.modules, "seq2see.acceleration.small_batch", kernels)
    monkeypatch.setattr(inference, "device_of", lambda model: torch.device("cuda"))
    monkeypatch.setattr(inference, "TRITON", True)
    assert optimize_for_inference(meta_model, "bf16").model is optimized_model
    assert {weight.dtype for weight in calls[0].parameters()} == {torch.bfloat16}
    monkeypatch.setattr(inference, "TRITON", False)
    assert share_weights(optimize_for_inference(meta_model, "float32").model, meta_model)


def test_int8_on_a_gpu_is_an_error_with_a_hint(meta_model):
    with pytest.raises(UserError, match="precision=bf16"):
        optimize_for_inference(meta_model, "int8")


def test_every_precision_of_the_settings_has_packers():
    from seq2see.acceleration.packed_weights import PACKERS
    from seq2see.decoding.engine import Decoding

    for precision in PACKERS:
        assert Decoding(max_new_tokens=3, precision=precision).precision == precision
    with pytest.raises(ValueError, match="precision"):
        Decoding(max_new_tokens=3, precision="int4")
    assert inference.Precision.__args__ == tuple(PACKERS)
