"""Kernels for one token of each row on a GPU: embedding, attention with one query, and linear layers.

The *embedding* is one kernel: an embedding times a scale, plus a position vector. Each program processes one row. In
torch, with sinusoidal positions, this is eight kernels. The definition is `TokenEmbedding.embed_at`
(models/embeddings_and_heads.py) with the positions of layers/positions.py; tests/acceleration/test_embedding.py
compares them.

*Attention with one query* for each row: each program computes one head of one row. In self-attention, it first writes
the new key and value to the cache and starts with them; then it loops over the cached keys and updates the running
maximum and sums of a softmax (Milakov & Gimelshein 2018). Cross-attention is the same loop over the source, where a
mask may hide keys. The definitions are `KeyValueCache.write` with `eager_attention`, and `eager_attention` alone
(layers/attention.py); tests/acceleration/test_single_query_attention.py compares them.

A *linear layer* for a few rows is one kernel, activation(norm(x) Wᵀ + b) + residual. When one sentence is decoded, a
matmul takes the time to read its weights, and the launch of a norm, an activation or a sum takes longer than its work.
So one kernel computes the matmul and all operations around it in a Transformer block. Each program computes a few
outputs: it loads their rows of the weight matrix, once, and normalizes the input meanwhile. Every program normalizes
the same input again, which costs nothing: these are a few hundred numbers, and the weights are still being loaded. The
definition is `reference_linear` (acceleration/small_batch.py), which runs torch's kernels one after another;
tests/acceleration/test_fused_linear.py compares them. Sums are float32.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor


@dataclass(frozen=True)
class EmbeddingTables:
    """The embedding matrix (vocab, width) with its scale, and the position encoding.

    `position_kind` is "sinusoidal" with the frequencies `position_table` (width / 2), "learned" with the vectors
    `position_table` (max_positions, width), or "none".
    """

    embeddings: Tensor
    scale: float
    position_kind: str
    position_table: Tensor


@triton.jit
def _embed_tokens(
    out,
    tokens,
    position_ids,
    embeddings,
    position_table,
    scale,
    width,
    max_positions,
    POSITIONS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Intermediate results are rounded as torch rounds them when it stores them."""
    row, column = tl.program_id(0), tl.arange(0, WIDTH)
    token, position_id, inside = tl.load(tokens + row), tl.load(position_ids + row), column < width
    vector = tl.load(embeddings + token * width + column, inside, 0.0)
    vector = (vector.to(tl.float32) * scale).to(vector.dtype).to(tl.float32)
    if POSITIONS == "sinusoidal":
        angle = position_id.to(tl.float32) * tl.load(position_table + column // 2, inside, 0.0)
        encoding = tl.where(column % 2 == 0, tl.sin(angle), tl.cos(angle))
        vector += encoding.to(embeddings.dtype.element_ty).to(tl.float32)
    if POSITIONS == "learned":
        clamped = tl.minimum(position_id, max_positions - 1)
        vector += tl.load(position_table + clamped * width + column, inside, 0.0).to(tl.float32)
    tl.store(out + row * width + column, vector.to(out.dtype.element_ty), inside)


def embed_tokens(embedding_tables: EmbeddingTables, tokens: Tensor, position_ids: Tensor) -> Tensor:
    """Embed one token for each row, at the position of that row: vectors (row, width)."""
    embeddings, position_table = embedding_tables.embeddings, embedding_tables.position_table
    width = embeddings.size(1)
    out = embeddings.new_empty(tokens.size(0), width)
    max_positions = position_table.size(0)
    _embed_tokens[(tokens.size(0),)](
        out, tokens.contiguous(), position_ids.contiguous(), embeddings, position_table,
        embedding_tables.scale, width, max_positions,
        POSITIONS=embedding_tables.position_kind, WIDTH=triton.next_power_of_2(width), num_warps=4,
    )  # fmt: skip
    return out


KEYS, WARPS = 128, 4
"""The maximum number of keys that a program loads at once, and the number of its warps."""
LONG, LONG_KEYS, LONG_WARPS = 256, 512, 16
"""The number of keys from which on a sequence is long, and the same constants for long sequences."""


@triton.jit
def _online_softmax(query, keys, values, visible, maximum, total, weighted_sum):
    """Update the maximum of the scores, the sum of exponentials and the weighted sum of values by a block of keys."""
    scores = tl.where(visible, tl.sum(keys.to(tl.float32) * query[None, :], 1), -1e30)
    new_maximum = tl.maximum(maximum, tl.max(scores, 0))
    rescale = tl.exp(maximum - new_maximum)
    exponentials = tl.where(visible, tl.exp(scores - new_maximum), 0.0)
    block_sum = tl.sum(exponentials[:, None] * values.to(tl.float32), 0)
    return new_maximum, total * rescale + tl.sum(exponentials, 0), weighted_sum * rescale + block_sum


@triton.jit
def _self_attention_kernel(
    out, qkv, cache, cache_length, scale, heads, max_length, size,
    KEYS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """`qkv` holds the concatenated query, key and value of each row; the cache is (row, 2, head, max_length, size)."""
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    column, time = tl.arange(0, SIZE), tl.load(cache_length + row)
    in_head, width = column < size, heads * size
    address = qkv + row * 3 * width + head * size + column
    query = tl.load(address, in_head, 0.0).to(tl.float32) * scale
    key, value = tl.load(address + width, in_head, 0.0), tl.load(address + 2 * width, in_head, 0.0)
    keys = cache + (row * 2 * heads + head) * max_length * size
    values = keys + heads * max_length * size
    tl.store(keys + time * size + column, key, in_head)
    tl.store(values + time * size + column, value, in_head)
    maximum, total, weighted_sum = tl.sum(key.to(tl.float32) * query, 0), 1.0, value.to(tl.float32)
    for start in range(0, time, KEYS):
        position = start + tl.arange(0, KEYS)
        offset, visible = position[:, None] * size + column[None, :], position < time
        inside = visible[:, None] & in_head[None, :]
        k, v = tl.load(keys + offset, inside, 0.0), tl.load(values + offset, inside, 0.0)
        maximum, total, weighted_sum = _online_softmax(query, k, v, visible, maximum, total, weighted_sum)
    tl.store(out + row * width + head * size + column, (weighted_sum / total).to(out.dtype.element_ty), in_head)


@triton.jit
def _cross_attention_kernel(
    out, queries, keys, values, mask, scale, heads, length, size,
    KEYS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Keys and values are (row, head, time, size); the mask (row, time) is True for visible keys."""
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    column = tl.arange(0, SIZE)
    in_head, first = column < size, (row * heads + head) * length * size
    head_offset = (row * heads + head) * size + column
    query = tl.load(queries + head_offset, in_head, 0.0).to(tl.float32) * scale
    maximum, total, weighted_sum = -1e30, 0.0, tl.zeros((SIZE,), tl.float32)
    for start in range(0, length, KEYS):
        position = start + tl.arange(0, KEYS)
        offset, in_length = first + position[:, None] * size + column[None, :], position < length
        inside = in_length[:, None] & in_head[None, :]
        k, v = tl.load(keys + offset, inside, 0.0), tl.load(values + offset, inside, 0.0)
        visible = tl.load(mask + row * length + position, in_length, 0) != 0
        maximum, total, weighted_sum = _online_softmax(query, k, v, visible, maximum, total, weighted_sum)
    # A query without a visible key has zeros as output.
    tl.store(out + head_offset, (weighted_sum / tl.maximum(total, 1e-30)).to(out.dtype.element_ty), in_head)


def _shape(keys: int, size: int) -> dict[str, int]:
    """The compile-time constants of the kernels."""
    max_keys, warps = (LONG_KEYS, LONG_WARPS) if keys > LONG else (KEYS, WARPS)
    block = min(max_keys, triton.next_power_of_2(keys))
    return {"KEYS": block, "SIZE": triton.next_power_of_2(size), "num_warps": warps}


def cached_self_attention(qkv: Tensor, cache: Tensor, cache_length: Tensor) -> Tensor:
    """Self-attention of one new token for each row (row, width); its key and value are written to the cache.

    `qkv` (row, 3 width) holds queries, keys and values, `cache` (row, 2, head, max_length, size) must be contiguous,
    and `cache_length` is the number of cached tokens of each row.
    """
    rows, _, heads, max_length, size = cache.shape
    out = qkv.new_empty(rows, heads * size)
    _self_attention_kernel[(rows * heads,)](
        out, qkv, cache, cache_length, size**-0.5, heads, max_length, size, **_shape(max_length, size)
    )
    return out


def single_query_cross_attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Cross-attention of one query for each row (row, width) over keys and values (row, head, time, size).

    `mask` (row, 1, 1, time) is True for visible keys. Contiguous inputs are not copied.
    """
    rows, heads, length, size = keys.shape
    out, mask = torch.empty_like(queries), mask.contiguous().view(torch.uint8)
    inputs = (queries, keys.contiguous(), values.contiguous(), mask, size**-0.5, heads, length, size)
    _cross_attention_kernel[(rows * heads,)](out, *inputs, **_shape(length, size))
    return out


MAX_ROWS = 4
"""The maximum number of rows: for more, torch's kernels are as fast."""
MIN_PROGRAMS = 128
"""The minimum number of programs, if there are enough outputs: about the number of multiprocessors of a large GPU."""
TILE = 8192
"""The maximum number of weights that a program holds."""


@dataclass(frozen=True)
class LayerNormWeights:
    """A layer norm of the input of a linear layer (Ba et al. 2016, eq. 4)."""

    weight: Tensor
    bias: Tensor
    eps: float


@dataclass(frozen=True)
class LinearWeights:
    """The weight (outputs, inputs) of a linear layer, its bias if there is one, and the activation after it by name."""

    weight: Tensor
    bias: Tensor | None = None
    activation: str = "none"


@triton.jit
def _layer_norm(row, norm_weight, norm_bias, in_index, inputs, eps):
    """(x - mean) / √(variance + ε), times weight, plus bias; rounded as if it had been stored."""
    numbers = row.to(tl.float32)
    centered = tl.where(in_index < inputs, numbers - tl.sum(numbers, 0) / inputs, 0.0)
    normal = centered / tl.sqrt(tl.sum(centered * centered, 0) / inputs + eps)
    weights = tl.load(norm_weight + in_index, in_index < inputs, 0.0).to(tl.float32)
    biases = tl.load(norm_bias + in_index, in_index < inputs, 0.0).to(tl.float32)
    return (normal * weights + biases).to(row.dtype)


@triton.jit
def _activate(x, ACTIVATION: tl.constexpr):
    """max(0, x), x Φ(x), or the latter with Φ approximated by a tanh: (1 + tanh y) / 2 is σ(2 y)."""
    if ACTIVATION == "relu":
        x = tl.maximum(x, 0.0)
    if ACTIVATION == "gelu":
        x = x * 0.5 * (1 + tl.erf(x * 0.7071067811865476))
    if ACTIVATION == "gelu-tanh":
        x = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    return x


@triton.jit
def _fused_linear(
    output, normalized, vectors, weight, bias, residual, norm_weight, norm_bias, eps, inputs, outputs,
    ROWS: tl.constexpr, INPUTS: tl.constexpr, OUTPUTS: tl.constexpr,
    ACTIVATION: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_NORM: tl.constexpr, HAS_RESIDUAL: tl.constexpr,
):  # fmt: skip
    """Some outputs of every row; the first program also stores the normalized rows."""
    in_index, out_index = tl.arange(0, INPUTS), tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    is_input, is_output = in_index < inputs, out_index < outputs
    # The weights are loaded first: the rest is computed while they are being loaded.
    offset = out_index[:, None] * inputs + in_index[None, :]
    weights = tl.load(weight + offset, is_output[:, None] & is_input[None, :], 0.0)
    for row in tl.static_range(ROWS):
        numbers = tl.load(vectors + row * inputs + in_index, is_input, 0.0)
        if HAS_NORM:
            numbers = _layer_norm(numbers, norm_weight, norm_bias, in_index, inputs, eps)
            if tl.program_id(0) == 0:
                tl.store(normalized + row * inputs + in_index, numbers, is_input)
        sums = tl.sum(weights.to(tl.float32) * numbers.to(tl.float32)[None, :], 1)
        if HAS_BIAS:
            sums += tl.load(bias + out_index, is_output, 0.0).to(tl.float32)
        sums = _activate(sums, ACTIVATION)
        if HAS_RESIDUAL:
            sums += tl.load(residual + row * outputs + out_index, is_output, 0.0).to(tl.float32)
        tl.store(output + row * outputs + out_index, sums.to(output.dtype.element_ty), is_output)


def _outputs_per_program(inputs: int, outputs: int) -> int:
    """The number of outputs of a program: a power of two with enough programs, whose tile is not too large.

    >>> [_outputs_per_program(512, outputs) for outputs in (512, 1536, 32_000)] + [_outputs_per_program(2048, 512)]
    [4, 8, 16, 4]
    """
    power = 1 << (max(outputs // MIN_PROGRAMS, 1).bit_length() - 1)
    return max(1, min(power, TILE // triton.next_power_of_2(inputs)))


def fused_linear(
    vectors: Tensor, layer: LinearWeights, norm: LayerNormWeights | None = None, residual: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """`reference_linear` of a few rows (row, inputs), and the normalized rows; without gradients."""
    (rows, inputs), outputs = vectors.shape, layer.weight.size(0)
    vectors, output = vectors.contiguous(), vectors.new_empty(rows, outputs)
    normalized = vectors if norm is None else torch.empty_like(vectors)
    outputs_per_program = _outputs_per_program(inputs, outputs)
    unused = vectors  # a valid address for arguments that are not read
    _fused_linear[(triton.cdiv(outputs, outputs_per_program),)](
        output, normalized, vectors, layer.weight,
        unused if layer.bias is None else layer.bias, unused if residual is None else residual.contiguous(),
        *((unused, unused, 0.0) if norm is None else (norm.weight, norm.bias, norm.eps)), inputs, outputs,
        ROWS=rows, INPUTS=triton.next_power_of_2(inputs), OUTPUTS=outputs_per_program, ACTIVATION=layer.activation,
        HAS_BIAS=layer.bias is not None, HAS_NORM=norm is not None, HAS_RESIDUAL=residual is not None, num_warps=4,
    )  # fmt: skip
    return output, normalized
