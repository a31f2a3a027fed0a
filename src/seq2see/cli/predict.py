"""`seq2see predict`: texts from the command line, a file, a pipe, or typed one by one."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seq2see.cli import importing

if TYPE_CHECKING:
    from seq2see.decoding.settings import Decoding
    from seq2see.runs.input_lines import LineSource
    from seq2see.runs.model import Model, Prediction
    from seq2see.runs.output_file import OutputFile

INTERRUPTED = 130
MORE = "..."
SIDE = "source.image_size"
"""The one setting of a model that may be another when it is used: in which size it looks at images."""


def predict(
    run: Annotated[str, typer.Argument(help="A run folder, its name, or latest; or a Hugging Face folder.")],
    texts: Annotated[list[str] | None, typer.Argument(help="Texts; without any, lines from standard input.")] = None,
    file: Annotated[list[Path] | None, typer.Option("--file", "-f", help="A file with one text a line.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write answers to this file. The same command goes on after a stop; without, it cannot."),
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A setting, as decoding.num_beams=5.")] = None,
    prefix: Annotated[str, typer.Option(help="What every answer begins with.")] = "",
    json_: Annotated[bool, typer.Option("--json", help="One JSON object a text, with scores.")] = False,
    engine: Annotated[str, typer.Option(help="Who decodes: own, or ct2 for CTranslate2.")] = "own",
) -> None:
    """Let a trained model answer."""
    with importing():
        from seq2see.cli.progress_meter import show_status
        from seq2see.core.errors import UserError
        from seq2see.interop.folders import is_pretrained
        from seq2see.runs.model import load

    if texts and file:
        raise UserError(
            "Texts and --file are given, and only one of them is answered.", hint="Leave one out, or ask twice."
        )
    settings = dict(map(decoding_setting, set_ or [])) | {"prefix": prefix}
    # What a run leaves behind opens at once; real weights can be large.
    with show_status(f"opening {run}") if is_pretrained(Path(run)) else contextlib.nullcontext():
        model = load(run, engine)
    if texts is None and file is None and out is None and sys.stdin.isatty() and sys.stdout.isatty():
        interactive(model, settings, json_)
    elif texts and out is None:
        _answer(model, texts, settings, json_)
    elif out is None:
        _stream(model, input_lines(texts, file), settings, json_)
    else:
        answers = _answer_file(out, run, model, settings, json_, engine)
        _stream(model, input_lines(texts, file), settings, json_, answers)


def _answer(model: Model, texts: list[str], settings: dict[str, Any], as_json: bool) -> None:
    """Answer the texts of the command line, all at once."""
    from seq2see.models.image_settings import ImageSource
    from seq2see.runs.batch_inference import InferenceOptions, format_output, format_warnings
    from seq2see.sources.lines import is_blank

    if not isinstance(model.config.model.source, ImageSource):
        for name in filter(os.path.isfile, texts):
            print(f"seq2see: {name} is taken as a text; --file {name} answers the lines in it", file=sys.stderr)
    asked = [text for text in texts if not is_blank(text)]
    answers = _predict_all(model, asked, settings)
    each = iter(answers)
    for text in texts:
        prediction = None if is_blank(text) else next(each)
        if prediction and prediction.truncated:
            print(f"seq2see: this text is too long and was cut: {text[:60]} ...", file=sys.stderr)
        if prediction and prediction.warnings:
            print(f"seq2see: {format_warnings(prediction)}", file=sys.stderr)
        print(format_output(text, prediction, InferenceOptions(as_json=as_json)))
    if None in answers:
        raise typer.Exit(2)


def _predict_all(model: Model, asked: list[str], settings: dict[str, Any]) -> list[Prediction | None]:
    """An answer to each. What is wrong with one of them, a damaged image say, is told, and its answer is None."""
    from seq2see.core.errors import UserError

    try:
        return [*model.predict(asked, **settings)]
    except UserError:
        if len(asked) == 1:
            raise
        answers: list[Prediction | None] = []
        wrong: list[str] = []
        for number, text in enumerate(asked):
            try:
                answers += model.predict([text], indices=[number], **settings)
            except UserError as error:
                answers.append(None)
                wrong.append(str(error))
        for told in dict.fromkeys(wrong):  # a wrong setting is told once, not for every text
            print(f"seq2see: {told}", file=sys.stderr)
        if not any(answers):
            raise typer.Exit(2) from None
        return answers


def _stream(
    model: Model, lines: LineSource, settings: dict[str, Any], as_json: bool, answers: OutputFile | None = None
) -> None:
    """Answer line after line; Ctrl-C says what is done, and how to go on."""
    from seq2see.cli.progress_meter import Meter
    from seq2see.runs.batch_inference import InferenceOptions, StdoutWriter, predict_lines

    options = InferenceOptions(settings, as_json, _height(model, settings, as_json))
    quiet = answers is None and sys.stdout.isatty()
    with Meter(lines.total, sys.stderr, quiet=quiet) as meter, answers or contextlib.nullcontext():
        try:
            predict_lines(model, lines, answers or StdoutWriter(sys.stdout), options, meter)
        except KeyboardInterrupt:
            meter.log(_stop_message(answers))
            raise typer.Exit(INTERRUPTED) from None
    if answers:
        speeds = f" ({meter.speeds()})" if meter.new_lines else ""
        meter.log(f"{meter.progress_text()} are answered in {answers.path}{speeds}")
    if meter.errors:
        raise typer.Exit(2)


def _answer_file(out: Path, run: str, model: Model, settings: dict[str, Any], as_json: bool, engine: str) -> OutputFile:
    """The file, with everything its answers depend on besides the lines."""
    from seq2see.runs.model_folder import fingerprint_of
    from seq2see.runs.output_file import OutputFile
    from seq2see.runs.run_folder import find_model

    provenance = {
        "model": fingerprint_of(find_model(run)),
        "engine": engine,
        "json": as_json,
        "prefix": settings["prefix"],
        "image_size": settings.get("image_size"),
        "decoding": _final_decoding(model, settings).model_dump(mode="json"),
    }
    return OutputFile(out, provenance, _height(model, settings, as_json))


def _final_decoding(model: Model, settings: dict[str, Any]) -> Decoding:
    """The settings of decoding that hold in the end."""
    given = {name: value for name, value in settings.items() if name not in ("prefix", "image_size")}
    return model.config.decoding.with_(**given)


def _height(model: Model, settings: dict[str, Any], as_json: bool) -> int:
    """How many lines an answer takes up."""
    return 1 if as_json else _final_decoding(model, settings).num_return_sequences


def _stop_message(answers: OutputFile | None) -> str:
    from seq2see.runs.terminal import program_name

    if answers is None:
        return "stopped. With --out FILE the same command would go on from here."
    command = shlex.join([program_name(), *sys.argv[1:]])
    done = f"stopped; {answers.complete()[0]:,} lines are answered in {answers.path}."
    return f"{done} To go on, give the same lines again:\n  {command}"


def input_lines(texts: list[str] | None, files: list[Path] | None) -> LineSource:
    """The texts of a command line, or the lines of files or of standard input."""
    from seq2see.runs.input_lines import LineSource, lines_of, lines_of_pipe

    if texts:
        return LineSource(texts, len(texts))
    return lines_of(files) if files else lines_of_pipe(sys.stdin.buffer)  # type: ignore[arg-type]


def interactive(model: Model, settings: dict[str, Any], as_json: bool = False) -> None:
    """Type a text, and read the answer as it comes, or all that were asked for, one a line.

    An empty line or Ctrl-D ends it, Ctrl-C only the answer.
    """
    from seq2see.core.errors import UserError
    from seq2see.models.image_settings import ImageSource

    model.predict([], **settings)  # so that a wrong setting is told before anything is typed
    whole = as_json or _height(model, settings, as_json) > 1
    more = "" if model.has_source or whole else f"\n{MORE} goes on from where the last answer stopped."
    source = model.config.model.source
    what = f"the name of a {source.kind} file" if isinstance(source, ImageSource) else "a text"
    print(f"Type {what} and press Enter; an empty line ends.{more}")
    before = ""
    while True:
        try:
            text = input("> ")
        except EOFError:
            print()
            return
        if not text.strip():
            return
        asked = before if text.strip() == MORE and before else text
        try:
            if whole:
                _answer(model, [asked], settings, as_json)
                continue
            if asked is text:
                print("".join(f"({remark})\n" for remark in model.warnings(text)), end="", file=sys.stderr)
            answer = _print_stream(model, asked, settings)
            before = "" if model.has_source else asked + answer
        except UserError as error:  # a slip of the finger ends no dialogue
            print(f"seq2see: {error}", file=sys.stderr)
        except KeyboardInterrupt:  # nor does an answer that nobody wants to wait for
            print()


def _print_stream(model: Model, text: str, settings: dict[str, Any]) -> str:
    """Print an answer as it comes; gives it back."""
    pieces: list[str] = []
    try:
        for piece in model.stream(text, **settings):
            pieces.append(piece)
            print(piece, end="", flush=True)
    except KeyboardInterrupt:
        pass
    print()
    return "".join(pieces)


def decoding_setting(text: str) -> tuple[str, Any]:
    """A setting of decoding as it stands behind --set."""
    from seq2see.core.errors import UserError
    from seq2see.core.settings import parse_assignment

    path, value = parse_assignment(text)
    if path == SIDE:  # not of decoding, but given at every call, too
        return "image_size", value
    slot, _, rest = path.partition(".")
    if slot != "decoding" or not rest:
        raise UserError(f"'{path}' is not a setting of decoding.", hint="Say, decoding.num_beams=5.")
    return rest, value
