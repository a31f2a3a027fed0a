"""What is done every so often while a model trains: measure it, and let it show what it can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from torch import nn

from seq2see.core.batch import Sequences
from seq2see.core.devices import device_of
from seq2see.core.files import write_text
from seq2see.decoding.choosers import Greedy
from seq2see.decoding.engine import decode
from seq2see.decoding.settings import chooser_of, limits_of
from seq2see.sequences.series import SeriesSet
from seq2see.sequences.tokenisers import EOS
from seq2see.sequences.windows import TextSet
from seq2see.sources.examples import Example
from seq2see.sources.picture_examples import PictureExamples
from seq2see.training.journal import Journal
from seq2see.training.loop import Errand, Trainer
from seq2see.training.signals import Abandoned, StopRequest
from seq2see.workbench.model_folder import ModelConfig, StoredModel
from seq2see.workbench.predict import opened
from seq2see.workbench.prepare import Prepared
from seq2see.workbench.reading import read_series, read_with_truth
from seq2see.workbench.recipe import Recipe
from seq2see.workbench.run_folder import RunFolder
from seq2see.workbench.tasks import task_of

SHOWN = 8
"""Sentences that are shown at every evaluation."""

STREAMS = 16
"""Places at which a recurrent model begins to read the validation text, while it trains: so it is done sooner."""


def measure(prepared: Prepared, journal: Journal, say: Callable[[str], None]) -> Errand:
    """Validation loss and accuracy, noted in the journal; they also decide when patience ends."""

    def errand(trainer: Trainer, stop: StopRequest) -> None:
        with trainer.averaged() as module:
            if isinstance(prepared.valid, SeriesSet):
                loss, more = read_series(module, prepared.valid, lambda: _heed(stop)), {}
            else:
                perplexity, accuracy = read_with_truth(module, prepared.valid, lambda: _heed(stop), streams=STREAMS)
                loss, more = perplexity.loss / perplexity.count, {"valid_accuracy": accuracy.value}
        journal.note(trainer.step, valid_loss=loss, **more)
        trainer.judge(loss)
        right = "".join(f"   right {100 * share:.1f} %" for share in more.values())  # a number is never quite right
        say(f"step {trainer.step:>6,}   valid loss {loss:.4f}{right}")

    return errand


def show(recipe: Recipe, prepared: Prepared, run: RunFolder) -> Errand:
    """The same few validation sentences every time."""

    def errand(trainer: Trainer, stop: StopRequest) -> None:
        with trainer.averaged() as module:
            table = sample_table(module, recipe, prepared, stop)
        write_text(run.samples / f"step-{trainer.step:06d}.tsv", table)

    return errand


def sample_table(module: nn.Module, recipe: Recipe, prepared: Prepared, stop: StopRequest) -> str:
    """A few validation sentences: source, reference, output."""
    valid = prepared.valid
    examples: Sequence[Example]
    if not recipe.writes:
        examples = task_of(recipe).shown(valid, SHOWN)
    else:
        examples = _beginnings(valid) if isinstance(valid, TextSet) else prepared.splits["valid"][:SHOWN]
    return _as_table(examples, _answers(module, recipe, prepared, examples, stop))


def _beginnings(texts: TextSet) -> list[Example]:
    """Beginnings of windows to go on from, and how each really goes on."""
    half, width = texts.width // 2, texts.width
    windows = [texts.ids[start : start + width].tolist() for start in texts.starts[:SHOWN]]
    decode_ids = texts.tokeniser.decode
    return [Example(decode_ids(ids[:half]), decode_ids(ids[half:])) for ids in windows]


def _answers(
    module: nn.Module, recipe: Recipe, prepared: Prepared, examples: Sequence[Example], stop: StopRequest
) -> list[str]:
    device, tokenisers = device_of(module), prepared.tokenisers
    if not recipe.writes or isinstance(examples, PictureExamples):
        stored = StoredModel(ModelConfig.of(recipe, 0), module, tokenisers)  # type: ignore[arg-type]
        asked = list(examples.pixels) if isinstance(examples, PictureExamples) else [each.source for each in examples]
        return [each.text for each in opened(stored).predict(asked)]
    ids = [tokenisers.source.encode(example.source) for example in examples]
    limits = limits_of(recipe.decoding, lambda: bool(stop))
    if recipe.source is None:
        prompts = Sequences.of(ids).to(device)
        limits = replace(limits, max_new_tokens=min(limits.max_new_tokens, recipe.model.sight))
        answers = decode(module, None, chooser_of(recipe.decoding, seed=1), limits, prefix=prompts)  # type: ignore[arg-type]
        said = [answer[0].tokens[len(prompt) :] for answer, prompt in zip(answers, ids, strict=True)]
    else:
        sources = Sequences.of([[*row[: recipe.read.longest], EOS] for row in ids]).to(device)
        said = [answer[0].tokens for answer in decode(module, sources, Greedy(), limits)]  # type: ignore[arg-type]
    _heed(stop)
    return [tokenisers.target.decode(tokens) for tokens in said]


def _as_table(examples: Sequence[Example], outputs: Sequence[str]) -> str:
    rows = [(each.source, each.target, output) for each, output in zip(examples, outputs, strict=True)]
    return "".join("\t".join(map(_one_line, row)) + "\n" for row in [("source", "reference", "output"), *rows])


def _one_line(text: str) -> str:
    return text.replace("\t", "⇥").replace("\n", "⏎").replace("\r", "⏎")


def _heed(stop: StopRequest) -> None:
    if stop:
        raise Abandoned
