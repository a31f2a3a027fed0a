"""A dry run: what would be trained, a batch as the model sees it, and about how long it would take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from seq2see.core.batch import Batch, Pictures
from seq2see.models.counting import CountingSettings
from seq2see.sequences.windows import TextSet
from seq2see.workbench.counting import check_countable
from seq2see.workbench.prepare import prepare
from seq2see.workbench.recipe import Recipe
from seq2see.workbench.tokenisers import Tokenisers
from seq2see.workbench.train import batches, count_weights, new_trainer

TIMED_STEPS = 3


def dry_run(recipe: Recipe, say: Callable[[str], None]) -> None:
    """Say everything a training would begin with, take a few steps to time them, and keep nothing."""
    prepared = prepare(recipe, say)
    if isinstance(recipe.decoder, CountingSettings):
        assert isinstance(prepared.train, TextSet)
        check_countable(prepared.train, recipe.decoder.order)
        tokens, order = len(prepared.train.ids), recipe.decoder.order
        say(f"model  counting: {tokens:,} {prepared.train.unit}s would be counted in n-grams of 1 to {order}")
        return
    trainer = new_trainer(recipe, prepared)
    for name, part in trainer.model.named_children():
        say(f"part   {name:<8} {type(part).__name__:<20} {count_weights(part):>12,} weights")
    say(f"model  {count_weights(trainer.model):,} weights in all (a shared one once)")
    batch_at = batches(recipe, prepared)
    batch = batch_at(1)
    sides = {"source": batch.source, "target": batch.target}
    shapes = [f"{name} {tuple(side.values.shape)}" for name, side in sides.items() if side is not None]
    say(f"batch  {', '.join(shapes)}; its first row:")
    for line in _first_row(batch, prepared.tokenisers):
        say(f"  {line}")
    trainer.advance(batch)
    began = time.monotonic()
    for step in range(2, 2 + TIMED_STEPS):
        trainer.advance(batch_at(step))
    seconds = (time.monotonic() - began) / TIMED_STEPS
    say(f"time   about {seconds * recipe.training.steps / 60:.1f} minutes for {recipe.training.steps:,} steps here")


def _first_row(batch: Batch, tokenisers: Tokenisers) -> Iterator[str]:
    """What a model sees of one example, and what it shall answer."""
    if isinstance(batch.source, Pictures):
        *frames, channels, height, width = batch.source.values[0].shape
        film = f"{frames[0]} frames of " if frames else ""
        yield f"sees    {film}{height} x {width} pixels of {channels} numbers each"
    elif batch.source is not None:
        read = batch.source.values[0, : int(batch.source.lengths[0])]
        yield f"reads   {' '.join(tokenisers.source.pieces(read.tolist()))}"
    if batch.target is None:
        asked = batch.labels[0][batch.asked[0]].tolist()
        names = [tokenisers.labels[each] for each in asked] if tokenisers.labels else tokenisers.target.pieces(asked)
        yield f"answers {' '.join(names)}"
        return
    longest = int(batch.target.lengths[0])
    yield f"is fed  {' '.join(tokenisers.target.pieces(batch.target.values[0, :longest].tolist()))}"
    yield f"answers {' '.join(tokenisers.target.pieces(batch.labels[0, :longest].tolist()))}"
