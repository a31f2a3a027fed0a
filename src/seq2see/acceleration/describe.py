"""Which layer of a model runs on what, and why: the table that `seq2see explain` prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from torch import nn

from seq2see.acceleration.swaps import PARTS, SWAPS, Conditions, accelerate, restore
from seq2see.core.plain_class import plain_class


@dataclass(frozen=True)
class DescriptionRow:
    """One kind of layer, or one part of a training step."""

    name: str
    """The name of the swap; empty for layers that have no faster form here."""
    plain: str
    """The definition, and how many modules have it."""
    fast: str
    """What computes it; empty if the definition runs itself."""
    where: str
    """The conditions under which a faster form applies."""
    test: str
    """The test that compares both."""


def describe(model: nn.Module, conditions: Conditions, unused: Collection[str] = ()) -> list[DescriptionRow]:
    """A row for each kind of layer with a faster form, and in training for each other part of a step.

    `unused` names parts that this training does not have.
    """
    accelerate(model, conditions)
    running = Counter((plain_class(each), type(each)) for each in model.modules())
    rows = []
    for swap in SWAPS:
        for plain, fast in swap.classes.items():
            counts = {runs: count for (definition, runs), count in running.items() if definition is plain}
            if not counts:
                continue
            label = f"{plain.__name__} × {sum(counts.values())}"
            rows.append(
                DescriptionRow(swap.name, label, fast.__name__ if fast in counts else "", swap.where, swap.test)
            )
    restore(model)
    for part in (each for each in PARTS if conditions.training and each.name not in unused):
        fast_form = part.fast if part.applies(conditions) else ""
        rows.append(DescriptionRow(part.name, part.plain, fast_form, part.where, part.test))
    return rows
