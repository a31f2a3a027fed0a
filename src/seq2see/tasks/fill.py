"""Masked language modelling: from running text to filled [MASK] tokens and their scores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from seq2see.core.batch import Batch, Sequences
from seq2see.core.devices import device_of
from seq2see.core.errors import UserError
from seq2see.core.settings import Settings, default_kind
from seq2see.data.examples import Example
from seq2see.data.masking import MaskedTextDataset, MaskedTextPairDataset, crop_around_masks, encode_with_masks
from seq2see.data.readers.texts import UserTexts
from seq2see.data.tokenizers.tokenizer import BOS, EOS, MASK_TEXT, add_mask_token
from seq2see.data.windows import WindowSampler
from seq2see.models.settings import MaskedTokensNSPTarget, MaskedTokensTarget, ModelSettings, Text
from seq2see.tasks.classify_text import ClassifyText, source_tokenizer
from seq2see.tasks.encoder_only import EncoderOnlyTask, TaskResult
from seq2see.tasks.generative import BATCH_SIZE, LOSS_WINDOWS, evaluate_teacher_forced
from seq2see.tasks.model import ScoredText
from seq2see.tasks.model_folder import Candidates, Recipe, StoredModel, TextEncoder, Tokenizers
from seq2see.tasks.report_parts import NamedValues, ReportSection, RunResults, Tree, Words, section, words
from seq2see.tasks.task import (
    BatchAt,
    Capture,
    EncodedInput,
    EvaluatedRow,
    Evaluation,
    RowKind,
    SplitProgress,
    Splits,
    plain,
)
from seq2see.tasks.token_context import FIRST_TEXT_ID, MaskedContext, masked_context
from seq2see.tasks.write import (
    TextCorpus,
    check_running_text,
    first_line,
    text_summary,
    token_loss_rows,
    token_loss_section,
)
from seq2see.training.objectives import MaskedToken, MaskedTokenNextSentence

LOSS_WINDOW_TOKENS = 64
"""Tokens of a test window that are masked one by one for the report: each needs a row of the batch."""
DATASETS: dict[type, type[MaskedTextDataset]] = {
    MaskedTokensTarget: MaskedTextDataset,
    MaskedTokensNSPTarget: MaskedTextPairDataset,
}
OBJECTIVES: dict[type, type[Settings]] = {
    MaskedTokensTarget: MaskedToken,
    MaskedTokensNSPTarget: MaskedTokenNextSentence,
}


class FillRecipe(Recipe):
    """A recipe of the task fill: an encoder of running text in which tokens are masked."""

    task: Literal["fill"] = "fill"
    corpus: TextCorpus
    """The source of the text."""
    source: Text
    target: Annotated[
        MaskedTokensTarget | MaskedTokensNSPTarget, Field(discriminator="kind"), default_kind("masked-tokens")
    ] = MaskedTokensTarget()
    """What is predicted: the masked tokens, or also whether the second text of a pair follows the first."""
    encoder: TextEncoder
    """The encoder of the text."""
    objective: Annotated[
        MaskedToken | MaskedTokenNextSentence, Field(discriminator="kind"), default_kind("masked-token")
    ] = MaskedToken()
    """The training objective; it must match the target."""
    prediction: Candidates = Candidates(top_k=5)

    @model_validator(mode="after")
    def check_text(self) -> FillRecipe:
        """Refuse settings that have no effect on running text, and an objective that does not match the target."""
        check_running_text(self.training.batches, "source", self.source.tokenizer)
        if self.training.batches == "contiguous":
            raise ValueError("contiguous batches are for recurrent language models: set training.batches=bucketed")
        objective = OBJECTIVES[type(self.target)]
        if type(self.objective) is not objective:
            kind = objective.model_fields["kind"].default
            raise ValueError(f"target.kind={self.target.kind} goes with objective.kind={kind}")
        return self


class Fill(EncoderOnlyTask):
    """Predict the masked tokens of a text."""

    name: ClassVar[str] = "fill"
    recipe: ClassVar[type[Recipe]] = FillRecipe
    views: ClassVar[tuple[str, ...]] = (*EncoderOnlyTask.views, "next-token")
    fills_masks: ClassVar[bool] = True
    row_kind: ClassVar[RowKind] = "token_losses"
    predicted_unit: ClassVar[str] = "tokens"
    default_input: ClassVar[str] = f"I have a {MASK_TEXT}"

    def corpus(self, paths: tuple[str, ...]) -> UserTexts:
        """The user's own text files."""
        return UserTexts(paths=paths)

    def fit(self, recipe: Any, train: Sequence[Example], pretrained: StoredModel | None = None) -> Tokenizers:
        """Learn a vocabulary with [MASK]."""
        learned = source_tokenizer(recipe, [example.target for example in train], pretrained)
        tokenizer = learned if pretrained else add_mask_token(learned)
        return Tokenizers(tokenizer, tokenizer)

    def dataset(self, recipe: Any, tokenizers: Tokenizers, examples: Sequence[Example]) -> MaskedTextDataset:
        """Windows of running text, or pairs of texts for next sentence prediction."""
        dataset_class = DATASETS[type(recipe.target)]
        return dataset_class(examples, tokenizers.source, recipe.source.max_tokens)

    def batches(self, recipe: Any, dataset: Any, full: bool = False, capture: Capture = plain) -> BatchAt:
        """Batches of shuffled windows."""
        windows = WindowSampler(dataset, recipe.training.batch_tokens, recipe.training.seed)
        return lambda step: windows.batch_at(step - 1)

    def check_dataset(self, recipe: Any, dataset: Any) -> None:
        """Raise an error for a text that is shorter than one batch."""
        self.batches(recipe, dataset)

    def summary(self, recipe: Any, tokenizers: Tokenizers, splits: Splits) -> str:
        """The number of characters, and the size of the vocabulary."""
        return text_summary(tokenizers, splits)

    def describe_examples(self, dataset: Any, examples: Any, indices: Sequence[int]) -> tuple[str, str]:
        """The unit of the examples of a batch, and the names of some of them, for an error message."""
        return "windows", "; ".join(f"near {dataset.text_at(index)[:40]!r}" for index in indices)

    def samples(self, dataset: MaskedTextDataset, examples: Sequence[Example], count: int) -> list[Example]:
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
        texts = [Example(decode(source), decode(target)) for source, target in rows]
        return [each for each in texts if MASK_TEXT in each.source and _is_encodable(each.source, dataset)][:count]

    def encode(self, stored: StoredModel, raw: Any) -> EncodedInput:
        """Encode a text with [MASK], cropped around the masks."""
        ids = encode_with_masks(raw, stored.tokenizers.source)
        cropped = crop_around_masks(ids, stored.tokenizers.source.mask_id, stored.config.model.source_text.max_tokens)
        return EncodedInput(raw, [BOS, *cropped, EOS], len(cropped) < len(ids))

    def encode_for_trace(self, stored: StoredModel, raw: Any) -> EncodedInput:
        """Encode a text with or without [MASK]."""
        if MASK_TEXT in raw:
            return self.encode(stored, raw)
        ids = stored.tokenizers.source.encode(raw)
        truncated = ids[: stored.config.model.source_text.max_tokens]
        return EncodedInput(raw, [BOS, *truncated, EOS], len(truncated) < len(ids))

    def encode_for_embedding(self, stored: StoredModel, raw: Any) -> EncodedInput:
        """Encode a whole text, truncated at its end."""
        return ClassifyText().encode(stored, raw)

    def page_examples(self, settings: ModelSettings, examples: Sequence[Example]) -> list[Example]:
        """The beginning of the first line of each text."""
        return [Example(first_line(each.target), "") for each in examples]

    def token_context(self, model: Any, raw: Any, target: str, token_ids: Sequence[int]) -> MaskedContext:
        """The text, in which one position at a time is masked."""
        return masked_context(model, raw)

    def text_without_masks(self, text: str) -> str:
        """The text without [MASK], which is a known token."""
        return text.replace(MASK_TEXT, " ")

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
        self, model: Any, recipe: Any, splits: Splits, on_progress: SplitProgress, settings: dict[str, Any]
    ) -> Evaluation:
        """Accuracy and perplexity of the masked tokens, and the accuracy of next sentence prediction."""
        test = self.dataset(recipe, model.tokenizers, splits["test"])
        batch_characters = test.characters // -(-len(test) // BATCH_SIZE)
        # The first label of a pair of texts is that of next sentence prediction.
        next_sentence = isinstance(recipe.target, MaskedTokensNSPTarget)
        perplexity, accuracy = evaluate_teacher_forced(
            model.module,
            test,
            lambda: on_progress("test", batch_characters),
            slice(1, None) if next_sentence else slice(None),
        )
        scores: dict[str, Any] = {
            "masked_tokens": {
                "accuracy": 100 * accuracy.value,
                "perplexity": perplexity.value,
                "tokens": accuracy.total,
            }
        }
        if next_sentence:
            _, pairs = evaluate_teacher_forced(model.module, test, positions=slice(0, 1))
            scores["next_sentence"] = {"accuracy": 100 * pairs.value, "examples": pairs.total}
        return Evaluation(scores, documents={"token_losses": masked_token_losses(model.stored, test)})

    def evaluated_rows(self, model: Any, rows: Any) -> list[EvaluatedRow]:
        """A row for each window, with the loss of each token."""
        return token_loss_rows(rows, model.tokenizers.source)

    def sections(self, results: RunResults) -> list[ReportSection]:
        """The scores, and the loss of each token of a few windows."""
        scores = results.scores
        rows: list[tuple[Words, Words]] = [
            (words(name), f"{scores[part][key]:.{digits}f}")
            for name, part, key, digits in (
                ("masked_accuracy", "masked_tokens", "accuracy", 1),
                ("masked_perplexity", "masked_tokens", "perplexity", 3),
                ("next_sentence_accuracy", "next_sentence", "accuracy", 1),
            )
            if part in scores
        ]
        return [
            section("scores", NamedValues(rows) if rows else None),
            token_loss_section(results, "token_losses_note"),
        ]

    def score_lines(self, scores: Tree) -> Iterator[str]:
        """Accuracy and perplexity of the masked tokens, and the accuracy of next sentence prediction."""
        if "masked_tokens" in scores:
            masked = scores["masked_tokens"]
            accuracy = f"accuracy {masked['accuracy']:.1f} % of {masked['tokens']:,}"
            yield f"masked tokens (test): {accuracy}, perplexity {masked['perplexity']:.3f}"
        if "next_sentence" in scores:
            pairs = scores["next_sentence"]
            accuracy = f"accuracy {pairs['accuracy']:.1f} % of {pairs['examples']:,} pairs"
            yield f"next sentence prediction (test): {accuracy}"

    def headline(self, scores: Tree) -> str:
        """The accuracy of the masked tokens."""
        return f"masked accuracy {scores['masked_tokens']['accuracy']:.1f} %" if "masked_tokens" in scores else ""


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
