"""Masked language modelling: from running text to filled [MASK] tokens and their scores."""

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
from seq2see.data.examples import Example
from seq2see.data.masking import MaskedTextDataset, MaskedTextPairDataset, crop_around_masks, encode_with_masks
from seq2see.data.tokenizers.tokenizer import BOS, EOS, MASK_TEXT, UNK, add_mask_token
from seq2see.runs.model import ScoredText
from seq2see.runs.model_folder import StoredModel
from seq2see.runs.model_tokenizers import Tokenizers
from seq2see.runs.pretrained import source_tokenizer
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.task_protocols import EncodedInput, ProgressCallback, Splits, TaskResult
from seq2see.runs.teacher_forcing import BATCH_SIZE, LOSS_WINDOWS, evaluate_teacher_forced

if TYPE_CHECKING:
    from seq2see.runs.recipe import Recipe

LOSS_WINDOW_TOKENS = 64
"""Tokens of a test window that are masked one by one for the report: each needs a row of the batch."""
FIRST_TEXT_ID = UNK + 1
"""The first id of a text token, after the special tokens."""


class FillMask:
    """Predict the masked tokens of a text."""

    texts: type[MaskedTextDataset] = MaskedTextDataset
    token_positions = slice(None)
    """The positions whose labels are tokens."""

    def learn_tokenizers(self, recipe: Recipe, train: Sequence[Example]) -> Tokenizers:
        """Learn a vocabulary with [MASK]."""
        learned = source_tokenizer(recipe, [example.target for example in train])
        tokenizer = learned if recipe.pretrained else add_mask_token(learned)
        return Tokenizers(tokenizer, tokenizer)

    def encode(self, recipe: Recipe, tokenizers: Tokenizers, examples: Sequence[Example]) -> MaskedTextDataset:
        """Split running text into windows."""
        return self.texts(examples, tokenizers.source, recipe.source_text.max_tokens)

    def sample_examples(self, dataset: MaskedTextDataset, count: int) -> list[Example]:
        """Windows with [MASK], and the original text; of a pair, the first text.

        Windows are left out if their text cannot be encoded again: <unk> is five characters, and masks may be too far
        apart.
        """
        batch = dataset.batch(np.arange(min(4 * count, len(dataset))))
        assert isinstance(batch.source, Sequences)
        is_masked, decode = batch.label_mask[:, 1:], dataset.tokenizer.decode
        original = torch.where(is_masked, batch.labels[:, 1:], batch.source.values[:, 1:])
        masked = original.masked_fill(is_masked, dataset.tokenizer.mask_id)
        rows = zip(masked.tolist(), original.tolist(), strict=True)
        examples = [Example(decode(source), decode(target)) for source, target in rows]
        return [each for each in examples if MASK_TEXT in each.source and _is_encodable(each.source, dataset)][:count]

    def preprocess(self, stored: StoredModel, text: str) -> EncodedInput:
        """Encode a text with [MASK], cropped around the masks."""
        ids = encode_with_masks(text, stored.tokenizers.source)
        cropped = crop_around_masks(ids, stored.tokenizers.source.mask_id, stored.config.model.source_text.max_tokens)
        return EncodedInput(text, [BOS, *cropped, EOS], len(cropped) < len(ids))

    def postprocess(self, stored: StoredModel, inputs: EncodedInput, scores: Tensor, top_k: int) -> TaskResult:
        """The text with its masks filled, and the most probable tokens for each mask."""
        tokenizer = stored.tokenizers.source
        masks = [position for position, token_id in enumerate(inputs.ids) if token_id == tokenizer.mask_id]
        text_scores = scores[masks, FIRST_TEXT_ID : tokenizer.mask_id]  # special tokens are excluded
        log_probabilities, ids = text_scores.topk(min(top_k or text_scores.size(1), text_scores.size(1)))
        ids += FIRST_TEXT_ID
        filled = dict(zip(masks, ids[:, 0].tolist(), strict=True))
        text = tokenizer.decode([filled.get(position, token_id) for position, token_id in enumerate(inputs.ids)])
        candidates = [
            tuple(ScoredText(tokenizer.decode([token_id]), math.exp(log)) for token_id, log in zip(*row, strict=True))
            for row in zip(ids.tolist(), log_probabilities.tolist(), strict=True)
        ]
        return TaskResult(inputs, text, float(log_probabilities[:, 0].sum()), tuple(candidates))

    def size(self, splits: Splits) -> int:
        """The number of characters of the test split."""
        return sum(len(example.target) for example in splits["test"])

    def evaluate(
        self, stored: StoredModel, recipe: Recipe, splits: Splits, run: RunFolder, on_progress: ProgressCallback
    ) -> dict[str, Any]:
        """Accuracy and perplexity of the masked tokens."""
        test = self.encode(recipe, stored.tokenizers, splits["test"])
        batch_characters = test.characters // -(-len(test) // BATCH_SIZE)
        perplexity, accuracy = evaluate_teacher_forced(
            stored.module, test, lambda: on_progress(batch_characters), self.token_positions
        )
        write_json(run.evaluation / "token_losses.json", masked_token_losses(stored, test))
        masked = {"accuracy": 100 * accuracy.value, "perplexity": perplexity.value, "tokens": accuracy.total}
        return {"masked_tokens": masked, **self._evaluate_pairs(stored, test)}

    def _evaluate_pairs(self, stored: StoredModel, test: MaskedTextDataset) -> dict[str, Any]:
        return {}


class FillMaskNextSentence(FillMask):
    """Masked tokens in a pair of texts, and next sentence prediction: whether the second text follows the first."""

    texts = MaskedTextPairDataset
    token_positions = slice(1, None)

    def _evaluate_pairs(self, stored: StoredModel, test: MaskedTextDataset) -> dict[str, Any]:
        _, accuracy = evaluate_teacher_forced(stored.module, test, positions=slice(0, 1))
        return {"next_sentence": {"accuracy": 100 * accuracy.value, "examples": accuracy.total}}


@torch.inference_mode()
def masked_token_losses(stored: StoredModel, test: MaskedTextDataset) -> list[dict[str, Any]]:
    """The first tokens of a few windows, with -log p of each when it alone is masked (Salazar et al. 2020)."""
    tokenizer, device = stored.tokenizers.source, device_of(stored.module)
    windows = []
    for start in test.starts[:: max(1, len(test) // LOSS_WINDOWS)][:LOSS_WINDOWS]:
        ids = test.ids[start : start + min(LOSS_WINDOW_TOKENS, test.width)].tolist()
        rows = torch.tensor([[BOS, *ids, EOS]]).repeat(len(ids), 1)
        positions = torch.arange(len(ids))
        rows[positions, positions + 1] = tokenizer.mask_id
        source = Sequences(rows, torch.full((len(ids),), len(ids) + 2))
        scores = stored.module(Batch(source, None, rows, positions).to(device)).float().log_softmax(-1).cpu()
        losses = -scores[positions, positions + 1, torch.tensor(ids)]
        windows.append({"tokens": tokenizer.tokens(ids), "losses": [round(each, 3) for each in losses.tolist()]})
    return windows


def _is_encodable(text: str, dataset: MaskedTextDataset) -> bool:
    """Whether a text with masks can be encoded within the window size of a dataset."""
    try:
        crop_around_masks(encode_with_masks(text, dataset.tokenizer), dataset.tokenizer.mask_id, dataset.width)
    except UserError:
        return False
    return True
