"""The question "what was hidden here?": from running text to filled blanks and their score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from seq2see.core.batch import Batch, Sequences
from seq2see.core.devices import device_of
from seq2see.core.errors import UserError
from seq2see.core.files import write_json
from seq2see.sequences.blanks import BlankedPairs, BlankedTexts, around_blanks, read_blanks
from seq2see.sequences.tokenisers import BOS, EOS, MASK_TEXT, UNK, with_mask
from seq2see.sources.examples import Example
from seq2see.workbench.model_folder import StoredModel
from seq2see.workbench.predict import Choice
from seq2see.workbench.questions import Said, Seen, Splits, Watch
from seq2see.workbench.reading import ROWS, STRIPS, read_with_truth
from seq2see.workbench.run_folder import RunFolder
from seq2see.workbench.start import learn_source
from seq2see.workbench.tokenisers import Tokenisers

if TYPE_CHECKING:
    from seq2see.workbench.recipe import Recipe

STRIP_WIDTH = 64
"""Tokens of a test window that are judged one by one for the report: each needs a row of its own."""
FIRST = UNK + 1
"""The first id that is a piece of text; what stands before it controls."""


class Fill:
    """Guess the tokens that were hidden in a text."""

    texts: type[BlankedTexts] = BlankedTexts
    places = slice(None)
    """The places of a row that are asked for tokens."""

    def learn(self, recipe: Recipe, train: Sequence[Example]) -> Tokenisers:
        """A vocabulary with [MASK] in it."""
        learnt = learn_source(recipe, [example.target for example in train])
        both = learnt if recipe.start else with_mask(learnt)
        return Tokenisers(both, both)

    def encode(self, recipe: Recipe, tokenisers: Tokenisers, examples: Sequence[Example]) -> BlankedTexts:
        """Windows of running text."""
        return self.texts(examples, tokenisers.source, recipe.read.longest)

    def shown(self, encoded: BlankedTexts, count: int) -> list[Example]:
        """Windows with [MASK] in them, and what stood there; of a pair the first text.

        Read back, unknown tokens may be longer (<unk> is five characters), and blanks too far apart: such are left out.
        """
        batch = encoded.batch(np.arange(min(4 * count, len(encoded))))
        assert isinstance(batch.source, Sequences)
        asked, decode = batch.asked[:, 1:], encoded.tokeniser.decode
        truth = torch.where(asked, batch.labels[:, 1:], batch.source.values[:, 1:])
        blanked = truth.masked_fill(asked, encoded.tokeniser.mask)
        rows = zip(blanked.tolist(), truth.tolist(), strict=True)
        found = [Example(decode(one), decode(other)) for one, other in rows]
        return [each for each in found if MASK_TEXT in each.source and _readable(each.source, encoded)][:count]

    def read(self, stored: StoredModel, text: str) -> Seen:
        """A text in which a person wrote [MASK]."""
        ids = read_blanks(text, stored.tokenisers.source)
        kept = around_blanks(ids, stored.tokenisers.source.mask, stored.config.model.read.longest)
        return Seen(text, [BOS, *kept, EOS], len(kept) < len(ids))

    def answer(self, stored: StoredModel, seen: Seen, scores: Tensor, most: int) -> Said:
        """The text with its blanks filled, and for each blank the likeliest pieces."""
        tokeniser = stored.tokenisers.source
        blanks = [place for place, number in enumerate(seen.ids) if number == tokeniser.mask]
        pieces = scores[blanks, FIRST : tokeniser.mask]  # nothing but a piece of text can fill a blank
        chances, numbers = pieces.topk(min(most or pieces.size(1), pieces.size(1)))
        numbers += FIRST
        filled = dict(zip(blanks, numbers[:, 0].tolist(), strict=True))
        text = tokeniser.decode([filled.get(place, number) for place, number in enumerate(seen.ids)])
        guesses = [
            tuple(Choice(tokeniser.decode([number]), math.exp(chance)) for number, chance in zip(*row, strict=True))
            for row in zip(numbers.tolist(), chances.tolist(), strict=True)
        ]
        return Said(seen, text, float(chances[:, 0].sum()), tuple(guesses))

    def size(self, splits: Splits) -> int:
        """How many characters there are."""
        return sum(len(example.target) for example in splits["test"])

    def judge(
        self, stored: StoredModel, recipe: Recipe, splits: Splits, run: RunFolder, watch: Watch
    ) -> dict[str, Any]:
        """How often a hidden token is guessed, and between how many equally likely ones the model hesitates."""
        test = self.encode(recipe, stored.tokenisers, splits["test"])
        share = test.characters // -(-len(test) // ROWS)
        perplexity, accuracy = read_with_truth(stored.module, test, lambda: watch(share), self.places)
        write_json(run.evaluation / "strips.json", strips(stored, test))
        figures = {"accuracy": 100 * accuracy.value, "perplexity": perplexity.value, "tokens": accuracy.asked}
        return {"hidden": figures, **self._judge_pairs(stored, test)}

    def _judge_pairs(self, stored: StoredModel, test: BlankedTexts) -> dict[str, Any]:
        return {}


class FillPairs(Fill):
    """The same with two texts a row, and the question whether the second follows the first."""

    texts = BlankedPairs
    places = slice(1, None)

    def _judge_pairs(self, stored: StoredModel, test: BlankedTexts) -> dict[str, Any]:
        _, accuracy = read_with_truth(stored.module, test, places=slice(0, 1))
        return {"follows": {"accuracy": 100 * accuracy.value, "rows": accuracy.asked}}


@torch.inference_mode()
def strips(stored: StoredModel, test: BlankedTexts) -> list[dict[str, Any]]:
    """The first tokens of a few windows: each piece, and -log p of it when it alone is hidden (Salazar et al. 2020)."""
    tokeniser, device = stored.tokenisers.source, device_of(stored.module)
    found = []
    for start in test.starts[:: max(1, len(test) // STRIPS)][:STRIPS]:
        ids = test.ids[start : start + min(STRIP_WIDTH, test.width)].tolist()
        rows = torch.tensor([[BOS, *ids, EOS]]).repeat(len(ids), 1)
        places = torch.arange(len(ids))
        rows[places, places + 1] = tokeniser.mask
        source = Sequences(rows, torch.full((len(ids),), len(ids) + 2))
        scores = stored.module(Batch(source, None, rows, places).to(device)).float().log_softmax(-1).cpu()
        lost = -scores[places, places + 1, torch.tensor(ids)]
        found.append({"pieces": tokeniser.pieces(ids), "loss": [round(each, 3) for each in lost.tolist()]})
    return found


def _readable(text: str, encoded: BlankedTexts) -> bool:
    """Whether a model that reads these windows can be asked about the blanks of a text."""
    try:
        around_blanks(read_blanks(text, encoded.tokeniser), encoded.tokeniser.mask, encoded.width)
    except UserError:
        return False
    return True
