"""Two sides beside each other: two runs on one input, or one run on two inputs.

Each side answers by itself. Then both read the same target, the answer of the first side unless another is given: only
so can probabilities be compared token by token, and attention cell by cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

from seq2see.explorer.default_inputs import example_of
from seq2see.explorer.schemas import Index, InputText, RunId
from seq2see.explorer.traces import TraceRequest, model_input, reading
from seq2see.explorer.views.image_input import test_images
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.models.image_settings import ImageSource
from seq2see.runs.model import Model, Prediction, ScoredText
from seq2see.runs.target_scoring import score_target

MAX_CANDIDATES = 8
"""Likely answers that are told where there are as many as words."""


class CompareRequest(TraceRequest):
    """Two sides: where nothing is said of the second, it is as the first."""

    second: RunId | None = None
    """Another run."""
    other: InputText = ""
    """Another text."""
    other_number: Index | None = None
    """Another image, one of the test split; without it both look at one image."""


def compare(workspace: Workspace, request: CompareRequest) -> dict[str, Any]:
    """Both answers with what differs marked, and how both read one target."""
    runs = [workspace.run(request.run), workspace.run(request.second or request.run)]
    text = text_or_default(runs[0], request.text)
    first = {"number": request.number, "pixels": request.pixels}
    looked = [first, first if request.other_number is None else {"number": request.other_number}]
    inputs = [
        TraceRequest(run=run.id, text=each, target=request.target, **which)
        for run, each, which in zip(runs, [text, request.other or text_or_default(runs[1], text)], looked, strict=True)
    ]
    found = [answer(workspace, each) for each in inputs]
    target = request.target or generated_text(runs[0].model, text, found[0])
    told = [_side(prediction) | {"name": run.name} for run, prediction in zip(runs, found, strict=True)]
    for side, other, each in zip(told, reversed(told), inputs, strict=True):
        side["differs"] = differs([one["token"] for one in side["tokens"]], [one["token"] for one in other["tokens"]])
        side["input"] = each.model_copy(update={"target": target}).model_dump()
    read = [
        score_target(run.model, reading(workspace, TraceRequest(**side["input"])))
        for run, side in zip(runs, told, strict=True)
    ]
    return {
        "sides": told,
        "target": target,
        "target_tokens": [[_candidate(each) for each in one] for one in read],
        "images": len(test_images(runs[0])) if takes_images(runs[0]) else 0,
    }


def text_or_default(run: OpenRun, text: str) -> str:
    """What a run's model reads where nothing was typed; one that looks at images reads nothing."""
    return text if text or takes_images(run) else example_of(run)


def takes_images(run: OpenRun) -> bool:
    """Whether a run's model looks at images, or at videos."""
    return isinstance(run.settings.source, ImageSource)


def answer(workspace: Workspace, request: TraceRequest) -> Prediction:
    """What a model says by itself; of one that only reads, also what else was likely."""
    run, read = workspace.run(request.run), model_input(workspace, request)
    if run.settings.generates:
        return run.model.predict([read])[0]
    return run.model.predict([read], top_k=0 if run.model.tokenizers.labels else MAX_CANDIDATES)[0]


def generated_text(model: Model, text: str, prediction: Prediction) -> str:
    """What a model wrote; a language model's answer begins with the text."""
    return prediction.text[0 if model.has_source else len(text) :] if model.config.model.generates else ""


def differs(own: Sequence[str], others: Sequence[str]) -> list[bool]:
    """For each piece of an answer whether the other answer has nothing that it stands for.

    >>> differs(["two", "red", "pens"], ["two", "pens"])
    [False, True, False]
    """
    found = [True] * len(own)
    for block in SequenceMatcher(None, own, others, autojunk=False).get_matching_blocks():
        found[block.a : block.a + block.size] = [False] * block.size
    return found


def _side(prediction: Prediction) -> dict[str, Any]:
    best = prediction.outputs[0]
    return {
        "answer": best.text,
        "log_probability": best.log_probability,
        "tokens": [_candidate(each) for each in best.tokens],
        "candidates": [[_candidate(each) for each in guess] for guess in prediction.candidates],
        "truncated": prediction.truncated,
        "warnings": prediction.warnings,
    }


def _candidate(choice: ScoredText) -> dict[str, Any]:
    return {"token": choice.text, "probability": choice.probability}
