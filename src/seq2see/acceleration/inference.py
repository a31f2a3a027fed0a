"""Inference optimization: the fastest copy of a model on its device, and the fastest search for any model.

Every copy gives the results of the plain model; the files of the copies name their definitions and tests.
"""

from __future__ import annotations

import copy
from typing import Any, Literal, cast

import torch
from torch import nn

from seq2see.acceleration.fast_search import CPULoop, FastSearchModel, GPULoop
from seq2see.acceleration.packed_weights import make_packed_model, pack_for_large_batches
from seq2see.acceleration.support import TRITON
from seq2see.acceleration.swaps import Conditions, accelerate
from seq2see.core.devices import device_of
from seq2see.core.errors import UserError
from seq2see.decoding.engine import GenerativeModel
from seq2see.models.language_model import LanguageModel
from seq2see.models.seq2seq import Seq2Seq

Precision = Literal["float32", "bf16", "int8"]


def optimize_for_inference(model: nn.Module, precision: Precision = "float32", threads: int | None = None) -> Any:
    """Return an optimized copy: on a CPU in C++ or else with packed weights, on a GPU with CUDA graphs and few kernels.

    The copy contains the current weights; after further training a new copy is necessary. `threads` is the number of
    threads of the C++ copy; the default is that of torch. The copy of a generative model is for `decode`; that of an
    encoder-only model is called as the model is, with large batches.
    """
    device = device_of(model)
    model = accelerate(_shared_copy(model, {}), Conditions(device.type))
    if not isinstance(model, LanguageModel):
        return pack_for_large_batches(model, precision)
    if device.type == "cpu":
        return _on_cpu(model, precision, threads or torch.get_num_threads())
    if precision == "int8":
        raise UserError(
            f"Decoding in int8 needs a CPU, but the model is on {device}.", hint="Set decoding.precision=bf16."
        )
    return _on_gpu(model, precision)


def with_fast_search(model: GenerativeModel, device: torch.device | None = None) -> GenerativeModel:
    """The model with a decoding loop that has fewer operators on this device (default: the CPU)."""
    on_gpu = device is not None and device.type == "cuda"
    return FastSearchModel(model, GPULoop if on_gpu else CPULoop)


def _on_cpu(model: LanguageModel, precision: Precision, threads: int) -> GenerativeModel:
    from seq2see.acceleration.native import make_native_model  # here, because it searches for a compiler

    native = make_native_model(model, precision, threads) if isinstance(model, Seq2Seq) else None
    return cast(GenerativeModel, native) or with_fast_search(cast(GenerativeModel, make_packed_model(model, precision)))


def _on_gpu(model: LanguageModel, precision: Precision) -> GenerativeModel:
    from seq2see.acceleration.graphed_decoding import GraphedModel  # here, because it needs a GPU

    model = to_bf16(model) if precision == "bf16" else model
    if TRITON and device_of(model).type == "cuda":
        from seq2see.acceleration.small_batch import make_small_batch_model

        return GraphedModel(make_small_batch_model(model))
    return GraphedModel(model)


def _shared_copy(module: nn.Module, copies: dict[int, nn.Module]) -> nn.Module:
    """A copy that shares all weights, so that its modules can be replaced; `copies` are those that exist already."""
    if id(module) not in copies:
        copies[id(module)] = shared = copy.copy(module)
        shared._modules = {
            name: None if part is None else _shared_copy(part, copies) for name, part in module._modules.items()
        }
    return copies[id(module)]


def to_bf16(model: LanguageModel) -> LanguageModel:
    """Return a copy with parameters in bf16. Buffers stay float32: sinusoidal positions would be wrong in bf16."""
    return copy.deepcopy(model)._apply(lambda tensor: tensor.bfloat16() if isinstance(tensor, nn.Parameter) else tensor)
