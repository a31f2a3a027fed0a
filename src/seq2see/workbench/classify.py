"""The question "which label has this text?": from labelled texts to a label, and to who was taken for whom."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from seq2see.core.errors import UserError
from seq2see.core.files import write_text
from seq2see.metrics.classes import Confusion
from seq2see.sequences.labelled import LabelledTexts
from seq2see.sequences.tokenisers import BOS, EOS
from seq2see.sources.examples import Example
from seq2see.sources.lines import is_blank
from seq2see.workbench.known_splits import LEARNT_FROM
from seq2see.workbench.model_folder import StoredModel
from seq2see.workbench.predict import Choice
from seq2see.workbench.questions import Said, Seen, Splits, Watch, say_all
from seq2see.workbench.run_folder import RunFolder
from seq2see.workbench.start import learn_source
from seq2see.workbench.tokenisers import Tokenisers

if TYPE_CHECKING:
    from seq2see.workbench.recipe import Recipe


class Classify:
    """Name the label of a text."""

    def learn(self, recipe: Recipe, train: Sequence[Example]) -> Tokenisers:
        """A vocabulary, and the labels in the order of the alphabet."""
        tokeniser = learn_source(recipe, [example.source for example in train])
        labels = sorted({example.target for example in train})
        if len(labels) < 2:
            raise UserError(
                f"All training texts have the label {labels[0]!r}.",
                where=train[0].place,
                remedy="Give texts of other labels too.",
            )
        return Tokenisers(tokeniser, tokeniser, tuple(labels))

    def encode(self, recipe: Recipe, tokenisers: Tokenisers, examples: Sequence[Example]) -> LabelledTexts:
        """Texts and the numbers of their labels."""
        return LabelledTexts(examples, tokenisers.source, tokenisers.labels, recipe.read.longest)

    def shown(self, encoded: LabelledTexts, count: int) -> list[Example]:
        """The first texts."""
        return list(encoded.examples[:count])

    def read(self, stored: StoredModel, text: str) -> Seen:
        """A text, or its beginning."""
        if is_blank(text):
            raise UserError("There is nothing to read in an empty text.")
        ids, longest = stored.tokenisers.source.encode(text), stored.config.model.read.longest
        return Seen(text, [BOS, *ids[:longest], EOS], len(ids) > longest)

    def answer(self, stored: StoredModel, seen: Seen, scores: Tensor, most: int) -> Said:
        """The likeliest label, and how likely all are."""
        labels = stored.tokenisers.labels
        chances, numbers = scores[0].topk(min(most or len(labels), len(labels)))
        rows = zip(numbers.tolist(), chances.tolist(), strict=True)
        choices = tuple(Choice(labels[number], math.exp(chance)) for number, chance in rows)
        return Said(seen, choices[0].text, float(chances[0]), (choices,))

    def size(self, splits: Splits) -> int:
        """How many texts are judged."""
        return sum(len(examples) for name, examples in splits.items() if name not in LEARNT_FROM)

    def judge(
        self, stored: StoredModel, recipe: Recipe, splits: Splits, run: RunFolder, watch: Watch
    ) -> dict[str, Any]:
        """Accuracy, and for each label precision, recall and F1; every answer goes into a table."""
        scores: dict[str, Any] = {}
        for name, examples in splits.items():
            if name in LEARNT_FROM or not examples:
                continue
            self.encode(recipe, stored.tokenisers, examples)  # a label that was not learnt is told
            said = say_all(self, stored, [example.source for example in examples], most=1, watch=watch)
            truths, answers = [example.target for example in examples], [each.text for each in said]
            confusion = Confusion.of(stored.tokenisers.labels, truths, answers)
            scores[name] = told(confusion)
            table(run.evaluation / f"{name}-answers.tsv", examples, said)
            if name == "test":
                draw(confusion, run)
        return scores


def told(confusion: Confusion) -> dict[str, Any]:
    """A confusion as it is stored."""
    classes = {
        label: {"precision": each.precision, "recall": each.recall, "f1": each.f1, "count": each.count}
        for label, each in confusion.figures.items()
    }
    figures = {"accuracy": 100 * confusion.accuracy, "macro_f1": 100 * confusion.macro_f1, "answers": confusion.total}
    return {**figures, "classes": classes, "confusion": [list(row) for row in confusion.counts]}


def draw(confusion: Confusion, run: RunFolder) -> None:
    """A picture of who was taken for whom."""
    from seq2see.inspection.confusion import draw_confusion  # matplotlib only where it is used

    draw_confusion(confusion.labels, confusion.counts, run.evaluation / "confusion.png")


def table(path: Path, examples: Sequence[Example], said: Sequence[Said], asked: str = "text") -> None:
    """Write text, label, answer and its probability, of each text; or of what else was asked about."""
    rows = [
        (example.source, example.target, each.text, f"{math.exp(each.log_probability):.4f}")
        for example, each in zip(examples, said, strict=True)
    ]
    lines = [[cell.replace("\t", " ").replace("\n", " ").replace("\r", " ") for cell in row] for row in rows]
    head = [asked, "label", "answer", "probability"]
    write_text(path, "".join("\t".join(line) + "\n" for line in [head, *lines]))
