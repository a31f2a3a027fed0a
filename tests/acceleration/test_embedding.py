"""The embedding kernel equals the embedding layers.

Without a GPU triton interprets it, which is slow but the same arithmetic (conftest.py).
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from seq2see.layers.positions import LearnedPositions, NoPositions, SinusoidalPositions
from seq2see.models.embeddings_and_heads import TokenEmbedding, UnscaledTokenEmbedding

pytestmark = pytest.mark.triton

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPES = [(torch.float32, 1e-6), (torch.bfloat16, 2**-6)]
"""In bf16 the last bits may differ, because the interpreter rounds down."""


@pytest.mark.parametrize("dtype, tolerance", DTYPES, ids=["float32", "bf16"])
@pytest.mark.parametrize("embedding", [TokenEmbedding, UnscaledTokenEmbedding])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "none"])
@pytest.mark.parametrize("width", [16, 10])
def test_a_vector_is_that_of_the_embedding_layer(width, positions, embedding, dtype, tolerance):
    from seq2see.acceleration.small_batch_kernels import EmbeddingTables, embed_tokens

    encodings = {
        "sinusoidal": SinusoidalPositions(width),
        "learned": LearnedPositions(width, 30),
        "none": NoPositions(width),
    }
    plain = embedding(nn.Embedding(20, width), encodings[positions], 0.1).eval().to(DEVICE)
    plain._apply(lambda each: each.to(dtype) if isinstance(each, nn.Parameter) else each)  # as `to_bf16` does
    tables = {
        "sinusoidal": lambda: encodings["sinusoidal"].frequencies,
        "learned": lambda: encodings["learned"].embedding.weight,
    }
    table = plain.table.weight.detach()
    embedding_tables = EmbeddingTables(table, plain.scale, positions, tables.get(positions, lambda: table)().detach())
    # A column of a larger tensor: the tokens of adjacent rows are not adjacent in memory.
    tokens = torch.tensor([[3, 1], [19, 1], [0, 1]], device=DEVICE)[:, :1]
    position_ids = torch.tensor([0, 7, 300], device=DEVICE)
    with torch.no_grad():
        expected = plain.embed_at(tokens, position_ids[:, None])[:, 0]
    output = embed_tokens(embedding_tables, tokens, position_ids)
    assert output.dtype == dtype
    torch.testing.assert_close(output, expected, rtol=tolerance, atol=tolerance)
