"""Two sides beside each other: two runs on one input, or one run on two inputs.

Each side answers by itself. Then both read the same target, the answer of the first side unless another is given: only
so can probabilities be compared token by token, and attention cell by cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

from seq2see.explorer.bench import Bench, OpenRun
from seq2see.explorer.examples import example_of
from seq2see.explorer.messages import Place, RunId, Words
from seq2see.explorer.records import AboutInput, given, reading
from seq2see.explorer.views.pictures import test_pictures
from seq2see.models.picture_settings import Picture
from seq2see.workbench.forcing import forced
from seq2see.workbench.predict import Choice, Model, Prediction

GUESSES = 8
"""Likely answers that are told where there are as many as words."""


class SidesAsked(AboutInput):
    """Two sides: where nothing is said of the second, it is as the first."""

    second: RunId | None = None
    """Another run."""
    other: Words = ""
    """Another text."""
    other_number: Place | None = None
    """Another picture, one of the test split; without it both look at one picture."""


def sides(bench: Bench, asked: SidesAsked) -> dict[str, Any]:
    """Both answers with what differs marked, and how both read one target."""
    runs = [bench.run(asked.run), bench.run(asked.second or asked.run)]
    text = typed(runs[0], asked.text)
    first = {"number": asked.number, "pixels": asked.pixels}
    looked = [first, first if asked.other_number is None else {"number": asked.other_number}]
    inputs = [
        AboutInput(run=run.id, text=each, target=asked.target, **which)
        for run, each, which in zip(runs, [text, asked.other or typed(runs[1], text)], looked, strict=True)
    ]
    found = [answer(bench, each) for each in inputs]
    target = asked.target or written(runs[0].model, text, found[0])
    told = [_told(prediction) | {"name": run.name} for run, prediction in zip(runs, found, strict=True)]
    for side, other, each in zip(told, reversed(told), inputs, strict=True):
        side["differs"] = differs([one["piece"] for one in side["tokens"]], [one["piece"] for one in other["tokens"]])
        side["input"] = each.model_copy(update={"target": target}).model_dump()
    read = [
        forced(run.model, reading(bench, AboutInput(**side["input"]))) for run, side in zip(runs, told, strict=True)
    ]
    return {
        "sides": told,
        "target": target,
        "read": [[_choice(each) for each in one] for one in read],
        "pictures": len(test_pictures(runs[0])) if looks(runs[0]) else 0,
    }


def typed(run: OpenRun, text: str) -> str:
    """What a run's model reads where nothing was typed; one that looks at pictures reads nothing."""
    return text if text or looks(run) else example_of(run)


def looks(run: OpenRun) -> bool:
    """Whether a run's model looks at pictures, or at films."""
    return isinstance(run.settings.source, Picture)


def answer(bench: Bench, asked: AboutInput) -> Prediction:
    """What a model says by itself; of one that only reads, also what else was likely."""
    run, read = bench.run(asked.run), given(bench, asked)
    if run.settings.writes:
        return run.model.predict([read])[0]
    return run.model.predict([read], top_k=0 if run.model.tokenisers.labels else GUESSES)[0]


def written(model: Model, text: str, prediction: Prediction) -> str:
    """What a model wrote; a language model's answer begins with the text."""
    return prediction.text[0 if model.reads else len(text) :] if model.config.model.writes else ""


def differs(own: Sequence[str], others: Sequence[str]) -> list[bool]:
    """For each piece of an answer whether the other answer has nothing that it stands for.

    >>> differs(["two", "red", "pens"], ["two", "pens"])
    [False, True, False]
    """
    found = [True] * len(own)
    for block in SequenceMatcher(None, own, others, autojunk=False).get_matching_blocks():
        found[block.a : block.a + block.size] = [False] * block.size
    return found


def _told(prediction: Prediction) -> dict[str, Any]:
    best = prediction.answers[0]
    return {
        "answer": best.text,
        "log_probability": best.log_probability,
        "tokens": [_choice(each) for each in best.tokens],
        "guesses": [[_choice(each) for each in guess] for guess in prediction.guesses],
        "truncated": prediction.truncated,
        "remarks": prediction.remarks,
    }


def _choice(choice: Choice) -> dict[str, Any]:
    return {"piece": choice.text, "probability": choice.probability}
