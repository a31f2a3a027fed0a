"""Judging a run: translate its test splits, score them, and keep every prediction with its score."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from seq2see.core.errors import UserError
from seq2see.core.files import write_json, write_text
from seq2see.metrics.accuracy import sentence_accuracy
from seq2see.metrics.alignment import HeadChoice, choose_heads, score_choice
from seq2see.metrics.bleu import Tokenise, corpus_bleu, corpus_chrf, row_chrf
from seq2see.metrics.bootstrap import PairedBootstrap, paired_bootstrap
from seq2see.metrics.notes_bleu import notes_bleu
from seq2see.sources.examples import Example
from seq2see.workbench.alignment_picture import draw_attention
from seq2see.workbench.predict import Model, Prediction, load
from seq2see.workbench.prepare import Splits, encode, read_corpus
from seq2see.workbench.reading import read_attention, read_with_truth
from seq2see.workbench.recipe import Recipe
from seq2see.workbench.run_folder import RunFolder

LEARNT_FROM = ("train", "valid")
Watch = Callable[[str, int], Any]


def evaluate(run: RunFolder, watch: Watch = lambda split, count: None) -> dict[str, Any]:
    """Score every test split of a run's corpus; the figures also go to `eval/scores.json`."""
    model, recipe = load(str(run.path)), run.recipe()
    splits, _ = read_corpus(recipe)
    scores: dict[str, Any] = {}
    for name, examples in splits.items():
        if name in LEARNT_FROM or not examples:
            continue
        sources = [example.source for example in examples]
        predictions = model.predict(sources, watch=partial(watch, name))
        scores[name] = _score(recipe, examples, [prediction.text for prediction in predictions])
        write_text(run.evaluation / f"{name}.tsv", _table(examples, predictions))
    scores |= _read(model, recipe, splits)
    chosen = HeadChoice.of(scores["alignment"]["chosen_on_valid"]) if "alignment" in scores else None
    draw_attention(run, model, splits["test"], chosen)
    write_json(run.evaluation / "scores.json", scores)
    return scores


def test_size(run: RunFolder) -> int:
    """How many pairs an evaluation translates."""
    splits, _ = read_corpus(run.recipe())
    return sum(len(examples) for name, examples in splits.items() if name not in LEARNT_FROM)


def bleu_tokenise(references: list[str]) -> Tokenise:
    """How BLEU cuts these texts into words: Chinese has no spaces to cut at."""
    text = "".join(references[:1000])
    chinese = sum("\u4e00" <= letter <= "\u9fff" for letter in text)
    return "zh" if chinese > len(text) / 4 else "13a"


def compare(first: RunFolder, second: RunFolder) -> PairedBootstrap:
    """Is one run's BLEU on the test split better by more than luck? Both must have been evaluated on the same pairs."""
    rows = [_read_table(run) for run in (first, second)]
    if [row[:2] for row in rows[0]] != [row[:2] for row in rows[1]]:
        raise UserError(
            f"{first} and {second} were not tested on the same pairs.",
            remedy="Compare runs of the same corpus.",
        )
    references = [row[1] for row in rows[0]]
    outputs = [[row[2] for row in each] for each in rows]
    return paired_bootstrap(outputs[0], outputs[1], references, seed=1, tokenise=bleu_tokenise(references))


def _score(recipe: Recipe, examples: list[Example], outputs: list[str]) -> dict[str, Any]:
    references = [example.target for example in examples]
    scores: dict[str, Any] = {"pairs": len(examples)}
    if "bleu" in recipe.metrics:
        scores["bleu"] = asdict(corpus_bleu(outputs, references, bleu_tokenise(references)))
    if "chrf" in recipe.metrics:
        scores["chrf"] = asdict(corpus_chrf(outputs, references))
    if "exact" in recipe.metrics:
        scores["exact"] = 100 * sentence_accuracy(outputs, references).value
    if "notes-bleu" in recipe.metrics:
        pairs = zip(outputs, references, strict=True)
        values = [notes_bleu(output.split(), reference.split()) for output, reference in pairs]
        scores["notes-bleu"] = sum(values) / len(values)
    return scores


def _read(model: Model, recipe: Recipe, splits: Splits) -> dict[str, Any]:
    """What is measured with the truth given: perplexity, and the alignment error of attention."""
    valid, test = (encode(recipe, model.tokenisers, splits[name]) for name in ("valid", "test"))
    perplexity, accuracy = read_with_truth(model.module, test)
    scores: dict[str, Any] = {
        "perplexity": {
            "per_token": perplexity.value,
            "bits_per_character": perplexity.bits_per_character,
            "token_accuracy": 100 * accuracy.value,
        }
    }
    if "alignment" in recipe.metrics:
        choice = choose_heads(*read_attention(model.module, valid, model.tokenisers))
        error = score_choice(choice, *read_attention(model.module, test, model.tokenisers))
        scores["alignment"] = {"error_rate": error, "chosen_on_valid": asdict(choice)}
    return scores


def _table(examples: list[Example], predictions: list[Prediction]) -> str:
    """source, reference, output, chrF and log-probability of each pair."""
    outputs, references = [each.text for each in predictions], [example.target for example in examples]
    lines = ["source\treference\toutput\tchrf\tscore\n"]
    for example, prediction, score in zip(examples, predictions, row_chrf(outputs, references), strict=True):
        texts = (example.source, example.target, prediction.text)
        cells = [_one_line(text) for text in texts]
        lines.append("\t".join([*cells, f"{score:.2f}", f"{prediction.score:.4f}"]) + "\n")
    return "".join(lines)


def _one_line(text: str) -> str:
    return text.replace("\t", " ").replace("\n", " ")


def _read_table(run: RunFolder) -> list[list[str]]:
    path = run.evaluation / "test.tsv"
    if not path.exists():
        raise UserError("This run was not evaluated yet.", where=str(run), remedy=f"`seq2see eval {run}` does that.")
    return [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n")[1:-1]]


def read_scores(run: RunFolder) -> dict[str, Any]:
    """The figures of the last evaluation; empty if there was none."""
    path = run.evaluation / "scores.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
