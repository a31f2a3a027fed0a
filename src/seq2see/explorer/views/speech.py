"""The view "Speech": a recording, its spectrogram, and the letters of a model at their times; and the microphone."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.explorer.inputs import Recording, decode_base64, recording_of, test_recordings
from seq2see.explorer.schemas import ArrayResponse, Index, RunRequest, SoundBase64
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.tasks.live_transcript import LiveTranscript
from seq2see.tasks.speech_figures import RecordingData, recording_data

MAX_SECONDS = 30
"""The maximum duration of a recording."""
MAX_RATE = 192_000
"""The maximum sampling rate of a microphone."""

Part = Literal["samples", "spectrogram", "probabilities", "attention"]


class SoundRequest(RunRequest):
    """A request about a recording: one of the test split by its number, or a file of the user."""

    number: Index = 0
    sound: SoundBase64 = ""
    """A WAV file in base64; if there is one, `number` is ignored."""


class SoundPartRequest(SoundRequest):
    """A request for one array of the figure."""

    part: Part


class LiveRequest(RunRequest):
    """The next samples of a microphone."""

    recording: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    """A random name, equal in all requests of one recording."""
    rate: Annotated[int, Field(ge=4_000, le=MAX_RATE)]
    """Samples per second."""
    start: Annotated[int, Field(ge=0, le=MAX_SECONDS * MAX_RATE)]
    """The number of samples before these."""
    samples: Annotated[str, Field(max_length=1_000_000)]
    """Integers of 16 bits, little-endian, in base64."""


@dataclass
class LiveRecording:
    """A recording that is still being recorded, and its transcript so far."""

    transcript: LiveTranscript
    samples: int = 0
    """The number of samples so far."""


def transcript(workspace: Workspace, request: SoundRequest) -> dict[str, Any]:
    """The text of a recording with the times and probabilities of its letters, and the axes of the arrays."""
    run, model = _speech_run(workspace, request)
    recording, data = _recording(workspace, request), _data(workspace, request)
    examples = test_recordings(run)
    return {
        "count": len(examples) if examples else 0,
        "name": recording.name,
        "truth": recording.truth,
        "reference": [
            {"text": text, "start": start, "end": end}
            for text, (start, end) in zip(recording.truth, recording.times, strict=False)
            if text.strip()
        ],
        "rate": model.rate,
        "seconds": len(data.samples) / model.rate,
        "frame": {"first": model.log_mel.frame_time(0), "step": model.log_mel.hop_seconds},
        "vector": {"first": model.log_mel.frame_time(0), "step": data.vector_seconds},
        "frequencies": model.log_mel.frequencies,
        "parts": [name for name in Part.__args__ if getattr(data, name) is not None],  # type: ignore[attr-defined]
        "text": data.text,
        "letters": [
            {"text": each.text, "start": each.start, "end": each.end, "probability": each.probability}
            for each in data.letters
        ],
        "vocabulary": data.vocabulary,
        "queries": data.queries,
        "live": model.output().live,
        "warnings": [*recording.warnings, *data.warnings],
    }


def part(workspace: Workspace, request: SoundPartRequest) -> ArrayResponse:
    """One array of the figure: (sample), (frame, band), (vector, token) or (letter, vector)."""
    array = getattr(_data(workspace, request), request.part)
    if array is None:
        run = workspace.run(request.run)
        raise UserError(f"This model has no {request.part} for the vectors of a recording.", location=run.name)
    return ArrayResponse(array)


def live(workspace: Workspace, request: LiveRequest) -> dict[str, Any]:
    """Add samples of a microphone to a recording; return the committed text so far."""
    run, model = _speech_run(workspace, request)
    content = decode_base64(request.samples, "sound")
    if len(content) % 2:
        raise UserError("Half of a sample is missing.", location="samples", hint="A sample has two bytes.")
    samples = np.frombuffer(content, "<i2")
    key = ("live", run.id, request.recording)
    recording = workspace.cached(key, lambda: LiveRecording(LiveTranscript(model, request.rate)))
    if recording.samples != request.start:
        message = f"The recording has {recording.samples:,} samples, and these begin at {request.start:,}."
        raise UserError(message, location="start", hint="Record again.")
    if request.start + len(samples) > MAX_SECONDS * request.rate:
        raise _too_long()
    recording.transcript.feed(samples)
    recording.samples += len(samples)
    return {"text": recording.transcript.text, "samples": recording.samples}


def _speech_run(workspace: Workspace, request: RunRequest) -> tuple[OpenRun, Any]:
    """The run of a request with its model, if it transcribes sound."""
    run = workspace.run(request.run)
    if run.task.input_kind != "sound":
        raise UserError("This model does not accept sounds.", location=run.name, hint="Choose a run that transcribes.")
    return run, run.model


def _recording(workspace: Workspace, request: SoundRequest) -> Recording:
    run, model = _speech_run(workspace, request)
    recording = workspace.cached(
        (*_key(request), "recording"), lambda: recording_of(run, request.number, request.sound)
    )
    if len(recording.samples) > MAX_SECONDS * model.rate:
        raise _too_long()
    return recording


def _data(workspace: Workspace, request: SoundRequest) -> RecordingData:
    recording, model = _recording(workspace, request), workspace.run(request.run).model
    return workspace.cached((*_key(request), "data"), lambda: recording_data(model, recording.samples))  # type: ignore[arg-type]


def _key(request: SoundRequest) -> tuple[Any, ...]:
    sound = hashlib.sha256(request.sound.encode()).hexdigest() if request.sound else request.number
    return "sound", request.run, sound


def _too_long() -> UserError:
    hint = "Cut it, or use `seq2see transcribe`."
    return UserError(f"This view shows at most {MAX_SECONDS} seconds.", location="this recording", hint=hint)
