"""ngram: continue a text by counts of n-grams (Shannon 1948; Kneser & Ney 1995). Compare `write.py`.

The model is counted in one pass over the text instead of trained by gradient steps. A training step counts one order:
first unigrams, then bigrams, and so on. Counting takes seconds, so an interrupted run starts again from the beginning.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field

from seq2see.core.devices import pick_device
from seq2see.core.errors import UserError
from seq2see.core.settings import Settings
from seq2see.data.ngrams import NgramCounts, count_ngrams
from seq2see.data.tokenizers.tokenizer import TokenizerSettings
from seq2see.data.windows import UNITS, TextDataset
from seq2see.decoding.engine import Decoding
from seq2see.metrics.zipf import zipf_slope
from seq2see.models.build import build_generative_model
from seq2see.models.language_model import LanguageModel
from seq2see.models.ngram_lm import NgramDecoder, NgramSettings
from seq2see.models.settings import ModelSettings, TextTarget
from seq2see.tasks.model_folder import Recipe
from seq2see.tasks.report_parts import (
    ReportFigure,
    ReportPart,
    ReportSection,
    ReportTable,
    RunResults,
    note,
    section,
    words,
)
from seq2see.tasks.task import CountingStep
from seq2see.tasks.write import TextCorpus, Write
from seq2see.training.ngram_smoothing import SMOOTHINGS, load_levels
from seq2see.training.settings import Training

DRAWN = 3
"""The number of orders in the rank-frequency plot."""


class NgramText(Settings):
    """The text: an n-gram model has neither embeddings nor a head."""

    tokenizer: TokenizerSettings
    """How text is split into tokens."""
    max_tokens: int = Field(256, ge=2)
    """The number of tokens of the windows in which a text is evaluated."""


class NgramRecipe(Recipe):
    """A recipe of the task ngram: the tokens and the n-grams that are counted."""

    task: Literal["ngram"] = "ngram"
    training: ClassVar[Training] = Training()  # type: ignore[misc]  # there is nothing to set: it is counted
    pretrained: ClassVar[None] = None  # type: ignore[misc]
    adapter: ClassVar[None] = None  # type: ignore[misc]
    corpus: TextCorpus
    """The source of the text."""
    target: NgramText
    decoder: NgramSettings = NgramSettings()
    decoding: Decoding = Decoding(max_new_tokens=100)

    @property
    def model(self) -> ModelSettings:
        """The settings of the model."""
        text = TextTarget(tokenizer=self.target.tokenizer, max_tokens=self.target.max_tokens)
        return ModelSettings(target=text, decoder=self.decoder)

    @property
    def steps(self) -> int:
        """The number of training steps: one for each order."""
        return self.decoder.order


class Ngram(Write):
    """Continue a text by counts of n-grams."""

    name: ClassVar[str] = "ngram"
    recipe: ClassVar[type[Recipe]] = NgramRecipe
    views: ClassVar[tuple[str, ...]] = (
        "runs", "tokenize", "compare", "mistakes", "architecture", "next-token", "decode",
    )  # fmt: skip
    fixed_order: ClassVar[str] = "This model is an n-gram model, which has no vectors."

    def check_dataset(self, recipe: Any, dataset: TextDataset) -> None:
        """Raise an error for a text that is too short or has only one token type."""
        check_ngram_text(dataset, recipe.decoder.order)

    def count(self, recipe: NgramRecipe, train: TextDataset, valid: TextDataset) -> Iterator[CountingStep]:
        """Count the n-grams of the training text, order by order; each step has the model of that order."""
        ngrams = list[NgramCounts]()
        for each in count_ngrams(train.ids, len(train.tokenizer), recipe.decoder.order):
            ngrams.append(each)
            module = ngram_model(recipe.model, ngrams)
            loss = ngram_loss(module.decoder, valid, ngrams[0])
            distinct = int(np.count_nonzero(each.counts))
            yield CountingStep(
                each.order,
                module,
                {"ngrams": distinct, "valid_loss": loss.loss, "unseen_ngrams": loss.unseen},
                len(train.ids),
                f"order {each.order}   {distinct:>9,} distinct n-grams   valid perplexity "
                f"{np.exp(loss.loss):.2f} per {valid.unit}   unseen {loss.unseen:.1%}",
                {"zipf": {str(counts.order): frequencies(counts) for counts in ngrams[:DRAWN]}},
            )

    def describe(self, recipe: NgramRecipe, module: Any, train: TextDataset | None = None) -> str:
        """The order and the smoothing of the model, and the size of the text."""
        counted = " tokens" if train is None else f", counted in {len(train.ids):,} {train.unit}s"
        return f"n-grams of 1 to {recipe.decoder.order}{counted}, smoothing {recipe.decoder.smoothing}"

    def curves(self, results: RunResults) -> list[ReportPart]:
        """The perplexity by order, and a row for each order."""
        unit = UNITS.get(results.recipe["target"]["tokenizer"]["kind"], "token")

        def draw(path: Path) -> None:
            from seq2see.inspection.plotting import draw_orders  # matplotlib only where it is used

            draw_orders(results.metrics, unit, path)

        titles = [words(title) for title in ("order", "kinds", "valid_perplexity", "unseen_ngrams")]
        rows = [
            [
                f"{row['step']}",
                f"{row['ngrams']:,}",
                f"{math.exp(row['valid_loss']):.2f}",
                f"{row['unseen_ngrams']:.1%}",
            ]
            for row in results.metrics
        ]
        figure = ReportFigure("curves.png", words("curves"), draw)
        return [figure, ReportTable(titles, rows, text_columns=0), note("orders_note")]

    def sections(self, results: RunResults) -> list[ReportSection]:
        """The frequencies of n-grams, the scores, and the loss of each token of a few windows."""
        return [self._frequencies(results), *super().sections(results)]

    def _frequencies(self, results: RunResults) -> ReportSection:
        """The rank-frequency plot, and the slope of each of its lines."""
        orders: dict[str, dict[str, list[int]]] = results.documents.get("zipf", {})
        if not orders:
            return section("zipf")

        def draw(path: Path) -> None:
            from seq2see.inspection.plotting import draw_zipf  # matplotlib only where it is used

            draw_zipf(orders, path)

        rows = []
        for order, each in orders.items():
            kinds, once = sum(each["frequencies"]), each["frequencies"][-1] if each["counts"][-1] == 1 else 0
            slope = zipf_slope(each["counts"], each["frequencies"])
            rows.append([order, f"{kinds:,}", f"{once / kinds:.1%}", "" if math.isnan(slope) else f"{slope:.2f}"])
        titles = [words(title) for title in ("order", "kinds", "once", "slope")]
        table = ReportTable(titles, rows, text_columns=0)
        return section("zipf", ReportFigure("zipf.png", words("zipf"), draw), table, note("zipf_note"))


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


def ngram_model(settings: ModelSettings, ngrams: Sequence[NgramCounts]) -> LanguageModel:
    """The model whose order is the number of these counts."""
    assert isinstance(settings.decoder, NgramSettings)
    vocab_size = ngrams[0].vocab_size
    module = build_generative_model(settings.with_(**{"decoder.order": len(ngrams)}), vocab_size, vocab_size)
    load_levels(module.decoder, SMOOTHINGS[settings.decoder.smoothing]().levels(ngrams))
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
