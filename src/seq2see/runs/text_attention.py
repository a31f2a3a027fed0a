"""The attention of one text pair as plain data: which source pieces each target piece looked at."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from seq2see.inspection.record import ActivationRecord


@dataclass(frozen=True)
class TextAttention:
    """Pieces of both texts, and for each layer the weights (head, target piece, source piece)."""

    source: list[str]
    target: list[str]
    layers: list[str]
    weights: list[NDArray[np.float32]]
    page: Callable[[], str] | None = field(default=None, compare=False, repr=False)
    """Makes a page to look at all of it in a notebook, where there is one."""

    @staticmethod
    def of(record: ActivationRecord, page: Callable[[], str] | None = None) -> TextAttention:
        """The attention in a record: from the target to the source where there are both, else within the one text."""
        across = "source" in record.tokens and "target" in record.tokens
        shown = [each for each in record.of("attention") if each.is_cross_attention == across and each.side != "pooled"]
        looked_at = record.tokens["source" if "source" in record.tokens else "target"]
        written = record.tokens.get("labels", looked_at)
        seen = slice(None) if across else slice(len(written))  # what nothing follows writes nothing
        return TextAttention(
            source=looked_at[seen],
            target=written,
            layers=[each.name for each in shown],
            weights=[each.values[:, : len(written), seen] for each in shown],
            page=page,
        )

    @property
    def matrix(self) -> NDArray[np.float32]:
        """One matrix for a first look: the mean over the heads of the last layer."""
        if not self.weights:
            return np.zeros((len(self.target), len(self.source)), dtype=np.float32)
        return self.weights[-1].mean(axis=0)

    def _repr_html_(self) -> str:
        return self.page() if self.page else self.html()

    def html(self) -> str:
        """A table for notebooks: darker cells were looked at more."""
        head = "".join(f"<th>{html.escape(piece)}</th>" for piece in self.source)
        rows = "".join(
            f"<tr><th>{html.escape(piece)}</th>{''.join(map(_cell, row))}</tr>"
            for piece, row in zip(self.target, self.matrix, strict=True)
        )
        return f"<table><tr><th></th>{head}</tr>{rows}</table>"


def _cell(weight: float) -> str:
    return f'<td style="background:rgba(31,119,180,{weight:.2f})" title="{weight:.3f}">&nbsp;</td>'
