"""Prediction for any number of input lines, one window of lines at a time, in constant memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, TextIO

from seq2see.data.readers.image_files import ImageError
from seq2see.data.readers.lines import is_blank
from seq2see.runs.input_lines import FIRST_WINDOW, LineSource, LineWindow, line_windows
from seq2see.tasks.model import Model, Output, Prediction, format_candidates

QUOTED = 60
"""The length at which texts are quoted in warnings."""


class OutputWriter(Protocol):
    """The destination of the output lines."""

    def is_pending(self, window: LineWindow) -> bool:
        """Whether some lines of the window have no output yet."""

    def write(self, window: LineWindow, outputs: Iterable[str]) -> None:
        """Write the outputs of a window's lines, in their order."""

    def finish(self) -> None:
        """Called after the last window."""


class StdoutWriter:
    """Writes outputs to standard output, which cannot be resumed."""

    def __init__(self, output: TextIO):
        self.output = output

    def is_pending(self, window: LineWindow) -> bool:
        """Always true."""
        return True

    def write(self, window: LineWindow, outputs: Iterable[str]) -> None:
        """Print and flush the outputs."""
        self.output.writelines(output + "\n" for output in outputs)
        self.output.flush()

    def finish(self) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class InferenceOptions:
    """The options of prediction and of the output format."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of `Model.predict`: decoding settings, prefix, seed."""
    as_json: bool = False
    lines_per_input: int = 1
    """Output lines for each input line."""


@dataclass(frozen=True)
class Progress:
    """Progress since the last report."""

    lines: int
    """Lines completed since the last report, or found complete from an earlier call."""
    tokens: int = 0
    """Tokens generated since the last report."""
    is_new: bool = True
    """False for lines that an earlier call has completed."""
    truncated: tuple[str, ...] = ()
    """Texts that were too long and were truncated."""
    warnings: tuple[str, ...] = ()
    """Other warnings about texts."""
    errors: tuple[str, ...] = ()
    """Error messages of unreadable images; their outputs are empty."""


ProgressCallback = Callable[[Progress], Any]


def predict_lines(
    model: Model,
    lines: LineSource,
    output_writer: OutputWriter,
    options: InferenceOptions,
    on_progress: ProgressCallback = lambda progress: None,
) -> None:
    """Predict all lines, in their order; windows that are already written are skipped.

    An unreadable image is reported as an error, and its output is empty; the other lines are predicted.
    """
    large_batch = False
    for window in line_windows(lines.texts):
        # Decided by the first window, which is read again when a call resumes, so the decision is the same then.
        large_batch = large_batch or len(window.texts) == FIRST_WINDOW
        if not output_writer.is_pending(window):
            on_progress(Progress(len(window.texts), is_new=False))
            continue
        numbered = dict(enumerate(window.texts, window.start))
        texts = {number: text for number, text in numbered.items() if not is_blank(text)}
        on_progress(Progress(len(window.texts) - len(texts)))
        try:
            predictions = _predict_batch(model, texts, large_batch, options, on_progress)
        except ImageError:
            readable, errors = _split_readable(model, texts)
            if not readable and not window.start:  # no image is readable: most likely the wrong folder
                raise
            predictions = _predict_batch(model, readable, large_batch, options, on_progress)
            on_progress(Progress(len(errors), errors=errors))
        output_writer.write(
            window, [format_output(text, predictions.get(number), options) for number, text in numbered.items()]
        )
        tokens = sum(output.length for each in predictions.values() for output in each.outputs)
        truncated = tuple(each.source for each in predictions.values() if each.truncated)
        warnings = tuple(format_warnings(each) for each in predictions.values() if each.warnings)
        on_progress(Progress(0, tokens, truncated=truncated, warnings=warnings))
    output_writer.finish()


def _predict_batch(
    model: Model, texts: Mapping[int, str], large_batch: bool, options: InferenceOptions, on_progress: ProgressCallback
) -> dict[int, Prediction]:
    """The prediction for each line, by its number."""
    predictions = model.predict(
        list(texts.values()),
        indices=list(texts),
        large_batch=large_batch,
        on_progress=lambda count: on_progress(Progress(count)),
        **options.settings,
    )
    return dict(zip(texts, predictions, strict=True))


def _split_readable(model: Model, texts: Mapping[int, str]) -> tuple[dict[int, str], tuple[str, ...]]:
    """The lines whose images are readable, and the error messages of the others."""
    readable, errors = {}, []
    for number, text in texts.items():
        try:
            model.warnings(text)
        except ImageError as error:
            errors.append(str(error))
        else:
            readable[number] = text
    return readable, tuple(errors)


def format_warnings(prediction: Prediction) -> str:
    """The warnings of a prediction, and the beginning of its source."""
    return f"{'; '.join(prediction.warnings)}: {one_line(prediction.source[:QUOTED])}"


def format_output(text: str, prediction: Prediction | None, options: InferenceOptions) -> str:
    """The output of one input line; that of an empty line is empty, so that lines stay aligned."""
    outputs = prediction.outputs if prediction else ()
    if options.as_json:
        fields: dict[str, Any] = {"source": text, "outputs": [_output_json(each) for each in outputs]}
        candidates = prediction.candidates if prediction else ()
        if candidates:
            fields["candidates"] = [[asdict(candidate) for candidate in position] for position in candidates]
        return json.dumps(fields, ensure_ascii=False)
    texts = [one_line(each.text + format_candidates(prediction)) for each in outputs]
    return "\n".join([*texts, *[""] * (options.lines_per_input - len(texts))])


def _output_json(output: Output) -> dict[str, Any]:
    """An output as JSON, with the probability of each token if available."""
    fields: dict[str, Any] = {"text": output.text, "score": output.score}
    if output.tokens:
        fields["tokens"] = [[each.text, round(each.probability, 4)] for each in output.tokens]
    return fields


def one_line(text: str) -> str:
    """A text on one line: line breaks are replaced by spaces."""
    return text.replace("\r", " ").replace("\n", " ")
