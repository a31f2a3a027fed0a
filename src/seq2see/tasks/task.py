"""A task: everything that belongs to one thing that models are trained for, from the files to the scores.

Reading files, learning vocabularies, datasets and batches, the model, its predictions and its evaluation are methods
of one object. Each task is one file in this folder (`translate.py`, `tag.py`, ...), and `TASKS` lists them. The
training loop, the run folder, `predict`, `eval`, the report and the explorer call these methods, and no code outside
this folder decides by the type of settings or data which task it has.

Two base classes carry all tasks: `generative.py` (predicting is decoding) and `encoder_only.py` (one forward pass gives
all outputs).

Tasks from outside are added by `register_task`.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from torch import nn

from seq2see.core.batch import Batch, Sequences
from seq2see.core.documents import read_toml_tables
from seq2see.core.errors import UserError, unknown_name
from seq2see.core.settings import Settings, choices, read_tree
from seq2see.data.examples import Example
from seq2see.data.pair_dataset import bucketed_batches
from seq2see.data.readers.data_report import DataReport
from seq2see.models.build import build_model
from seq2see.models.image_settings import ImageSource, VideoSource
from seq2see.models.ngram_lm import NgramSettings
from seq2see.models.settings import (
    EmbeddingTarget,
    ImageLabel,
    Label,
    MaskedTokensNSPTarget,
    MaskedTokensTarget,
    ModelSettings,
    Series,
    Tags,
)
from seq2see.tasks.model import Model, NamedBatch
from seq2see.tasks.model_folder import PREDICTION_SLOTS, ModelConfig, Recipe, StoredModel, Tokenizers
from seq2see.tasks.report_parts import (
    NamedValues,
    ReportFigure,
    ReportPart,
    ReportSection,
    ReportTable,
    RunResults,
    Tree,
    Words,
    flat_scores,
    note,
    section,
    words,
)

Splits = Mapping[str, Sequence[Example]]
SplitProgress = Callable[[str, int], Any]
"""Receives a split, and the number of its examples processed since the last call."""
SHOWN_ROWS = 20
"""The number of rows of a table in the report."""
DEVELOPMENT_SPLITS = ("train", "valid")
"""Splits without test scores, as long as there are other splits."""
RowKind = Literal["texts", "labels", "tags", "token_losses", "forecasts"]
Comparison = Literal["scores", "outputs", "decisions", "perplexity", "errors"]


BatchAt = Callable[[int], Batch]
"""The batch of a step; the first is step 1."""
Capture = Callable[[Callable[..., Batch]], Callable[..., Batch]]
"""Receives a function of tensors, and returns an equal one."""


def plain(function: Callable[..., Batch]) -> Callable[..., Batch]:
    """The function itself."""
    return function


@dataclass
class Evaluation:
    """The result of an evaluation: scores, tables and figures as plain data, for the run folder and the report."""

    scores: dict[str, Any] = field(default_factory=dict)
    """The content of `scores.json`: for each split its scores, and scores of the whole run."""
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    """Rows of text by file name, the header first: `test` becomes `eval/test.tsv`."""
    documents: dict[str, Any] = field(default_factory=dict)
    """JSON by file name: `token_losses` becomes `eval/token_losses.json`."""
    figures: dict[str, Callable[[Path], Any] | None] = field(default_factory=dict)
    """Functions that draw a figure to a path, by path in the run folder; None removes that of an earlier evaluation."""


@dataclass(frozen=True)
class CountingStep:
    """One step of a training that counts instead of computing gradients."""

    step: int
    module: nn.Module
    metrics: dict[str, float]
    tokens: int
    """The number of tokens that were counted."""
    message: str
    documents: dict[str, Any]
    """JSON for the run folder, by file name."""


@dataclass(frozen=True)
class EvaluatedRow:
    """One row of an evaluation: input, reference, prediction, and two metrics of the prediction."""

    number: int
    text: str
    truth: str
    prediction: str
    quality: float
    """The quality: chrF of a text, 1 or 0 for a label, the accuracy of tags, or the negative mean loss.

    For a forecast one step ahead: the negative absolute error.
    """
    confidence: float
    """The confidence of the model: log-probability of a text, probability of a label."""
    tokens: tuple[str, ...] = ()
    losses: tuple[float, ...] = ()
    """For running text: the tokens and their losses. For a forecast: `tokens` are the values before it."""


class Task(ABC):
    """What a model is trained for: the data, the model, its predictions and its evaluation."""

    name: ClassVar[str]
    """The word of the command line, of the page and of the documentation."""
    recipe: ClassVar[type[Recipe]]
    """The type of its recipes: the settings that this task has."""
    input_kind: ClassVar[str] = "text"
    """What a prediction is made from: text, image, video or series."""
    input_name: ClassVar[str] = "a text"
    """What a user types for a prediction."""
    reads_files: ClassVar[bool] = False
    """Whether a text input is the name of a file, as of an image; requests to the explorer name no files."""
    views: ClassVar[tuple[str, ...]] = (
        "runs", "tokenize", "attention", "single-head", "recurrent", "positions", "compare", "mistakes", "architecture",
        "embeddings",
    )  # fmt: skip
    """The views of the explorer that suit this task; which of them a model has depends on its parts, too."""
    predicts: ClassVar[bool] = True
    """Whether its models have predictions; weights without a head have none."""
    fixed_order: ClassVar[str] = ""
    """Why the tokens of an input cannot be put into another order; empty if they can."""
    row_kind: ClassVar[RowKind] = "texts"
    """The kind of the rows of its evaluation, which the page shows accordingly."""
    default_input: ClassVar[str] = "I have a pen"
    """The input of models without samples."""
    settings_slot: ClassVar[str] = "decoding"
    """The slot with the settings of a prediction."""
    command: ClassVar[str] = "predict"
    """The command that uses a model of this task."""
    generates: ClassVar[bool] = False
    """Whether a prediction is decoded token by token, so that there is a choice of engines."""
    fills_masks: ClassVar[bool] = False
    """Whether its inputs can have [MASK], which the model replaces by a token."""
    comparison: ClassVar[Comparison] = "scores"
    """How two runs are compared: their scores, or in detail their outputs, decisions, perplexities or forecasts."""
    pretrained_parts: ClassVar[tuple[str, ...]] = ()
    """The parts that training can begin with of a model of another task; of a model of this task, all parts are taken,
    except a head for other labels."""
    head_of_labels: ClassVar[bool] = False
    """Whether the head has an output for each label."""
    unit: ClassVar[str] = "tok"
    """The unit of the training speed."""
    predicted_unit: ClassVar[str] = "predictions"
    """What the training speed counts in the report: tokens or predictions."""

    # --- from files to batches ---

    def corpus(self, paths: tuple[str, ...]) -> Settings:
        """The corpus of the user's own files."""
        raise UserError(f"The task {self.name} reads no files.", hint="Leave out the files, or set the corpus.")

    def with_data(self, recipe: Recipe, paths: tuple[str, ...]) -> Recipe:
        """A recipe with the user's own files as its corpus."""
        return recipe.model_copy(update={"corpus": self.corpus(paths)})

    def read(self, recipe: Any) -> tuple[Splits, list[DataReport]]:
        """The splits of the corpus, and the data reports of user files."""
        corpus = recipe.corpus
        return corpus.read() if hasattr(corpus, "read") else (corpus.splits(), [])

    def evaluation_examples(self, recipe: Any) -> Sequence[Example]:
        """The examples that a run is evaluated on: the test split, or without one the validation split."""
        if "size" in type(recipe.corpus).model_fields:
            # A generated corpus: the test split does not depend on the size of the training split.
            recipe = recipe.model_copy(update={"corpus": recipe.corpus.model_copy(update={"size": 1})})
        splits, _ = self.read(recipe)
        return splits.get("test") or splits["valid"]

    @abstractmethod
    def fit(self, recipe: Any, train: Sequence[Example], pretrained: StoredModel | None = None) -> Tokenizers:
        """Learn the tokenizers (vocabularies, labels, scales) from the training examples, or take pretrained ones."""

    @abstractmethod
    def dataset(self, recipe: Any, tokenizers: Tokenizers, examples: Sequence[Example]) -> Any:
        """Encode examples as a dataset with lengths, batches and warnings."""

    def batches(self, recipe: Any, dataset: Any, full: bool = False, capture: Capture = plain) -> BatchAt:
        """The batch of every step (the first is step 1): a function of the recipe and the data only.

        Here they are batches of examples of similar length. With `full`, all batches of a bucket are padded to one
        shape, as CUDA graphs need. `capture` may replace a function of tensors that runs at every step, such as
        augmentation, by a faster one with equal results.
        """
        return bucketed_batches(dataset, recipe.training.batch_tokens, recipe.training.seed, full)

    def check_dataset(self, recipe: Any, dataset: Any) -> None:  # noqa: B027  # most tasks accept any size
        """Raise an error for data that are too small for training, before a run folder is created."""

    def summary(self, recipe: Any, tokenizers: Tokenizers, splits: Splits) -> str:
        """One line about the data: the sizes of splits and vocabularies."""
        return f"{split_sizes(splits)} examples; vocabulary {len(tokenizers.source):,}"

    def batch_figure(self, batch: Batch, dataset: Any) -> Callable[[Path], Any] | None:
        """A function that draws the inputs of the first step; None for inputs that are no images."""
        return None

    def first_row(self, batch: Batch, tokenizers: Tokenizers) -> Iterator[tuple[str, str]]:
        """The inputs and the labels of the first example of a batch: names and values."""
        if batch.source is not None:
            yield self.first_input(batch, tokenizers)
        if batch.target is None:
            labels = batch.labels[0][batch.label_mask[0]].tolist()
            if batch.labels.is_floating_point():
                names = [f"{each:g}" for each in labels]
            elif tokenizers.labels:
                names = [tokenizers.labels[each] for each in labels]
            else:
                names = tokenizers.target.tokens(labels)
            yield "labels", " ".join(names)
            return
        length = int(batch.target.lengths[0])
        yield "decoder input", " ".join(tokenizers.target.tokens(batch.target.values[0, :length].tolist()))
        yield "labels", " ".join(tokenizers.target.tokens(batch.labels[0, :length].tolist()))

    def first_input(self, batch: Batch, tokenizers: Tokenizers) -> tuple[str, str]:
        """The source of the first example of a batch: its name and its tokens."""
        assert isinstance(batch.source, Sequences)
        ids = batch.source.values[0, : int(batch.source.lengths[0])]
        return "source", " ".join(tokenizers.source.tokens(ids.tolist()))

    def describe_examples(self, dataset: Any, examples: Sequence[Example], indices: Sequence[int]) -> tuple[str, str]:
        """The unit of the examples of a batch, and the names of some of them, for an error message."""
        named = [examples[index] for index in indices]
        return "examples", "; ".join(f"{each.location or 'example'} {each.source[:40]!r}" for each in named)

    # --- the model ---

    def build(self, settings: ModelSettings, tokenizers: Tokenizers) -> nn.Module:
        """The model with these settings; its weights are initialized by the caller."""
        return build_model(settings, *tokenizers.sizes)

    def family(self, settings: ModelSettings) -> str:
        """The common name of this kind of model."""
        encoder, decoder = settings.encoder, settings.decoder
        if decoder is None:
            assert encoder is not None
            return "bert" if encoder.kind == "transformer" else encoder.kind
        if encoder is None:
            return "gpt" if decoder.kind == "transformer" else decoder.kind
        return "recurrent" if "recurrent" in (encoder.kind, decoder.kind) else decoder.kind

    def objective(self, recipe: Any) -> Any:
        """The training objective: `loss` of hidden states, head and labels (see `training/objectives.py`)."""
        return recipe.objective

    def answers(
        self, recipe: Any, dataset: Any, open_model: Callable[[], Model]
    ) -> Callable[[Batch, int], Batch] | None:
        """A function that replaces the replies of a batch by the model's own answers; None for other objectives.

        It receives the batch and the step. `open_model` returns the model in training, before its first step.
        """
        return None

    def describe(self, recipe: Any, module: nn.Module, train: Any = None) -> str:
        """One line about the model: its parts, and the number of its weights; or what it counts in the data."""
        kinds = [part.kind for part in (recipe.slot("encoder"), recipe.slot("decoder")) if part is not None]
        weights = sum(weight.numel() for weight in module.parameters())  # a tied weight counts once
        return f"{' → '.join(kinds)}, {weights:,} weights"

    def check_ensemble(self, run: str) -> None:
        """Raise an error if the models of this task cannot decode together."""
        if not self.generates:
            raise UserError("Ensembles are for generative models only.", location=run, hint="Leave this run out.")

    def check_export(self, run: str) -> None:  # noqa: B027  # the formats check the models of most tasks
        """Raise an error if no other library can hold the models of this task."""

    def count(self, recipe: Any, train: Any, valid: Any) -> Iterator[CountingStep] | None:
        """The steps of a training that counts; None for models that are trained by gradient descent."""
        return None

    @abstractmethod
    def validate(self, module: nn.Module, valid: Any, check: Callable[[], Any]) -> tuple[float, dict[str, float]]:
        """The loss and other metrics on the validation set during training; `check` raises an error to stop."""

    def samples(self, dataset: Any, examples: Sequence[Example], count: int) -> Sequence[Example]:
        """A few validation examples for the sample tables: inputs as a user types them, and their references."""
        return examples[:count]

    def sample_outputs(self, model: Any, examples: Any, should_stop: Callable[[], bool]) -> list[str]:
        """The outputs of the model for these samples."""
        return [each.text for each in model.predict(self.inputs(examples))]

    # --- predictions and scores ---

    @abstractmethod
    def open(self, stored: StoredModel, engine: Any) -> Model:
        """The Python interface of a model of this task; `engine` decodes, if the task is generative."""

    def inputs(self, examples: Any) -> list[Any]:
        """The inputs of examples, as `predict` accepts them."""
        return [example.source for example in examples]

    def example_input(self, settings: ModelSettings) -> Any:
        """An input for models without samples."""
        return self.default_input

    def without_paths(self, examples: Any) -> Any:
        """Examples for the page of the explorer, which shows no paths."""
        return examples

    def page_examples(self, settings: ModelSettings, examples: Sequence[Example]) -> Sequence[Example]:
        """Inputs and references that the page of the explorer offers, made of examples."""
        return examples

    def page_batch(self, batch: NamedBatch) -> NamedBatch:
        """An input with the names of its tokens for the page of the explorer."""
        return batch

    def text_windows(self, model: Any, texts: Sequence[Example], max_tokens: int) -> Any:
        """Windows of running text, for the perplexity of a language model."""
        raise UserError("Only language models can be evaluated on running text.", hint="Leave out --file.")

    def shown_settings(self, model: Any) -> dict[str, Any]:
        """The settings of predictions that are shown in the explorer, besides those of the model."""
        return {}

    def token_context(self, model: Any, raw: Any, target: str, token_ids: Sequence[int]) -> Any:
        """The tokens so far, for the probabilities of the next (`GenerationContext`, `MaskedContext`)."""
        raise UserError("This model generates no texts.", hint="Choose a run that generates texts.")

    def tiles(self, scores: Tree) -> list[tuple[Words, str]]:
        """The most important scores at the beginning of the report: names and values."""
        return []

    def curves(self, results: RunResults) -> list[ReportPart]:
        """The training curves in the report."""
        clip, unit = results.recipe["training"].get("max_grad_norm", 0.0), self.predicted_unit

        def draw(path: Path) -> None:
            from seq2see.inspection.plotting import draw_curves  # matplotlib only where it is used

            draw_curves(results.metrics, results.timing, path, clip, unit)

        return [ReportFigure("curves.png", words("curves"), draw), note("curves_note")]

    def sections(self, results: RunResults) -> list[ReportSection]:
        """The sections of the report about the evaluation: here all numbers, figures and tables."""
        values = [(name, f"{value:,.6g}") for name, value in flat_scores(results.scores).items()]
        figures = [path for path in sorted(results.figures) if path.startswith(("eval/", "attention/"))]
        tables = {name: rows for name, rows in results.tables.items() if len(rows) > 1}
        return [
            section("scores", NamedValues(values) if values else None),
            *(ReportSection(Path(path).stem, Path(path).stem, [ReportFigure(path, path)]) for path in figures),
            *(
                ReportSection(f"table-{name}", name, [ReportTable(rows[0], rows[1 : SHOWN_ROWS + 1], len(rows[0]))])
                for name, rows in tables.items()
            ),
        ]

    def score_lines(self, scores: Tree) -> Iterable[str | ReportTable]:
        """The scores on the terminal: here a line for each number."""
        return [f"{name.replace('.', ': ', 1)} {value:,.6g}" for name, value in flat_scores(scores).items()]

    def headline(self, scores: Tree) -> str:
        """The score in the list of runs; empty if there is none."""
        return next(iter(self.score_lines(scores)), "")  # type: ignore[return-value]  # here they are lines

    def evaluated_rows(self, model: Any, rows: Any) -> list[EvaluatedRow]:
        """The rows of a table of the evaluation, or what is in the document `token_losses`."""
        return [self.evaluated_row(number, cells) for number, cells in enumerate(rows)]

    def evaluated_row(self, number: int, cells: Sequence[str]) -> EvaluatedRow:
        """A row: here of input, reference, output, quality and confidence."""
        text, truth, output, quality, confidence = cells
        return EvaluatedRow(number, text, truth, output, float(quality), float(confidence))

    def decisions(self, truth: str, prediction: str) -> list[tuple[str, str]]:
        """(truth, prediction) of each decision of a row of a table of predictions."""
        return [(truth, prediction)]

    def size(self, splits: Splits) -> int:
        """The total of the counts that `evaluate` reports to `on_progress`."""
        return sum(len(examples) for name, examples in splits.items() if name not in DEVELOPMENT_SPLITS)

    def adapt(self, recipe: Any, settings: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The recipe for an evaluation with other settings, which are removed from `settings`; and what to report."""
        return recipe, {}

    @abstractmethod
    def evaluate(
        self, model: Any, recipe: Any, splits: Splits, on_progress: SplitProgress, settings: dict[str, Any]
    ) -> Evaluation:
        """Predict the test splits and compute the scores."""


@dataclass(frozen=True)
class EncodedInput:
    """A text as token ids, or an image as pixels."""

    text: str
    ids: list[int]
    """Token ids, including <bos> and <eos>."""
    truncated: bool
    word_ids: list[int] = field(default_factory=list)
    """The word index of each token, for models with word embeddings or tags (see `WordSequences`)."""
    warnings: tuple[str, ...] = ()
    """Warnings about the text, for example unknown characters."""
    pixels: NDArray[np.uint8] | None = None
    """Image: (channel, height, width), `text` is its file name; video: (frame, channel, height, width)."""

    @property
    def size(self) -> tuple[int, ...]:
        """The batching key: texts are batched with texts of similar length, images with images of equal size."""
        return (len(self.ids),) if self.pixels is None else self.pixels.shape


@contextmanager
def error_context(indices: Sequence[int] | None, index: int) -> Iterator[None]:
    """Add the line number to an error of one text, if texts are lines with `indices`."""
    try:
        yield
    except UserError as error:
        if error.location or indices is None:  # the error of an image has a location
            raise
        raise UserError(error.message, location=f"line {indices[index] + 1}", hint=error.hint) from None


def one_line(text: str) -> str:
    """A text as a cell of a table: tabs and line breaks are replaced by spaces."""
    return text.replace("\t", " ").replace("\n", " ").replace("\r", " ")


def split_sizes(splits: Splits, size: Callable[[Example], int] | None = None) -> str:
    """The sizes of the splits: the number of examples, or the sum of their sizes."""
    sizes = {name: sum(map(size, examples)) if size else len(examples) for name, examples in splits.items()}
    return ", ".join(f"{name} {count:,}" for name, count in sizes.items())


TASKS: dict[str, str] = {
    "translate": "seq2see.tasks.translate.Translate",
    "write": "seq2see.tasks.write.Write",
    "chat": "seq2see.tasks.chat.Chat",
    "chat-seq2seq": "seq2see.tasks.chat.ChatSeq2seq",
    "chat-retrieve": "seq2see.tasks.chat_retrieval.ChatRetrieve",
    "chat-retrieve-generate": "seq2see.tasks.chat_retrieval.ChatRetrieveGenerate",
    "ngram": "seq2see.tasks.ngram.Ngram",
    "fill": "seq2see.tasks.fill.Fill",
    "classify-text": "seq2see.tasks.classify_text.ClassifyText",
    "tag": "seq2see.tasks.tag.Tag",
    "classify-image": "seq2see.tasks.classify_image.ClassifyImage",
    "caption": "seq2see.tasks.caption.Caption",
    "caption-video": "seq2see.tasks.caption.CaptionVideo",
    "forecast": "seq2see.tasks.forecast.Forecast",
    "transcribe": "seq2see.tasks.transcribe.Transcribe",
    "embed": "seq2see.tasks.embed.Embed",
    "embed-image": "seq2see.tasks.embed.EmbedImage",
}
"""The class of each built-in task. It is imported on first use, so that a prediction imports one task, not all."""
_tasks: dict[str, Task] = {}
"""The tasks that are imported or registered."""


def register_task(task: Task) -> None:
    """Add a task from outside: its recipes, runs and models are then used as those of the built-in tasks."""
    if task.name in TASKS or type(_tasks.get(task.name, task)) is not type(task):
        raise UserError(f"There is already a task '{task.name}'.", hint="Give your task another name.")
    _tasks[task.name] = task


def task_names() -> list[str]:
    """The names of all tasks, the built-in ones first."""
    return list(dict.fromkeys([*TASKS, *_tasks]))


def own_tasks() -> list[str]:
    """The names of the tasks of `register_task`."""
    return [name for name in _tasks if name not in TASKS]


def task_named(name: str, location: str = "") -> Task:
    """The task with this name."""
    if name not in _tasks:
        if name not in TASKS:
            error = unknown_name("task", name, task_names(), location=location)
            own = "Or import the module that registers it with `seq2see.register_task`."
            raise UserError(error.message, location=location, hint=f"{error.hint} {own}")
        module, _, cls = TASKS[name].rpartition(".")
        _tasks[name] = getattr(importlib.import_module(module), cls)()
    return _tasks[name]


def task_of(recipe: Recipe) -> Task:
    """The task of a recipe."""
    return task_named(recipe.task)


def default_recipe(name: str) -> Recipe:
    """The recipe of a task with the defaults of its settings, such as for a task of `register_task`."""
    return read_tree(task_named(name).recipe, {"task": name, "name": name})


def read_recipe(path: Path) -> Recipe:
    """Read a recipe from a TOML file; its `task` determines its type."""
    return recipe_from_tree(read_toml_tables(path), str(path))


def recipe_from_tree(tree: dict[str, Any], location: str = "") -> Recipe:
    """Read a recipe from nested dictionaries."""
    if "task" not in tree:
        names = ", ".join(task_names())
        raise UserError("This recipe has no task.", location=location, hint=f'Add a line task = "...": {names}.')
    return read_tree(task_named(str(tree["task"]), location).recipe, tree, location=location)


def config_from_tree(tree: dict[str, Any], location: str = "") -> ModelConfig:
    """Read the content of `config.json`; the task determines the types of the settings in it."""
    task = task_named(str(tree.get("task")), location)
    model_settings = task.recipe.model_settings
    parts: dict[str, Any] = {
        "model": read_tree(model_settings, tree.get("model", {}), location=location),
        "members": tuple(read_tree(model_settings, each, location=location) for each in tree.get("members", ())),
    }
    for slot in set(PREDICTION_SLOTS) & tree.keys() & task.recipe.model_fields.keys():
        (settings_class,) = choices(task.recipe.model_fields[slot])
        parts[slot] = read_tree(settings_class, tree[slot], location=location)
    return read_tree(ModelConfig, tree | parts, location=location)


def pretrained_task(settings: ModelSettings) -> str:
    """The name of the task of pretrained weights, which have no recipe."""
    is_image = isinstance(settings.source, ImageSource)
    if isinstance(settings.target, EmbeddingTarget):
        return "embed-image" if is_image else "embed"
    by_target = {
        MaskedTokensTarget: "fill",
        MaskedTokensNSPTarget: "fill",
        Label: "classify-text",
        ImageLabel: "classify-image",
        Tags: "tag",
        Series: "forecast",
    }
    if type(settings.target) in by_target:
        return by_target[type(settings.target)]
    if is_image:
        return "caption-video" if isinstance(settings.source, VideoSource) else "caption"
    if settings.source is None:
        return "ngram" if isinstance(settings.decoder, NgramSettings) else "write"
    return "translate"
