"""A Transformer that takes in one token of a few rows by eight kernels a block: for one sentence on a GPU.

Written out, a block of the decoder is sixteen kernels, and a kernel for one row takes longer to launch than to run.
Here norms, curves and sums are left to the products beside them (kernels/few_rows.py), and the writing of keys to those
who look back at them (kernels/one_query.py). With more rows, or several tokens at a time, the model steps by itself.

The stream runs through a block without its last norm: whoever reads it next takes that norm, too. So both places of
the norm become one sentence, n = norm(x), x ← rest + f(n):

* pre-norm (Xiong et al. 2020): the norm is the part's own, and the rest is x;
* post-norm (Vaswani et al. 2017): the norm is that of the part before, and the rest is n.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from seq2see.core.batch import Pictures, Sequences
from seq2see.kernels.few_rows import FEW, Layer, Norm, product
from seq2see.kernels.look_up import Lookup, look_up
from seq2see.kernels.one_query import look_across, look_back
from seq2see.layers.attention import CrossAttention, SelfAttention
from seq2see.layers.feed_forward import CURVES, THINKS
from seq2see.layers.norms import LayerNorm
from seq2see.layers.positions import LearnedPositions, SinusoidalPositions
from seq2see.layers.residual import PostNorm, PreNorm
from seq2see.models.frontends import PlainTokenFrontend, TokenFrontend
from seq2see.models.gpt import GPTDecoder, GPTState
from seq2see.models.heads import FreeHead, PartialHead, PlainHead, TiedHead
from seq2see.models.language_model import LanguageModel, WritingState
from seq2see.models.transformer import TransformerDecoder, TransformerState

Rows = Float[Tensor, "row width"]
CURVE_OF = {THINKS[name]: name for name in CURVES}
HEADS = (TiedHead, FreeHead, PlainHead, PartialHead)
KINDS = (torch.bfloat16, torch.float32)  # sums are float32


def _is_known(part: nn.Module) -> bool:
    """Whether the kernels know this part of a block, or this head."""
    if isinstance(part, PostNorm):
        return type(part) in (PostNorm, PreNorm) and type(part.norm) is LayerNorm
    if isinstance(part, SelfAttention):
        return type(part) is SelfAttention and part.places is None
    return type(part) in (CrossAttention, *CURVE_OF, *HEADS)


def plain_product(
    vectors: Float[Tensor, "row input"],
    layer: Layer,
    norm: Norm | None = None,
    rest: Float[Tensor, "row output"] | None = None,
) -> Float[Tensor, "row output"]:
    """curve(norm(x) Wᵀ + b) + rest: the definition of `product`."""
    if norm is not None:
        vectors = functional.layer_norm(vectors, norm.weight.shape, norm.weight, norm.bias, norm.epsilon)
    found = functional.linear(vectors, layer.weight, layer.bias)
    if layer.curve != "none":
        found = CURVES[layer.curve](found)
    return found if rest is None else found + rest


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
    return stream.through(around, _layer(think.widen, CURVE_OF[type(think)]), lambda found: found, think.narrow)


def _through_gpt(decoder: GPTDecoder, stream: Stream, state: GPTState) -> Stream:
    for block, past in zip(decoder.blocks, state.blocks, strict=True):
        stream = _back(stream, block.around_look, block.look, past.keys_values, state.filled)
        stream = _think(stream, block.around_think, block.think)
    return stream


def _through_transformer(decoder: TransformerDecoder, stream: Stream, state: TransformerState) -> Stream:
    allowed = state.at_source.allowed
    assert allowed is not None, "a source is a table of what is real"
    for block, known in zip(decoder.blocks, state.blocks, strict=True):
        stream = _back(stream, block.around_back, block.look_back, known.past.keys_values, state.filled)
        stream = _across(stream, block.around_across, block.look_across, known.memory, allowed)
        stream = _think(stream, block.around_think, block.think)
    return stream


THROUGH: dict[type[nn.Module], Callable[[Any, Stream, Any], Stream]] = {
    GPTDecoder: _through_gpt,
    TransformerDecoder: _through_transformer,
}
"""How the stream runs through each kind of decoder."""


class FewRows:
    """Decodes what its model decodes, and is the model as it is now: its head is taken apart once."""

    def __init__(self, model: LanguageModel, lookup: Lookup):
        self.model, self.lookup = model, lookup
        head: Any = model.head
        self.head = Layer(*head.matrix())
        self.through = THROUGH[type(model.decoder)]

    def start(self, source: Sequences | Pictures | None, rows: int, room: int) -> WritingState:
        """The state before the first token, with the keys and values of a source each in one piece."""
        state = self.model.start(source, rows, room)
        if rows > FEW or not isinstance(state.decoder, TransformerState):
            return state
        blocks = []
        for block in state.decoder.blocks:
            keys, values = block.memory
            blocks.append(replace(block, memory=(keys.contiguous(), values.contiguous())))
        return replace(state, decoder=replace(state.decoder, blocks=tuple(blocks)))

    def step(
        self, tokens: Int[Tensor, "row new"], state: WritingState
    ) -> tuple[Float[Tensor, "row new vocab"], WritingState]:
        """Take in one or more new tokens a row; how far each row is, is counted in place."""
        if tokens.size(1) > 1 or tokens.size(0) > FEW:
            return self.model.step(tokens, state)
        decoder, known = self.model.decoder, state.decoder
        stream = self.through(decoder, Stream(look_up(self.lookup, tokens, state.time)), known)
        logits, _ = product(stream.rows, self.head, _norm(stream.norm or decoder.ending))
        after = replace(known, filled=known.filled.add_(1))
        return logits[:, None], replace(state, time=state.time.add_(1), decoder=after)


def few_rows_twin(model: LanguageModel) -> LanguageModel | FewRows:
    """What decodes like this model, with few kernels where rows are few; the model itself if they do not know it."""
    decoder, lookup = model.decoder, _lookup(model.target)
    parts = [part for block in getattr(decoder, "blocks", ()) for part in block.children()]
    if type(decoder) not in THROUGH or lookup is None or lookup.vectors.dtype not in KINDS:
        return model
    lies_well = all(weight.is_contiguous() for weight in model.parameters())  # as the kernels will read it
    return FewRows(model, lookup) if all(map(_is_known, [*parts, model.head])) and lies_well else model


def _lookup(frontend: Any) -> Lookup | None:
    """How a frontend finds the vectors of tokens; None if it is not one of those that the kernel knows."""
    if type(frontend) not in (TokenFrontend, PlainTokenFrontend):
        return None
    vectors, positions = frontend.table.weight, frontend.positions
    if isinstance(positions, SinusoidalPositions):
        return Lookup(vectors, frontend.scale, "sines", positions.frequencies)
    if isinstance(positions, LearnedPositions):
        return Lookup(vectors, frontend.scale, "table", positions.table.weight)
    return Lookup(vectors, frontend.scale, "none", vectors)
