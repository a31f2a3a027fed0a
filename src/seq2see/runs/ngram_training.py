"""Training by counting: one pass over the text instead of thousands of steps.

What other models learn step by step lies open here: a step is an order. First single tokens are counted, then
pairs, and so on, and after each it is told how well the model of that order guesses the validation text. To count
takes seconds, so a run that was stopped begins again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from seq2see.core.devices import pick_device
from seq2see.core.errors import UserError
from seq2see.core.files import write_json, write_text
from seq2see.models.build import build_generative_model
from seq2see.models.language_model import LanguageModel
from seq2see.models.ngram_lm import NgramDecoder, NgramSettings
from seq2see.runs.callbacks import sample_table
from seq2see.runs.listeners import ProgressListener
from seq2see.runs.model_folder import ModelConfig, StoredModel, write_model
from seq2see.runs.prepare import PreparedData
from seq2see.runs.recipe import Recipe
from seq2see.runs.run_folder import RunFolder
from seq2see.sequences.ngrams import NgramCounts, count_ngrams
from seq2see.sequences.windows import TextDataset
from seq2see.training.metrics_logger import MetricsLogger
from seq2see.training.ngram_smoothing import SMOOTHINGS, load_levels
from seq2see.training.signals import Interrupted, StopRequest

DRAWN = 3
"""Orders whose counts are drawn by rank."""


def train_ngram_model(recipe: Recipe, prepared: PreparedData, run: RunFolder, listener: ProgressListener) -> None:
    """Count the training text, order by order, and write the model of the highest."""
    texts, held_out = prepared.train, prepared.valid
    assert isinstance(texts, TextDataset)
    assert isinstance(held_out, TextDataset)
    settings = _settings(recipe)
    listener.log(f"model  counting, n-grams of 1 to {settings.order} tokens, smoothed by {settings.smoothing}")
    metrics_logger, ngrams = MetricsLogger(run.path, 0), list[NgramCounts]()
    with StopRequest() as stop:
        for each in count_ngrams(texts.ids, len(texts.tokenizer), settings.order):
            ngrams.append(each)
            module = ngram_model(recipe, ngrams)
            found = ngram_loss(module.decoder, held_out, ngrams[0])
            figures = {"ngrams": int(np.count_nonzero(each.counts)), "valid_loss": found.loss, "unseen_ngrams": found.unseen}
            metrics_logger.log(each.order, **figures, tokens=len(texts.ids))
            metrics_logger.flush(each.order)
            listener.step(each.order, {"tokens": len(texts.ids), "loss": found.loss})
            listener.log(
                f"order {each.order}   {figures['ngrams']:>9,} kinds of n-grams   valid perplexity "
                f"{np.exp(found.loss):.2f} per {held_out.unit}   unseen {found.unseen:.1%}"
            )
            if stop:
                raise Interrupted(stop.number, each.order)
    samples = sample_table(module, recipe, prepared, StopRequest())
    write_text(run.samples / f"step-{settings.order:06d}.tsv", samples)
    write_json(run.path / "zipf.json", {str(each.order): frequencies(each) for each in ngrams[:DRAWN]})
    config = ModelConfig(name=recipe.name, step=settings.order, model=recipe.model, decoding=recipe.decoding)
    write_model(run.model, StoredModel(config, module, prepared.tokenizers))


def check_ngram_text(texts: TextDataset, order: int) -> None:
    """Refuse a text in which there is nothing to count."""
    if len(texts.ids) < order:
        raise UserError(
            f"The text to learn from has {len(texts.ids)} {texts.unit}s: too few for n-grams of {order}.",
            location=texts.location,
            hint="Give a longer text, or set decoder.order to less.",
        )
    if len(np.unique(texts.ids)) < 2:
        (only,) = texts.tokenizer.tokens(texts.ids[:1].tolist())
        raise UserError(
            f"The text consists of nothing but '{only}': there is nothing to guess.",
            location=texts.location,
            hint="Give another text, or another target.tokenizer.",
        )


def ngram_model(recipe: Recipe, ngrams: Sequence[NgramCounts]) -> LanguageModel:
    """The model whose longest n-grams are the last of these."""
    vocab_size = ngrams[0].vocab_size
    module = build_generative_model(recipe.model.with_(**{"decoder.order": len(ngrams)}), vocab_size, vocab_size)
    load_levels(module.decoder, SMOOTHINGS[_settings(recipe).smoothing]().levels(ngrams))
    return module.to(pick_device()).eval()


@dataclass(frozen=True)
class NgramLoss:
    """How a text that was not counted looks to a model."""

    loss: float
    """Mean negative log-likelihood of a token, in nats."""
    unseen: float
    """The share of its n-grams, of the model's order, that the training text has not got."""


@torch.inference_mode()
def ngram_loss(decoder: NgramDecoder, texts: TextDataset, single: NgramCounts) -> NgramLoss:
    """How well a model guesses a text, read from its beginning to its end; `single` are the tokens it has counted."""
    ids = torch.from_numpy(texts.ids.astype(np.int64)).to(decoder.unigrams.device)
    probabilities, lengths = decoder.score_text(ids)
    known = np.where(single.counts[texts.ids] > 0, lengths.cpu().numpy(), 0)
    return NgramLoss(float(-probabilities.double().log().mean()), float(np.mean(known < decoder.order)))


def frequencies(ngrams: NgramCounts) -> dict[str, list[int]]:
    """How often the n-grams of an order were counted: each count there is, and how many have it."""
    counts, times = np.unique(ngrams.counts[ngrams.counts > 0], return_counts=True)
    return {"counts": counts[::-1].tolist(), "frequencies": times[::-1].tolist()}


def _settings(recipe: Recipe) -> NgramSettings:
    assert isinstance(recipe.decoder, NgramSettings)
    return recipe.decoder
