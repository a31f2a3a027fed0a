"""The question "which tag has each word?": from tagged sentences to tags, and to spans."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from seq2see.core.errors import UserError
from seq2see.metrics.classification import ConfusionMatrix
from seq2see.metrics.spans import SpanScore, are_bio_tags
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
    write_answer_table,
)
from seq2see.sequences.tagged import TaggedTextDataset, encode_words, with_leading_space
from seq2see.sequences.tokenizers import BOS, EOS
from seq2see.sources.examples import Example

if TYPE_CHECKING:
    from seq2see.runs.recipe import Recipe


class TokenClassification(TextClassification):
    """Name the tag of each word of a text; words stand between spaces."""

    def learn_tokenizers(self, recipe: Recipe, train: Sequence[Example]) -> Tokenizers:
        """A vocabulary of pieces of words, and the tags in the order of the alphabet."""
        kind = recipe.source_text.tokenizer.kind
        texts = ["".join(with_leading_space(word, kind) for word in example.source_words) for example in train]
        tokenizer = source_tokenizer(recipe, texts)
        tags = sorted({tag for example in train for tag in example.source_tags})
        if not tags:
            raise UserError("There are no tagged words to learn from.", hint="Give CoNLL or CoNLL-U files.")
        if len(tags) < 2:
            what = f"All words to learn from have the tag {tags[0]!r}."
            raise UserError(what, location=train[0].place, hint="Give words of other tags too.")
        return Tokenizers(tokenizer, tokenizer, tuple(tags))

    def encode(self, recipe: Recipe, tokenizers: Tokenizers, examples: Sequence[Example]) -> Any:
        """Sentences, and the numbers of their words' tags."""
        return TaggedTextDataset(examples, tokenizers.source, tokenizers.labels, recipe.source_text.max_tokens)

    def sample_examples(self, dataset: Any, count: int) -> list[Example]:
        """The first sentences."""
        return self.tagged_examples(dataset.examples[:count])

    def read(self, stored: StoredModel, text: str) -> EncodedInput:
        """The words of a text, as many as fit."""
        words = split_words(text)
        if not words:
            raise UserError("There is nothing to read in an empty text.")
        ids, numbers = encode_words(words, stored.tokenizers.source, stored.config.model.source_text.max_tokens)
        if not ids:
            raise UserError(f"The word {words[0][:40]!r} is longer than the model reads.")
        return EncodedInput(
            text, [BOS, *ids, EOS], numbers[-1] < len(words), [0, *numbers, 0], unspaced_word_warnings(words)
        )

    def postprocess(self, stored: StoredModel, inputs: EncodedInput, scores: Tensor, top_k: int) -> TaskResult:
        """Each word with its tag behind it; told to give more than one, also what else it may be."""
        tags, words = stored.tokenizers.labels, split_words(inputs.text)
        first = [place for place, word in enumerate(inputs.words) if word and word != inputs.words[place - 1]]
        chances, numbers = scores[first].topk(min(top_k or len(tags), len(tags)))
        best = [tags[number] for number in numbers[:, 0].tolist()]
        candidates = tuple(
            tuple(ScoredText(tags[number], math.exp(chance)) for number, chance in zip(*row, strict=True))
            for row in zip(numbers.tolist(), chances.tolist(), strict=True)
        )
        text = join_tags(words[: len(best)], best)
        return TaskResult(inputs, text, float(chances[:, 0].sum()), candidates if top_k != 1 else (), tuple(best))

    def evaluate(
        self, stored: StoredModel, recipe: Recipe, splits: Splits, run: RunFolder, on_progress: ProgressCallback
    ) -> dict[str, Any]:
        """Accuracy of words, precision, recall and F1 of each tag, and, where tags mark spans, of these."""
        scores: dict[str, Any] = {}
        for name, examples in splits.items():
            if name in DEVELOPMENT_SPLITS or not examples:
                continue
            self.encode(recipe, stored.tokenizers, examples)  # a tag that was not learned is told
            results = predict_all(
                self, stored, [" ".join(each.source_words) for each in examples], top_k=1, on_progress=on_progress
            )
            references = [each.source_tags[: len(one.labels)] for each, one in zip(examples, results, strict=True)]
            answers = [each.labels for each in results]
            confusion = ConfusionMatrix.of(
                stored.tokenizers.labels,
                [tag for row in references for tag in row],
                [tag for row in answers for tag in row],
            )
            scores[name] = confusion_scores(confusion)
            if are_bio_tags(stored.tokenizers.labels):
                found = SpanScore.of(references, answers).scores
                scores[name]["spans"] = {"precision": found.precision, "recall": found.recall, "f1": found.f1}
            write_answer_table(run.evaluation / f"{name}-answers.tsv", self.tagged_examples(examples), results)
            if name == "test":
                plot_confusion(confusion, run)
        return scores

    def tagged_examples(self, examples: Sequence[Example]) -> list[Example]:
        """Sentences with their tags, as answers are written."""
        return [
            Example(" ".join(each.source_words), join_tags(each.source_words, each.source_tags)) for each in examples
        ]


def split_words(text: str) -> list[str]:
    """What stands between plain spaces; a space that must not be broken (U+00A0) is part of its word.

    >>> words_of(" I  see\\n1\u00a0000 cats ")
    ['I', 'see', '1\\xa0000', 'cats']
    """
    return [word for word in re.split("[ \\t\\r\\n]+", text) if word]


def join_tags(words: Sequence[str], tags: Sequence[str]) -> str:
    """Words with their tags.

    >>> joined(["I", "see"], ["PRON", "VERB"])
    'I/PRON see/VERB'
    """
    return " ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=False))
