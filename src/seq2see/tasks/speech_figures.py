"""The figures of a speech recognizer as functions that draw to a path, and one recording as plain data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seq2see.core.batch import Batch, Sequences
from seq2see.data.recordings import RecordingExamples
from seq2see.tasks.transcriber import Letter, Transcriber

if TYPE_CHECKING:
    from seq2see.inspection.sound_plots import PlottedLetter, PlottedRecording

SHOWN = 6
"""Recordings in a figure."""
MAX_LETTERS = 120
"""Letters of a recording that are drawn, at most: more could not be read."""
Figure = Callable[[Path], Any]
"""Draws to a path."""


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
    """A few recordings with the letters of the model, and where they are known the true times of the letters."""
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
    """The tokens of a text with their times: aligned, or those of a decoder by its attention."""
    return model.align(sound, text) if model.output().aligns else attended_letters(model, sound, text)


def attended_letters(model: Transcriber, sound: Any, text: str) -> tuple[Letter, ...]:
    """For each token of a text the time to which the last layer of the decoder attends most."""
    if not text:
        return ()
    attention = model.named_attention(sound, text)
    step = 4 * model.log_mel.hop_seconds
    letters = []
    for token, weights in zip(attention.target[:-1], attention.matrix, strict=False):
        start = float(weights.argmax()) * step
        letters.append(Letter(token, start, start + step, float(weights.max())))
    return tuple(letters)


def recording_data(model: Transcriber, sound: Any, text: str | None = None) -> dict[str, Any]:
    """One recording as plain data for a page: wave, spectrogram, tokens with times, and attention over the frames.

    Without a text it is the transcript of the model.
    """
    from seq2see.inspection.sound_plots import envelope  # matplotlib only where it is used

    inputs = model.encode_sound(sound)
    prediction = model.predict([inputs.samples])[0]
    shown = prediction.text if text is None else text
    low, high = envelope(inputs.samples)
    has_attention = model.config.model.decoder is not None and bool(shown)
    attention = model.named_attention(inputs.samples, shown) if has_attention else None
    return {
        "name": inputs.name,
        "seconds": len(inputs.samples) / model.rate,
        "rate": model.rate,
        "text": shown,
        "wave": {"low": low.tolist(), "high": high.tolist()},
        "spectrogram": np.round(inputs.features.numpy(), 3).tolist(),
        "frame_seconds": model.log_mel.hop_seconds,
        "tokens": [
            {"text": each.text, "start": each.start, "end": each.end, "probability": each.probability}
            for each in timed_letters(model, inputs.samples, shown)
        ],
        "attention": np.round(attention.matrix, 4).tolist() if attention and attention.weights else [],
        "attention_tokens": list(attention.target) if attention and attention.weights else [],
        "warnings": list(prediction.warnings),
    }
