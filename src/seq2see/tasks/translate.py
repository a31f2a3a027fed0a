"""translate: one text into another text, such as a sentence into another language or a word into its sounds.

The encoder reads the source, the decoder generates the target (Sutskever et al. 2014; Bahdanau et al. 2015; Vaswani et
al. 2017).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from seq2see.core.batch import Batch, Sequences
from seq2see.data.catalogue.catalogue import CatalogueCorpus
from seq2see.data.examples import Example
from seq2see.data.generated.pocket.pocket_corpus import PocketCorpus
from seq2see.data.generated.puzzle_corpus import PuzzleCorpus
from seq2see.data.packed import PackedSampler
from seq2see.data.pair_dataset import PairDataset, bucketed_batches
from seq2see.data.readers.pair_files import UserPairs, wrong_file_count
from seq2see.data.tokenizers.bpe_dropout import BPEDropoutDataset
from seq2see.data.tokenizers.tokenizer import BPE, EOS, train_tokenizer
from seq2see.decoding.engine import Decoding, decode, make_limits
from seq2see.decoding.samplers import GreedySampler
from seq2see.metrics.alignment import HeadSelection, score_heads, select_heads, word_attention
from seq2see.models.recurrent import RecurrentDecoderSettings
from seq2see.models.settings import Text, TextTarget
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.generative import (
    GenerativeTask,
    collect_attention,
    evaluation_split,
    generate_splits,
    perplexity_scores,
)
from seq2see.tasks.model import Model, TextAttention
from seq2see.tasks.model_folder import Recipe, StoredModel, TextEncoder, Tokenizers
from seq2see.tasks.report_parts import ReportSection, RunResults, figure_section
from seq2see.tasks.task import BatchAt, Capture, Evaluation, SplitProgress, Splits, plain, split_sizes
from seq2see.tasks.text_scores import Metric
from seq2see.training.objectives import NextToken
from seq2see.training.settings import Training

if TYPE_CHECKING:
    from seq2see.inspection.attention_plots import Alignment


PairCorpus = Annotated[PocketCorpus | PuzzleCorpus | CatalogueCorpus | UserPairs, Field(discriminator="kind")]
"""Corpora of pairs of texts."""
USER_METRICS: tuple[Metric, ...] = ("bleu", "chrf", "exact_match")
"""The metrics for the user's own pairs, which have no gold alignment."""


class TranslateRecipe(Recipe):
    """A recipe of the task translate: an encoder of the source text and a decoder of the target text."""

    task: Literal["translate"] = "translate"
    corpus: PairCorpus
    """The source of the examples."""
    source: Text
    target: TextTarget = TextTarget()
    encoder: TextEncoder
    """The encoder of the source."""
    decoder: Annotated[TransformerSettings | RecurrentDecoderSettings, Field(discriminator="kind")]
    """The decoder of the target."""
    objective: NextToken = NextToken()
    decoding: Decoding = Decoding(max_new_tokens=100)
    metrics: tuple[Metric, ...] = ("bleu", "chrf", "exact_match")
    """The metrics that an evaluation computes."""

    @model_validator(mode="after")
    def check_batches(self) -> TranslateRecipe:
        """Refuse batches that a model cannot use."""
        if self.training.batches == "contiguous":
            raise ValueError("contiguous batches are for recurrent language models: set training.batches=bucketed")
        if self.training.batches == "packed":
            unmasked = [side for side in ("encoder", "decoder") if getattr(self, side).kind != "transformer"]
            if unmasked:
                raise ValueError(f"packed batches need a Transformer as {unmasked[0]}: set training.batches=bucketed")
            if self.objective.feeding.kind != "teacher":
                raise ValueError("packed batches need objective.feeding.kind=teacher: or set training.batches=bucketed")
        return self


class Translate(GenerativeTask):
    """One text into another."""

    name: ClassVar[str] = "translate"
    recipe: ClassVar[type[Recipe]] = TranslateRecipe

    def corpus(self, paths: tuple[str, ...]) -> UserPairs:
        """The user's own pairs: one table, or two files aligned by line."""
        if len(paths) > 2:
            raise wrong_file_count(len(paths))
        return UserPairs(paths=paths)

    def with_data(self, recipe: Recipe, paths: tuple[str, ...]) -> Recipe:
        """A recipe with the user's own files as its corpus, and the metrics that they allow."""
        return recipe.model_copy(update={"corpus": self.corpus(paths), "metrics": USER_METRICS})

    def fit(
        self, recipe: TranslateRecipe, train: Sequence[Example], pretrained: StoredModel | None = None
    ) -> Tokenizers:
        """Learn one vocabulary for both sides if they share it, else one for each; or take those of a trained model."""
        if pretrained is not None:
            return pretrained.tokenizers
        sources, targets, text = [each.source for each in train], [each.target for each in train], recipe.target
        if text.vocabulary == "shared":
            tokenizer = train_tokenizer(text.tokenizer, sources + targets)
            return Tokenizers(tokenizer, tokenizer)
        return Tokenizers(train_tokenizer(recipe.source.tokenizer, sources), train_tokenizer(text.tokenizer, targets))

    def dataset(self, recipe: TranslateRecipe, tokenizers: Tokenizers, examples: Sequence[Example]) -> PairDataset:
        """Pairs as token ids."""
        return PairDataset(
            examples,
            tokenizers.source,
            tokenizers.target,
            recipe.target.max_tokens,
            source_max_tokens=recipe.source.max_tokens,
        )

    def batches(self, recipe: Any, dataset: Any, full: bool = False, capture: Capture = plain) -> BatchAt:
        """Batches of pairs of similar length, or packed ones."""
        dropouts = {"source": recipe.source.tokenizer, "target": recipe.target.tokenizer}
        return pair_batches(recipe.training, dataset, dropouts, full)

    def summary(self, recipe: TranslateRecipe, tokenizers: Tokenizers, splits: Splits) -> str:
        """The number of pairs, and the sizes of both vocabularies."""
        source, target = tokenizers.sizes
        return f"{split_sizes(splits)} pairs; vocabulary {source:,} → {target:,}"

    def describe_examples(self, dataset: Any, examples: Sequence[Example], indices: Sequence[int]) -> tuple[str, str]:
        """The unit of the examples of a batch, and the names of some of them, for an error message."""
        return "pairs", super().describe_examples(dataset, examples, indices)[1]

    def sample_outputs(self, model: Model, examples: Sequence[Example], should_stop: Callable[[], bool]) -> list[str]:
        """Greedy translations."""
        limits = make_limits(model.config.decoding, should_stop)
        ids, max_tokens = [model.tokenizers.source.encode(each.source) for each in examples], model.max_tokens
        sources = Sequences.of([[*row[:max_tokens], EOS] for row in ids]).to(model.device)
        outputs = decode(model.module, sources, GreedySampler(), limits)  # type: ignore[arg-type]
        return [model.tokenizers.target.decode(each[0].tokens) for each in outputs]

    def evaluate(
        self,
        model: Model,
        recipe: TranslateRecipe,
        splits: Splits,
        on_progress: SplitProgress,
        settings: dict[str, Any],
    ) -> Evaluation:
        """Metrics of the generated texts, perplexity, and the alignment error rate of attention."""
        evaluation = generate_splits(model, recipe, splits, on_progress, settings, target_language(recipe))
        split = evaluation_split(splits)
        valid, test = (self.dataset(recipe, model.tokenizers, splits[name]) for name in ("valid", split))
        evaluation.scores |= perplexity_scores(model.module, test, split)
        selection = None
        if "alignment" in recipe.metrics:
            selection = select_heads(*collect_attention(model.module, valid, model.tokenizers))
            error = score_heads(selection, *collect_attention(model.module, test, model.tokenizers))
            evaluation.scores["alignment"] = {"error_rate": error, "selected_on_valid": asdict(selection)}
        if not model.config.members:  # an ensemble has several attention maps
            figure = self._alignment_figure(model, recipe, splits["test"], selection)
            evaluation.figures |= {"attention/alignment.png": figure} if figure else {}
        return evaluation

    def sections(self, results: RunResults) -> list[ReportSection]:
        """The scores, the best and the worst predictions, and the attention."""
        return [*super().sections(results), figure_section(results, "attention/alignment.png", "attention")]

    def _alignment_figure(
        self, model: Model, recipe: TranslateRecipe, examples: Sequence[Example], selection: HeadSelection | None
    ) -> Callable[..., Any] | None:
        return alignment_figure(
            model, lambda example: self.dataset(recipe, model.tokenizers, [example]), examples, selection
        )


def pair_batches(
    training: Training, pairs: PairDataset, tokenizers: dict[str, Any], full: bool
) -> Callable[[int], Batch]:
    """The batch of every step: texts of similar length, or packed; columns with BPE-dropout are tokenized anew.

    `tokenizers` are the settings of the tokenizer of each column.
    """
    dropouts = {name: each.dropout if isinstance(each, BPE) else 0.0 for name, each in tokenizers.items()}
    packed = training.batches == "packed"
    resampled = BPEDropoutDataset(pairs, dropouts, training.seed, packed=packed) if any(dropouts.values()) else None
    dataset, dataset_of = resampled or pairs, resampled.epoch if resampled else None
    if not packed:
        return bucketed_batches(dataset, training.batch_tokens, training.seed, full, dataset_of)
    sampler = PackedSampler(dataset.lengths, training.batch_tokens, training.seed)

    def batch_at(step: int) -> Batch:
        epoch_pairs = dataset_of(sampler.epoch_of(step - 1)) if dataset_of else pairs
        return sampler.batch(epoch_pairs, sampler.indices_at(step - 1))

    return batch_at


def target_language(recipe: TranslateRecipe) -> str:
    """The target language of the corpus, if it is given; otherwise English."""
    if isinstance(recipe.corpus, CatalogueCorpus):
        return recipe.corpus.column_pair[1]
    return getattr(recipe.corpus, "target", None) or "en"


SHOWN = 4
"""Sentences in the plot."""
MAX_CHARACTERS = 80
"""Maximum length in characters; longer sentences are drawn only if there are no shorter ones."""


def alignment_figure(
    model: Model,
    dataset: Callable[[Example], PairDataset],
    examples: Sequence[Example],
    selection: HeadSelection | None = None,
) -> Callable[[Path], Any] | None:
    """A function that draws the attention from target to source; None if the model has none.

    With gold links and a selection of heads: the mean of those heads, between words, for the reference. Otherwise: the
    mean of the last layer, between tokens, for the model's own output. `dataset` encodes one example.
    """
    linked = [example for example in examples if example.sure_links]
    if selection is not None and linked:
        alignments = [_between_words(model, dataset(each), each, selection) for each in _short_examples(linked)]
        heads = ", ".join(str(head + 1) for head in selection.heads)
        title = f"attention of decoder layer {selection.layer + 1}, head {heads}, for the reference"
    else:
        found = [_between_tokens(model, example) for example in _short_examples(examples)]
        alignments = [alignment for alignment in found if alignment is not None]
        title = "attention of the last decoder layer (mean of its heads), for the model's output"
    return partial(_draw, alignments, title) if alignments else None


def _draw(alignments: list[Alignment], title: str, path: Path) -> None:
    from seq2see.inspection.attention_plots import draw_alignments  # matplotlib only where it is used

    draw_alignments(alignments, path, title)


def _short_examples(examples: Sequence[Example]) -> list[Example]:
    short = [example for example in examples if max(len(example.source), len(example.target)) <= MAX_CHARACTERS]
    return list(short or examples)[:SHOWN]


def _between_words(model: Model, pairs: PairDataset, example: Example, selection: HeadSelection) -> Alignment:
    from seq2see.inspection.attention_plots import Alignment  # matplotlib only where it is used

    (sentence,), _ = collect_attention(model.module, pairs, model.tokenizers)
    weights = word_attention(sentence)[selection.layer, list(selection.heads)].mean(axis=0)
    target, source = weights.shape  # fewer than the words if a text was truncated
    return Alignment(
        source=example.source_words[:source],
        target=example.target_words[:target],
        weights=weights,
        links=example.sure_links,
        possible=example.possible_links,
    )


def _between_tokens(model: Model, example: Example) -> Alignment | None:
    from seq2see.inspection.attention_plots import Alignment  # matplotlib only where it is used

    attention = TextAttention.of(model.trace(example.source))
    return Alignment(attention.source, attention.target, attention.matrix) if attention.weights else None
