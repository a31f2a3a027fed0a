"""Evaluation of a run: predict its test splits, compute the metrics, and store every prediction with its score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError
from seq2see.core.files import write_json, write_text
from seq2see.data.catalogue.catalogue import CatalogueCorpus
from seq2see.data.examples import Example, ImageExamples
from seq2see.data.pair_dataset import PairDataset
from seq2see.data.readers.texts import read_text
from seq2see.data.windows import TextDataset
from seq2see.metrics.accuracy import sentence_accuracy
from seq2see.metrics.alignment import HeadSelection, score_heads, select_heads
from seq2see.metrics.bleu import (
    BleuTokenizer,
    corpus_bleu,
    corpus_bleu_tokenized,
    corpus_chrf,
    has_moses,
    sentence_chrf,
)
from seq2see.metrics.d2l_bleu import d2l_bleu
from seq2see.metrics.edits import pronunciation_errors
from seq2see.models.image_settings import ImageSource, VideoSource
from seq2see.runs.alignment_plot import draw_attention
from seq2see.runs.captioner import Captioner
from seq2see.runs.forecaster import Forecaster
from seq2see.runs.image_classification import checked_image_size
from seq2see.runs.image_sheets import draw_frame_attention, draw_word_attention
from seq2see.runs.model import Model, Prediction, load
from seq2see.runs.predictor import Predictor
from seq2see.runs.prepare import EncodedData, Splits, context_before, encode, read_corpus
from seq2see.runs.recipe import Recipe
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.split_fingerprints import DEVELOPMENT_SPLITS, changed_splits
from seq2see.runs.tasks import task_of
from seq2see.runs.teacher_forcing import batch_count, collect_attention, evaluate_teacher_forced, token_losses

MAX_WINDOW = 1024
"""The window size in tokens for texts given with `--file`; pretrained models often support longer windows."""
ProgressCallback = Callable[[str, int], Any]


def evaluate(
    run: RunFolder, on_progress: ProgressCallback = lambda split, count: None, **settings: Any
) -> dict[str, Any]:
    """Score every test split of a run's corpus, and write the scores to `eval/scores.json`.

    `settings` override the decoding settings of the run, or `image_size`.
    """
    model, recipe = load(str(run.path)), run.recipe()
    scores: dict[str, Any] = {}
    if isinstance(recipe.source, ImageSource) and "image_size" in settings:
        scores["image"] = {
            "size": recipe.source.nearest_image_size(checked_image_size(recipe.source, settings.pop("image_size")))
        }
        recipe = recipe.with_(**{"source.image_size": scores["image"]["size"]})
    splits, _ = read_corpus(recipe)
    scores |= changed_splits(run, recipe, splits)
    if isinstance(model, Predictor | Forecaster):
        if settings:
            raise UserError(
                "This model generates no text, so decoding settings have no effect.", hint="Leave out --set."
            )
        scores |= task_of(recipe).evaluate(model.stored, recipe, splits, run, partial(on_progress, "test"))
        write_json(run.evaluation / "scores.json", scores)
        return scores
    for name, examples in splits.items():
        if name in DEVELOPMENT_SPLITS or not examples or not model.has_source:
            continue
        predictions = model.predict(inputs_of(examples), on_progress=partial(on_progress, name), **settings)
        references, outputs = [each.target for each in examples], [each.text for each in predictions]
        scores[name] = score_outputs(recipe, references, outputs, [each.all_references for each in examples])
        write_text(run.evaluation / f"{name}.tsv", _table(examples, predictions))
    scores |= _teacher_forced_scores(model, recipe, splits, on_progress)
    if recipe.source is None:
        texts = encode(recipe, model.tokenizers, splits[evaluation_split(splits)])
        assert isinstance(texts, TextDataset)
        write_json(run.evaluation / "token_losses.json", token_losses(model.module, texts))
    selection = HeadSelection.of(scores["alignment"]["selected_on_valid"]) if "alignment" in scores else None
    if isinstance(model, Captioner) and isinstance(recipe.source, VideoSource):
        draw_frame_attention(run, model, splits["test"])
    elif isinstance(model, Captioner):
        draw_word_attention(run, model, splits["test"])
    elif model.has_source and not model.config.members:  # an ensemble has several attention maps
        draw_attention(run, model, splits["test"], selection)
    scores |= {"decoding": settings} if settings else {}
    write_json(run.evaluation / "scores.json", scores)
    return scores


def inputs_of(examples: Sequence[Example]) -> list[Any]:
    """The model inputs of examples: texts, or pixels."""
    if isinstance(examples, ImageExamples):
        return list(examples.pixels)
    return [example.source for example in examples]


def evaluate_texts(model: Model, paths: Sequence[Path]) -> dict[str, Any]:
    """The perplexity of a language model on text files, in consecutive windows; nothing is stored."""
    if model.has_source or not model.config.model.generates:
        raise UserError("Only language models can be evaluated on running text.", hint="Leave out --file.")
    texts = [read_text(path)[0] for path in paths]
    settings = model.config.model
    width, context = min(MAX_WINDOW, settings.target_text.max_tokens), context_before(settings.decoder)
    windows = TextDataset(texts, model.tokenizers.target, width, context)
    return _perplexity(model, windows, "file", lambda: None)


def test_size(run: RunFolder) -> int:
    """The total of the counts that `evaluate` reports to `on_progress`: pairs, texts or characters."""
    recipe = run.recipe()
    splits, _ = read_corpus(recipe)
    if not recipe.generates:
        return task_of(recipe).size(splits)
    if recipe.source is None:
        return sum(len(example.target) for example in splits[evaluation_split(splits)])
    return sum(len(examples) for name, examples in splits.items() if name not in DEVELOPMENT_SPLITS)


def evaluation_split(splits: Splits) -> str:
    """The split that perplexity is computed on: the test split, or the validation split if there is none."""
    return "test" if splits["test"] else "valid"


def bleu_tokenize(references: list[str]) -> BleuTokenizer:
    """The sacreBLEU tokenizer for these texts: `zh` for Chinese, which has no spaces between words, else `13a`."""
    text = "".join(references[:1000])
    chinese = sum("\u4e00" <= character <= "\u9fff" for character in text)
    return "zh" if chinese > len(text) / 4 else "13a"


def target_language(recipe: Recipe) -> str:
    """The target language of the corpus, if it is given; otherwise English."""
    if isinstance(recipe.corpus, CatalogueCorpus):
        return recipe.corpus.column_pair[1]
    return getattr(recipe.corpus, "target", None) or "en"


def score_outputs(
    recipe: Recipe, references: list[str], outputs: list[str], all_references: Sequence[Sequence[str]] = ()
) -> dict[str, Any]:
    """Compute the recipe's metrics; a metric whose package is not installed is left out.

    `all_references` are the references of each row if there can be several.
    """
    scores: dict[str, Any] = {"pairs": len(references)}
    if "bleu" in recipe.metrics:
        scores["bleu"] = asdict(corpus_bleu(outputs, references, bleu_tokenize(references), all_references))
    if "bleu-tokenized" in recipe.metrics and has_moses():
        scores["bleu-tokenized"] = asdict(corpus_bleu_tokenized(outputs, references, target_language(recipe)))
    if "chrf" in recipe.metrics:
        scores["chrf"] = asdict(corpus_chrf(outputs, references))
    if "exact_match" in recipe.metrics:
        rows = zip(outputs, all_references or [(each,) for each in references], strict=True)
        matches = [output if output in each else each[0] for output, each in rows]  # any reference counts
        scores["exact_match"] = 100 * sentence_accuracy(outputs, matches).value
    if "d2l-bleu" in recipe.metrics:
        pairs = zip(outputs, references, strict=True)
        values = [d2l_bleu(output.split(), reference.split()) for output, reference in pairs]
        scores["d2l-bleu"] = sum(values) / len(values)
    if "pronunciation" in recipe.metrics:
        scores["pronunciation"] = pronunciation_errors(outputs, all_references or [[each] for each in references])
    return scores


def _teacher_forced_scores(
    model: Model, recipe: Recipe, splits: Splits, on_progress: ProgressCallback
) -> dict[str, Any]:
    """The scores with teacher forcing: perplexity, and the alignment error rate of attention."""
    split = evaluation_split(splits)
    valid, test = (encode(recipe, model.tokenizers, splits[name]) for name in ("valid", split))
    # Characters per batch; the progress of pairs was reported during decoding.
    count = test.characters // batch_count(model.module, test) if isinstance(test, TextDataset) else 0
    scores = _perplexity(model, test, split, lambda: on_progress(split, count))
    if "alignment" in recipe.metrics and isinstance(valid, PairDataset) and isinstance(test, PairDataset):
        selection = select_heads(*collect_attention(model.module, valid, model.tokenizers))
        error = score_heads(selection, *collect_attention(model.module, test, model.tokenizers))
        scores["alignment"] = {"error_rate": error, "selected_on_valid": asdict(selection)}
    return scores


def _perplexity(model: Model, test: EncodedData, split: str, on_progress: Callable[[], None]) -> dict[str, Any]:
    perplexity, accuracy = evaluate_teacher_forced(model.module, test, on_progress)
    return {
        "perplexity": {
            "split": split,
            "unit": perplexity.unit,
            "per_token": perplexity.value,
            "bits_per_character": perplexity.bits_per_character,
            "token_accuracy": 100 * accuracy.value,
            "unknown_rate": 100 * test.unknown_rate if isinstance(test, TextDataset) else 0.0,
        }
    }


def _table(examples: Sequence[Example], predictions: list[Prediction]) -> str:
    """A table: source, reference, output, chrF and score of each pair."""
    outputs, references = [each.text for each in predictions], [example.target for example in examples]
    lines = ["source\treference\toutput\tchrf\tscore\n"]
    for example, prediction, score in zip(examples, predictions, sentence_chrf(outputs, references), strict=True):
        texts = (example.source, example.target, prediction.text)
        cells = [_one_line(text) for text in texts]
        lines.append("\t".join([*cells, f"{score:.2f}", f"{prediction.score:.4f}"]) + "\n")
    return "".join(lines)


def _one_line(text: str) -> str:
    return text.replace("\t", " ").replace("\n", " ").replace("\r", " ")
