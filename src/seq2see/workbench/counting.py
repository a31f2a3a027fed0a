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
from seq2see.models.build import build_writer
from seq2see.models.counting import CountingDecoder, CountingSettings
from seq2see.models.language_model import LanguageModel
from seq2see.sequences.ngrams import Grams, count_ngrams
from seq2see.sequences.windows import TextSet
from seq2see.training.journal import Journal
from seq2see.training.signals import Interrupted, StopRequest
from seq2see.training.smoothing import SMOOTHINGS, put_levels
from seq2see.workbench.audience import Audience
from seq2see.workbench.errands import sample_table
from seq2see.workbench.model_folder import ModelConfig, StoredModel, write_model
from seq2see.workbench.prepare import Prepared
from seq2see.workbench.recipe import Recipe
from seq2see.workbench.run_folder import RunFolder

DRAWN = 3
"""Orders whose counts are drawn by rank."""


def count_recipe(recipe: Recipe, prepared: Prepared, run: RunFolder, audience: Audience) -> None:
    """Count the training text, order by order, and write the model of the highest."""
    texts, held_out = prepared.train, prepared.valid
    assert isinstance(texts, TextSet)
    assert isinstance(held_out, TextSet)
    settings = _settings(recipe)
    audience.say(f"model  counting, n-grams of 1 to {settings.order} tokens, smoothed by {settings.smoothing}")
    journal, grams = Journal(run.path, 0), list[Grams]()
    with StopRequest() as stop:
        for each in count_ngrams(texts.ids, len(texts.tokeniser), settings.order):
            grams.append(each)
            module = model_of(recipe, grams)
            found = surprise(module.decoder, held_out, grams[0])
            figures = {"grams": int(np.count_nonzero(each.counts)), "valid_loss": found.loss, "unseen": found.unseen}
            journal.note(each.order, **figures, tokens=len(texts.ids))
            journal.flush(each.order)
            audience.step(each.order, {"tokens": len(texts.ids), "loss": found.loss})
            audience.say(
                f"order {each.order}   {figures['grams']:>9,} kinds of n-grams   valid perplexity "
                f"{np.exp(found.loss):.2f} per {held_out.unit}   unseen {found.unseen:.1%}"
            )
            if stop:
                raise Interrupted(stop.number, each.order)
    samples = sample_table(module, recipe, prepared, StopRequest())
    write_text(run.samples / f"step-{settings.order:06d}.tsv", samples)
    write_json(run.path / "zipf.json", {str(each.order): frequencies(each) for each in grams[:DRAWN]})
    config = ModelConfig(name=recipe.name, step=settings.order, model=recipe.model, decoding=recipe.decoding)
    write_model(run.model, StoredModel(config, module, prepared.tokenisers))


def check_countable(texts: TextSet, order: int) -> None:
    """Refuse a text in which there is nothing to count."""
    if len(texts.ids) < order:
        raise UserError(
            f"The text to learn from has {len(texts.ids)} {texts.unit}s: too few for n-grams of {order}.",
            where=texts.where,
            remedy="Give a longer text, or set decoder.order to less.",
        )
    if len(np.unique(texts.ids)) < 2:
        (only,) = texts.tokeniser.pieces(texts.ids[:1].tolist())
        raise UserError(
            f"The text consists of nothing but '{only}': there is nothing to guess.",
            where=texts.where,
            remedy="Give another text, or another target.tokeniser.",
        )


def model_of(recipe: Recipe, grams: Sequence[Grams]) -> LanguageModel:
    """The model whose longest n-grams are the last of these."""
    vocabulary = grams[0].vocabulary
    module = build_writer(recipe.model.with_(**{"decoder.order": len(grams)}), vocabulary, vocabulary)
    put_levels(module.decoder, SMOOTHINGS[_settings(recipe).smoothing]().levels(grams))
    return module.to(pick_device()).eval()


@dataclass(frozen=True)
class Surprise:
    """How a text that was not counted looks to a model."""

    loss: float
    """Mean negative log-likelihood of a token, in nats."""
    unseen: float
    """The share of its n-grams, of the model's order, that the training text has not got."""


@torch.inference_mode()
def surprise(decoder: CountingDecoder, texts: TextSet, single: Grams) -> Surprise:
    """How well a model guesses a text, read from its beginning to its end; `single` are the tokens it has counted."""
    ids = torch.from_numpy(texts.ids.astype(np.int64)).to(decoder.single.device)
    probabilities, lengths = decoder.told(ids)
    known = np.where(single.counts[texts.ids] > 0, lengths.cpu().numpy(), 0)
    return Surprise(float(-probabilities.double().log().mean()), float(np.mean(known < decoder.order)))


def frequencies(grams: Grams) -> dict[str, list[int]]:
    """How often the n-grams of an order were counted: each count there is, and how many have it."""
    counts, times = np.unique(grams.counts[grams.counts > 0], return_counts=True)
    return {"counts": counts[::-1].tolist(), "times": times[::-1].tolist()}


def _settings(recipe: Recipe) -> CountingSettings:
    assert isinstance(recipe.decoder, CountingSettings)
    return recipe.decoder
