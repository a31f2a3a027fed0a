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

from seq2see.core.batch import Batch, Pictures, Sequences
from seq2see.layers.attention import CrossAttention, SelfAttention
from seq2see.layers.gated import NotesGRUCell
from seq2see.layers.recurrent_attention import AdditiveAttention, MemoryAttention
from seq2see.models.heads import TiedHead

LOCK = threading.Lock()
"""Models are shared, and methods are wrapped for a moment: one watcher at a time."""
Shape = tuple[int, ...]
Count = Callable[[Any, tuple[Any, ...], Any], int]

ENTRANCES = ("read", "attend", "turn")
"""Methods by which parts are entered that are not entered by `forward`: cells, attention to a memory, rotation."""


@dataclass
class Block:
    """One part of a model, and what was seen of it while one example passed."""

    name: str
    kind: str
    """Its class."""
    given: list[Shape] = field(default_factory=list)
    gives: list[Shape] = field(default_factory=list)
    calls: int = 0
    parameters: int = 0
    """Numbers that are learnt, of this part and all parts in it; those that are used twice are counted once."""
    shared: bool = False
    """Whether some of its numbers were counted in a part before it."""
    operations: int = 0
    """Multiply-adds of products, convolutions and attention, in this part and all parts in it."""
    parts: list[Block] = field(default_factory=list)


def blocks_of(model: nn.Module, batch: Batch) -> Block:
    """What the parts of a model do with one batch."""
    names = {name: Block(name, type(part).__name__) for name, part in model.named_modules(remove_duplicate=False)}
    with LOCK, torch.inference_mode(), _watched(model, names):
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
            above.parts.insert(0, names[name])
            above.operations += names[name].operations
    return names[""]


@contextlib.contextmanager
def _watched(model: nn.Module, blocks: dict[str, Block]) -> Iterator[None]:
    """Let each part tell its block what passes; outputs are those of an unwatched model."""
    with contextlib.ExitStack() as until:
        for name, part in model.named_modules():  # a part with two names is watched under its first
            look = _looking(part, blocks[name])
            entrance = next((each for each in ENTRANCES if hasattr(part, each)), None)
            if entrance:
                _wrap(part, entrance, look)
                until.callback(delattr, part, entrance)
            else:
                until.callback(part.register_forward_hook(look).remove)
        yield


def _looking(part: nn.Module, block: Block) -> Callable[[Any, tuple[Any, ...], Any], None]:
    count = next((count for kind, count in OPERATIONS.items() if isinstance(part, kind)), None)
    watching = threading.get_ident()

    def look(part: Any, given: tuple[Any, ...], gives: Any) -> None:
        if threading.get_ident() != watching:  # somebody else uses the model meanwhile
            return
        if not block.calls:
            block.given, block.gives = shapes(given), shapes(gives)
        block.calls += 1
        block.operations += count(part, given, gives) if count else 0

    return look


def _wrap(part: Any, entrance: str, look: Callable[[Any, tuple[Any, ...], Any], None]) -> None:
    method = getattr(part, entrance)

    @wraps(method)
    def watched(*given: Any) -> Any:
        gives = method(*given)
        look(part, given, gives)
        return gives

    setattr(part, entrance, watched)


def shapes(value: Any) -> list[Shape]:
    """The shapes of the tensors that a value is made of, as far as a reader wants to know them.

    >>> shapes((torch.zeros(2, 3), None, Sequences.of([[1, 2]])))
    [(2, 3), (1, 2)]
    """
    if isinstance(value, Tensor):
        return [tuple(value.shape)]
    if isinstance(value, Sequences | Pictures):
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


def _notes_recurrent(part: NotesGRUCell, given: tuple[Any, ...], gives: Any) -> int:
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


OPERATIONS: dict[type, Count] = {
    nn.Linear: _product,
    nn.Conv1d: _convolution,
    nn.Conv2d: _convolution,
    nn.RNNBase: _recurrent,
    NotesGRUCell: _notes_recurrent,
    SelfAttention: _self_attention,
    CrossAttention: _cross_attention,
    MemoryAttention: _memory_attention,
    TiedHead: _tied,
}
"""What a part costs by itself, without the parts in it. Norms, sums and look-ups are cheap, and not counted."""
