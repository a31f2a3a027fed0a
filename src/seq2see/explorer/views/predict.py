"""Answers of a model to texts or images: what `seq2see predict` gives, over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from seq2see.core.errors import UserError
from seq2see.explorer.inputs import pixels_of, reject_image_model
from seq2see.explorer.schemas import ImageBase64, InputText, RunRequest
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.runs.model import Output, Prediction, ScoredText

MAX_INPUTS = 32


class PredictRequest(RunRequest):
    """Texts or images that a model is to answer; settings that are left out are those of its recipe."""

    texts: Annotated[tuple[InputText, ...], Field(max_length=MAX_INPUTS)] = ()
    images: Annotated[tuple[ImageBase64, ...], Field(max_length=4)] = ()
    """PNG or JPEG files in base64, for models that look at images."""
    prefix: Annotated[str, Field(max_length=1_000)] = ""
    """What every answer begins with."""
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    num_beams: Annotated[int, Field(ge=1, le=16)] | None = None
    num_return_sequences: Annotated[int, Field(ge=1, le=16)] | None = None
    max_new_tokens: Annotated[int, Field(ge=1, le=500)] | None = None
    do_sample: bool | None = None
    temperature: Annotated[float, Field(ge=0.01, le=100)] | None = None
    top_k: Annotated[int, Field(ge=0, le=1_000)] | None = None
    """Of models that only read: how many likely answers are told, 0 for all."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None


SETTINGS = (
    "num_beams", "num_return_sequences", "max_new_tokens", "do_sample", "temperature", "top_k", "top_p",
)  # fmt: skip


class CandidateResponse(BaseModel):
    """Something that may be the answer, and how likely that is."""

    text: str
    probability: float


class AnswerResponse(BaseModel):
    """One answer, with each of its tokens."""

    text: str
    score: float
    log_probability: float
    finished: bool
    tokens: list[CandidateResponse]


class PredictionResponse(BaseModel):
    """What a model makes of one text or image."""

    outputs: list[AnswerResponse]
    truncated: bool
    """Whether the text was longer than the model reads."""
    candidates: list[list[CandidateResponse]]
    """Of a model that only reads: for each thing it was asked, what it may be, the likeliest first."""
    warnings: list[str]


class PredictResponse(BaseModel):
    """The answers, in the order of the texts or images."""

    predictions: list[PredictionResponse]


def predict(workspace: Workspace, request: PredictRequest) -> PredictResponse:
    """Let a model answer."""
    run = workspace.run(request.run)
    settings = {name: value for name in SETTINGS if (value := getattr(request, name)) is not None}
    found = run.model.predict(_inputs(run, request), prefix=request.prefix, seed=request.seed, **settings)
    return PredictResponse(predictions=[_prediction_response(each) for each in found])


def _inputs(run: OpenRun, request: PredictRequest) -> list[Any]:
    """What a model is given: texts as they are, images as pixels; a text never names a file."""
    if request.images:
        if request.texts:
            raise UserError("Texts and images were given.", hint="Give one of the two.")
        return [pixels_of(run, each) for each in request.images]
    if not request.texts:
        raise UserError("There is nothing to answer.", hint="Give texts, or images.")
    reject_image_model(run)
    return list(request.texts)


def _prediction_response(prediction: Prediction) -> PredictionResponse:
    return PredictionResponse(
        outputs=[_answer_response(each) for each in prediction.outputs],
        truncated=prediction.truncated,
        candidates=[[_candidate_response(each) for each in guess] for guess in prediction.candidates],
        warnings=list(prediction.warnings),
    )


def _answer_response(answer: Output) -> AnswerResponse:
    return AnswerResponse(
        text=answer.text,
        score=answer.score,
        log_probability=answer.log_probability,
        finished=answer.finished,
        tokens=[_candidate_response(each) for each in answer.tokens],
    )


def _candidate_response(choice: ScoredText) -> CandidateResponse:
    return CandidateResponse(text=choice.text, probability=choice.probability)
