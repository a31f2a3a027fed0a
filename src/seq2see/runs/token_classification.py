"""Token classification: from tagged sentences to a predicted tag for each word, and to spans."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from seq2see.core.errors import UserError
from seq2see.data.examples import Example
from seq2see.data.labeled_dataset import TaggedTextDataset, encode_words, with_leading_space
from seq2see.data.tokenizers.tokenizer import BOS, EOS
from seq2see.metrics.classification import ConfusionMatrix, SpanScore, are_bio_tags
from seq2see.runs.input_warnings import unspaced_word_warnings
from seq2see.runs.model import ScoredText
from seq2see.runs.model_folder import StoredModel
from seq2see.runs.model_tokenizers import Tokenizers
from seq2see.runs.pretrained import source_tokenizer
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.task_protocols import EncodedInput, ProgressCallback, Splits, TaskResult, predict_all
from seq2see.runs.text_classification import (
    DEVELOPMENT_SPLITS,
    TextClassification,
    confusion_scores,
    plot_confusion,
    write_prediction_table,
)

if TYPE_CHECKING:
    from seq2see.runs.recipe import Recipe


class TokenClassification(TextClassification):
    """Predict the tag of each word of a text; words are separated by spaces."""

    def learn_tokenizers(self, recipe: Recipe, train: Sequence[Example]) -> Tokenizers:
        """Learn a subword vocabulary; the tags are sorted alphabetically."""
        kind = recipe.source_text.tokenizer.kind
        texts = ["".join(with_leading_space(word, kind) for word in example.source_words) for example in train]
        tokenizer = source_tokenizer(recipe, texts)
        tags = sorted({tag for example in train for tag in example.source_tags})
        if not tags:
            raise UserError("The training data have no tagged words.", hint="Provide CoNLL or CoNLL-U files.")
        if len(tags) < 2:
            message = f"All training words have the tag {tags[0]!r}."
            raise UserError(message, location=train[0].location, hint="Add words with other tags.")
        return Tokenizers(tokenizer, tokenizer, tuple(tags))

    def encode(self, recipe: Recipe, tokenizers: Tokenizers, examples: Sequence[Example]) -> Any:
        """Encode sentences and the tag index of each word."""
        return TaggedTextDataset(examples, tokenizers.source, tokenizers.labels, recipe.source_text.max_tokens)

    def sample_examples(self, dataset: Any, count: int) -> list[Example]:
        """The first sentences."""
        return self.tagged_examples(dataset.examples[:count])

    def preprocess(self, stored: StoredModel, text: str) -> EncodedInput:
        """Encode the words of a text, truncated after the last complete word."""
        words = split_words(text)
        if not words:
            raise UserError("The text is empty.")
        ids, word_ids = encode_words(words, stored.tokenizers.source, stored.config.model.source_text.max_tokens)
        if not ids:
            raise UserError(f"The word {words[0][:40]!r} is longer than the model's limit.")
        return EncodedInput(
            text, [BOS, *ids, EOS], word_ids[-1] < len(words), [0, *word_ids, 0], unspaced_word_warnings(words)
        )

    def postprocess(self, stored: StoredModel, inputs: EncodedInput, scores: Tensor, top_k: int) -> TaskResult:
        """Each word with its predicted tag; candidates for each word unless `top_k` is 1."""
        tags, words = stored.tokenizers.labels, split_words(inputs.text)
        ids = inputs.word_ids
        first_tokens = [position for position, word in enumerate(ids) if word and word != ids[position - 1]]
        log_probabilities, indices = scores[first_tokens].topk(min(top_k or len(tags), len(tags)))
        best = [tags[index] for index in indices[:, 0].tolist()]
        candidates = tuple(
            tuple(ScoredText(tags[index], math.exp(log)) for index, log in zip(*row, strict=True))
            for row in zip(indices.tolist(), log_probabilities.tolist(), strict=True)
        )
        text = join_tags(words[: len(best)], best)
        return TaskResult(
            inputs, text, float(log_probabilities[:, 0].sum()), candidates if top_k != 1 else (), tuple(best)
        )

    def evaluate(
        self, stored: StoredModel, recipe: Recipe, splits: Splits, run: RunFolder, on_progress: ProgressCallback
    ) -> dict[str, Any]:
        """Word accuracy, and precision, recall and F1 of each tag and, with BIO tags, of spans."""
        scores: dict[str, Any] = {}
        for name, examples in splits.items():
            if name in DEVELOPMENT_SPLITS or not examples:
                continue
            self.encode(recipe, stored.tokenizers, examples)  # refuses tags that are not in the training data
            results = predict_all(
                self, stored, [" ".join(each.source_words) for each in examples], top_k=1, on_progress=on_progress
            )
            references = [
                each.source_tags[: len(result.labels)] for each, result in zip(examples, results, strict=True)
            ]
            predictions = [each.labels for each in results]
            confusion = ConfusionMatrix.of(
                stored.tokenizers.labels,
                [tag for row in references for tag in row],
                [tag for row in predictions for tag in row],
            )
            scores[name] = confusion_scores(confusion)
            if are_bio_tags(stored.tokenizers.labels):
                spans = SpanScore.of(references, predictions).scores
                scores[name]["spans"] = {"precision": spans.precision, "recall": spans.recall, "f1": spans.f1}
            write_prediction_table(run.evaluation / f"{name}-predictions.tsv", self.tagged_examples(examples), results)
            if name == "test":
                plot_confusion(confusion, run)
        return scores

    def tagged_examples(self, examples: Sequence[Example]) -> list[Example]:
        """Sentences as sources, and word/tag pairs as targets, in the format of predictions."""
        return [
            Example(" ".join(each.source_words), join_tags(each.source_words, each.source_tags)) for each in examples
        ]


def split_words(text: str) -> list[str]:
    """Split at plain spaces; a no-break space (U+00A0) is part of its word.

    >>> split_words(" I  see\\n1\u00a0000 cats ")
    ['I', 'see', '1\\xa0000', 'cats']
    """
    return [word for word in re.split("[ \\t\\r\\n]+", text) if word]


def join_tags(words: Sequence[str], tags: Sequence[str]) -> str:
    """Words with their tags.

    >>> join_tags(["I", "see"], ["PRON", "VERB"])
    'I/PRON see/VERB'
    """
    return " ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=False))
