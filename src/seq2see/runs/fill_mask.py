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
from seq2see.runs.model import ScoredText
from seq2see.runs.model_folder import StoredModel
from seq2see.runs.model_tokenizers import Tokenizers
from seq2see.runs.pretrained import source_tokenizer
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.task_protocols import EncodedInput, ProgressCallback, Splits, TaskResult
from seq2see.runs.teacher_forcing import BATCH_SIZE, LOSS_WINDOWS, evaluate_teacher_forced
from seq2see.sequences.masking import MaskedTextDataset, MaskedTextPairDataset, crop_around_masks, encode_with_masks
from seq2see.sequences.tokenizers import BOS, EOS, MASK_TEXT, UNK, add_mask_token
from seq2see.sources.examples import Example

if TYPE_CHECKING:
    from seq2see.runs.recipe import Recipe

LOSS_WINDOW_TOKENS = 64
"""Tokens of a test window that are judged one by one for the report: each needs a row of its own."""
FIRST_TEXT_ID = UNK + 1
"""The first id that is a piece of text; what stands before it controls."""


class FillMask:
    """Guess the tokens that were hidden in a text."""

    texts: type[MaskedTextDataset] = MaskedTextDataset
    places = slice(None)
    """The places of a row that are asked for tokens."""

    def learn_tokenizers(self, recipe: Recipe, train: Sequence[Example]) -> Tokenizers:
        """A vocabulary with [MASK] in it."""
        learned = source_tokenizer(recipe, [example.target for example in train])
        both = learned if recipe.pretrained else add_mask_token(learned)
        return Tokenizers(both, both)

    def encode(self, recipe: Recipe, tokenizers: Tokenizers, examples: Sequence[Example]) -> MaskedTextDataset:
        """Windows of running text."""
        return self.texts(examples, tokenizers.source, recipe.source_text.max_tokens)

    def sample_examples(self, dataset: MaskedTextDataset, count: int) -> list[Example]:
        """Windows with [MASK] in them, and what stood there; of a pair the first text.

        Read back, unknown tokens may be longer (<unk> is five characters), and blanks too far apart: such are left out.
        """
        batch = dataset.batch(np.arange(min(4 * count, len(dataset))))
        assert isinstance(batch.source, Sequences)
        asked, decode = batch.asked[:, 1:], dataset.tokenizer.decode
        truth = torch.where(asked, batch.labels[:, 1:], batch.source.values[:, 1:])
        blanked = truth.masked_fill(asked, dataset.tokenizer.mask_id)
        rows = zip(blanked.tolist(), truth.tolist(), strict=True)
        found = [Example(decode(one), decode(other)) for one, other in rows]
        return [each for each in found if MASK_TEXT in each.source and _readable(each.source, dataset)][:count]

    def read(self, stored: StoredModel, text: str) -> EncodedInput:
        """A text in which a person wrote [MASK]."""
        ids = encode_with_masks(text, stored.tokenizers.source)
        kept = crop_around_masks(ids, stored.tokenizers.source.mask_id, stored.config.model.source_text.max_tokens)
        return EncodedInput(text, [BOS, *kept, EOS], len(kept) < len(ids))

    def postprocess(self, stored: StoredModel, inputs: EncodedInput, scores: Tensor, top_k: int) -> TaskResult:
        """The text with its blanks filled, and for each blank the likeliest pieces."""
        tokenizer = stored.tokenizers.source
        blanks = [place for place, number in enumerate(inputs.ids) if number == tokenizer.mask_id]
        pieces = scores[blanks, FIRST_TEXT_ID : tokenizer.mask_id]  # nothing but a piece of text can fill a blank
        chances, numbers = pieces.topk(min(top_k or pieces.size(1), pieces.size(1)))
        numbers += FIRST_TEXT_ID
        filled = dict(zip(blanks, numbers[:, 0].tolist(), strict=True))
        text = tokenizer.decode([filled.get(place, number) for place, number in enumerate(inputs.ids)])
        candidates = [
            tuple(ScoredText(tokenizer.decode([number]), math.exp(chance)) for number, chance in zip(*row, strict=True))
            for row in zip(numbers.tolist(), chances.tolist(), strict=True)
        ]
        return TaskResult(inputs, text, float(chances[:, 0].sum()), tuple(candidates))

    def size(self, splits: Splits) -> int:
        """How many characters there are."""
        return sum(len(example.target) for example in splits["test"])

    def evaluate(
        self, stored: StoredModel, recipe: Recipe, splits: Splits, run: RunFolder, on_progress: ProgressCallback
    ) -> dict[str, Any]:
        """How often a hidden token is guessed, and between how many equally likely ones the model hesitates."""
        test = self.encode(recipe, stored.tokenizers, splits["test"])
        share = test.characters // -(-len(test) // BATCH_SIZE)
        perplexity, accuracy = evaluate_teacher_forced(stored.module, test, lambda: on_progress(share), self.places)
        write_json(run.evaluation / "strips.json", masked_token_losses(stored, test))
        figures = {"accuracy": 100 * accuracy.value, "perplexity": perplexity.value, "tokens": accuracy.asked}
        return {"hidden": figures, **self._evaluate_pairs(stored, test)}

    def _evaluate_pairs(self, stored: StoredModel, test: MaskedTextDataset) -> dict[str, Any]:
        return {}


class FillMaskNextSentence(FillMask):
    """The same with two texts a row, and the question whether the second follows the first."""

    texts = MaskedTextPairDataset
    places = slice(1, None)

    def _evaluate_pairs(self, stored: StoredModel, test: MaskedTextDataset) -> dict[str, Any]:
        _, accuracy = evaluate_teacher_forced(stored.module, test, places=slice(0, 1))
        return {"follows": {"accuracy": 100 * accuracy.value, "rows": accuracy.asked}}


@torch.inference_mode()
def masked_token_losses(stored: StoredModel, test: MaskedTextDataset) -> list[dict[str, Any]]:
    """The first tokens of a few windows: each piece, and -log p of it when it alone is hidden (Salazar et al. 2020)."""
    tokenizer, device = stored.tokenizers.source, device_of(stored.module)
    found = []
    for start in test.starts[:: max(1, len(test) // LOSS_WINDOWS)][:LOSS_WINDOWS]:
        ids = test.ids[start : start + min(LOSS_WINDOW_TOKENS, test.width)].tolist()
        rows = torch.tensor([[BOS, *ids, EOS]]).repeat(len(ids), 1)
        places = torch.arange(len(ids))
        rows[places, places + 1] = tokenizer.mask_id
        source = Sequences(rows, torch.full((len(ids),), len(ids) + 2))
        scores = stored.module(Batch(source, None, rows, places).to(device)).float().log_softmax(-1).cpu()
        lost = -scores[places, places + 1, torch.tensor(ids)]
        found.append({"pieces": tokenizer.pieces(ids), "loss": [round(each, 3) for each in lost.tolist()]})
    return found


def _readable(text: str, dataset: MaskedTextDataset) -> bool:
    """Whether a model that reads these windows can be asked about the blanks of a text."""
    try:
        crop_around_masks(encode_with_masks(text, dataset.tokenizer), dataset.tokenizer.mask_id, dataset.width)
    except UserError:
        return False
    return True
