"""A Transformer with fused kernels for one token of each row on a GPU: eight for each decoder block of a few rows.

In PyTorch a decoder block consists of sixteen kernels, and for one row launching a kernel takes longer than running it.
Here the update of the key-value cache is part of self-attention, whose kernels are made for one query. With a few
rows, norms, activations and residual sums are fused with the neighboring linear layers; with more rows these are
torch's kernels. All of these kernels are in acceleration/small_batch_kernels.py. For several tokens at a time the
original model is used. It is the definition, too; tests/acceleration/test_small_batch.py compares both, and so does the
contract of all decoders.

The last norm of a block is computed by the kernel that reads the residual stream next. So pre-norm and post-norm have
one form, n = norm(x), x ← residual + f(n):

* pre-norm (Xiong et al. 2020): the norm is that of the sublayer, and the residual is x;
* post-norm (Vaswani et al. 2017): the norm is that of the previous sublayer, and the residual is n.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from seq2see.acceleration.small_batch_kernels import (
    MAX_ROWS,
    EmbeddingTables,
    LayerNormWeights,
    LinearWeights,
    cached_self_attention,
    embed_tokens,
    fused_linear,
    single_query_cross_attention,
)
from seq2see.core.batch import Images, Sequences
from seq2see.core.devices import plain_class
from seq2see.layers.attention import CrossAttention, SelfAttention
from seq2see.layers.feed_forward import ACTIVATIONS, FEED_FORWARDS
from seq2see.layers.norms_and_dropout import LayerNorm, PostNorm, PreNorm
from seq2see.layers.positions import LearnedPositions, SinusoidalPositions
from seq2see.models.embeddings_and_heads import (
    SuppressTokensHead,
    TiedHead,
    TokenEmbedding,
    UnscaledTokenEmbedding,
    UntiedHead,
    UntiedNoBiasHead,
)
from seq2see.models.gpt import GPTDecoder, GPTState
from seq2see.models.language_model import DecoderState, LanguageModel
from seq2see.models.transformer import TransformerDecoder, TransformerState

Vectors = Float[Tensor, "row width"]
ACTIVATION_OF: dict[type[nn.Module], str] = {FEED_FORWARDS[name]: name for name in ACTIVATIONS}
HEAD_TYPES = (TiedHead, UntiedHead, UntiedNoBiasHead, SuppressTokensHead)
DTYPES = (torch.bfloat16, torch.float32)  # the kernels accumulate in float32, so float64 is not supported


def _is_supported(module: nn.Module) -> bool:
    """Whether the kernels support this part of a block, or this head."""
    if isinstance(module, PostNorm):
        return plain_class(module) in (PostNorm, PreNorm) and plain_class(module.norm) is LayerNorm
    if isinstance(module, SelfAttention):
        return plain_class(module) is SelfAttention and module.relative_positions is None
    return plain_class(module) in (CrossAttention, *ACTIVATION_OF, *HEAD_TYPES)


def reference_linear(
    vectors: Float[Tensor, "row input"],
    layer: LinearWeights,
    norm: LayerNormWeights | None = None,
    residual: Float[Tensor, "row output"] | None = None,
) -> Float[Tensor, "row output"]:
    """activation(norm(x) Wᵀ + b) + residual: the definition of `fused_linear`."""
    if norm is not None:
        vectors = functional.layer_norm(vectors, norm.weight.shape, norm.weight, norm.bias, norm.eps)
    output = functional.linear(vectors, layer.weight, layer.bias)
    if layer.activation != "none":
        output = ACTIVATIONS[layer.activation](output)
    return output if residual is None else output + residual


def linear(
    vectors: Float[Tensor, "row input"],
    layer: LinearWeights,
    norm: LayerNormWeights | None = None,
    residual: Float[Tensor, "row output"] | None = None,
) -> tuple[Float[Tensor, "row output"], Float[Tensor, "row input"]]:
    """activation(norm(x) Wᵀ + b) + residual, and norm(x): one kernel for a few rows, torch's kernels for more rows."""
    if vectors.size(0) <= MAX_ROWS:
        return fused_linear(vectors, layer, norm, residual)
    if norm is not None:
        vectors = functional.layer_norm(vectors, norm.weight.shape, norm.weight, norm.bias, norm.eps)
    return reference_linear(vectors, layer, residual=residual), vectors


@dataclass(frozen=True)
class ResidualStream:
    """The residual stream of a stack, and a norm that the next kernel applies to it."""

    rows: Vectors
    norm: nn.Module | None = None

    def apply_sublayer(
        self, wrapper: PostNorm, first: LinearWeights, between: Callable[[Vectors], Vectors], last: nn.Linear
    ) -> ResidualStream:
        """Apply a sublayer: a linear layer, the function `between`, and another linear layer."""
        is_pre = isinstance(wrapper, PreNorm)
        norm = wrapper.norm if is_pre else self.norm
        hidden, normalized = linear(self.rows, first, _norm(norm))
        rows, _ = linear(between(hidden), _layer(last), residual=self.rows if is_pre else normalized)
        return ResidualStream(rows, None if is_pre else wrapper.norm)


def _norm(norm: Any) -> LayerNormWeights | None:
    return None if norm is None else LayerNormWeights(norm.weight, norm.bias, norm.eps)


def _layer(linear: nn.Linear, activation: str = "none") -> LinearWeights:
    return LinearWeights(linear.weight, linear.bias, activation)


def _self_attention(
    stream: ResidualStream, wrapper: Any, attention: Any, cache: Tensor, cache_lengths: Tensor
) -> ResidualStream:
    """Causal self-attention with a key-value cache."""
    return stream.apply_sublayer(
        wrapper,
        _layer(attention.qkv_proj),
        lambda qkv: cached_self_attention(qkv, cache, cache_lengths),
        attention.out_proj,
    )


def _cross_attention(
    stream: ResidualStream, wrapper: Any, attention: Any, memory: tuple[Tensor, Tensor], mask: Tensor
) -> ResidualStream:
    """Cross-attention over the keys and values of the source."""
    return stream.apply_sublayer(
        wrapper,
        _layer(attention.q_proj),
        lambda queries: single_query_cross_attention(queries, *memory, mask),
        attention.out_proj,
    )


def _feed_forward(stream: ResidualStream, wrapper: Any, feed_forward: Any) -> ResidualStream:
    """The feed-forward network; the activation is fused with its first linear layer."""
    return stream.apply_sublayer(
        wrapper,
        _layer(feed_forward.up_proj, ACTIVATION_OF[plain_class(feed_forward)]),
        lambda hidden: hidden,
        feed_forward.down_proj,
    )


def _run_gpt(decoder: GPTDecoder, stream: ResidualStream, state: GPTState) -> ResidualStream:
    for block, cache in zip(decoder.blocks, state.blocks, strict=True):
        stream = _self_attention(
            stream, block.self_attention_residual, block.self_attention, cache.keys_values, state.cache_lengths
        )
        stream = _feed_forward(stream, block.feed_forward_residual, block.feed_forward)
    return stream


def _run_transformer(decoder: TransformerDecoder, stream: ResidualStream, state: TransformerState) -> ResidualStream:
    mask = state.cross_attention_mask.mask
    assert mask is not None, "the source has a padding mask"
    for block, block_state in zip(decoder.blocks, state.blocks, strict=True):
        stream = _self_attention(
            stream,
            block.self_attention_residual,
            block.self_attention,
            block_state.past.keys_values,
            state.cache_lengths,
        )
        stream = _cross_attention(
            stream, block.cross_attention_residual, block.cross_attention, block_state.memory, mask
        )
        stream = _feed_forward(stream, block.feed_forward_residual, block.feed_forward)
    return stream


DECODER_FUNCTIONS: dict[type[nn.Module], Callable[[Any, ResidualStream, Any], ResidualStream]] = {
    GPTDecoder: _run_gpt,
    TransformerDecoder: _run_transformer,
}
"""The forward pass of each type of decoder."""


class SmallBatchModel:
    """A model with fused kernels for one token of each row; changes of the head after its creation have no effect."""

    def __init__(self, model: LanguageModel, embedding_tables: EmbeddingTables):
        self.model, self.embedding_tables = model, embedding_tables
        head: Any = model.head
        self.head = LinearWeights(*head.weight_and_bias())
        self.run_decoder = DECODER_FUNCTIONS[plain_class(model.decoder)]

    def start(self, source: Sequences | Images | None, rows: int, max_length: int) -> DecoderState:
        """Return the state before the first token; the keys and values of the source are made contiguous."""
        state = self.model.start(source, rows, max_length)
        if not isinstance(state.decoder, TransformerState):
            return state
        blocks = []
        for block in state.decoder.blocks:
            keys, values = block.memory
            blocks.append(replace(block, memory=(keys.contiguous(), values.contiguous())))
        return replace(state, decoder=replace(state.decoder, blocks=tuple(blocks)))

    def step(
        self, tokens: Int[Tensor, "row new"], state: DecoderState
    ) -> tuple[Float[Tensor, "row new vocab"], DecoderState]:
        """Read one or more new tokens of each row; cache lengths and positions are updated in place."""
        if tokens.size(1) > 1:
            return self.model.step(tokens, state)
        decoder, decoder_state = self.model.decoder, state.decoder
        embeddings = embed_tokens(self.embedding_tables, tokens, state.position)
        stream = self.run_decoder(decoder, ResidualStream(embeddings), decoder_state)
        logits, _ = linear(stream.rows, self.head, _norm(stream.norm or decoder.final_norm))
        torch._foreach_add_((decoder_state.cache_lengths, state.position), 1)  # one kernel for both
        return logits[:, None], state


def make_small_batch_model(model: LanguageModel) -> LanguageModel | SmallBatchModel:
    """Return a version with fused kernels for one token; the model itself if the kernels do not support it."""
    decoder, embedding_tables = model.decoder, _embedding_tables(model.target)
    if plain_class(decoder) not in DECODER_FUNCTIONS or embedding_tables is None:
        return model
    modules = [module for block in decoder.blocks for module in block.children()]
    if embedding_tables.embeddings.dtype not in DTYPES or not all(map(_is_supported, [*modules, model.head])):
        return model
    is_contiguous = all(weight.is_contiguous() for weight in model.parameters())  # the kernels require this
    return SmallBatchModel(model, embedding_tables) if is_contiguous else model


def _embedding_tables(embedding: Any) -> EmbeddingTables | None:
    """The tables of an embedding layer for the kernel; None if the kernel does not support the layer."""
    if plain_class(embedding) not in (TokenEmbedding, UnscaledTokenEmbedding):
        return None
    embeddings, positions = embedding.table.weight, embedding.positions
    if isinstance(positions, SinusoidalPositions):
        return EmbeddingTables(embeddings, embedding.scale, "sinusoidal", positions.frequencies)
    if isinstance(positions, LearnedPositions):
        return EmbeddingTables(embeddings, embedding.scale, "learned", positions.embedding.weight)
    return EmbeddingTables(embeddings, embedding.scale, "none", embeddings)
