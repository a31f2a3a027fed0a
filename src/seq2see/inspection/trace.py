"""Tracing a model: record the activations of its modules without changing its outputs.

`with trace(model) as activations:` attaches hooks to the modules and removes them at the end of the block. Attention
weights and gates, which fused kernels do not return, are computed a second time for the hooks. The outputs of a traced
model are those of the untraced model, bit for bit.

| kind | description | shape |
|---|---|---|
| attention | the attention weights of every attention layer | head, query, key |
| query, key, value | the inputs of the same layers (with rotary positions, after the rotation) | head, time, size |
| attention_mask, attention_bias | of the same, the mask (1 or 0) and the bias of positions | head or 1, query, key |
| score_vector | of additive attention, the v of v · tanh(W q + U k) | size |
| hidden | the states of every recurrent cell; component `cell`: the cell state of an LSTM | time, width |
| gate | the gates of every recurrent cell, one component each | time, width |
| embedding | the input of the encoder or the decoder | time, width |
| stream | the output of each block of the encoder or decoder, or of the whole if it has no blocks | time, width |
| logits | the scores of all classes | time, class |

A model is shared: while one thread traces it, another thread may use it, or trace it too. So a layer does not call a
trace directly. It calls a dispatcher, which passes the payload to the hooks of the current thread only. The dispatcher
is attached to a layer as long as at least one trace in any thread uses it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.batch import Sequences
from seq2see.inspection.record import ActivationRecord, Side, Signal, SignalKind
from seq2see.layers.attention import Attention, AttentionRecord, CrossAttention
from seq2see.layers.recurrent_attention import AdditiveAttention, MemoryAttention, MemoryAttentionRecord
from seq2see.layers.recurrent_cells import BidirectionalRNN, CellRecord, RecurrentCell
from seq2see.models.dual_encoder import DualEncoder
from seq2see.models.encoder_model import Classifier, EmbeddingModel, Tagger

Hook = Callable[[nn.Module, Any], None]
"""A function of a module and its payload: a record of its inputs (see `Attention.hook`), or its output."""

ACTIVE_HOOKS: ContextVar[tuple[Mapping[int, Hook], ...]] = ContextVar("active_hooks", default=())
"""The hooks of this thread (strictly, of this context): one mapping for each trace, from the id of a module."""
LOCK = threading.Lock()
HOOKED_MODULES: dict[int, tuple[int, Callable[[], None]]] = {}
"""By the id of a module: the number of traces that use it, and the function that detaches the dispatcher."""


@contextlib.contextmanager
def attach_hooks(modules: Mapping[nn.Module, Hook]) -> Iterator[None]:
    """Call each hook with the record of its module (if the module has a `hook` attribute), else with its output."""
    with LOCK:
        for module in modules:
            count, detach = HOOKED_MODULES.get(id(module)) or (0, _attach(module))
            HOOKED_MODULES[id(module)] = (count + 1, detach)
    token = ACTIVE_HOOKS.set((*ACTIVE_HOOKS.get(), {id(module): hook for module, hook in modules.items()}))
    try:
        yield
    finally:
        ACTIVE_HOOKS.reset(token)
        with LOCK:
            for module in modules:
                count, detach = HOOKED_MODULES.pop(id(module))
                if count > 1:
                    HOOKED_MODULES[id(module)] = (count - 1, detach)
                else:
                    detach()


def _attach(module: nn.Module) -> Callable[[], None]:
    if hasattr(module, "hook"):
        setattr(module, "hook", partial(_dispatch, module))  # noqa: B010 - to mypy a module's attributes are tensors
        return partial(delattr, module, "hook")  # the class attribute is None
    return module.register_forward_hook(lambda module, inputs, output: _dispatch(module, output)).remove


def _dispatch(module: nn.Module, payload: Any) -> None:
    for hooks in ACTIVE_HOOKS.get():
        if id(module) in hooks:
            hooks[id(module)](module, payload)


ATTENTION: tuple[SignalKind, ...] = ("attention",)
ATTENTION_INPUTS: tuple[SignalKind, ...] = (
    "attention",
    "query",
    "key",
    "value",
    "attention_mask",
    "attention_bias",
    "score_vector",
)
"""The attention weights, and everything that they are computed from."""
ALL_KINDS: tuple[SignalKind, ...] = get_args(SignalKind)
TIME_AXES: dict[SignalKind, int] = {
    "attention": 2, "query": 2, "attention_mask": 2, "attention_bias": 2,
    "hidden": 1, "gate": 1, "embedding": 1, "stream": 1, "logits": 1,
}  # fmt: skip
"""The time axis of a recorded tensor (the batch is axis 0): steps are concatenated along it. Keys are recorded in full
at every step."""


@dataclass
class RecordedSignal:
    """One signal of one module, with a batch dimension: recorded in one call, or in one call for each step."""

    name: str
    kind: SignalKind
    side: Side
    key_side: Side | None = None
    component: str = ""
    score_function: str = ""
    is_reversed: bool = False
    """Whether it belongs to a backward cell, whose first time step is the end of the sequence."""
    values_by_step: list[Tensor] = field(default_factory=list)

    @property
    def is_cross_attention(self) -> bool:
        """Whether the queries and the keys belong to different sequences."""
        return self.key_side != self.side

    @property
    def values(self) -> Float[Tensor, "row ..."]:
        """The recorded values of all steps, concatenated."""
        return (
            torch.cat(self.values_by_step, dim=TIME_AXES[self.kind])
            if self.kind in TIME_AXES
            else self.values_by_step[-1]
        )

    def signal(self) -> Signal:
        """The signal as plain data, without the batch dimension."""
        values = self.values
        if len(values) != 1:
            raise ValueError(f"a record is of one example, and the batch has {len(values)}")
        array = np.ascontiguousarray(values[0].float().cpu().numpy())
        if self.is_reversed:
            array = array[::-1]
        return Signal(self.name, self.kind, array, self.side, self.key_side, self.component, self.score_function)


class Trace:
    """The signals that a trace has recorded, by module and kind."""

    def __init__(self, kinds: Collection[SignalKind]):
        self.kinds, self.signals = kinds, dict[tuple[str, SignalKind, str], RecordedSignal]()

    def of(self, kind: SignalKind) -> list[RecordedSignal]:
        """All signals of a kind, in the order in which their modules were called."""
        return [each for each in self.signals.values() if each.kind == kind]

    def to_record(self, model: str, tokens: dict[str, list[str]], **metadata: Any) -> ActivationRecord:
        """The signals as plain data, if the batch has one example."""
        return ActivationRecord(
            model, tokens, signals=tuple(each.signal() for each in self.signals.values()), **metadata
        )

    @torch.no_grad()
    def add(self, template: RecordedSignal, values: Callable[[], Tensor | None]) -> None:
        """Record values, if their kind is requested and they are not None; `values` is called only if needed."""
        if template.kind in self.kinds and (tensor := values()) is not None:
            key = (template.name, template.kind, template.component)
            self.signals.setdefault(key, template).values_by_step.append(tensor.detach())

    def add_attention(
        self,
        template: RecordedSignal,
        layer: Attention | MemoryAttention,
        record: AttentionRecord | MemoryAttentionRecord,
    ) -> None:
        """Record the signals of an attention layer."""
        attention_bias = record.attention_mask.attention_bias if isinstance(record, AttentionRecord) else None
        score_vector = layer.score_proj.weight if isinstance(layer, AdditiveAttention) else None
        signals: dict[SignalKind, Callable[[], Tensor | None]] = {
            "attention": lambda: record.weights,
            "query": lambda: record.queries,
            "key": lambda: record.keys,
            "value": lambda: record.values,
            "attention_mask": lambda: record.mask.float(),
            "attention_bias": lambda: attention_bias,
            "score_vector": lambda: score_vector,
        }
        for kind, values in signals.items():
            self.add(replace(template, kind=kind, values_by_step=[]), values)

    def add_cell(self, template: RecordedSignal, cell: RecurrentCell, record: CellRecord) -> None:
        """Record the signals of a recurrent cell."""
        self.add(replace(template, kind="hidden", values_by_step=[]), lambda: record.hidden)
        self.add(replace(template, kind="hidden", component="cell", values_by_step=[]), lambda: record.cell)
        for name, gate in record.gates.items():
            self.add(replace(template, kind="gate", component=name, values_by_step=[]), lambda gate=gate: gate)  # type: ignore[misc]

    def add_output(self, template: RecordedSignal, module: nn.Module, output: Any) -> None:
        """Record the output of any other module; token ids are skipped."""
        values = output.values if isinstance(output, Sequences) else output
        self.add(replace(template, values_by_step=[]), lambda: values if values.is_floating_point() else None)


@contextlib.contextmanager
def trace(
    model: nn.Module, kinds: Collection[SignalKind] = ATTENTION, module_names: Collection[str] = ()
) -> Iterator[Trace]:
    """Record signals of these kinds in the modules called inside the block, or only in those of `module_names`."""
    result = Trace(frozenset(kinds))
    hooks = {module: hook for name, module, hook in _hooks(model, result) if not module_names or name in module_names}
    with attach_hooks(hooks):
        yield result


def _hooks(model: nn.Module, result: Trace) -> Iterator[tuple[str, nn.Module, Hook]]:
    """Every module that can be traced, with its name and its hook."""
    reversed_cells = backward_cells(model)
    for name, module in model.named_modules():
        side = _side(name)
        if isinstance(module, Attention | MemoryAttention):
            key_side: Side = "source" if isinstance(module, CrossAttention | MemoryAttention) else side
            template = RecordedSignal(name, "attention", side, key_side, score_function=module.score_function)
            yield name, module, partial(result.add_attention, template)
        elif isinstance(module, RecurrentCell):
            template = RecordedSignal(name, "hidden", side, is_reversed=module in reversed_cells)
            yield name, module, partial(result.add_cell, template)
    for template, module in _stream_points(model):
        yield template.name, module, partial(result.add_output, template)


def backward_cells(model: nn.Module) -> set[nn.Module]:
    """The cells of a model that read their sequence from the end."""
    return {cell for each in model.modules() if isinstance(each, BidirectionalRNN) for cell in each.backward_cells}


def _stream_points(model: nn.Module) -> Iterator[tuple[RecordedSignal, nn.Module]]:
    """The modules whose outputs are the embeddings, the residual stream after each block, and the logits."""
    pairs: tuple[tuple[Side, str], ...] = (("source", "encoder"), ("target", "decoder"))
    for side, name in pairs:
        if (embedding := getattr(model, side, None)) is None:
            continue
        yield RecordedSignal(side, "embedding", side), embedding
        body: Any = getattr(model, name)
        blocks = {f"{name}.blocks.{number}": block for number, block in enumerate(getattr(body, "blocks", []))}
        for each, block in (blocks or {name: body}).items():
            yield RecordedSignal(each, "stream", side), block
    if isinstance(head := getattr(model, "head", None), nn.Module):
        is_pooled = isinstance(model, Classifier | EmbeddingModel | DualEncoder) and not isinstance(model, Tagger)
        head_side: Side = "target" if hasattr(model, "decoder") else "pooled" if is_pooled else "source"
        yield RecordedSignal("head", "logits", head_side), head


def _side(name: str) -> Side:
    """The side of a module, by its name."""
    first = name.split(".")[0]
    return "source" if first == "encoder" else "pooled" if first == "pooling" else "target"
