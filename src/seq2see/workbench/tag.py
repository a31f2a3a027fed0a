"""The question "which tag has each word?": from tagged sentences to tags, and to spans."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from seq2see.core.errors import UserError
from seq2see.metrics.classes import Confusion
from seq2see.metrics.spans import SpanScore, are_spans
from seq2see.sequences.tagged import TaggedTexts, cut_words, spelled
from seq2see.sequences.tokenisers import BOS, EOS
from seq2see.sources.examples import Example
from seq2see.workbench.classify import LEARNT_FROM, Classify, draw, table, told
from seq2see.workbench.model_folder import StoredModel
from seq2see.workbench.predict import Choice
from seq2see.workbench.questions import Said, Seen, Splits, Watch, say_all
from seq2see.workbench.remarks import unspaced
from seq2see.workbench.run_folder import RunFolder
from seq2see.workbench.start import learn_source
from seq2see.workbench.tokenisers import Tokenisers

if TYPE_CHECKING:
    from seq2see.workbench.recipe import Recipe


class Tag(Classify):
    """Name the tag of each word of a text; words stand between spaces."""

    def learn(self, recipe: Recipe, train: Sequence[Example]) -> Tokenisers:
        """A vocabulary of pieces of words, and the tags in the order of the alphabet."""
        kind = recipe.read.tokeniser.kind
        texts = ["".join(spelled(word, kind) for word in example.source_words) for example in train]
        tokeniser = learn_source(recipe, texts)
        tags = sorted({tag for example in train for tag in example.source_tags})
        if not tags:
            raise UserError("There are no tagged words to learn from.", remedy="Give CoNLL or CoNLL-U files.")
        if len(tags) < 2:
            what = f"All words to learn from have the tag {tags[0]!r}."
            raise UserError(what, where=train[0].place, remedy="Give words of other tags too.")
        return Tokenisers(tokeniser, tokeniser, tuple(tags))

    def encode(self, recipe: Recipe, tokenisers: Tokenisers, examples: Sequence[Example]) -> Any:
        """Sentences, and the numbers of their words' tags."""
        return TaggedTexts(examples, tokenisers.source, tokenisers.labels, recipe.read.longest)

    def shown(self, encoded: Any, count: int) -> list[Example]:
        """The first sentences."""
        return self.shown_all(encoded.examples[:count])

    def read(self, stored: StoredModel, text: str) -> Seen:
        """The words of a text, as many as fit."""
        words = words_of(text)
        if not words:
            raise UserError("There is nothing to read in an empty text.")
        ids, numbers = cut_words(words, stored.tokenisers.source, stored.config.model.read.longest)
        if not ids:
            raise UserError(f"The word {words[0][:40]!r} is longer than the model reads.")
        return Seen(text, [BOS, *ids, EOS], numbers[-1] < len(words), [0, *numbers, 0], unspaced(words))

    def answer(self, stored: StoredModel, seen: Seen, scores: Tensor, most: int) -> Said:
        """Each word with its tag behind it; told to give more than one, also what else it may be."""
        tags, words = stored.tokenisers.labels, words_of(seen.text)
        first = [place for place, word in enumerate(seen.words) if word and word != seen.words[place - 1]]
        chances, numbers = scores[first].topk(min(most or len(tags), len(tags)))
        best = [tags[number] for number in numbers[:, 0].tolist()]
        guesses = tuple(
            tuple(Choice(tags[number], math.exp(chance)) for number, chance in zip(*row, strict=True))
            for row in zip(numbers.tolist(), chances.tolist(), strict=True)
        )
        text = joined(words[: len(best)], best)
        return Said(seen, text, float(chances[:, 0].sum()), guesses if most != 1 else (), tuple(best))

    def judge(
        self, stored: StoredModel, recipe: Recipe, splits: Splits, run: RunFolder, watch: Watch
    ) -> dict[str, Any]:
        """Accuracy of words, precision, recall and F1 of each tag, and, where tags mark spans, of these."""
        scores: dict[str, Any] = {}
        for name, examples in splits.items():
            if name in LEARNT_FROM or not examples:
                continue
            self.encode(recipe, stored.tokenisers, examples)  # a tag that was not learnt is told
            said = say_all(self, stored, [" ".join(each.source_words) for each in examples], most=1, watch=watch)
            truths = [each.source_tags[: len(one.labels)] for each, one in zip(examples, said, strict=True)]
            answers = [each.labels for each in said]
            confusion = Confusion.of(
                stored.tokenisers.labels,
                [tag for row in truths for tag in row],
                [tag for row in answers for tag in row],
            )
            scores[name] = told(confusion)
            if are_spans(stored.tokenisers.labels):
                found = SpanScore.of(truths, answers).figures
                scores[name]["spans"] = {"precision": found.precision, "recall": found.recall, "f1": found.f1}
            table(run.evaluation / f"{name}-answers.tsv", self.shown_all(examples), said)
            if name == "test":
                draw(confusion, run)
        return scores

    def shown_all(self, examples: Sequence[Example]) -> list[Example]:
        """Sentences with their tags, as answers are written."""
        return [Example(" ".join(each.source_words), joined(each.source_words, each.source_tags)) for each in examples]


def words_of(text: str) -> list[str]:
    """What stands between plain spaces; a space that must not be broken (U+00A0) is part of its word.

    >>> words_of(" I  see\\n1\u00a0000 cats ")
    ['I', 'see', '1\\xa0000', 'cats']
    """
    return [word for word in re.split("[ \\t\\r\\n]+", text) if word]


def joined(words: Sequence[str], tags: Sequence[str]) -> str:
    """Words with their tags.

    >>> joined(["I", "see"], ["PRON", "VERB"])
    'I/PRON see/VERB'
    """
    return " ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=False))
