"""Callbacks that run at every evaluation during training: validation scores and sample outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from torch import nn

from seq2see.core.batch import Sequences
from seq2see.core.devices import device_of
from seq2see.core.files import write_text
from seq2see.data.examples import Example, ImageExamples
from seq2see.data.series_dataset import SeriesDataset
from seq2see.data.tokenizers.tokenizer import EOS
from seq2see.data.windows import TextDataset
from seq2see.decoding.engine import decode
from seq2see.decoding.samplers import GreedySampler
from seq2see.decoding.settings import make_limits, make_sampler
from seq2see.runs.model import open_model
from seq2see.runs.model_folder import ModelConfig, StoredModel
from seq2see.runs.prepare import PreparedData
from seq2see.runs.recipe import Recipe
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.tasks import task_of
from seq2see.runs.teacher_forcing import evaluate_series, evaluate_teacher_forced
from seq2see.training.loop import Callback, Trainer
from seq2see.training.metrics_logger import MetricsLogger
from seq2see.training.signals import CallbackAborted, StopRequest

SAMPLES = 8
"""The number of sample sentences at every evaluation."""

VALIDATION_STREAMS = 16
"""The number of parallel parts of the validation text for recurrent models during training, for speed."""


def validation_callback(prepared: PreparedData, metrics_logger: MetricsLogger, log: Callable[[str], None]) -> Callback:
    """Log validation loss and accuracy; the loss also decides early stopping."""

    def callback(trainer: Trainer, stop: StopRequest) -> None:
        with trainer.evaluation_model() as module:
            if isinstance(prepared.valid, SeriesDataset):
                loss, scores = evaluate_series(module, prepared.valid, lambda: _raise_if_stopped(stop)), {}
            else:
                perplexity, accuracy = evaluate_teacher_forced(
                    module, prepared.valid, lambda: _raise_if_stopped(stop), streams=VALIDATION_STREAMS
                )
                loss, scores = perplexity.loss / perplexity.count, {"valid_accuracy": accuracy.value}
        metrics_logger.log(trainer.step, valid_loss=loss, **scores)
        trainer.record_validation(loss)
        accuracy_text = "".join(f"   accuracy {100 * each:.1f} %" for each in scores.values())  # none for a series
        log(f"step {trainer.step:>6,}   valid loss {loss:.4f}{accuracy_text}")

    return callback


def sample_callback(recipe: Recipe, prepared: PreparedData, run: RunFolder) -> Callback:
    """Write the outputs for a few validation examples, the same at every evaluation."""

    def callback(trainer: Trainer, stop: StopRequest) -> None:
        with trainer.evaluation_model() as module:
            table = sample_table(module, recipe, prepared, stop)
        write_text(run.samples / f"step-{trainer.step:06d}.tsv", table)

    return callback


def sample_table(module: nn.Module, recipe: Recipe, prepared: PreparedData, stop: StopRequest) -> str:
    """A table of a few validation examples: source, reference, output."""
    valid = prepared.valid
    examples: Sequence[Example]
    if not recipe.generates:
        examples = task_of(recipe).sample_examples(valid, SAMPLES)
    else:
        examples = _prompts(valid) if isinstance(valid, TextDataset) else prepared.splits["valid"][:SAMPLES]
    return _as_table(examples, _generate(module, recipe, prepared, examples, stop))


def _prompts(texts: TextDataset) -> list[Example]:
    """The first halves of validation windows as prompts, and the second halves as references."""
    half, width = texts.width // 2, texts.width
    windows = [texts.ids[start : start + width].tolist() for start in texts.starts[:SAMPLES]]
    decode_ids = texts.tokenizer.decode
    return [Example(decode_ids(ids[:half]), decode_ids(ids[half:])) for ids in windows]


def _generate(
    module: nn.Module, recipe: Recipe, prepared: PreparedData, examples: Sequence[Example], stop: StopRequest
) -> list[str]:
    device, tokenizers = device_of(module), prepared.tokenizers
    if not recipe.generates or isinstance(examples, ImageExamples):
        stored = StoredModel(ModelConfig.of(recipe, 0), module, tokenizers)  # type: ignore[arg-type]
        inputs = list(examples.pixels) if isinstance(examples, ImageExamples) else [each.source for each in examples]
        return [each.text for each in open_model(stored).predict(inputs)]
    ids = [tokenizers.source.encode(example.source) for example in examples]
    limits = make_limits(recipe.decoding, lambda: bool(stop))
    if recipe.source is None:
        prompts = Sequences.of(ids).to(device)
        limits = replace(limits, max_new_tokens=min(limits.max_new_tokens, recipe.model.max_prompt_tokens))
        results = decode(module, None, make_sampler(recipe.decoding, seed=1), limits, prefix=prompts)  # type: ignore[arg-type]
        outputs = [each[0].tokens[len(prompt) :] for each, prompt in zip(results, ids, strict=True)]
    else:
        sources = Sequences.of([[*row[: recipe.source_text.max_tokens], EOS] for row in ids]).to(device)
        outputs = [each[0].tokens for each in decode(module, sources, GreedySampler(), limits)]  # type: ignore[arg-type]
    _raise_if_stopped(stop)
    return [tokenizers.target.decode(tokens) for tokens in outputs]


def _as_table(examples: Sequence[Example], outputs: Sequence[str]) -> str:
    rows = [(each.source, each.target, output) for each, output in zip(examples, outputs, strict=True)]
    return "".join("\t".join(map(_one_line, row)) + "\n" for row in [("source", "reference", "output"), *rows])


def _one_line(text: str) -> str:
    return text.replace("\t", "⇥").replace("\n", "⏎").replace("\r", "⏎")


def _raise_if_stopped(stop: StopRequest) -> None:
    if stop:
        raise CallbackAborted
