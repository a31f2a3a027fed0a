"""Looking up a token and where it stands is what a frontend does.

Without a GPU triton interprets it, which is slow but the same arithmetic (conftest.py).
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from seq2see.layers.positions import LearnedPositions, NoPositions, SinusoidalPositions
from seq2see.models.token_embeddings import TokenEmbedding, UnscaledTokenEmbedding

pytestmark = pytest.mark.triton

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPES = [(torch.float32, 1e-6), (torch.bfloat16, 2**-6)]
"""In bf16 the last bits may differ: the interpreter rounds down, each time."""


@pytest.mark.parametrize("dtype, near", DTYPES, ids=["float32", "bf16"])
@pytest.mark.parametrize("embedding", [TokenEmbedding, UnscaledTokenEmbedding])
@pytest.mark.parametrize("positions", ["sines", "table", "none"])
@pytest.mark.parametrize("width", [16, 10])
def test_a_vector_is_that_of_the_frontend(width, positions, embedding, dtype, near):
    from seq2see.kernels.embedding import EmbeddingTables, embed_tokens

    ways = {"sines": SinusoidalPositions(width), "table": LearnedPositions(width, 30), "none": NoPositions(width)}
    plain = embedding(nn.Embedding(20, width), ways[positions], 0.1).eval().to(DEVICE)
    plain._apply(lambda each: each.to(dtype) if isinstance(each, nn.Parameter) else each)  # as `to_bf16` does
    places = {"sines": lambda: ways["sines"].frequencies, "table": lambda: ways["table"].table.weight}
    table = plain.table.weight.detach()
    lookup = EmbeddingTables(table, plain.scale, positions, places.get(positions, lambda: table)().detach())
    # A column of a table: a row's token is not followed by that of the next.
    tokens = torch.tensor([[3, 1], [19, 1], [0, 1]], device=DEVICE)[:, :1]
    position_ids = torch.tensor([0, 7, 300], device=DEVICE)
    with torch.no_grad():
        expected = plain.embed_at(tokens, position_ids[:, None])[:, 0]
    found = embed_tokens(lookup, tokens, position_ids)
    assert found.dtype == dtype
    torch.testing.assert_close(found, expected, rtol=near, atol=near)
