"""The fastest thing that decodes like a given model on the device where it is."""

from __future__ import annotations

import copy
from typing import Literal, cast

import torch

from seq2see.core.errors import UserError
from seq2see.decoding.engine import Decodes
from seq2see.decoding.prepacked import prepacked_twin
from seq2see.models.seq2seq import Seq2Seq

Precision = Literal["float32", "bf16", "int8"]


def quicken(model: Seq2Seq, precision: Precision = "float32", threads: int | None = None) -> Decodes:
    """On a CPU the native twin, or where there can be none the prepacked one; on a GPU the step as a CUDA graph.

    What comes back is the model as it is now; after training on, quicken it again. `threads` is how many
    a native twin uses at each step; as many as torch does, unless told otherwise.
    """
    device = next(model.parameters()).device
    if device.type == "cpu":
        return _on_cpu(model, precision, threads or torch.get_num_threads())
    if precision == "int8":
        raise UserError(
            f"Decoding in int8 is for a CPU; this model is on {device}.", remedy="Set decoding.precision=bf16."
        )
    return _on_gpu(model, precision)


def _on_cpu(model: Seq2Seq, precision: Precision, threads: int) -> Decodes:
    from seq2see.decoding.native import native_twin  # here, because it looks for a compiler

    return cast(Decodes, native_twin(model, precision, threads) or prepacked_twin(model, precision))


def _on_gpu(model: Seq2Seq, precision: Precision) -> Decodes:
    from seq2see.decoding.graphs import GraphedModel  # here, because only a GPU needs it

    in_precision = copy.deepcopy(model).to(torch.bfloat16) if precision == "bf16" else model
    return cast(Decodes, GraphedModel(in_precision))
