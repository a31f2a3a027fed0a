"""From lines to answers, a window at a time: any number of lines in the memory of one window."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, TextIO

from seq2see.sources.lines import is_blank
from seq2see.sources.pictures import BadPicture
from seq2see.workbench.lines import FIRST, Lines, Window, windows
from seq2see.workbench.predict import Answer, Model, Prediction, guessed

QUOTED = 60
"""Characters of a text by which it is named."""


class Sink(Protocol):
    """Where answers go."""

    def takes(self, window: Window) -> bool:
        """Whether some of the window's lines are still to be answered."""

    def write(self, window: Window, answers: Iterable[str]) -> None:
        """Take the answers to a window's lines, in their order."""

    def finish(self) -> None:
        """There are no more."""


class Printed:
    """Answers on standard output: nothing can be gone on with."""

    def __init__(self, output: TextIO):
        self.output = output

    def takes(self, window: Window) -> bool:
        """Every window is new."""
        return True

    def write(self, window: Window, answers: Iterable[str]) -> None:
        """Print them at once."""
        self.output.writelines(answer + "\n" for answer in answers)
        self.output.flush()

    def finish(self) -> None:
        """Nothing is left to do."""


@dataclass(frozen=True)
class Manner:
    """How lines are answered and answers written."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """What `Model.predict` takes: settings of decoding, prefix, seed."""
    as_json: bool = False
    height: int = 1
    """Lines of output for each line of input."""


@dataclass(frozen=True)
class Progress:
    """What a watcher is told, again and again."""

    lines: int
    """Answered since the last time, or found answered already."""
    tokens: int = 0
    """Written since the last time."""
    fresh: bool = True
    """False for lines that a former call had answered."""
    cut: tuple[str, ...] = ()
    """Texts that were too long and of which only the beginning was read."""
    remarks: tuple[str, ...] = ()
    """What else should be known about texts."""
    bad: tuple[str, ...] = ()
    """What is wrong with pictures that could not be looked at; their answers are empty."""


Watch = Callable[[Progress], Any]


def answer_lines(model: Model, lines: Lines, sink: Sink, manner: Manner, watch: Watch = lambda progress: None) -> None:
    """Answer all lines, in their order; what the sink has already is passed over.

    One bad picture in many stops nothing: it is told, and its answer is empty.
    """
    many = False
    for window in windows(lines.each):
        # Decided by the first window, which is read again after a kill: so the same is decided then.
        many = many or len(window.texts) == FIRST
        if not sink.takes(window):
            watch(Progress(len(window.texts), fresh=False))
            continue
        numbered = dict(enumerate(window.texts, window.start))
        asked = {number: text for number, text in numbered.items() if not is_blank(text)}
        watch(Progress(len(window.texts) - len(asked)))
        try:
            found = _answers(model, asked, many, manner, watch)
        except BadPicture:
            sound, bad = _sound(model, asked)
            if not sound and not window.start:  # all of them: most likely in another folder
                raise
            found = _answers(model, sound, many, manner, watch)
            watch(Progress(len(bad), bad=bad))
        sink.write(window, [written(text, found.get(number), manner) for number, text in numbered.items()])
        tokens = sum(answer.length for each in found.values() for answer in each.answers)
        cut = tuple(each.source for each in found.values() if each.truncated)
        remarks = tuple(remarked(each) for each in found.values() if each.remarks)
        watch(Progress(0, tokens, cut=cut, remarks=remarks))
    sink.finish()


def _answers(model: Model, asked: Mapping[int, str], many: bool, manner: Manner, watch: Watch) -> dict[int, Prediction]:
    """The answer to each line, by its number."""
    predictions = model.predict(
        list(asked.values()),
        numbers=list(asked),
        many=many,
        watch=lambda count: watch(Progress(count)),
        **manner.settings,
    )
    return dict(zip(asked, predictions, strict=True))


def _sound(model: Model, asked: Mapping[int, str]) -> tuple[dict[int, str], tuple[str, ...]]:
    """The lines whose pictures can be looked at, and what is wrong with the others."""
    sound, bad = {}, []
    for number, text in asked.items():
        try:
            model.remarks(text)
        except BadPicture as error:
            bad.append(str(error))
        else:
            sound[number] = text
    return sound, tuple(bad)


def remarked(prediction: Prediction) -> str:
    """What should be known about a text, and which one it is."""
    return f"{'; '.join(prediction.remarks)}: {one_line(prediction.source[:QUOTED])}"


def written(text: str, prediction: Prediction | None, manner: Manner) -> str:
    """One line of input as it is answered; an empty one gets an empty answer, so that lines stay aligned."""
    answers = prediction.answers if prediction else ()
    if manner.as_json:
        found: dict[str, Any] = {
            "source": text,
            "answers": [_told(each) for each in answers],
        }
        guesses = prediction.guesses if prediction else ()
        if guesses:
            found["guesses"] = [[asdict(choice) for choice in guess] for guess in guesses]
        return json.dumps(found, ensure_ascii=False)
    texts = [one_line(each.text + guessed(prediction)) for each in answers]
    return "\n".join([*texts, *[""] * (manner.height - len(texts))])


def _told(answer: Answer) -> dict[str, Any]:
    """An answer as JSON: each token with its probability, where that is known."""
    told: dict[str, Any] = {"text": answer.text, "score": answer.score}
    if answer.tokens:
        told["tokens"] = [[each.text, round(each.probability, 4)] for each in answer.tokens]
    return told


def one_line(text: str) -> str:
    """An answer that takes up one line, whatever characters the model said."""
    return text.replace("\r", " ").replace("\n", " ")
