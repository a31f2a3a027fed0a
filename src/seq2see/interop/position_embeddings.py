"""Position embeddings as a table, for engines that store positions instead of computing them."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2see.interop.exportable import ExportableModel
from seq2see.models.settings import Text
from seq2see.models.token_embeddings import TokenEmbedding

MIN_POSITIONS = 1024
"""The smallest number of rows of a table."""


def positions_needed(stored: ExportableModel) -> int:
    """The number of rows of a table: the longest text of source or target with its <bos> or <eos>."""
    model, decoding = stored.config.model, stored.config.decoding
    texts = [text.max_tokens + 1 for text in (model.source, model.target_text) if isinstance(text, Text)]
    return max(MIN_POSITIONS, *texts, decoding.max_new_tokens + 1)


@torch.no_grad()
def position_table(embedding: TokenEmbedding, rows: int) -> Tensor:
    """(time, width): the vectors that are added to the token embeddings at each position.

    Beyond the last learned position its vector is repeated, as in the model itself.
    """
    positions = torch.arange(rows, device=embedding.table.weight.device)[None]
    table = embedding.positions(positions)[0]
    return table.expand(rows, -1).float().cpu().contiguous()
