"""A model as nested blocks: which parts it has, what shapes pass through them, how large they are, what they cost.

Nothing is said that was not seen: one real example goes through the model, and every part is watched while it does.
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
from seq2see.layers.attention import CrossAttention, SelfAttention
from seq2see.layers.gru_lstm import ResetBeforeGRUCell
from seq2see.layers.recurrent_attention import AdditiveAttention, MemoryAttention
from seq2see.models.heads import TiedHead

LOCK = threading.Lock()
"""Models are shared, and methods are wrapped for a moment: one watcher at a time."""
Shape = tuple[int, ...]
MacCounter = Callable[[Any, tuple[Any, ...], Any], int]

ENTRY_METHODS = ("read", "attend", "turn")
"""Methods by which parts are entered that are not entered by `forward`: cells, attention to a memory, rotation."""


@dataclass
class ModuleSummary:
    """One part of a model, and what was seen of it while one example passed."""

    name: str
    kind: str
    """Its class."""
    input_shapes: list[Shape] = field(default_factory=list)
    output_shapes: list[Shape] = field(default_factory=list)
    calls: int = 0
    parameters: int = 0
    """Numbers that are learned, of this part and all parts in it; those that are used twice are counted once."""
    shared: bool = False
    """Whether some of its numbers were counted in a part before it."""
    macs: int = 0
    """Multiply-adds of products, convolutions and attention, in this part and all parts in it."""
    children: list[ModuleSummary] = field(default_factory=list)


def summarize_modules(model: nn.Module, batch: Batch) -> ModuleSummary:
    """What the parts of a model do with one batch."""
    names = {
        name: ModuleSummary(name, type(part).__name__) for name, part in model.named_modules(remove_duplicate=False)
    }
    with LOCK, torch.inference_mode(), _hooked(model, names):
        model(batch)
    seen: set[int] = set()
    for name, part in model.named_modules(remove_duplicate=False):
        own = {id(each): each.numel() for each in part.parameters()}
        direct = {id(each) for each in part.parameters(recurse=False)}
        names[name].parameters, names[name].shared = sum(own.values()), bool(direct & seen)
        seen |= direct
    for name in reversed(names):  # parts come behind what they are parts of
        if name:
            above = names[name.rpartition(".")[0]]
            above.children.insert(0, names[name])
            above.macs += names[name].macs
    return names[""]


@contextlib.contextmanager
def _hooked(model: nn.Module, blocks: dict[str, ModuleSummary]) -> Iterator[None]:
    """Let each part tell its block what passes; outputs are those of an unwatched model."""
    with contextlib.ExitStack() as until:
        for name, part in model.named_modules():  # a part with two names is watched under its first
            observe = _observer(part, blocks[name])
            method_name = next((each for each in ENTRY_METHODS if hasattr(part, each)), None)
            if method_name:
                _wrap(part, method_name, observe)
                until.callback(delattr, part, method_name)
            else:
                until.callback(part.register_forward_hook(observe).remove)
        yield


def _observer(part: nn.Module, block: ModuleSummary) -> Callable[[Any, tuple[Any, ...], Any], None]:
    count = next((count for kind, count in MACS.items() if isinstance(part, kind)), None)
    watching = threading.get_ident()

    def observe(part: Any, given: tuple[Any, ...], gives: Any) -> None:
        if threading.get_ident() != watching:  # somebody else uses the model meanwhile
            return
        if not block.calls:
            block.input_shapes, block.output_shapes = shapes(given), shapes(gives)
        block.calls += 1
        block.macs += count(part, given, gives) if count else 0

    return observe


def _wrap(part: Any, method_name: str, observe: Callable[[Any, tuple[Any, ...], Any], None]) -> None:
    method = getattr(part, method_name)

    @wraps(method)
    def wrapped(*given: Any) -> Any:
        gives = method(*given)
        observe(part, given, gives)
        return gives

    setattr(part, method_name, wrapped)


def shapes(value: Any) -> list[Shape]:
    """The shapes of the tensors that a value is made of, as far as a reader wants to know them.

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


def _product(part: nn.Linear, given: tuple[Any, ...], gives: Tensor) -> int:
    return gives.numel() * part.in_features


def _convolution(part: nn.Conv1d | nn.Conv2d, given: tuple[Any, ...], gives: Tensor) -> int:
    return gives.numel() * part.weight[0].numel()


def _recurrent(part: nn.RNNBase, given: tuple[Any, ...], gives: Any) -> int:
    """Both matrices, of the input and of the state, once for each time."""
    return prod(given[0].shape[:2]) * sum(each.numel() for each in part.parameters() if each.dim() == 2)


def _gru_recurrent(part: ResetBeforeGRUCell, given: tuple[Any, ...], gives: Any) -> int:
    return prod(given[0].shape[:2]) * sum(each.numel() for each in part.parameters() if each.dim() == 2)


def _self_attention(part: SelfAttention, given: tuple[Any, ...], gives: Tensor) -> int:
    """Q Kᵀ, and the weights times V: every query with every key, whether it may look there or not."""
    return 2 * gives.numel() * gives.shape[1]


def _cross_attention(part: CrossAttention, given: tuple[Any, ...], gives: Tensor) -> int:
    return 2 * gives.numel() * given[1][0].shape[2]


def _memory_attention(part: MemoryAttention, given: tuple[Any, ...], gives: tuple[Tensor, Tensor]) -> int:
    """Scores of every query with every key, unless a matrix of its own gives them, and the weighted sum."""
    query, keys, memory = given
    pairs = query.shape[0] * query.shape[1] * keys.shape[1]
    scores = 0 if isinstance(part, AdditiveAttention) else pairs * keys.shape[2]
    return scores + pairs * memory.values.shape[2]


def _tied(part: TiedHead, given: tuple[Any, ...], gives: Tensor) -> int:
    return gives.numel() * part.table.embedding_dim


MACS: dict[type, MacCounter] = {
    nn.Linear: _product,
    nn.Conv1d: _convolution,
    nn.Conv2d: _convolution,
    nn.RNNBase: _recurrent,
    ResetBeforeGRUCell: _gru_recurrent,
    SelfAttention: _self_attention,
    CrossAttention: _cross_attention,
    MemoryAttention: _memory_attention,
    TiedHead: _tied,
}
"""What a part costs by itself, without the parts in it. Norms, sums and look-ups are cheap, and not counted."""
