"""Token classification: from tagged sentences to a predicted tag for each word, and to spans."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator
from torch import Tensor

from seq2see.core.batch import Batch
from seq2see.core.errors import UserError
from seq2see.data.catalogue.catalogue import CatalogueCorpus
from seq2see.data.examples import Example
from seq2see.data.generated.pocket.pocket_corpus import PocketCorpus
from seq2see.data.labeled_dataset import TaggedTextDataset, encode_words, long_words, with_leading_space
from seq2see.data.readers.conll import UserTaggedTexts
from seq2see.data.tokenizers.tokenizer import BOS, BPE, EOS
from seq2see.metrics.classification import ConfusionMatrix, SpanScore, are_bio_tags
from seq2see.models.settings import NgramEmbeddingSettings, Tags, Text
from seq2see.tasks.classify_text import (
    ClassifyText,
    EncoderOnlyRecipe,
    confusion_scores,
    draw_confusion_matrix,
    evaluated_splits,
    prediction_table,
    source_tokenizer,
)
from seq2see.tasks.encoder_only import TaskResult, predict_all
from seq2see.tasks.model import NamedBatch, ScoredText
from seq2see.tasks.model_folder import Recipe, StoredModel, TextEncoder, Tokenizers, unspaced_word_warnings
from seq2see.tasks.task import EncodedInput, Evaluation, RowKind, SplitProgress, Splits

TaggedCorpus = Annotated[PocketCorpus | CatalogueCorpus | UserTaggedTexts, Field(discriminator="kind")]
"""Corpora of tagged words."""


class TagRecipe(EncoderOnlyRecipe):
    """A recipe of the task tag: an encoder of the text and a classifier of its words."""

    task: Literal["tag"] = "tag"
    corpus: TaggedCorpus
    """The source of the examples."""
    source: Text
    target: Tags = Tags()
    encoder: TextEncoder
    """The encoder of the text."""

    @model_validator(mode="after")
    def check_tokenizer(self) -> TagRecipe:
        """Refuse BPE-dropout: the tags belong to the tokens of one segmentation."""
        if isinstance(self.source.tokenizer, BPE) and self.source.tokenizer.dropout:
            raise ValueError("tagged words are tokenized once: set source.tokenizer.dropout=0")
        return self


class Tag(ClassifyText):
    """Predict the tag of each word of a text; words are separated by spaces."""

    name: ClassVar[str] = "tag"
    recipe: ClassVar[type[Recipe]] = TagRecipe
    # A token that is moved alone would become part of another word.
    fixed_order: ClassVar[str] = "This model tags words, whose tokens cannot be reordered."
    row_kind: ClassVar[RowKind] = "tags"
    unit: ClassVar[str] = "words"

    def corpus(self, paths: tuple[str, ...]) -> Any:
        """The user's own CoNLL or CoNLL-U files."""
        return UserTaggedTexts(paths=paths)

    def fit(self, recipe: Any, train: Sequence[Example], pretrained: StoredModel | None = None) -> Tokenizers:
        """Learn a subword vocabulary; the tags are sorted alphabetically."""
        kind = recipe.source.tokenizer.kind
        texts = ["".join(with_leading_space(word, kind) for word in example.source_words) for example in train]
        tokenizer = source_tokenizer(recipe, texts, pretrained)
        tags = sorted({tag for example in train for tag in example.source_tags})
        if not tags:
            raise UserError("The training data have no tagged words.", hint="Provide CoNLL or CoNLL-U files.")
        if len(tags) < 2:
            message = f"All training words have the tag {tags[0]!r}."
            raise UserError(message, location=train[0].location, hint="Add words with other tags.")
        return Tokenizers(tokenizer, tokenizer, self.ordered_labels(tags, pretrained))

    def dataset(self, recipe: Any, tokenizers: Tokenizers, examples: Sequence[Example]) -> Any:
        """Encode sentences and the tag index of each word."""
        return TaggedTextDataset(examples, tokenizers.source, tokenizers.labels, recipe.source.max_tokens)

    def samples(self, dataset: Any, examples: Sequence[Example], count: int) -> Sequence[Example]:
        """The first sentences."""
        return tagged_examples(dataset.examples[:count])

    def inputs(self, examples: Any) -> list[Any]:
        """The words of each sentence, separated by spaces."""
        return [" ".join(each.source_words) if each.source_words else each.source for each in examples]

    def encode(self, stored: StoredModel, raw: Any) -> EncodedInput:
        """Encode the words of a text, truncated after the last complete word."""
        words = split_words(raw)
        if not words:
            raise UserError("The text is empty.")
        tokenizer, max_tokens = stored.tokenizers.source, stored.config.model.source_text.max_tokens
        ids, word_ids = encode_words(words, tokenizer, max_tokens)
        is_cut = word_ids[-1] < len(words) or bool(long_words(words, tokenizer, max_tokens))
        return EncodedInput(raw, [BOS, *ids, EOS], is_cut, [0, *word_ids, 0], unspaced_word_warnings(words))

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

    def decisions(self, truth: str, prediction: str) -> list[tuple[str, str]]:
        """(truth, prediction) of each word, from sentences with their tags.

        >>> Tag().decisions("I/PRON see/VERB", "I/PRON see/NOUN")
        [('PRON', 'PRON'), ('VERB', 'NOUN')]
        """
        pairs = zip(truth.split(" "), prediction.split(" "), strict=False)
        return [(true_word.rpartition("/")[2], word.rpartition("/")[2]) for true_word, word in pairs]

    def named_batch(self, stored: StoredModel, inputs: EncodedInput, batch: Batch) -> NamedBatch:
        """A batch of one with the names of its tokens; with embeddings of words, these are <bos> and the words."""
        if not isinstance(stored.config.model.source_text.embedding, NgramEmbeddingSettings):
            return super().named_batch(stored, inputs, batch)
        words = ["<bos>", *split_words(inputs.text)[: max(inputs.word_ids)]]
        return NamedBatch(batch, {"source": words}, {"source": [True] + [False] * (len(words) - 1)})

    def evaluate(
        self, model: Any, recipe: Any, splits: Splits, on_progress: SplitProgress, settings: dict[str, Any]
    ) -> Evaluation:
        """Word accuracy, and precision, recall and F1 of each tag and, with BIO tags, of spans."""
        evaluation = Evaluation()
        for name, examples in evaluated_splits(splits):
            dataset = self.dataset(recipe, model.tokenizers, examples)  # refuses tags that are not in the training data
            if warnings := dataset.warnings():
                evaluation.scores.setdefault("notes", []).extend(f"{name}: {each}" for each in warnings)
            progress = partial(on_progress, "test")
            results = predict_all(model, self.inputs(examples), top_k=1, on_progress=progress)
            pairs = zip(examples, results, strict=True)
            references = [each.source_tags[: len(result.labels)] for each, result in pairs]
            predictions = [each.labels for each in results]
            confusion = ConfusionMatrix.of(
                model.tokenizers.labels,
                [tag for row in references for tag in row],
                [tag for row in predictions for tag in row],
            )
            evaluation.scores[name] = confusion_scores(confusion)
            if are_bio_tags(model.tokenizers.labels):
                spans = SpanScore.of(references, predictions).scores
                span_scores = {"precision": spans.precision, "recall": spans.recall, "f1": spans.f1}
                evaluation.scores[name]["spans"] = span_scores
            evaluation.tables[f"{name}-predictions"] = prediction_table(tagged_examples(examples), results)
            if name == "test":
                evaluation.figures["eval/confusion.png"] = partial(draw_confusion_matrix, confusion)
        return evaluation


def tagged_examples(examples: Sequence[Example]) -> list[Example]:
    """Sentences as sources, and word/tag pairs as targets, in the format of predictions."""
    return [Example(" ".join(each.source_words), join_tags(each.source_words, each.source_tags)) for each in examples]


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
