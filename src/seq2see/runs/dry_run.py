"""A dry run: the model, the first example of a batch as the model receives it, and the expected training time."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from seq2see.runs.prepare import prepare
from seq2see.runs.train import batches, count_weights, new_trainer
from seq2see.tasks.model_folder import Recipe
from seq2see.tasks.task import task_of

TIMED_STEPS = 3


def dry_run(recipe: Recipe, log: Callable[[str], None]) -> None:
    """Log the data and the model, time a few training steps, and store nothing."""
    prepared = prepare(recipe, log)
    task = task_of(recipe)
    task.check_dataset(recipe, prepared.train)
    if task.count(recipe, prepared.train, prepared.valid) is not None:
        log(f"model  {task.describe(recipe, torch.nn.Module(), prepared.train)}")
        return
    trainer = new_trainer(recipe, prepared)
    for name, part in trainer.model.named_children():
        log(f"part   {name:<8} {type(part).__name__:<20} {count_weights(part):>12,} weights")
    log(f"model  {count_weights(trainer.model):,} weights in total (tied weights counted once)")
    batch_at = batches(recipe, prepared)
    batch = batch_at(1)
    inputs = {"source": batch.source, "target": batch.target}
    shapes = [f"{name} {tuple(each.values.shape)}" for name, each in inputs.items() if each is not None]
    log(f"batch  {', '.join(shapes)}; first row:")
    for name, values in task.first_row(batch, prepared.tokenizers):
        log(f"  {name:<15}{values}")
    trainer.train_step(batch)
    start = time.monotonic()
    for step in range(2, 2 + TIMED_STEPS):
        trainer.train_step(batch_at(step))
    seconds = (time.monotonic() - start) / TIMED_STEPS
    log(f"time   about {seconds * recipe.training.steps / 60:.1f} minutes for {recipe.training.steps:,} steps here")
