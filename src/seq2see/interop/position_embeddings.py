"""Positions written out as a table, for engines that look them up instead of computing them."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2see.interop.exportable import ExportableModel
from seq2see.models.settings import Text
from seq2see.models.token_embeddings import TokenEmbedding

MIN_POSITIONS = 1024
"""Rows a table has at least."""


def positions_needed(stored: ExportableModel) -> int:
    """How many times a table must hold: the longest text on either side with its <bos> or <eos>."""
    model, decoding = stored.config.model, stored.config.decoding
    texts = [text.max_tokens + 1 for text in (model.source, model.target_text) if isinstance(text, Text)]
    return max(MIN_POSITIONS, *texts, decoding.max_new_tokens + 1)


@torch.no_grad()
def position_table(embedding: TokenEmbedding, rows: int) -> Tensor:
    """(time, width): what the frontend adds to a token at each time.

    Learned positions repeat their last vector beyond what was learned, as the model itself does.
    """
    times = torch.arange(rows, device=embedding.table.weight.device)[None]
    table = embedding.positions(times)[0]
    return table.expand(rows, -1).float().cpu().contiguous()
