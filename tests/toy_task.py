"""digit-sum: read a text of digits, and give their sum: one number, by regression."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

import seq2see
from seq2see.cli.app import run as command_line
from seq2see.core.batch import Batch, Sequences
from seq2see.core.devices import device_of
from seq2see.core.seeds import generator
from seq2see.core.settings import Settings
from seq2see.data.examples import Example
from seq2see.data.tokenizers.tokenizer import BOS, EOS, Characters, Tokenizer, train_tokenizer
from seq2see.models.build import build_encoder
from seq2see.models.encoder_model import EncoderModel
from seq2see.models.settings import ModelSettings, Text
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.encoder_only import EncoderOnlyTask, TaskResult
from seq2see.tasks.model_folder import Recipe, StoredModel, TextEncoder, Tokenizers
from seq2see.tasks.task import EncodedInput, EvaluatedRow, Evaluation, Splits
from seq2see.training.optimizers import Constant
from seq2see.training.scheduled_sampling import TeacherForcing
from seq2see.training.settings import Training


class Digits(Settings):
    """Texts of four random digits, and their sums."""

    kind: Literal["digits"] = "digits"
    size: int = 400
    """The number of training examples."""

    def splits(self) -> dict[str, list[Example]]:
        """train, valid and test."""
        sizes, random = {"test": 50, "valid": 50, "train": self.size}, generator(1, "digits")
        texts = ["".join(map(str, random.integers(10, size=4))) for _ in range(sum(sizes.values()))]
        examples = iter([Example(text, str(sum(map(int, text)))) for text in texts])
        return {name: [next(examples) for _ in range(size)] for name, size in sizes.items()}


class Number(Settings):
    """One number for the whole text."""

    kind: Literal["number"] = "number"


class NumberModelSettings(ModelSettings):
    """An encoder of a text, and a head for one number."""

    target: Number = Number()


class DigitSumRecipe(Recipe):
    """A recipe of the task digit-sum."""

    task: Literal["digit-sum"] = "digit-sum"
    name: str = "digit-sum"
    corpus: Digits = Digits()
    source: Text = Text(tokenizer=Characters())
    target: Number = Number()
    encoder: TextEncoder = TransformerSettings(width=32, depth=1, heads=2, dropout=0.0)
    training: Training = Training(
        steps=150, evaluate_every=50, batch_tokens=256, learning_rate=1e-2, schedule=Constant()
    )

    model_settings: ClassVar[type[ModelSettings]] = NumberModelSettings


class SquaredError:
    """The training objective: the sum of the squared errors."""

    copies, feeding = 1, TeacherForcing()

    def loss(self, hidden: Sequences, head: nn.Module, labels: Tensor, cross_entropy: Any) -> Tensor:
        """The summed loss of a batch; the training loop divides it by the number of labels."""
        return (head(hidden.values)[..., 0] - labels)[~labels.isnan()].square().sum()


class NumberModel(EncoderModel):
    """An encoder, whose pooled vector is the input of the head."""

    def hidden(self, batch: Batch) -> Sequences:
        """The input of the head: one vector for each text, as a sequence of length 1."""
        pooled = self.pooled(batch.source)
        return Sequences(pooled[:, None], torch.ones(len(pooled), dtype=torch.long, device=pooled.device))


class NumberDataset:
    """Texts as token ids, and their numbers."""

    def __init__(self, examples: Sequence[Example], tokenizer: Tokenizer):
        self.rows = [[BOS, *ids, EOS] for ids in tokenizer.encode_many([each.source for each in examples])]
        self.numbers = [float(each.target) for each in examples]
        self.lengths = np.array([[len(row)] for row in self.rows])

    def warnings(self) -> list[str]:
        """Warnings about the data: none."""
        return []

    def batch(self, indices: Sequence[int]) -> Batch:
        """The examples with these indices."""
        source = Sequences.of([self.rows[index] for index in indices])
        labels = torch.tensor([[self.numbers[index]] for index in indices])
        return Batch(source, None, labels, torch.as_tensor(indices))


class DigitSum(EncoderOnlyTask):
    """The sum of the digits of a text."""

    name: ClassVar[str] = "digit-sum"
    recipe: ClassVar[type[Recipe]] = DigitSumRecipe
    views: ClassVar[tuple[str, ...]] = ("runs", "tokenize", "attention", "compare", "mistakes", "architecture")
    default_input: ClassVar[str] = "1234"

    def fit(self, recipe: Any, train: Sequence[Example], pretrained: StoredModel | None = None) -> Tokenizers:
        """Learn the vocabulary."""
        tokenizer = train_tokenizer(recipe.source.tokenizer, [each.source for each in train])
        return Tokenizers(tokenizer, tokenizer)

    def dataset(self, recipe: Any, tokenizers: Tokenizers, examples: Sequence[Example]) -> NumberDataset:
        """The examples as token ids and numbers."""
        return NumberDataset(examples, tokenizers.source)

    def build(self, settings: ModelSettings, tokenizers: Tokenizers) -> NumberModel:
        """The model; its weights are initialized by the caller."""
        source, encoder = build_encoder(settings, len(tokenizers.source))
        return NumberModel(source, encoder, nn.Linear(settings.encoder.width, 1))

    def objective(self, recipe: Any) -> SquaredError:
        """The squared error."""
        return SquaredError()

    @torch.inference_mode()
    def validate(self, module: nn.Module, valid: NumberDataset, check: Callable[[], Any]) -> tuple[float, dict]:
        """The mean squared error; there are no other metrics."""
        check()
        batch = valid.batch(range(len(valid.rows))).to(device_of(module))
        return float((module(batch)[..., 0] - batch.labels).square().mean()), {}

    def encode(self, stored: StoredModel, raw: str) -> EncodedInput:
        """A text as token ids."""
        return EncodedInput(raw, [BOS, *stored.tokenizers.source.encode(raw), EOS], truncated=False)

    def scores(self, logits: Tensor) -> Tensor:
        """The numbers themselves: they are no logits of classes."""
        return logits

    def postprocess(self, stored: StoredModel, inputs: EncodedInput, scores: Tensor, top_k: int) -> TaskResult:
        """The number, as a text."""
        return TaskResult(inputs, f"{float(scores[0, 0]):.1f}", 0.0)

    def evaluate(
        self, model: Any, recipe: Any, splits: Splits, on_progress: Callable[[str, int], Any], settings: dict[str, Any]
    ) -> Evaluation:
        """The mean absolute error, a table of all predictions, and a plot."""
        examples = splits["test"]
        predictions = [float(each.text) for each in model.predict(self.inputs(examples))]
        truth = [float(each.target) for each in examples]
        errors = [abs(first - second) for first, second in zip(predictions, truth, strict=True)]
        on_progress("test", len(examples))

        def draw(path: Path) -> None:
            from matplotlib.figure import Figure

            figure = Figure()
            figure.subplots().plot(truth, predictions, ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path)

        rows = [
            [each.source, each.target, str(number), f"{error:.2f}"]
            for each, number, error in zip(examples, predictions, errors, strict=True)
        ]
        return Evaluation(
            scores={"test": {"mean_absolute_error": sum(errors) / len(errors)}},
            tables={"test": [["text", "sum", "prediction", "error"], *rows]},
            figures={"eval/numbers.png": draw},
        )

    def evaluated_row(self, number: int, cells: Sequence[str]) -> EvaluatedRow:
        """A row of the table for the explorer: the larger its quality, the better the prediction."""
        text, truth, prediction, error = cells
        return EvaluatedRow(number, text, truth, prediction, quality=-float(error), confidence=0.0)


seq2see.register_task(DigitSum())

if __name__ == "__main__":
    sys.exit(command_line(sys.argv[1:]))
