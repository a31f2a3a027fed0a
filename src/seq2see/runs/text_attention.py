"""The attention weights of one example as plain data."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from seq2see.inspection.record import ActivationRecord


@dataclass(frozen=True)
class TextAttention:
    """The source and target tokens, and for each layer the weights (head, target token, source token)."""

    source: list[str]
    target: list[str]
    layers: list[str]
    weights: list[NDArray[np.float32]]
    page: Callable[[], str] | None = field(default=None, compare=False, repr=False)
    """Renders an interactive page for notebooks, if available."""

    @staticmethod
    def of(record: ActivationRecord, page: Callable[[], str] | None = None) -> TextAttention:
        """The cross-attention of a record with source and target, otherwise the self-attention."""
        is_cross = "source" in record.tokens and "target" in record.tokens
        layers = [each for each in record.of("attention") if each.is_cross_attention == is_cross]
        layers = [each for each in layers if each.side != "pooled"]
        keys = record.tokens["source" if "source" in record.tokens else "target"]
        queries = record.tokens.get("labels", keys)
        used = slice(None) if is_cross else slice(len(queries))  # the last token of running text has no label
        return TextAttention(
            source=keys[used],
            target=queries,
            layers=[each.name for each in layers],
            weights=[each.values[:, : len(queries), used] for each in layers],
            page=page,
        )

    @property
    def matrix(self) -> NDArray[np.float32]:
        """(target, source): the mean of the heads of the last layer."""
        if not self.weights:
            return np.zeros((len(self.target), len(self.source)), dtype=np.float32)
        return self.weights[-1].mean(axis=0)

    def _repr_html_(self) -> str:
        return self.page() if self.page else self.html()

    def html(self) -> str:
        """A table for notebooks: darker cells have more attention."""
        header = "".join(f"<th>{html.escape(token)}</th>" for token in self.source)
        rows = "".join(
            f"<tr><th>{html.escape(token)}</th>{''.join(map(_cell, row))}</tr>"
            for token, row in zip(self.target, self.matrix, strict=True)
        )
        return f"<table><tr><th></th>{header}</tr>{rows}</table>"


def _cell(weight: float) -> str:
    return f'<td style="background:rgba(31,119,180,{weight:.2f})" title="{weight:.3f}">&nbsp;</td>'
