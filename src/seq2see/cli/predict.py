"""`seq2see predict`: texts from the command line, a file, a pipe, or typed one by one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

CHUNK = 1024
"""Lines of a file or pipe that are read and answered together."""


def predict(
    run: Annotated[str, typer.Argument(help="A run folder, its name, or latest.")],
    texts: Annotated[list[str] | None, typer.Argument(help="Texts; without any, lines from standard input.")] = None,
    file: Annotated[list[Path] | None, typer.Option("--file", "-f", help="A file with one text a line.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A setting, as decoding.num_beams=5.")] = None,
    prefix: Annotated[str, typer.Option(help="What every answer begins with.")] = "",
    json_: Annotated[bool, typer.Option("--json", help="One JSON object a text, with scores.")] = False,
) -> None:
    """Let a trained model answer."""
    from seq2see.workbench.predict import load
    from seq2see.workbench.terminal import is_interactive

    settings = dict(_decoding(text) for text in set_ or []) | {"prefix": prefix}
    model = load(run)
    if texts is None and file is None and is_interactive():
        _converse(model, settings)
        return
    lines = iter(texts) if texts else _lines(file)
    while chunk := [line for _, line in zip(range(CHUNK), lines, strict=False)]:
        _answer(model, chunk, settings, json_)


def _answer(model: Any, texts: list[str], settings: dict[str, Any], as_json: bool) -> None:
    """Answer some texts; an empty line gets an empty answer, so that lines stay aligned."""
    asked = [text for text in texts if text.strip()]
    answers = iter(model.predict(asked, **settings))
    for text in texts:
        if not text.strip():
            print(json.dumps({"source": text, "answers": []}, ensure_ascii=False) if as_json else "")
            continue
        prediction = next(answers)
        if prediction.truncated:
            print(f"seq2see: this text is too long and was cut: {text[:60]} ...", file=sys.stderr)
        if as_json:
            found = [{"text": each.text, "score": each.score} for each in prediction.answers]
            print(json.dumps({"source": text, "answers": found}, ensure_ascii=False))
        else:
            for each in prediction.answers:
                print(each.text)


def _lines(files: list[Path] | None) -> Iterator[str]:
    """The lines of files, read strictly and whole before the first is answered; or of standard input, as they come."""
    from seq2see.core.errors import UserError
    from seq2see.sources.complaints import DataReport, OnBad
    from seq2see.sources.lines import read_lines

    for number, line in enumerate(sys.stdin.buffer if files is None else (), 1):
        try:
            yield line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise UserError("This is not UTF-8.", where=f"standard input:{number}") from None
    for path in files or ():
        report = DataReport()
        texts = [line.text for line in read_lines(path, report)]
        report.kept = len(texts)
        report.judge(OnBad())
        yield from texts


def _converse(model: Any, settings: dict[str, Any]) -> None:
    """Type a text, read the answer; an empty line or Ctrl-D ends it."""
    print("Type a text and press Enter; an empty line ends.")
    while True:
        try:
            text = input("> ")
        except EOFError:
            return
        if not text.strip():
            return
        print(model(text, **settings).text)


def _decoding(text: str) -> tuple[str, Any]:
    from seq2see.core.errors import UserError
    from seq2see.core.settings import parse_assignment

    path, value = parse_assignment(text)
    slot, _, rest = path.partition(".")
    if slot != "decoding" or not rest:
        raise UserError(f"'{path}' is not a setting of decoding.", remedy="Say, decoding.num_beams=5.")
    return rest, value
