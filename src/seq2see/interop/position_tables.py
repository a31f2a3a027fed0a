"""Positions written out as a table, for engines that look them up instead of computing them."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2see.interop.stored import Stored
from seq2see.models.frontends import TokenFrontend
from seq2see.models.settings import Text

LEAST = 1024
"""Rows a table has at least."""


def rows_needed(stored: Stored) -> int:
    """How many times a table must hold: the longest text on either side with its <bos> or <eos>."""
    model, decoding = stored.config.model, stored.config.decoding
    texts = [text.longest + 1 for text in (model.source, model.written) if isinstance(text, Text)]
    return max(LEAST, *texts, decoding.max_new_tokens + 1)


@torch.no_grad()
def position_table(frontend: TokenFrontend, rows: int) -> Tensor:
    """(time, width): what the frontend adds to a token at each time.

    Learned positions repeat their last vector beyond what was learned, as the model itself does.
    """
    times = torch.arange(rows, device=frontend.table.weight.device)[None]
    table = frontend.positions(times)[0]
    return table.expand(rows, -1).float().cpu().contiguous()
