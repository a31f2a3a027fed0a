"""write: continue a text, token by token. A language model, trained on running text (Bengio et al. 2003)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from seq2see.core.batch import Sequences
from seq2see.core.settings import Settings
from seq2see.data.catalogue.catalogue import CatalogueText
from seq2see.data.examples import Example
from seq2see.data.readers.texts import PythonLibrary, UserTexts
from seq2see.data.tokenizers.tokenizer import BPE, Tokenizer, train_tokenizer
from seq2see.data.windows import ContiguousSampler, TextDataset, WindowSampler
from seq2see.decoding.engine import Decoding, decode, make_limits, make_sampler
from seq2see.models.mlp_lm import MLPDecoderSettings
from seq2see.models.ngram_lm import NgramSettings
from seq2see.models.recurrent import RecurrentDecoderSettings
from seq2see.models.settings import ModelSettings, TextTarget
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.generative import GenerativeTask, batch_count, evaluation_split, perplexity_scores, token_losses
from seq2see.tasks.model import Model
from seq2see.tasks.model_folder import Recipe, StoredModel, Tokenizers
from seq2see.tasks.report_parts import ColoredTokens, ReportSection, RunResults, Tree, note, section
from seq2see.tasks.task import (
    BatchAt,
    Capture,
    Comparison,
    EvaluatedRow,
    Evaluation,
    RowKind,
    SplitProgress,
    Splits,
    plain,
    split_sizes,
)
from seq2see.training.objectives import NextToken

MAX_PROMPT = 60
"""The number of characters of a prompt that the explorer offers."""
TextCorpus = Annotated[UserTexts | PythonLibrary | CatalogueText, Field(discriminator="kind")]
"""Corpora of running text."""


class WriteRecipe(Recipe):
    """A recipe of the task write: a decoder of running text."""

    task: Literal["write"] = "write"
    corpus: TextCorpus
    """The source of the text."""
    target: TextTarget = TextTarget()
    decoder: Annotated[TransformerSettings | RecurrentDecoderSettings | MLPDecoderSettings, Field(discriminator="kind")]
    """The decoder of the text."""
    objective: NextToken = NextToken()
    decoding: Decoding = Decoding(max_new_tokens=100)

    @model_validator(mode="after")
    def check_running_text(self) -> WriteRecipe:
        """Refuse settings that have no effect on running text."""
        check_running_text(self.training.batches, "target", self.target.tokenizer)
        return self

    @model_validator(mode="after")
    def check_contiguous(self) -> WriteRecipe:
        """Refuse contiguous batches for models without a recurrent state, and without teacher forcing."""
        if self.training.batches != "contiguous":
            return self
        if not isinstance(self.decoder, RecurrentDecoderSettings):
            raise ValueError("contiguous batches are for recurrent language models: set training.batches=bucketed")
        if self.target.embedding.positions != "none":
            raise ValueError("contiguous batches have no last position: set target.embedding.positions=none")
        if self.objective.feeding.kind != "teacher" or self.objective.r_drop:
            raise ValueError(
                "contiguous batches are read once, unchanged: set objective.feeding.kind=teacher and objective.r_drop=0"
            )
        return self


def check_running_text(batches: str, side: str, tokenizer: Settings) -> None:
    """Refuse settings that have no effect on running text."""
    if batches == "packed":
        raise ValueError("windows of running text have no padding to save: set training.batches=bucketed")
    if isinstance(tokenizer, BPE) and tokenizer.dropout:
        raise ValueError(f"running text is tokenized once: set {side}.tokenizer.dropout=0")


class Write(GenerativeTask):
    """Continue a text."""

    name: ClassVar[str] = "write"
    recipe: ClassVar[type[Recipe]] = WriteRecipe
    comparison: ClassVar[Comparison] = "perplexity"
    row_kind: ClassVar[RowKind] = "token_losses"
    pretrained_parts: ClassVar[tuple[str, ...]] = ("target", "decoder", "head")

    def corpus(self, paths: tuple[str, ...]) -> UserTexts:
        """The user's own text files."""
        return UserTexts(paths=paths)

    def fit(self, recipe: Any, train: Sequence[Example], pretrained: StoredModel | None = None) -> Tokenizers:
        """Learn a vocabulary, or take that of a pretrained model."""
        if pretrained is not None:
            return pretrained.tokenizers
        tokenizer = train_tokenizer(recipe.target.tokenizer, [each.target for each in train])
        return Tokenizers(tokenizer, tokenizer)

    def dataset(self, recipe: Any, tokenizers: Tokenizers, examples: Sequence[Example]) -> TextDataset:
        """Windows of running text."""
        return TextDataset(examples, tokenizers.target, recipe.target.max_tokens, context_before(recipe.decoder))

    def batches(self, recipe: Any, dataset: Any, full: bool = False, capture: Capture = plain) -> BatchAt:
        """Batches of shuffled windows, or contiguous ones."""
        sampler_class = ContiguousSampler if recipe.training.batches == "contiguous" else WindowSampler
        windows = sampler_class(dataset, recipe.training.batch_tokens, recipe.training.seed)
        return lambda step: windows.batch_at(step - 1)

    def check_dataset(self, recipe: Any, dataset: TextDataset) -> None:
        """Raise an error for a text that is shorter than one batch."""
        self.batches(recipe, dataset)

    def summary(self, recipe: Any, tokenizers: Tokenizers, splits: Splits) -> str:
        """The number of characters, and the size of the vocabulary."""
        return text_summary(tokenizers, splits)

    def describe_examples(self, dataset: TextDataset, examples: Any, indices: Sequence[int]) -> tuple[str, str]:
        """The unit of the examples of a batch, and the names of some of them, for an error message."""
        return "windows", "; ".join(f"near {dataset.text_at(index)[:40]!r}" for index in indices)

    def samples(self, dataset: TextDataset, examples: Sequence[Example], count: int) -> list[Example]:
        """The first halves of validation windows as prompts, and the second halves as references."""
        half, width = dataset.width // 2, dataset.width
        windows = [dataset.ids[start : start + width].tolist() for start in dataset.starts[:count]]
        decode_ids = dataset.tokenizer.decode
        return [Example(decode_ids(ids[:half]), decode_ids(ids[half:])) for ids in windows]

    def sample_outputs(self, model: Model, examples: Sequence[Example], should_stop: Callable[[], bool]) -> list[str]:
        """The continuations of the prompts, without the prompts."""
        tokenizer, decoding = model.tokenizers.source, model.config.decoding
        ids, limits = [tokenizer.encode(example.source) for example in examples], make_limits(decoding, should_stop)
        limits = replace(limits, max_new_tokens=min(limits.max_new_tokens, model.config.model.max_prompt_tokens))
        prompts, sampler = Sequences.of(ids).to(model.device), make_sampler(decoding, seed=1)
        results = decode(model.module, None, sampler, limits, prefix=prompts)  # type: ignore[arg-type]
        outputs = [each[0].tokens[len(prompt) :] for each, prompt in zip(results, ids, strict=True)]
        return [model.tokenizers.target.decode(tokens) for tokens in outputs]

    def page_examples(self, settings: ModelSettings, examples: Sequence[Example]) -> list[Example]:
        """The beginning of the first line of each text, as a prompt."""
        return [Example(first_line(each.target), "") for each in examples]

    def text_windows(self, model: Model, texts: Sequence[Example], max_tokens: int) -> TextDataset:
        """Consecutive windows of texts."""
        settings = model.config.model
        width = min(max_tokens, settings.target_text.max_tokens)
        return TextDataset(texts, model.tokenizers.target, width, context_before(settings.decoder))

    def size(self, splits: Splits) -> int:
        """The number of characters that are evaluated."""
        return sum(len(example.target) for example in splits[evaluation_split(splits)])

    def evaluate(
        self, model: Model, recipe: Any, splits: Splits, on_progress: SplitProgress, settings: dict[str, Any]
    ) -> Evaluation:
        """Perplexity, and the loss of each token of a few windows."""
        split = evaluation_split(splits)
        test = self.dataset(recipe, model.tokenizers, splits[split])
        count = test.characters // batch_count(model.module, test)  # characters per batch
        scores = perplexity_scores(model.module, test, split, lambda: on_progress(split, count), test.unknown_rate)
        return Evaluation(scores, documents={"token_losses": token_losses(model.module, test)})

    def evaluated_rows(self, model: Model, rows: Any) -> list[EvaluatedRow]:
        """A row for each window, with the loss of each token."""
        return token_loss_rows(rows, model.tokenizers.source)

    def sections(self, results: RunResults) -> list[ReportSection]:
        """The scores, and the loss of each token of a few windows."""
        return [*super().sections(results), token_loss_section(results, "generated_token_losses_note")]


def token_loss_rows(windows: Sequence[Tree], tokenizer: Tokenizer) -> list[EvaluatedRow]:
    """A row for each window of running text, with the loss of each token."""
    ids = {token: token_id for token_id, token in enumerate(tokenizer.tokens(range(len(tokenizer))))}
    rows = []
    for number, each in enumerate(windows):
        tokens, losses = tuple(each["tokens"]), tuple(each["losses"])
        mean = sum(losses) / max(len(losses), 1)
        text = tokenizer.decode([ids[token] for token in tokens if token in ids])
        rows.append(EvaluatedRow(number, text, "", "", -mean, -mean, tokens, losses))
    return rows


def token_loss_section(results: RunResults, explanation: str) -> ReportSection:
    """A few windows with each token colored by its loss."""
    if "token_losses" not in results.documents:
        return section("token_losses")
    return section("token_losses", note(explanation), ColoredTokens(results.documents["token_losses"]))


def text_summary(tokenizers: Tokenizers, splits: Splits) -> str:
    """The number of characters of each split, and the size of the vocabulary."""
    sizes = split_sizes(splits, lambda example: len(example.target))
    return f"{sizes} characters; vocabulary {tokenizers.sizes[1]:,}"


def context_before(decoder: Settings | None) -> int:
    """The number of context tokens before each window: those of an n-gram or MLP model, else none."""
    if isinstance(decoder, MLPDecoderSettings):
        return decoder.context
    return decoder.order - 1 if isinstance(decoder, NgramSettings) else 0


def first_line(text: str) -> str:
    """The beginning of the first line that is not blank."""
    return next((line for line in text.splitlines() if line.strip()), "")[:MAX_PROMPT]
