"""Token embedding and position encoding on a GPU as one kernel: an embedding times a scale, plus a position vector.

Each program processes one row. In torch, with sinusoidal positions, this is eight kernels.

The definition is `TokenEmbedding.embed_at` (models/embeddings_and_heads.py) with the positions of layers/positions.py;
tests/acceleration/test_embedding.py compares them.
"""

from dataclasses import dataclass

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
