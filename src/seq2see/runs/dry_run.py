"""A dry run: what would be trained, a batch as the model sees it, and about how long it would take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from seq2see.core.batch import Batch, Images
from seq2see.models.ngram_lm import NgramSettings
from seq2see.runs.model_tokenizers import Tokenizers
from seq2see.runs.ngram_training import check_ngram_text
from seq2see.runs.prepare import prepare
from seq2see.runs.recipe import Recipe
from seq2see.runs.train import batches, count_weights, new_trainer
from seq2see.sequences.windows import TextDataset

TIMED_STEPS = 3


def dry_run(recipe: Recipe, log: Callable[[str], None]) -> None:
    """Say everything a training would begin with, take a few steps to time them, and keep nothing."""
    prepared = prepare(recipe, log)
    if isinstance(recipe.decoder, NgramSettings):
        assert isinstance(prepared.train, TextDataset)
        check_ngram_text(prepared.train, recipe.decoder.order)
        tokens, order = len(prepared.train.ids), recipe.decoder.order
        log(f"model  counting: {tokens:,} {prepared.train.unit}s would be counted in n-grams of 1 to {order}")
        return
    trainer = new_trainer(recipe, prepared)
    for name, part in trainer.model.named_children():
        log(f"part   {name:<8} {type(part).__name__:<20} {count_weights(part):>12,} weights")
    log(f"model  {count_weights(trainer.model):,} weights in all (a shared one once)")
    batch_at = batches(recipe, prepared)
    batch = batch_at(1)
    sides = {"source": batch.source, "target": batch.target}
    shapes = [f"{name} {tuple(side.values.shape)}" for name, side in sides.items() if side is not None]
    log(f"batch  {', '.join(shapes)}; its first row:")
    for line in _first_row(batch, prepared.tokenizers):
        log(f"  {line}")
    trainer.train_step(batch)
    began = time.monotonic()
    for step in range(2, 2 + TIMED_STEPS):
        trainer.train_step(batch_at(step))
    seconds = (time.monotonic() - began) / TIMED_STEPS
    log(f"time   about {seconds * recipe.training.steps / 60:.1f} minutes for {recipe.training.steps:,} steps here")


def _first_row(batch: Batch, tokenizers: Tokenizers) -> Iterator[str]:
    """What a model sees of one example, and what it shall answer."""
    if isinstance(batch.source, Images):
        *frames, channels, height, width = batch.source.values[0].shape
        video = f"{frames[0]} frames of " if frames else ""
        yield f"sees    {video}{height} x {width} pixels of {channels} numbers each"
    elif batch.source is not None:
        read = batch.source.values[0, : int(batch.source.lengths[0])]
        yield f"reads   {' '.join(tokenizers.source.tokens(read.tolist()))}"
    if batch.target is None:
        asked = batch.labels[0][batch.label_mask[0]].tolist()
        names = [tokenizers.labels[each] for each in asked] if tokenizers.labels else tokenizers.target.tokens(asked)
        yield f"answers {' '.join(names)}"
        return
    longest = int(batch.target.lengths[0])
    yield f"is fed  {' '.join(tokenizers.target.tokens(batch.target.values[0, :longest].tolist()))}"
    yield f"answers {' '.join(tokenizers.target.tokens(batch.labels[0, :longest].tolist()))}"
