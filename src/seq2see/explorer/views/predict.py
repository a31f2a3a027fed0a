"""Answers of a model to texts or pictures: what `seq2see predict` gives, over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from seq2see.core.errors import UserError
from seq2see.explorer.bench import Bench, OpenRun
from seq2see.explorer.inputs import pixels_of, refuse_text
from seq2see.explorer.messages import AboutRun, PictureText, Words
from seq2see.workbench.predict import Answer, Choice, Prediction

MOST_AT_ONCE = 32


class PredictAsked(AboutRun):
    """Texts or pictures that a model is to answer; settings that are left out are those of its recipe."""

    texts: Annotated[tuple[Words, ...], Field(max_length=MOST_AT_ONCE)] = ()
    pictures: Annotated[tuple[PictureText, ...], Field(max_length=4)] = ()
    """PNG or JPEG files in base64, for models that look at pictures."""
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


class GivenChoice(BaseModel):
    """Something that may be the answer, and how likely that is."""

    text: str
    probability: float


class GivenAnswer(BaseModel):
    """One answer, with each of its tokens."""

    text: str
    score: float
    log_probability: float
    finished: bool
    tokens: list[GivenChoice]


class Predicted(BaseModel):
    """What a model makes of one text or picture."""

    answers: list[GivenAnswer]
    truncated: bool
    """Whether the text was longer than the model reads."""
    guesses: list[list[GivenChoice]]
    """Of a model that only reads: for each thing it was asked, what it may be, the likeliest first."""
    remarks: list[str]


class AllPredicted(BaseModel):
    """The answers, in the order of the texts or pictures."""

    predictions: list[Predicted]


def predict(bench: Bench, asked: PredictAsked) -> AllPredicted:
    """Let a model answer."""
    run = bench.run(asked.run)
    settings = {name: value for name in SETTINGS if (value := getattr(asked, name)) is not None}
    found = run.model.predict(_inputs(run, asked), prefix=asked.prefix, seed=asked.seed, **settings)
    return AllPredicted(predictions=[_told(each) for each in found])


def _inputs(run: OpenRun, asked: PredictAsked) -> list[Any]:
    """What a model is given: texts as they are, pictures as pixels; a text never names a file."""
    if asked.pictures:
        if asked.texts:
            raise UserError("Texts and pictures were given.", remedy="Give one of the two.")
        return [pixels_of(run, each) for each in asked.pictures]
    if not asked.texts:
        raise UserError("There is nothing to answer.", remedy="Give texts, or pictures.")
    refuse_text(run)
    return list(asked.texts)


def _told(prediction: Prediction) -> Predicted:
    return Predicted(
        answers=[_answer(each) for each in prediction.answers],
        truncated=prediction.truncated,
        guesses=[[_choice(each) for each in guess] for guess in prediction.guesses],
        remarks=list(prediction.remarks),
    )


def _answer(answer: Answer) -> GivenAnswer:
    return GivenAnswer(
        text=answer.text,
        score=answer.score,
        log_probability=answer.log_probability,
        finished=answer.finished,
        tokens=[_choice(each) for each in answer.tokens],
    )


def _choice(choice: Choice) -> GivenChoice:
    return GivenChoice(text=choice.text, probability=choice.probability)
