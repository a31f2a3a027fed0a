"""What is done every so often while a model trains: measure it, and let it show what it can."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import nn

from seq2see.core.batch import Sequences
from seq2see.core.files import write_text
from seq2see.decoding.choosers import Greedy
from seq2see.decoding.engine import decode
from seq2see.decoding.settings import limits_of
from seq2see.sequences.tokenisers import EOS
from seq2see.sources.examples import Example
from seq2see.training.journal import Journal
from seq2see.training.loop import Errand, Trainer
from seq2see.training.signals import Abandoned, StopRequest
from seq2see.workbench.prepare import Prepared
from seq2see.workbench.reading import read_with_truth
from seq2see.workbench.recipe import Recipe
from seq2see.workbench.run_folder import RunFolder

SHOWN = 8
"""Sentences that are shown at every evaluation."""


def measure(prepared: Prepared, journal: Journal, say: Callable[[str], None]) -> Errand:
    """Validation loss and accuracy, noted in the journal; they also decide when patience ends."""

    def errand(trainer: Trainer, stop: StopRequest) -> None:
        with trainer.averaged() as module:
            perplexity, accuracy = read_with_truth(module, prepared.valid, lambda: _heed(stop))
        loss = perplexity.loss / perplexity.count
        journal.note(trainer.step, valid_loss=loss, valid_accuracy=accuracy.value)
        trainer.judge(loss)
        say(f"step {trainer.step:>6,}   valid loss {loss:.4f}   right tokens {100 * accuracy.value:.1f} %")

    return errand


def show(recipe: Recipe, prepared: Prepared, run: RunFolder) -> Errand:
    """The same few validation sentences every time: source, reference, output."""
    examples = prepared.splits["valid"][:SHOWN]

    def errand(trainer: Trainer, stop: StopRequest) -> None:
        with trainer.averaged() as module:
            outputs = _translate(module, recipe, prepared, examples, stop)
        write_text(run.samples / f"step-{trainer.step:06d}.tsv", _sample_table(examples, outputs))

    return errand


def _translate(
    module: nn.Module, recipe: Recipe, prepared: Prepared, examples: Sequence[Example], stop: StopRequest
) -> list[str]:
    device = next(module.parameters()).device
    tokenisers, longest = prepared.tokenisers, recipe.source.longest
    ids = [[*tokenisers.source.encode(example.source)[:longest], EOS] for example in examples]
    limits = limits_of(recipe.decoding, lambda: bool(stop))
    answers = decode(module, Sequences.of(ids).to(device), Greedy(), limits)  # type: ignore[arg-type]
    _heed(stop)
    return [tokenisers.target.decode(answer[0].tokens) for answer in answers]


def _sample_table(examples: Sequence[Example], outputs: Sequence[str]) -> str:
    rows = [(each.source, each.target, output) for each, output in zip(examples, outputs, strict=True)]
    return "".join("\t".join(row) + "\n" for row in [("source", "reference", "output"), *rows])


def _heed(stop: StopRequest) -> None:
    if stop:
        raise Abandoned
