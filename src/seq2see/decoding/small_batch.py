"""A Transformer that takes in one token of a few rows by eight kernels a block: for one sentence on a GPU.

Written out, a block of the decoder is sixteen kernels, and a kernel for one row takes longer to launch than to run.
Here norms, curves and sums are left to the products beside them (kernels/fused_linear.py), and the writing of keys to those
who look back at them (kernels/single_query_attention.py). With more rows, or several tokens at a time, the model steps by itself.

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

from seq2see.core.batch import Images, Sequences
from seq2see.kernels.embedding import EmbeddingTables, embed_tokens
from seq2see.kernels.fused_linear import MAX_ROWS, LayerNormWeights, LinearWeights, fused_linear
from seq2see.kernels.single_query_attention import look_across, look_back
from seq2see.layers.attention import CrossAttention, SelfAttention
from seq2see.layers.feed_forward import ACTIVATIONS, FEED_FORWARDS
from seq2see.layers.norms import LayerNorm
from seq2see.layers.positions import LearnedPositions, SinusoidalPositions
from seq2see.layers.residual import PostNorm, PreNorm
from seq2see.models.gpt import GPTDecoder, GPTState
from seq2see.models.heads import SuppressTokensHead, TiedHead, UntiedHead, UntiedNoBiasHead
from seq2see.models.language_model import DecoderState, LanguageModel
from seq2see.models.token_embeddings import TokenEmbedding, UnscaledTokenEmbedding
from seq2see.models.transformer import TransformerDecoder, TransformerState

Vectors = Float[Tensor, "row width"]
ACTIVATION_OF = {FEED_FORWARDS[name]: name for name in ACTIVATIONS}
HEAD_TYPES = (TiedHead, UntiedHead, UntiedNoBiasHead, SuppressTokensHead)
DTYPES = (torch.bfloat16, torch.float32)  # sums are float32


def _is_supported(part: nn.Module) -> bool:
    """Whether the kernels know this part of a block, or this head."""
    if isinstance(part, PostNorm):
        return type(part) in (PostNorm, PreNorm) and type(part.norm) is LayerNorm
    if isinstance(part, SelfAttention):
        return type(part) is SelfAttention and part.relative_positions is None
    return type(part) in (CrossAttention, *ACTIVATION_OF, *HEAD_TYPES)


def reference_linear(
    vectors: Float[Tensor, "row input"],
    layer: LinearWeights,
    norm: LayerNormWeights | None = None,
    residual: Float[Tensor, "row output"] | None = None,
) -> Float[Tensor, "row output"]:
    """curve(norm(x) Wᵀ + b) + rest: the definition of `fused_linear`."""
    if norm is not None:
        vectors = functional.layer_norm(vectors, norm.weight.shape, norm.weight, norm.bias, norm.eps)
    found = functional.linear(vectors, layer.weight, layer.bias)
    if layer.activation != "none":
        found = ACTIVATIONS[layer.activation](found)
    return found if residual is None else found + residual


@dataclass(frozen=True)
class ResidualStream:
    """The vectors that run through a stack, and a norm that is still to be taken of them."""

    rows: Vectors
    norm: nn.Module | None = None

    def apply_sublayer(
        self, wrapper: PostNorm, first: LinearWeights, between: Callable[[Vectors], Vectors], last: nn.Linear
    ) -> ResidualStream:
        """The stream after one part, which is two products and what happens between them."""
        is_pre = isinstance(wrapper, PreNorm)
        taken = wrapper.norm if is_pre else self.norm
        found, normed = fused_linear(self.rows, first, _norm(taken))
        rows, _ = fused_linear(between(found), _layer(last), residual=self.rows if is_pre else normed)
        return ResidualStream(rows, None if is_pre else wrapper.norm)


def _norm(norm: Any) -> LayerNormWeights | None:
    return None if norm is None else LayerNormWeights(norm.weight, norm.bias, norm.eps)


def _layer(linear: nn.Linear, activation: str = "none") -> LinearWeights:
    return LinearWeights(linear.weight, linear.bias, activation)


def _self_attention(
    stream: ResidualStream, wrapper: Any, look: Any, cache: Tensor, cache_lengths: Tensor
) -> ResidualStream:
    """Look back at what was written."""
    return stream.apply_sublayer(
        wrapper, _layer(look.qkv_proj), lambda found: look_back(found, cache, cache_lengths), look.out_proj
    )


def _cross_attention(
    stream: ResidualStream, wrapper: Any, look: Any, memory: tuple[Tensor, Tensor], mask: Tensor
) -> ResidualStream:
    """Look across at the source."""
    return stream.apply_sublayer(
        wrapper, _layer(look.q_proj), lambda found: look_across(found, *memory, mask), look.out_proj
    )


def _feed_forward(stream: ResidualStream, wrapper: Any, feed_forward: Any) -> ResidualStream:
    """Think about what was seen."""
    return stream.apply_sublayer(
        wrapper,
        _layer(feed_forward.up_proj, ACTIVATION_OF[type(feed_forward)]),
        lambda found: found,
        feed_forward.down_proj,
    )


def _run_gpt(decoder: GPTDecoder, stream: ResidualStream, state: GPTState) -> ResidualStream:
    for block, past in zip(decoder.blocks, state.blocks, strict=True):
        stream = _self_attention(
            stream, block.self_attention_residual, block.self_attention, past.keys_values, state.cache_lengths
        )
        stream = _feed_forward(stream, block.feed_forward_residual, block.feed_forward)
    return stream


def _run_transformer(decoder: TransformerDecoder, stream: ResidualStream, state: TransformerState) -> ResidualStream:
    mask = state.cross_attention_mask.mask
    assert mask is not None, "a source is a table of what is real"
    for block, known in zip(decoder.blocks, state.blocks, strict=True):
        stream = _self_attention(
            stream, block.self_attention_residual, block.self_attention, known.past.keys_values, state.cache_lengths
        )
        stream = _cross_attention(stream, block.cross_attention_residual, block.cross_attention, known.memory, mask)
        stream = _feed_forward(stream, block.feed_forward_residual, block.feed_forward)
    return stream


DECODER_FUNCTIONS: dict[type[nn.Module], Callable[[Any, ResidualStream, Any], ResidualStream]] = {
    GPTDecoder: _run_gpt,
    TransformerDecoder: _run_transformer,
}
"""How the stream runs through each kind of decoder."""


class SmallBatchModel:
    """Decodes what its model decodes, and is the model as it is now: its head is taken apart once."""

    def __init__(self, model: LanguageModel, embedding_tables: EmbeddingTables):
        self.model, self.embedding_tables = model, embedding_tables
        head: Any = model.head
        self.head = LinearWeights(*head.weight_and_bias())
        self.apply_sublayer = DECODER_FUNCTIONS[type(model.decoder)]

    def start(self, source: Sequences | Images | None, rows: int, max_length: int) -> DecoderState:
        """The state before the first token, with the keys and values of a source each in one piece."""
        state = self.model.start(source, rows, max_length)
        if rows > MAX_ROWS or not isinstance(state.decoder, TransformerState):
            return state
        blocks = []
        for block in state.decoder.blocks:
            keys, values = block.memory
            blocks.append(replace(block, memory=(keys.contiguous(), values.contiguous())))
        return replace(state, decoder=replace(state.decoder, blocks=tuple(blocks)))

    def step(
        self, tokens: Int[Tensor, "row new"], state: DecoderState
    ) -> tuple[Float[Tensor, "row new vocab"], DecoderState]:
        """Take in one or more new tokens a row; how far each row is, is counted in place."""
        if tokens.size(1) > 1 or tokens.size(0) > MAX_ROWS:
            return self.model.step(tokens, state)
        decoder, known = self.model.decoder, state.decoder
        stream = self.apply_sublayer(
            decoder, ResidualStream(embed_tokens(self.embedding_tables, tokens, state.position)), known
        )
        logits, _ = fused_linear(stream.rows, self.head, _norm(stream.norm or decoder.final_norm))
        after = replace(known, cache_lengths=known.cache_lengths.add_(1))
        return logits[:, None], replace(state, position=state.position.add_(1), decoder=after)


def make_small_batch_model(model: LanguageModel) -> LanguageModel | SmallBatchModel:
    """What decodes like this model, with few kernels where rows are few; the model itself if they do not know it."""
    decoder, embedding_tables = model.decoder, _lookup(model.target)
    parts = [part for block in getattr(decoder, "blocks", ()) for part in block.children()]
    if (
        type(decoder) not in DECODER_FUNCTIONS
        or embedding_tables is None
        or embedding_tables.vectors.dtype not in DTYPES
    ):
        return model
    lies_well = all(weight.is_contiguous() for weight in model.parameters())  # as the kernels will read it
    return (
        SmallBatchModel(model, embedding_tables)
        if all(map(_is_supported, [*parts, model.head])) and lies_well
        else model
    )


def _lookup(embedding: Any) -> EmbeddingTables | None:
    """How a frontend finds the vectors of tokens; None if it is not one of those that the kernel knows."""
    if type(embedding) not in (TokenEmbedding, UnscaledTokenEmbedding):
        return None
    vectors, positions = embedding.table.weight, embedding.positions
    if isinstance(positions, SinusoidalPositions):
        return EmbeddingTables(vectors, embedding.scale, "sines", positions.frequencies)
    if isinstance(positions, LearnedPositions):
        return EmbeddingTables(vectors, embedding.scale, "table", positions.table.weight)
    return EmbeddingTables(vectors, embedding.scale, "none", vectors)
