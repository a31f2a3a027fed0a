"""The view "Compare": two runs with one input, or one run with two inputs; and forecasts of a series.

Each side makes its own prediction. Then both sides score the same target (by default the prediction of the first side),
so that probabilities can be compared token by token, and attention maps cell by cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Annotated, Any

from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.data.series_dataset import parse_numbers
from seq2see.explorer.inputs import example_of, test_images
from seq2see.explorer.schemas import Index, InputText, RunId, RunRequest
from seq2see.explorer.traces import TraceRequest, model_input, named_batch
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.tasks.model import Model, Prediction, ScoredText


class CompareRequest(TraceRequest):
    """Two sides; the fields of the second side are by default those of the first."""

    second: RunId | None = None
    """The run of the second side."""
    other: InputText = ""
    """The text of the second side."""
    other_number: Index | None = None
    """The test image of the second side."""


def compare(workspace: Workspace, request: CompareRequest) -> dict[str, Any]:
    """The predictions of both sides with their differences, and the scores of both sides for one target."""
    runs = [workspace.run(request.run), workspace.run(request.second or request.run)]
    text = text_or_default(runs[0], request.text)
    texts = [text, request.other or text_or_default(runs[1], text)]
    image = {"number": request.number, "pixels": request.pixels}
    images = [image, image if request.other_number is None else {"number": request.other_number}]
    inputs = [
        TraceRequest(run=run.id, text=text, target=request.target, **image)
        for run, text, image in zip(runs, texts, images, strict=True)
    ]
    predictions = [predict(workspace, each) for each in inputs]
    target = request.target or generated_text(runs[0].model, text, predictions[0])
    sides = [_side_fields(prediction) | {"name": run.name} for run, prediction in zip(runs, predictions, strict=True)]
    for side, other, each in zip(sides, reversed(sides), inputs, strict=True):
        tokens, other_tokens = ([token["token"] for token in fields["tokens"]] for fields in (side, other))
        side["differs"] = differs(tokens, other_tokens)
        side["input"] = each.model_copy(update={"target": target}).model_dump()
    scored = [
        run.model.score_tokens(named_batch(workspace, TraceRequest(**side["input"])))
        for run, side in zip(runs, sides, strict=True)
    ]
    return {
        "sides": sides,
        "target": target,
        "target_tokens": [[_candidate_fields(token) for token in tokens] for tokens in scored],
        "images": len(test_images(runs[0])) if takes_images(runs[0]) else 0,
    }


def text_or_default(run: OpenRun, text: str) -> str:
    """The text, or by default an example of the run; an image model has no text."""
    return text if text or takes_images(run) else example_of(run)


def takes_images(run: OpenRun) -> bool:
    """Whether the input of a run's model is an image or a video."""
    return run.task.reads_files


def predict(workspace: Workspace, request: TraceRequest) -> Prediction:
    """The prediction of a model, with candidates if it is an encoder-only model."""
    run, inputs = workspace.run(request.run), model_input(workspace, request)
    return run.model.predict([inputs], **run.task.shown_settings(run.model))[0]


def generated_text(model: Model, text: str, prediction: Prediction) -> str:
    """The generated text; the output of a language model starts with the input text, which is removed."""
    return prediction.text[0 if model.has_source else len(text) :] if model.task.generates else ""


def differs(tokens: Sequence[str], other_tokens: Sequence[str]) -> list[bool]:
    """For each token of an output, whether it is not part of a matching block with the other output.

    >>> differs(["two", "red", "pens"], ["two", "pens"])
    [False, True, False]
    """
    result = [True] * len(tokens)
    for block in SequenceMatcher(None, tokens, other_tokens, autojunk=False).get_matching_blocks():
        result[block.a : block.a + block.size] = [False] * block.size
    return result


def _side_fields(prediction: Prediction) -> dict[str, Any]:
    best = prediction.outputs[0]
    return {
        "answer": best.text,
        "log_probability": best.log_probability,
        "tokens": [_candidate_fields(each) for each in best.tokens],
        "candidates": [[_candidate_fields(each) for each in candidates] for candidates in prediction.candidates],
        "truncated": prediction.truncated,
        "warnings": prediction.warnings,
    }


def _candidate_fields(candidate: ScoredText) -> dict[str, Any]:
    return {"token": candidate.text, "probability": candidate.probability}


class ForecastRequest(RunRequest):
    """A request for the forecasts of a series."""

    text: InputText
    """The values as text."""
    horizon: Annotated[int, Field(ge=1, le=200)] = 16
    """The number of values to forecast; each forecast is an input of the next one."""


def forecast_series(workspace: Workspace, request: ForecastRequest) -> dict[str, Any]:
    """The values in the model's context, the forecasts one step ahead, and the forecast after the last value."""
    run = workspace.run(request.run)
    model: Any = run.model
    if run.task.input_kind != "series":
        raise UserError("This model does not forecast.", location=run.name, hint="Choose a run of a series.")
    one_step = model.one_step_forecasts(request.text)
    values = parse_numbers(request.text)[-len(one_step) :]
    forecast = parse_numbers(model(request.text, max_new_tokens=request.horizon).text)
    return {"values": values, "one_step_predictions": one_step, "forecast": forecast}
