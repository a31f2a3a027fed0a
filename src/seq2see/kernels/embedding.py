"""A token's vector and where it stands, on a GPU, in one kernel: row t of a table times a scale, plus a position.

One program takes a row. As torch writes it out, with sines and cosines, it is eight kernels.

The plain twin is `TokenEmbedding.at` (models/token_embeddings.py) with the positions of layers/positions.py; a test compares
them.
"""

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor


@dataclass(frozen=True)
class EmbeddingTables:
    """Vectors (vocab, width) and their scale; and how positions are made.

    `position_kind` is "sines" of the frequencies in `position_table` (width / 2), "table" of as many vectors as there are (longest,
    width), or "none".
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
    """Rounded wherever torch would have stored a number."""
    row, number = tl.program_id(0), tl.arange(0, WIDTH)
    token, time, is_number = tl.load(tokens + row), tl.load(position_ids + row), number < width
    vector = tl.load(embeddings + token * width + number, is_number, 0.0)
    vector = (vector.to(tl.float32) * scale).to(vector.dtype).to(tl.float32)
    if POSITIONS == "sines":
        angle = time.to(tl.float32) * tl.load(position_table + number // 2, is_number, 0.0)
        place = tl.where(number % 2 == 0, tl.sin(angle), tl.cos(angle))
        vector += place.to(embeddings.dtype.element_ty).to(tl.float32)
    if POSITIONS == "table":
        last = tl.minimum(time, max_positions - 1)
        vector += tl.load(position_table + last * width + number, is_number, 0.0).to(tl.float32)
    tl.store(out + row * width + number, vector.to(out.dtype.element_ty), is_number)


def embed_tokens(embedding_tables: EmbeddingTables, tokens: Tensor, position_ids: Tensor) -> Tensor:
    """Vectors (row, width) of one token a row, each at its own time."""
    width = embedding_tables.embeddings.size(1)
    out = embedding_tables.embeddings.new_empty(tokens.size(0), width)
    max_positions = embedding_tables.position_table.size(0)
    _embed_tokens[(tokens.size(0),)](
        out, tokens.contiguous(), position_ids.contiguous(), embedding_tables.embeddings, embedding_tables.position_table, embedding_tables.scale, width, max_positions,
        POSITIONS=embedding_tables.position_kind, WIDTH=triton.next_power_of_2(width), num_warps=4,
    )  # fmt: skip
    return out
