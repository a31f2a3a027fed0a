"""Training of n-gram models: counting in one pass over the text instead of gradient steps.

A training step counts one order: first unigrams, then bigrams, and so on. After each step the validation perplexity of
the model of that order is logged. Counting takes seconds, so an interrupted run starts again from the beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from seq2see.core.devices import pick_device
from seq2see.core.errors import UserError
from seq2see.core.files import write_json, write_text
from seq2see.data.ngrams import NgramCounts, count_ngrams
from seq2see.data.windows import TextDataset
from seq2see.models.build import build_generative_model
from seq2see.models.language_model import LanguageModel
from seq2see.models.ngram_lm import NgramDecoder, NgramSettings
from seq2see.runs.callbacks import sample_table
from seq2see.runs.listeners import ProgressListener
from seq2see.runs.model_folder import ModelConfig, StoredModel, write_model
from seq2see.runs.prepare import PreparedData
from seq2see.runs.recipe import Recipe
from seq2see.runs.run_folder import RunFolder
from seq2see.training.metrics_logger import MetricsLogger
from seq2see.training.ngram_smoothing import SMOOTHINGS, load_levels
from seq2see.training.signals import Interrupted, StopRequest

DRAWN = 3
"""The number of orders in the rank-frequency plot."""


def train_ngram_model(recipe: Recipe, prepared: PreparedData, run: RunFolder, listener: ProgressListener) -> None:
    """Count the n-grams of the training text, order by order, and write the model of the highest order."""
    texts, held_out = prepared.train, prepared.valid
    assert isinstance(texts, TextDataset)
    assert isinstance(held_out, TextDataset)
    settings = _settings(recipe)
    listener.log(f"model  n-grams of 1 to {settings.order} tokens, smoothing {settings.smoothing}")
    metrics_logger, ngrams = MetricsLogger(run.path, 0), list[NgramCounts]()
    with StopRequest() as stop:
        for each in count_ngrams(texts.ids, len(texts.tokenizer), settings.order):
            ngrams.append(each)
            module = ngram_model(recipe, ngrams)
            valid = ngram_loss(module.decoder, held_out, ngrams[0])
            metrics = {"ngrams": int(np.count_nonzero(each.counts)), "valid_loss": valid.loss}
            metrics["unseen_ngrams"] = valid.unseen
            metrics_logger.log(each.order, **metrics, tokens=len(texts.ids))
            metrics_logger.flush(each.order)
            listener.step(each.order, {"tokens": len(texts.ids), "loss": valid.loss})
            listener.log(
                f"order {each.order}   {metrics['ngrams']:>9,} distinct n-grams   valid perplexity "
                f"{np.exp(valid.loss):.2f} per {held_out.unit}   unseen {valid.unseen:.1%}"
            )
            if stop:
                raise Interrupted(stop.number, each.order)
    samples = sample_table(module, recipe, prepared, StopRequest())
    write_text(run.samples / f"step-{settings.order:06d}.tsv", samples)
    write_json(run.path / "zipf.json", {str(each.order): frequencies(each) for each in ngrams[:DRAWN]})
    config = ModelConfig(name=recipe.name, step=settings.order, model=recipe.model, decoding=recipe.decoding)
    write_model(run.model, StoredModel(config, module, prepared.tokenizers))


def check_ngram_text(texts: TextDataset, order: int) -> None:
    """Raise an error for a text that is too short or has only one token type."""
    if len(texts.ids) < order:
        raise UserError(
            f"The training text has {len(texts.ids)} {texts.unit}s: too few for n-grams of {order}.",
            location=texts.location,
            hint="Provide a longer text, or reduce decoder.order.",
        )
    if len(np.unique(texts.ids)) < 2:
        (token,) = texts.tokenizer.tokens(texts.ids[:1].tolist())
        raise UserError(
            f"The text consists only of '{token}', so there is nothing to predict.",
            location=texts.location,
            hint="Provide another text, or set another target.tokenizer.",
        )


def ngram_model(recipe: Recipe, ngrams: Sequence[NgramCounts]) -> LanguageModel:
    """The model whose order is the number of these counts."""
    vocab_size = ngrams[0].vocab_size
    module = build_generative_model(recipe.model.with_(**{"decoder.order": len(ngrams)}), vocab_size, vocab_size)
    load_levels(module.decoder, SMOOTHINGS[_settings(recipe).smoothing]().levels(ngrams))
    return module.to(pick_device()).eval()


@dataclass(frozen=True)
class NgramLoss:
    """The evaluation of an n-gram model on held-out text."""

    loss: float
    """Mean negative log-likelihood of a token, in nats."""
    unseen: float
    """The fraction of its n-grams, of the model's order, that are not in the training text."""


@torch.inference_mode()
def ngram_loss(decoder: NgramDecoder, texts: TextDataset, unigrams: NgramCounts) -> NgramLoss:
    """Evaluate a model on a text, from its beginning to its end; `unigrams` are the training counts of order 1."""
    ids = torch.from_numpy(texts.ids.astype(np.int64)).to(decoder.unigrams.device)
    probabilities, lengths = decoder.score_text(ids)
    seen_lengths = np.where(unigrams.counts[texts.ids] > 0, lengths.cpu().numpy(), 0)
    return NgramLoss(float(-probabilities.double().log().mean()), float(np.mean(seen_lengths < decoder.order)))


def frequencies(ngrams: NgramCounts) -> dict[str, list[int]]:
    """The frequencies of frequencies of an order: each count, and the number of n-grams that have it."""
    counts, numbers = np.unique(ngrams.counts[ngrams.counts > 0], return_counts=True)
    return {"counts": counts[::-1].tolist(), "frequencies": numbers[::-1].tolist()}


def _settings(recipe: Recipe) -> NgramSettings:
    assert isinstance(recipe.decoder, NgramSettings)
    return recipe.decoder
