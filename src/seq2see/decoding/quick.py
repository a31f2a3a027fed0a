"""The fastest thing that decodes like a given model on the device where it is."""

from __future__ import annotations

import copy
from typing import Literal, cast

import torch
from torch import nn

from seq2see.core.devices import TRITON, device_of
from seq2see.core.errors import UserError
from seq2see.decoding.engine import Decodes
from seq2see.decoding.prepacked import prepacked_twin
from seq2see.models.language_model import LanguageModel
from seq2see.models.seq2seq import Seq2Seq

Precision = Literal["float32", "bf16", "int8"]


def quicken(model: LanguageModel, precision: Precision = "float32", threads: int | None = None) -> Decodes:
    """On a CPU the native twin, or where there can be none the prepacked one; on a GPU CUDA graphs of few kernels.

    What comes back is the model as it is now; after training on, quicken it again. `threads` is how many
    a native twin uses at each step; as many as torch does, unless told otherwise.
    """
    device = device_of(model)
    if device.type == "cpu":
        return _on_cpu(model, precision, threads or torch.get_num_threads())
    if precision == "int8":
        raise UserError(
            f"Decoding in int8 is for a CPU; this model is on {device}.", remedy="Set decoding.precision=bf16."
        )
    return _on_gpu(model, precision)


def _on_cpu(model: LanguageModel, precision: Precision, threads: int) -> Decodes:
    from seq2see.decoding.native import native_twin  # here, because it looks for a compiler

    native = native_twin(model, precision, threads) if isinstance(model, Seq2Seq) else None
    return cast(Decodes, native or prepacked_twin(model, precision))


def _on_gpu(model: LanguageModel, precision: Precision) -> Decodes:
    from seq2see.decoding.graphs import GraphedModel  # here, because only a GPU needs it

    model = in_bf16(model) if precision == "bf16" else model
    if TRITON and device_of(model).type == "cuda":
        from seq2see.decoding.few_rows import few_rows_twin

        return GraphedModel(few_rows_twin(model))
    return GraphedModel(model)


def in_bf16(model: LanguageModel) -> LanguageModel:
    """A copy with its weights in bf16. What is not learnt stays: the waves of positions would go wrong in bf16."""
    return copy.deepcopy(model)._apply(lambda each: each.bfloat16() if isinstance(each, nn.Parameter) else each)
