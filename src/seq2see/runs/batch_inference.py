"""From lines to answers, a window at a time: any number of lines in the memory of one window."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, TextIO

from seq2see.runs.input_lines import FIRST_WINDOW, LineSource, LineWindow, line_windows
from seq2see.runs.model import Model, Output, Prediction, format_candidates
from seq2see.sources.image_decoding import ImageError
from seq2see.sources.lines import is_blank

QUOTED = 60
"""Characters of a text by which it is named."""


class OutputWriter(Protocol):
    """Where answers go."""

    def is_pending(self, window: LineWindow) -> bool:
        """Whether some of the window's lines are still to be answered."""

    def write(self, window: LineWindow, answers: Iterable[str]) -> None:
        """Take the answers to a window's lines, in their order."""

    def finish(self) -> None:
        """There are no more."""


class StdoutWriter:
    """Answers on standard output: nothing can be gone on with."""

    def __init__(self, output: TextIO):
        self.output = output

    def is_pending(self, window: LineWindow) -> bool:
        """Every window is new."""
        return True

    def write(self, window: LineWindow, answers: Iterable[str]) -> None:
        """Print them at once."""
        self.output.writelines(answer + "\n" for answer in answers)
        self.output.flush()

    def finish(self) -> None:
        """Nothing is left to do."""


@dataclass(frozen=True)
class InferenceOptions:
    """How lines are answered and answers written."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """What `Model.predict` takes: settings of decoding, prefix, seed."""
    as_json: bool = False
    lines_per_input: int = 1
    """Lines of output for each line of input."""


@dataclass(frozen=True)
class Progress:
    """What a watcher is told, again and again."""

    lines: int
    """Answered since the last time, or found answered already."""
    tokens: int = 0
    """Written since the last time."""
    is_new: bool = True
    """False for lines that a former call had answered."""
    truncated: tuple[str, ...] = ()
    """Texts that were too long and of which only the beginning was read."""
    warnings: tuple[str, ...] = ()
    """What else should be known about texts."""
    errors: tuple[str, ...] = ()
    """What is wrong with images that could not be looked at; their answers are empty."""


ProgressCallback = Callable[[Progress], Any]


def predict_lines(
    model: Model,
    lines: LineSource,
    output_writer: OutputWriter,
    options: InferenceOptions,
    on_progress: ProgressCallback = lambda progress: None,
) -> None:
    """Answer all lines, in their order; what the sink has already is passed over.

    One bad image in many stops nothing: it is told, and its answer is empty.
    """
    many = False
    for window in line_windows(lines.texts):
        # Decided by the first window, which is read again after a kill: so the same is decided then.
        many = many or len(window.texts) == FIRST_WINDOW
        if not output_writer.is_pending(window):
            on_progress(Progress(len(window.texts), is_new=False))
            continue
        numbered = dict(enumerate(window.texts, window.start))
        asked = {number: text for number, text in numbered.items() if not is_blank(text)}
        on_progress(Progress(len(window.texts) - len(asked)))
        try:
            found = _predict_batch(model, asked, many, options, on_progress)
        except ImageError:
            sound, errors = _split_readable(model, asked)
            if not sound and not window.start:  # all of them: most likely in another folder
                raise
            found = _predict_batch(model, sound, many, options, on_progress)
            on_progress(Progress(len(errors), errors=errors))
        output_writer.write(
            window, [format_output(text, found.get(number), options) for number, text in numbered.items()]
        )
        tokens = sum(answer.length for each in found.values() for answer in each.outputs)
        truncated = tuple(each.source for each in found.values() if each.truncated)
        warnings = tuple(format_warnings(each) for each in found.values() if each.warnings)
        on_progress(Progress(0, tokens, truncated=truncated, warnings=warnings))
    output_writer.finish()


def _predict_batch(
    model: Model, asked: Mapping[int, str], many: bool, options: InferenceOptions, on_progress: ProgressCallback
) -> dict[int, Prediction]:
    """The answer to each line, by its number."""
    predictions = model.predict(
        list(asked.values()),
        indices=list(asked),
        large_batch=many,
        on_progress=lambda count: on_progress(Progress(count)),
        **options.settings,
    )
    return dict(zip(asked, predictions, strict=True))


def _split_readable(model: Model, asked: Mapping[int, str]) -> tuple[dict[int, str], tuple[str, ...]]:
    """The lines whose images can be looked at, and what is wrong with the others."""
    sound, errors = {}, []
    for number, text in asked.items():
        try:
            model.warnings(text)
        except ImageError as error:
            errors.append(str(error))
        else:
            sound[number] = text
    return sound, tuple(errors)


def format_warnings(prediction: Prediction) -> str:
    """What should be known about a text, and which one it is."""
    return f"{'; '.join(prediction.warnings)}: {one_line(prediction.source[:QUOTED])}"


def format_output(text: str, prediction: Prediction | None, options: InferenceOptions) -> str:
    """One line of input as it is answered; an empty one gets an empty answer, so that lines stay aligned."""
    answers = prediction.outputs if prediction else ()
    if options.as_json:
        found: dict[str, Any] = {
            "source": text,
            "outputs": [_output_json(each) for each in answers],
        }
        candidates = prediction.candidates if prediction else ()
        if candidates:
            found["candidates"] = [[asdict(choice) for choice in guess] for guess in candidates]
        return json.dumps(found, ensure_ascii=False)
    texts = [one_line(each.text + format_candidates(prediction)) for each in answers]
    return "\n".join([*texts, *[""] * (options.lines_per_input - len(texts))])


def _output_json(answer: Output) -> dict[str, Any]:
    """An answer as JSON: each token with its probability, where that is known."""
    told: dict[str, Any] = {"text": answer.text, "score": answer.score}
    if answer.tokens:
        told["tokens"] = [[each.text, round(each.probability, 4)] for each in answer.tokens]
    return told


def one_line(text: str) -> str:
    """An answer that takes up one line, whatever characters the model said."""
    return text.replace("\r", " ").replace("\n", " ")
