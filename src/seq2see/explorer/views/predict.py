"""Predictions of a model for texts, images or sounds: `seq2see predict` over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from seq2see.core.errors import UserError
from seq2see.explorer.inputs import pixels_of, reject_file_model, sound_of
from seq2see.explorer.schemas import ImageBase64, InputText, RunRequest, SoundBase64
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.tasks.model import Output, Prediction, ScoredText

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
