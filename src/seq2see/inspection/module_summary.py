"""A model as a tree of modules, with the shapes, the number of parameters and the multiply-adds of each module.

All values are measured: one example passes through the model, and every module records its inputs and outputs.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import wraps
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from seq2see.core.batch import Batch, Images, Sequences
from seq2see.core.devices import plain_class
from seq2see.layers.attention import CrossAttention, SelfAttention
from seq2see.layers.gru_lstm import ResetBeforeGRUCell
from seq2see.layers.positions import RelativePositions
from seq2see.layers.recurrent_attention import AdditiveAttention, MemoryAttention
from seq2see.layers.recurrent_cells import RecurrentCell, StackedRNN
from seq2see.models.decoder_attention import DecoderAttention
from seq2see.models.embeddings_and_heads import TiedHead

LOCK = threading.Lock()
"""Models are shared, and a summary wraps their methods for a moment: only one summary runs at a time."""
Shape = tuple[int, ...]
MacCounter = Callable[[Any, tuple[Any, ...], Any], int]

ENTRY_METHODS: dict[type, str] = {
    RecurrentCell: "unroll",
    StackedRNN: "unroll",
    DecoderAttention: "unroll",
    MemoryAttention: "attend",
    RelativePositions: "rotate",
}
"""The method that is called in place of `forward`, for modules that have no `forward` or are not called by it."""


@dataclass
class ModuleSummary:
    """One module of a model, and what was measured while one example passed through it."""

    name: str
    kind: str
    """The name of its class."""
    input_shapes: list[Shape] = field(default_factory=list)
    output_shapes: list[Shape] = field(default_factory=list)
    calls: int = 0
    parameters: int = 0
    """The number of learned parameters of this module and its submodules; shared parameters count once."""
    shared: bool = False
    """Whether some of its own parameters also belong to a module before it."""
    macs: int = 0
    """Multiply-adds of linear layers, convolutions and attention, in this module and its submodules."""
    children: list[ModuleSummary] = field(default_factory=list)


def summarize_modules(model: nn.Module, batch: Batch) -> ModuleSummary:
    """Summarize the modules of a model for one batch, and return the root of their tree."""
    summaries = {
        name: ModuleSummary(name, plain_class(module).__name__)
        for name, module in model.named_modules(remove_duplicate=False)
    }
    with LOCK, torch.inference_mode(), _hooked(model, summaries):
        model(batch)
    counted: set[int] = set()
    for name, module in model.named_modules(remove_duplicate=False):
        sizes = {id(each): each.numel() for each in module.parameters()}
        direct = {id(each) for each in module.parameters(recurse=False)}
        summaries[name].parameters, summaries[name].shared = sum(sizes.values()), bool(direct & counted)
        counted |= direct
    for name in reversed(summaries):  # submodules follow their parents
        if name:
            parent = summaries[name.rpartition(".")[0]]
            parent.children.insert(0, summaries[name])
            parent.macs += summaries[name].macs
    return summaries[""]


@contextlib.contextmanager
def _hooked(model: nn.Module, summaries: dict[str, ModuleSummary]) -> Iterator[None]:
    """Attach a hook to each module that fills its summary; the outputs of the model do not change."""
    with contextlib.ExitStack() as cleanup:
        for name, module in model.named_modules():  # a module with two names is hooked under its first name
            hook = _summary_hook(module, summaries[name])
            method_name = next((method for kind, method in ENTRY_METHODS.items() if isinstance(module, kind)), None)
            if method_name:
                _wrap(module, method_name, hook)
                cleanup.callback(delattr, module, method_name)
            else:
                cleanup.callback(module.register_forward_hook(hook).remove)
        yield


def _summary_hook(module: nn.Module, summary: ModuleSummary) -> Callable[[Any, tuple[Any, ...], Any], None]:
    count = next((count for kind, count in MACS.items() if isinstance(module, kind)), None)
    thread = threading.get_ident()

    def hook(module: Any, inputs: tuple[Any, ...], output: Any) -> None:
        if threading.get_ident() != thread:  # another thread uses the model at the same time
            return
        if not summary.calls:
            summary.input_shapes, summary.output_shapes = shapes(inputs), shapes(output)
        summary.calls += 1
        summary.macs += count(module, inputs, output) if count else 0

    return hook


def _wrap(module: Any, method_name: str, hook: Callable[[Any, tuple[Any, ...], Any], None]) -> None:
    method = getattr(module, method_name)

    @wraps(method)
    def wrapped(*inputs: Any) -> Any:
        output = method(*inputs)
        hook(module, inputs, output)
        return output

    setattr(module, method_name, wrapped)


def shapes(value: Any) -> list[Shape]:
    """The shapes of the tensors in a value; of sequences and batches, those of their values only.

    >>> shapes((torch.zeros(2, 3), None, Sequences.of([[1, 2]])))
    [(2, 3), (1, 2)]
    """
    if isinstance(value, Tensor):
        return [tuple(value.shape)]
    if isinstance(value, Sequences | Images):
        return [tuple(value.values.shape)]
    if isinstance(value, Batch):
        return shapes((value.source, value.target))
    if isinstance(value, tuple | list):
        return [shape for each in value for shape in shapes(each)]
    return []


def _linear_macs(module: nn.Linear, inputs: tuple[Any, ...], output: Tensor) -> int:
    return output.numel() * module.in_features


def _convolution_macs(module: nn.Conv1d | nn.Conv2d, inputs: tuple[Any, ...], output: Tensor) -> int:
    return output.numel() * module.weight[0].numel()


def _recurrent_macs(module: nn.RNNBase | ResetBeforeGRUCell, inputs: tuple[Any, ...], output: Any) -> int:
    """Both weight matrices, of the input and of the state, once per time step."""
    return prod(inputs[0].shape[:2]) * sum(each.numel() for each in module.parameters() if each.dim() == 2)


def _self_attention_macs(module: SelfAttention, inputs: tuple[Any, ...], output: Tensor) -> int:
    """Q Kᵀ, and the weights times V, for every pair of query and key; masked pairs count too."""
    return 2 * output.numel() * output.shape[1]


def _cross_attention_macs(module: CrossAttention, inputs: tuple[Any, ...], output: Tensor) -> int:
    return 2 * output.numel() * inputs[1][0].shape[2]


def _memory_attention_macs(module: MemoryAttention, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> int:
    """The scores of every pair of query and key, except additive ones (a linear layer counts them), and the sum."""
    query, keys, memory = inputs
    pairs = query.shape[0] * query.shape[1] * keys.shape[1]
    scores = 0 if isinstance(module, AdditiveAttention) else pairs * keys.shape[2]
    return scores + pairs * memory.values.shape[2]


def _tied_head_macs(module: TiedHead, inputs: tuple[Any, ...], output: Tensor) -> int:
    return output.numel() * module.table.embedding_dim


MACS: dict[type, MacCounter] = {
    nn.Linear: _linear_macs,
    nn.Conv1d: _convolution_macs,
    nn.Conv2d: _convolution_macs,
    nn.RNNBase: _recurrent_macs,
    ResetBeforeGRUCell: _recurrent_macs,
    SelfAttention: _self_attention_macs,
    CrossAttention: _cross_attention_macs,
    MemoryAttention: _memory_attention_macs,
    TiedHead: _tied_head_macs,
}
"""The multiply-adds of a module itself, without its submodules. Norms, sums and embedding lookups are not counted."""
