"""Judging a run: translate its test splits, score them, and keep every prediction with its score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError
from seq2see.core.files import write_json, write_text
from seq2see.metrics.accuracy import sentence_accuracy
from seq2see.metrics.alignment import HeadChoice, choose_heads, score_choice
from seq2see.metrics.bleu import Tokenise, corpus_bleu, corpus_chrf, row_chrf
from seq2see.metrics.edits import pronunciation_errors
from seq2see.metrics.notes_bleu import notes_bleu
from seq2see.metrics.tokenised_bleu import corpus_bleu_tokenised, has_moses
from seq2see.models.picture_settings import Film, Picture
from seq2see.sequences.pairs import PairSet
from seq2see.sequences.windows import TextSet
from seq2see.sources.catalogue import CataloguedCorpus
from seq2see.sources.examples import Example
from seq2see.sources.picture_examples import PictureExamples
from seq2see.sources.texts import read_text
from seq2see.workbench.alignment_picture import draw_attention
from seq2see.workbench.ask import Asker
from seq2see.workbench.caption import Captioner
from seq2see.workbench.classify_pictures import checked_side
from seq2see.workbench.forecast import Forecaster
from seq2see.workbench.known_splits import LEARNT_FROM, changed_splits
from seq2see.workbench.picture_sheets import draw_frames, draw_words
from seq2see.workbench.predict import Model, Prediction, load
from seq2see.workbench.prepare import Encoded, Splits, encode, read_corpus, shown_before
from seq2see.workbench.reading import batches_of, read_attention, read_with_truth, surprises
from seq2see.workbench.recipe import Recipe
from seq2see.workbench.run_folder import RunFolder
from seq2see.workbench.tasks import task_of

WIDEST = 1024
"""Tokens of a window in which texts of one's own are judged; real weights can often take in more."""
Watch = Callable[[str, int], Any]


def evaluate(run: RunFolder, watch: Watch = lambda split, count: None, **settings: Any) -> dict[str, Any]:
    """Score every test split of a run's corpus; the figures also go to `eval/scores.json`.

    Settings are those of decoding, where they shall be others than the run's own, or `side`, for pictures.
    """
    model, recipe = load(str(run.path)), run.recipe()
    scores: dict[str, Any] = {}
    if isinstance(recipe.source, Picture) and "side" in settings:
        scores["seen"] = {"side": recipe.source.whole(checked_side(recipe.source, settings.pop("side")))}
        recipe = recipe.with_(**{"source.side": scores["seen"]["side"]})
    splits, _ = read_corpus(recipe)
    scores |= changed_splits(run, recipe, splits)
    if isinstance(model, Asker | Forecaster):
        if settings:
            raise UserError("This model writes no texts: nothing is decoded.", remedy="Leave out --set.")
        scores |= task_of(recipe).judge(model.stored, recipe, splits, run, partial(watch, "test"))
        write_json(run.evaluation / "scores.json", scores)
        return scores
    for name, examples in splits.items():
        if name in LEARNT_FROM or not examples or not model.reads:
            continue
        predictions = model.predict(asked_of(examples), watch=partial(watch, name), **settings)
        references, outputs = [each.target for each in examples], [each.text for each in predictions]
        scores[name] = score_outputs(recipe, references, outputs, [each.right for each in examples])
        write_text(run.evaluation / f"{name}.tsv", _table(examples, predictions))
    scores |= _read(model, recipe, splits, watch)
    if recipe.source is None:
        shown = encode(recipe, model.tokenisers, splits[judged(splits)])
        assert isinstance(shown, TextSet)
        write_json(run.evaluation / "strips.json", surprises(model.module, shown))
    chosen = HeadChoice.of(scores["alignment"]["chosen_on_valid"]) if "alignment" in scores else None
    if isinstance(model, Captioner) and isinstance(recipe.source, Film):
        draw_frames(run, model, splits["test"])
    elif isinstance(model, Captioner):
        draw_words(run, model, splits["test"])
    elif model.reads and not model.config.members:  # an ensemble looks with several models at once
        draw_attention(run, model, splits["test"], chosen)
    scores |= {"decoding": settings} if settings else {}
    write_json(run.evaluation / "scores.json", scores)
    return scores


def asked_of(examples: Sequence[Example]) -> list[Any]:
    """What is read or looked at: texts, or pixels."""
    if isinstance(examples, PictureExamples):
        return list(examples.pixels)
    return [example.source for example in examples]


def judge_texts(model: Model, paths: Sequence[Path]) -> dict[str, Any]:
    """How surprised a language model is by texts of one's own, in windows one behind the other; nothing is written."""
    if model.reads or not model.config.model.writes:
        raise UserError("Only a language model can be judged on running text.", remedy="Leave out --file.")
    texts = [read_text(path)[0] for path in paths]
    settings = model.config.model
    width, shown = min(WIDEST, settings.written.longest), shown_before(settings.decoder)
    windows = TextSet(texts, model.tokenisers.target, width, shown)
    return _perplexity(model, windows, "file", lambda: None)


def test_size(run: RunFolder) -> int:
    """How many pairs an evaluation translates, or how much it reads."""
    recipe = run.recipe()
    splits, _ = read_corpus(recipe)
    if not recipe.writes:
        return task_of(recipe).size(splits)
    if recipe.source is None:
        return sum(len(example.target) for example in splits[judged(splits)])
    return sum(len(examples) for name, examples in splits.items() if name not in LEARNT_FROM)


def judged(splits: Splits) -> str:
    """The split that perplexity is told of; some texts have nothing to test on but what they validate on."""
    return "test" if splits["test"] else "valid"


def bleu_tokenise(references: list[str]) -> Tokenise:
    """How BLEU cuts these texts into words: Chinese has no spaces to cut at."""
    text = "".join(references[:1000])
    chinese = sum("\u4e00" <= letter <= "\u9fff" for letter in text)
    return "zh" if chinese > len(text) / 4 else "13a"


def target_language(recipe: Recipe) -> str:
    """The language that is written, if the corpus says it; English otherwise."""
    if isinstance(recipe.corpus, CataloguedCorpus):
        return recipe.corpus.pair[1]
    return getattr(recipe.corpus, "target", None) or "en"


def score_outputs(
    recipe: Recipe, references: list[str], outputs: list[str], answers: Sequence[Sequence[str]] = ()
) -> dict[str, Any]:
    """What the recipe's metrics say of outputs; a metric whose package is not installed is left out.

    `answers` are all the right ones of each row, where there can be more than its reference.
    """
    scores: dict[str, Any] = {"pairs": len(references)}
    if "bleu" in recipe.metrics:
        scores["bleu"] = asdict(corpus_bleu(outputs, references, bleu_tokenise(references), answers))
    if "bleu-tokenised" in recipe.metrics and has_moses():
        scores["bleu-tokenised"] = asdict(corpus_bleu_tokenised(outputs, references, target_language(recipe)))
    if "chrf" in recipe.metrics:
        scores["chrf"] = asdict(corpus_chrf(outputs, references))
    if "exact" in recipe.metrics:
        choices = zip(outputs, answers or [(each,) for each in references], strict=True)
        right = [output if output in each else each[0] for output, each in choices]  # any of several will do
        scores["exact"] = 100 * sentence_accuracy(outputs, right).value
    if "notes-bleu" in recipe.metrics:
        pairs = zip(outputs, references, strict=True)
        values = [notes_bleu(output.split(), reference.split()) for output, reference in pairs]
        scores["notes-bleu"] = sum(values) / len(values)
    if "pronunciation" in recipe.metrics:
        scores["pronunciation"] = pronunciation_errors(outputs, answers or [[reference] for reference in references])
    return scores


def _read(model: Model, recipe: Recipe, splits: Splits, watch: Watch) -> dict[str, Any]:
    """What is measured with the truth given: perplexity, and the alignment error of attention."""
    split = judged(splits)
    valid, test = (encode(recipe, model.tokenisers, splits[name]) for name in ("valid", split))
    # Characters of a batch; pairs were watched as they came.
    each = test.characters // batches_of(model.module, test) if isinstance(test, TextSet) else 0
    scores = _perplexity(model, test, split, lambda: watch(split, each))
    if "alignment" in recipe.metrics and isinstance(valid, PairSet) and isinstance(test, PairSet):
        choice = choose_heads(*read_attention(model.module, valid, model.tokenisers))
        error = score_choice(choice, *read_attention(model.module, test, model.tokenisers))
        scores["alignment"] = {"error_rate": error, "chosen_on_valid": asdict(choice)}
    return scores


def _perplexity(model: Model, test: Encoded, split: str, watch: Callable[[], None]) -> dict[str, Any]:
    perplexity, accuracy = read_with_truth(model.module, test, watch)
    return {
        "perplexity": {
            "split": split,
            "unit": perplexity.unit,
            "per_token": perplexity.value,
            "bits_per_character": perplexity.bits_per_character,
            "token_accuracy": 100 * accuracy.value,
            "unknown": 100 * test.unknown if isinstance(test, TextSet) else 0.0,
        }
    }


def _table(examples: Sequence[Example], predictions: list[Prediction]) -> str:
    """source, reference, output, chrF and log-probability of each pair."""
    outputs, references = [each.text for each in predictions], [example.target for example in examples]
    lines = ["source\treference\toutput\tchrf\tscore\n"]
    for example, prediction, score in zip(examples, predictions, row_chrf(outputs, references), strict=True):
        texts = (example.source, example.target, prediction.text)
        cells = [_one_line(text) for text in texts]
        lines.append("\t".join([*cells, f"{score:.2f}", f"{prediction.score:.4f}"]) + "\n")
    return "".join(lines)


def _one_line(text: str) -> str:
    return text.replace("\t", " ").replace("\n", " ").replace("\r", " ")
