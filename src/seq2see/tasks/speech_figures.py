"""The figures of a speech recognizer as functions that draw to a file, and one recording as plain data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seq2see.core.batch import Batch, Sequences
from seq2see.data.log_mel import FRAMES_PER_VECTOR
from seq2see.data.recordings import RecordingExamples
from seq2see.tasks.transcriber import Letter, Transcriber

if TYPE_CHECKING:
    from seq2see.inspection.sound_plots import PlottedLetter, PlottedRecording

SHOWN = 6
"""Recordings in a figure."""
MAX_LETTERS = 120
"""The maximum number of letters of a recording in a figure: more would overlap."""
Figure = Callable[[Path], Any]
"""A function that draws to a file."""


def _figure(recordings: list[PlottedRecording]) -> Figure:
    from seq2see.inspection.sound_plots import draw_recordings  # matplotlib only where it is used

    return partial(draw_recordings, recordings)


def batch_figure(batch: Batch, examples: RecordingExamples) -> Figure:
    """Recordings of the first step, with their features after augmentation."""
    from seq2see.inspection.sound_plots import PlottedRecording  # matplotlib only where it is used

    assert isinstance(batch.source, Sequences)
    recordings = []
    for row, index in enumerate(batch.indices[:SHOWN].tolist()):
        features = batch.source.values[row, : int(batch.source.lengths[row])].numpy()
        samples = examples.samples[index]
        title = f"{examples.names[index]}: {examples.texts[index]}"
        recordings.append(PlottedRecording(title, samples, features, len(samples) / examples.rate))
    return _figure(recordings)


def transcript_figure(model: Transcriber, examples: RecordingExamples, outputs: Sequence[str]) -> Figure:
    """A few recordings with the letters of the model and, if they are known, the true times of the letters."""
    from seq2see.inspection.sound_plots import PlottedRecording  # matplotlib only where it is used

    recordings = []
    for index in range(min(SHOWN, len(examples))):
        samples, text, output = examples.samples[index], examples.texts[index], outputs[index]
        letters = timed_letters(model, samples, output)
        true = zip(text, examples.times[index], strict=True) if examples.times else ()
        recordings.append(
            PlottedRecording(
                f"{examples.names[index]}: {text}" + (f" → {output}" if output != text else ""),
                samples,
                model.log_mel.features(samples).numpy(),
                len(samples) / model.rate,
                [_plotted(each.text, each.start, each.end) for each in letters[:MAX_LETTERS]],
                [_plotted(letter, *times) for letter, times in [*true][:MAX_LETTERS]],
            )
        )
    return _figure(recordings)


def _plotted(text: str, start: float, end: float) -> PlottedLetter:
    from seq2see.inspection.sound_plots import PlottedLetter  # matplotlib only where it is used

    return PlottedLetter("" if text.strip(" ▁") == "" else text, start, end)


def timed_letters(model: Transcriber, sound: Any, text: str) -> tuple[Letter, ...]:
    """The tokens of a text with their times: by forced alignment, or by the attention of the decoder."""
    return model.align(sound, text) if model.output().aligns else attended_letters(model, sound, text)


def attended_letters(model: Transcriber, sound: Any, text: str) -> tuple[Letter, ...]:
    """For each token of a text, the time with the largest attention weight in the last layer of the decoder."""
    if not text:
        return ()
    attention = model.named_attention(sound, text)
    step = 4 * model.log_mel.hop_seconds
    letters = []
    for token, weights in zip(attention.target[:-1], attention.matrix, strict=False):
        start = float(weights.argmax()) * step
        letters.append(Letter(token, start, start + step, float(weights.max())))
    return tuple(letters)


@dataclass(frozen=True)
class RecordingData:
    """One recording as plain data for a page: what a model computes from it, step by step."""

    text: str
    letters: tuple[Letter, ...]
    """The letters with their times; of a decoder with attention, the times to which it attends most."""
    warnings: tuple[str, ...]
    samples: NDArray[np.float32]
    spectrogram: NDArray[np.float32]
    """(frame, band): the log-mel features."""
    vector_seconds: float
    """The time from one vector of the encoder to the next."""
    vocabulary: list[str]
    """The tokens of `probabilities`."""
    probabilities: NDArray[np.float32] | None
    """(vector, token): those of CTC."""
    queries: list[str]
    """The tokens of `attention`."""
    attention: NDArray[np.float32] | None
    """(token, vector): the mean over all heads of the last layer of the decoder."""

    @property
    def nbytes(self) -> int:
        """The size of all arrays in bytes."""
        arrays = (self.samples, self.spectrogram, self.probabilities, self.attention)
        return sum(each.nbytes for each in arrays if each is not None)


def recording_data(model: Transcriber, sound: Any, text: str | None = None) -> RecordingData:
    """A recording, its log-mel features, and its letters; with CTC the probabilities, with a decoder its attention.

    Without a text, the letters are those of the model's own transcript.
    """
    inputs = model.encode_sound(sound)
    prediction: Any = model.predict([inputs.samples])[0]
    shown = prediction.text if text is None else text
    scores = model.frame_scores(inputs.samples)
    has_decoder = model.config.model.decoder is not None and bool(shown)
    attention = model.named_attention(inputs.samples, shown) if has_decoder else None
    has_attention = attention is not None and bool(attention.weights)
    vocabulary = model.tokenizers.target
    return RecordingData(
        text=shown,
        letters=_letters(model, inputs.samples, prediction) if text is None else timed_letters(model, sound, text),
        warnings=prediction.warnings,
        samples=inputs.samples,
        spectrogram=inputs.features.numpy(),
        vector_seconds=FRAMES_PER_VECTOR * model.log_mel.hop_seconds,
        vocabulary=[] if scores is None else vocabulary.tokens(range(len(vocabulary))),
        probabilities=None if scores is None else np.exp(scores),
        queries=list(attention.target) if attention and has_attention else [],
        attention=attention.matrix if attention and has_attention else None,
    )


def _letters(model: Transcriber, samples: NDArray[np.float32], prediction: Any) -> tuple[Letter, ...]:
    """The letters of a prediction; without forced alignment, their probabilities are those of the decoder."""
    letters = prediction.letters or timed_letters(model, samples, prediction.text)
    if model.output().aligns:
        return tuple(letters)
    tokens = prediction.outputs[0].tokens
    return tuple(replace(each, probability=token.probability) for each, token in zip(letters, tokens, strict=False))
