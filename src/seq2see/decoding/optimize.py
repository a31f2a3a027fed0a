"""The fastest thing that decodes like a given model on the device where it is."""

from __future__ import annotations

import copy
from typing import Literal, cast

import torch
from torch import nn

from seq2see.core.devices import TRITON, device_of
from seq2see.core.errors import UserError
from seq2see.decoding.engine import GenerativeModel
from seq2see.decoding.packed_weights import make_packed_model
from seq2see.models.language_model import LanguageModel
from seq2see.models.seq2seq import Seq2Seq

Precision = Literal["float32", "bf16", "int8"]


def optimize_for_inference(
    model: LanguageModel, precision: Precision = "float32", threads: int | None = None
) -> GenerativeModel:
    """On a CPU the native twin, or where there can be none the prepacked one; on a GPU CUDA graphs of few kernels.

    What comes back is the model as it is now; after training on, quicken it again. `threads` is how many
    a native twin uses at each step; as many as torch does, unless told otherwise.
    """
    device = device_of(model)
    if device.type == "cpu":
        return _on_cpu(model, precision, threads or torch.get_num_threads())
    if precision == "int8":
        raise UserError(
            f"Decoding in int8 is for a CPU; this model is on {device}.", hint="Set decoding.precision=bf16."
        )
    return _on_gpu(model, precision)


def _on_cpu(model: LanguageModel, precision: Precision, threads: int) -> GenerativeModel:
    from seq2see.decoding.native import make_native_model  # here, because it looks for a compiler

    native = make_native_model(model, precision, threads) if isinstance(model, Seq2Seq) else None
    return cast(GenerativeModel, native or make_packed_model(model, precision))


def _on_gpu(model: LanguageModel, precision: Precision) -> GenerativeModel:
    from seq2see.decoding.graphed_decoding import GraphedModel  # here, because only a GPU needs it

    model = to_bf16(model) if precision == "bf16" else model
    if TRITON and device_of(model).type == "cuda":
        from seq2see.decoding.small_batch import make_small_batch_model

        return GraphedModel(make_small_batch_model(model))
    return GraphedModel(model)


def to_bf16(model: LanguageModel) -> LanguageModel:
    """A copy with its weights in bf16. What is not learned stays: the waves of positions would go wrong in bf16."""
    return copy.deepcopy(model)._apply(lambda each: each.bfloat16() if isinstance(each, nn.Parameter) else each)
