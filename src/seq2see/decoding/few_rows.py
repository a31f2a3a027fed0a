"""A twin of a model whose Transformer takes in one token of a few rows by eight kernels a block: one sentence on a GPU.

Written out, a block of the decoder is sixteen kernels, and a kernel for one row takes longer to launch than to run. The
twin leaves norms, curves and sums to the products beside them (kernels/few_rows.py), and the writing of keys to those
who look back at them (kernels/one_query.py). With more rows, or several tokens at a time, it runs as its model does.

The stream runs through a block without its last norm: whoever reads it next takes that norm, too. So both places of
the norm become one sentence, n = norm(x), x ← rest + f(n):

* pre-norm (Xiong et al. 2020): the norm is the part's own, and the rest is x;
* post-norm (Vaswani et al. 2017): the norm is that of the part before, and the rest is n.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.kernels.few_rows import FEW, Layer, Norm, product
from seq2see.kernels.one_query import look_across, look_back
from seq2see.layers.attention import CrossAttention, SelfAttention
from seq2see.layers.feed_forward import FeedForward, GeluFeedForward, TanhFeedForward
from seq2see.layers.norms import LayerNorm
from seq2see.layers.residual import PostNorm, PreNorm
from seq2see.models.gpt import GPTDecoder, GPTState
from seq2see.models.language_model import LanguageModel
from seq2see.models.memory import Memory
from seq2see.models.transformer import TransformerDecoder, TransformerState

Vectors = Float[Tensor, "row time width"]
Rows = Float[Tensor, "row width"]
CURVES: dict[type[nn.Module], str] = {FeedForward: "relu", GeluFeedForward: "gelu", TanhFeedForward: "gelu-tanh"}


def few_rows_twin(model: LanguageModel) -> LanguageModel:
    """A model that shares everything with the given one but how its decoder steps; the model itself if that stays."""
    decoder = model.decoder
    if type(decoder) not in TWINS or not all(_is_known(part) for block in decoder.blocks for part in block.children()):
        return model
    twin = copy.copy(model)
    twin._modules = {**model._modules, "decoder": TWINS[type(decoder)](decoder)}
    return twin


def _is_known(part: nn.Module) -> bool:
    """Whether the kernels know this part of a block."""
    if isinstance(part, PostNorm):
        return type(part) in (PostNorm, PreNorm) and type(part.norm) is LayerNorm
    if isinstance(part, SelfAttention):
        return type(part) is SelfAttention and part.places is None
    return type(part) in (CrossAttention, *CURVES)


@dataclass(frozen=True)
class Stream:
    """The vectors that run through a stack, and a norm that is still to be taken of them."""

    rows: Rows
    norm: nn.Module | None = None

    def through(self, around: PostNorm, first: Layer, between: Callable[[Rows], Rows], last: nn.Linear) -> Stream:
        """The stream after one part, which is two products and what happens between them."""
        is_pre = isinstance(around, PreNorm)
        taken = around.norm if is_pre else self.norm
        found, normed = product(self.rows, first, _norm(taken))
        rows, _ = product(between(found), _layer(last), rest=self.rows if is_pre else normed)
        return Stream(rows, None if is_pre else around.norm)


def _norm(norm: Any) -> Norm | None:
    return None if norm is None else Norm(norm.weight, norm.bias, norm.epsilon)


def _layer(linear: nn.Linear, curve: str = "none") -> Layer:
    return Layer(linear.weight, linear.bias, curve)


def _back(stream: Stream, around: Any, look: Any, cache: Tensor, filled: Tensor) -> Stream:
    """Look back at what was written."""
    return stream.through(
        around, _layer(look.queries_keys_values), lambda found: look_back(found, cache, filled), look.output
    )


def _across(stream: Stream, around: Any, look: Any, memory: tuple[Tensor, Tensor], allowed: Tensor) -> Stream:
    """Look across at the source."""
    return stream.through(around, _layer(look.queries), lambda found: look_across(found, *memory, allowed), look.output)


def _think(stream: Stream, around: Any, think: Any) -> Stream:
    """Think about what was seen."""
    return stream.through(around, _layer(think.widen, CURVES[type(think)]), lambda found: found, think.narrow)


def _is_few(vectors: Vectors) -> bool:
    """One token of a few rows, in no more than the kernels' precision."""
    rows, times, _ = vectors.shape
    return times == 1 and rows <= FEW and vectors.dtype != torch.float64


def _ended(stream: Stream, ending: nn.Module | None) -> Vectors:
    """What a stack gives: the stream after its last norm."""
    vectors, norm = stream.rows[:, None], stream.norm or ending
    unasked = torch.empty(vectors.shape[:2], dtype=torch.bool, device=vectors.device)
    return vectors if norm is None else norm(vectors, unasked)  # a layer norm does not ask which vectors are real


class FewRowsTransformer(TransformerDecoder):
    """The decoder of a Transformer."""

    def __init__(self, decoder: TransformerDecoder):
        nn.Module.__init__(self)
        self.__dict__.update(decoder.__dict__)

    def start(self, memory: Memory, rows: int, room: int) -> TransformerState:
        """The state before the first token, with the source's keys and values each in one piece."""
        state = super().start(memory, rows, room)
        blocks = []
        for block in state.blocks:
            keys, values = block.memory
            blocks.append(replace(block, memory=(keys.contiguous(), values.contiguous())))
        return replace(state, blocks=tuple(blocks))

    def step(self, vectors: Vectors, state: TransformerState) -> tuple[Vectors, TransformerState]:
        """Take in one or more new tokens a row."""
        if not _is_few(vectors):
            return super().step(vectors, state)
        stream, allowed = Stream(vectors[:, 0]), state.at_source.allowed
        assert allowed is not None, "a source is a table of what is real"
        for block, known in zip(self.blocks, state.blocks, strict=True):
            stream = _back(stream, block.around_back, block.look_back, known.past.keys_values, state.filled)
            stream = _across(stream, block.around_across, block.look_across, known.memory, allowed)
            stream = _think(stream, block.around_think, block.think)
        return _ended(stream, self.ending), replace(state, filled=state.filled.add_(1))


class FewRowsGPT(GPTDecoder):
    """GPT, which has no source."""

    def __init__(self, decoder: GPTDecoder):
        nn.Module.__init__(self)
        self.__dict__.update(decoder.__dict__)

    def step(self, vectors: Vectors, state: GPTState) -> tuple[Vectors, GPTState]:
        """Take in one or more new tokens a row."""
        if not _is_few(vectors):
            return super().step(vectors, state)
        stream = Stream(vectors[:, 0])
        for block, past in zip(self.blocks, state.blocks, strict=True):
            stream = _back(stream, block.around_look, block.look, past.keys_values, state.filled)
            stream = _think(stream, block.around_think, block.think)
        return _ended(stream, self.ending), replace(state, filled=state.filled.add_(1))


TWINS: dict[type[nn.Module], Callable[[Any], nn.Module]] = {
    TransformerDecoder: FewRowsTransformer,
    GPTDecoder: FewRowsGPT,
}
