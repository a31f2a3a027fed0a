"""Inference optimization: the fastest copy of a model for decoding on its device."""

from __future__ import annotations

import copy
from typing import Literal, cast

import torch
from torch import nn

from seq2see.acceleration.support import TRITON
from seq2see.core.devices import device_of
from seq2see.core.errors import UserError
from seq2see.decoding.engine import GenerativeModel
from seq2see.decoding.packed_weights import make_packed_model
from seq2see.models.language_model import LanguageModel
from seq2see.models.seq2seq import Seq2Seq

Precision = Literal["float32", "bf16", "int8"]


def optimize_for_inference(
    model: LanguageModel, precision: Precision = "float32", threads: int | None = None
) -> GenerativeModel:
    """Return an optimized copy: on a CPU in C++ or else with packed weights, on a GPU with CUDA graphs and few kernels.

    The copy contains the current weights; after further training a new copy is necessary. `threads` is the number of
    threads of the C++ copy; the default is that of torch.
    """
    device = device_of(model)
    if device.type == "cpu":
        return _on_cpu(model, precision, threads or torch.get_num_threads())
    if precision == "int8":
        raise UserError(
            f"Decoding in int8 needs a CPU, but the model is on {device}.", hint="Set decoding.precision=bf16."
        )
    return _on_gpu(model, precision)


def _on_cpu(model: LanguageModel, precision: Precision, threads: int) -> GenerativeModel:
    from seq2see.decoding.native import make_native_model  # here, because it searches for a compiler

    native = make_native_model(model, precision, threads) if isinstance(model, Seq2Seq) else None
    return cast(GenerativeModel, native or make_packed_model(model, precision))


def _on_gpu(model: LanguageModel, precision: Precision) -> GenerativeModel:
    from seq2see.decoding.graphed_decoding import GraphedModel  # here, because it needs a GPU

    model = to_bf16(model) if precision == "bf16" else model
    if TRITON and device_of(model).type == "cuda":
        from seq2see.decoding.small_batch import make_small_batch_model

        return GraphedModel(make_small_batch_model(model))
    return GraphedModel(model)


def to_bf16(model: LanguageModel) -> LanguageModel:
    """Return a copy with parameters in bf16. Buffers stay float32: sinusoidal positions would be wrong in bf16."""
    return copy.deepcopy(model)._apply(lambda tensor: tensor.bfloat16() if isinstance(tensor, nn.Parameter) else tensor)
