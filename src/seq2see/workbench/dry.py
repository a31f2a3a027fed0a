"""A dry run: what would be trained, a batch as the model sees it, and about how long it would take."""

from __future__ import annotations

import time
from collections.abc import Callable

from seq2see.workbench.prepare import prepare
from seq2see.workbench.recipe import Recipe
from seq2see.workbench.train import batches, count_weights, new_trainer

TIMED_STEPS = 3


def dry_run(recipe: Recipe, say: Callable[[str], None]) -> None:
    """Say everything a training would begin with, take a few steps to time them, and keep nothing."""
    prepared = prepare(recipe, say)
    trainer = new_trainer(recipe, prepared)
    for name, part in trainer.model.named_children():
        say(f"part   {name:<8} {type(part).__name__:<20} {count_weights(part):>12,} weights")
    say(f"model  {count_weights(trainer.model):,} weights in all (a shared one once)")
    batch_at = batches(recipe, prepared)
    batch = batch_at(1)
    assert batch.source is not None
    assert batch.target is not None
    say(f"batch  source {tuple(batch.source.values.shape)}, target {tuple(batch.target.values.shape)}; its first row:")
    sides = prepared.tokenisers
    length, longest = int(batch.source.lengths[0]), int(batch.target.lengths[0])
    say(f"  reads   {' '.join(sides.source.pieces(batch.source.values[0, :length].tolist()))}")
    say(f"  is fed  {' '.join(sides.target.pieces(batch.target.values[0, :longest].tolist()))}")
    say(f"  answers {' '.join(sides.target.pieces(batch.labels[0, :longest].tolist()))}")
    trainer.advance(batch)
    began = time.monotonic()
    for step in range(2, 2 + TIMED_STEPS):
        trainer.advance(batch_at(step))
    seconds = (time.monotonic() - began) / TIMED_STEPS
    say(f"time   about {seconds * recipe.training.steps / 60:.1f} minutes for {recipe.training.steps:,} steps here")
