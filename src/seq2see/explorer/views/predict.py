"""Predictions of a model for texts, images or sounds (`seq2see predict` over HTTP), and the view "Compare".

"Compare" has two runs with one input, or one run with two inputs; and forecasts of a series. Each side makes its own
prediction. Then both sides score the same target (by default the prediction of the first side), so that probabilities
can be compared token by token, and attention maps cell by cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Annotated, Any

from pydantic import BaseModel, Field

from seq2see.core.errors import UserError
from seq2see.data.series_dataset import parse_numbers
from seq2see.explorer.inputs import (
    TraceRequest,
    example_of,
    model_input,
    named_batch,
    pixels_of,
    reject_file_model,
    sound_of,
    test_images,
)
from seq2see.explorer.schemas import ImageBase64, Index, InputText, RunId, RunRequest, SoundBase64
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.tasks.model import Model, Output, Prediction, ScoredText

MAX_INPUTS = 32


class PredictRequest(RunRequest):
    """A request for predictions for texts, images or sounds; settings are by default those of the recipe."""

    texts: Annotated[tuple[InputText, ...], Field(max_length=MAX_INPUTS)] = ()
    images: Annotated[tuple[ImageBase64, ...], Field(max_length=4)] = ()
    """PNG or JPEG files in base64, for models of images."""
    sounds: Annotated[tuple[SoundBase64, ...], Field(max_length=4)] = ()
    """WAV files in base64, for models of sounds."""
    prefix: Annotated[str, Field(max_length=1_000)] = ""
    """The forced prefix of every output."""
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    num_beams: Annotated[int, Field(ge=1, le=16)] | None = None
    num_return_sequences: Annotated[int, Field(ge=1, le=16)] | None = None
    max_new_tokens: Annotated[int, Field(ge=1, le=500)] | None = None
    do_sample: bool | None = None
    temperature: Annotated[float, Field(ge=0.01, le=100)] | None = None
    top_k: Annotated[int, Field(ge=0, le=1_000)] | None = None
    """For encoder-only models, the number of candidates, 0 for all."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None


SETTINGS = (
    "num_beams", "num_return_sequences", "max_new_tokens", "do_sample", "temperature", "top_k", "top_p",
)  # fmt: skip


class CandidateResponse(BaseModel):
    """A candidate and its probability."""

    text: str
    probability: float


class OutputResponse(BaseModel):
    """One output with its tokens."""

    text: str
    score: float
    log_probability: float
    finished: bool
    tokens: list[CandidateResponse]


class PredictionResponse(BaseModel):
    """The prediction for one text, image or sound."""

    outputs: list[OutputResponse]
    truncated: bool
    """Whether the text was longer than the maximum length of the model."""
    candidates: list[list[CandidateResponse]]
    """For encoder-only models, the candidates of each prediction, the most probable first."""
    warnings: list[str]


class PredictResponse(BaseModel):
    """The predictions, in the order of the inputs."""

    predictions: list[PredictionResponse]


def predict(workspace: Workspace, request: PredictRequest) -> PredictResponse:
    """The predictions of a model for texts, images or sounds."""
    run = workspace.run(request.run)
    settings = {name: value for name in SETTINGS if (value := getattr(request, name)) is not None}
    predictions = run.model.predict(_inputs(run, request), prefix=request.prefix, seed=request.seed, **settings)
    return PredictResponse(predictions=[_prediction_response(each) for each in predictions])


def _inputs(run: OpenRun, request: PredictRequest) -> list[Any]:
    """The inputs of the model: texts, pixels of images or decoded sounds; a text is never a file name."""
    kinds = [name for name in ("texts", "images", "sounds") if getattr(request, name)]
    if len(kinds) > 1:
        raise UserError(f"The request has both {' and '.join(kinds)}.", hint="Give one of the two.")
    if request.images:
        return [pixels_of(run, each) for each in request.images]
    if request.sounds:
        return [sound_of(run, each) for each in request.sounds]
    if not request.texts:
        raise UserError("The request has no input.", hint="Give texts, images or sounds.")
    reject_file_model(run)
    return list(request.texts)


def _prediction_response(prediction: Prediction) -> PredictionResponse:
    return PredictionResponse(
        outputs=[_output_response(each) for each in prediction.outputs],
        truncated=prediction.truncated,
        candidates=[[_candidate_response(each) for each in candidates] for candidates in prediction.candidates],
        warnings=list(prediction.warnings),
    )


def _output_response(output: Output) -> OutputResponse:
    return OutputResponse(
        text=output.text,
        score=output.score,
        log_probability=output.log_probability,
        finished=output.finished,
        tokens=[_candidate_response(each) for each in output.tokens],
    )


def _candidate_response(candidate: ScoredText) -> CandidateResponse:
    return CandidateResponse(text=candidate.text, probability=candidate.probability)


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
    predictions = [predict_side(workspace, each) for each in inputs]
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


def predict_side(workspace: Workspace, request: TraceRequest) -> Prediction:
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
