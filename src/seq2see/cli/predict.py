"""`seq2see predict`: texts from the command line, a file, a pipe, or an interactive prompt."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import typer

from seq2see.core.startup import importing

if TYPE_CHECKING:
    from seq2see.core.settings import Settings
    from seq2see.runs.batch_inference import LineSource, OutputFile
    from seq2see.tasks.model import Model, Prediction

INTERRUPTED = 130
MORE = "..."
IMAGE_SIZE = "source.image_size"
"""The only model setting that can be changed at prediction."""
TRAINED_PARTS = ("source", "target", "encoder", "decoder", "training", "objective", "corpus")
"""The parts of a recipe that are fixed by training."""


def predict(
    run: Annotated[str, typer.Argument(help="A run folder, its name, or latest; or a Hugging Face folder.")],
    texts: Annotated[list[str] | None, typer.Argument(help="Texts; without any, lines from standard input.")] = None,
    file: Annotated[list[Path] | None, typer.Option("--file", "-f", help="A file with one text per line.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write predictions to this file; the same command resumes after an interruption."),
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A decoding setting: decoding.num_beams=5.")] = None,
    prefix: Annotated[str, typer.Option(help="The text that every output starts with.")] = "",
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object per text, with scores.")] = False,
    engine: Annotated[str, typer.Option(help="Decoding engine: torch, or ct2 for CTranslate2.")] = "torch",
    experts: Annotated[
        list[str] | None, typer.Option(help="Experts of this base model: runs with an adapter, separated by commas.")
    ] = None,
    dispatch: Annotated[str, typer.Option(help="How experts are chosen: prompt, classifier or few-shot.")] = "prompt",
    classifier: Annotated[str, typer.Option(help="The expert that names tasks, for --dispatch classifier.")] = "",
    shots: Annotated[Path | None, typer.Option(help="A file of solved questions, for --dispatch few-shot.")] = None,
    per_matrix: Annotated[
        bool, typer.Option("--per-matrix", help="Mix each matrix of the experts separately, for --dispatch few-shot.")
    ] = False,
    naming: Annotated[str, typer.Option(help="The question that names the task; {question} is the message.")] = "",
    steps: Annotated[
        int | None, typer.Option(help="Forecast so many values after the end of the table in --file.")
    ] = None,
) -> None:
    """Predict: translate, generate, classify or forecast."""
    with importing():
        from seq2see.cli.progress_meter import show_status
        from seq2see.core.errors import UserError
        from seq2see.interop.checkpoint_files import is_pretrained
        from seq2see.runs.load import load

    if texts and file:
        raise UserError("Texts and --file cannot be combined.", hint="Leave one out, or run the command twice.")
    settings = dict(map(decoding_setting, set_ or [])) | {"prefix": prefix}
    # A model of a run loads at once; a pretrained model can be large.
    with show_status(f"loading {run}") if is_pretrained(Path(run)) else contextlib.nullcontext():
        if experts is None:
            model = load(run, engine)
        else:
            model = _open_experts(
                run, experts, engine, DispatchRequest(dispatch, classifier, shots, naming, per_matrix)
            )
    if steps is not None:
        _forecast_file(model, run, file or [], steps, json_)
    elif texts is None and file is None and out is None and sys.stdin.isatty() and sys.stdout.isatty():
        interactive(model, settings, json_)
    elif texts and out is None:
        _predict_texts(model, texts, settings, json_)
    elif out is None:
        _stream(model, input_lines(texts, file), settings, json_)
    else:
        output_file = _open_output(out, run, model, settings, json_, engine)
        _stream(model, input_lines(texts, file), settings, json_, output_file)


class DispatchRequest(NamedTuple):
    """The options of the command line about experts."""

    dispatch: str
    classifier: str
    shots: Path | None
    naming: str
    per_matrix: bool


def _open_experts(run: str, experts: list[str], engine: str, request: DispatchRequest) -> Model:
    """A base model with its experts; the mixture that was found is printed."""
    from seq2see.core.errors import UserError
    from seq2see.runs.dispatch import DispatchOptions, open_dispatched

    if engine != "torch":
        raise UserError("Experts answer with the engine torch.", hint="Leave out --engine.")
    names = [name.strip() for text in experts for name in text.split(",") if name.strip()]
    options = DispatchOptions(request.dispatch, request.classifier, request.shots, per_matrix=request.per_matrix)
    if request.naming:
        options = replace(options, question=request.naming)
    model, line = open_dispatched(run, names, options)
    if line:
        print(f"seq2see: {line}", file=sys.stderr)
    return model


def _forecast_file(model: Model, run: str, files: list[Path], steps: int, as_json: bool) -> None:
    """Print the values after the end of a table: time, value, and an interval that had 80 % of the earlier values."""
    from dataclasses import asdict

    from seq2see.core.errors import UserError
    from seq2see.runs.forecast_file import forecast_file
    from seq2see.runs.run_folder import find_run

    if len(files) != 1:
        raise UserError("--steps needs one table.", hint="Name it: --file sales.csv --steps 30.")
    column = getattr(find_run(run).recipe().slot("corpus"), "column", "")
    future = forecast_file(model, files[0], steps, column)
    if not as_json:
        print("time\tvalue\tlow 10 %\thigh 90 %")
    for each in future:
        cells = [f"{number:.6g}" if number == number else "" for number in (each.value, each.low, each.high)]
        numbers = {name: value for name, value in asdict(each).items() if value == value}  # without nan
        print(json.dumps(numbers, ensure_ascii=False) if as_json else "\t".join([each.time, *cells]))


def _predict_texts(model: Model, texts: list[str], settings: dict[str, Any], as_json: bool) -> None:
    """Predict and print the texts of the command line, in one batch."""
    from seq2see.data.readers.lines import is_blank
    from seq2see.runs.batch_inference import InferenceOptions, format_output, format_warnings

    if not model.task.reads_files:
        for name in filter(os.path.isfile, texts):
            print(f"seq2see: {name} is treated as a text; use --file {name} for the lines of the file", file=sys.stderr)
    predictions = _predict_all(model, [text for text in texts if not is_blank(text)], settings)
    remaining = iter(predictions)
    for text in texts:
        prediction = None if is_blank(text) else next(remaining)
        if prediction and prediction.truncated:
            print(f"seq2see: this text is too long and was truncated: {text[:60]} ...", file=sys.stderr)
        if prediction and prediction.warnings:
            print(f"seq2see: {format_warnings(prediction)}", file=sys.stderr)
        print(format_output(text, prediction, InferenceOptions(as_json=as_json)))
    if None in predictions:
        raise typer.Exit(2)


def _predict_all(model: Model, texts: list[str], settings: dict[str, Any]) -> list[Prediction | None]:
    """Predict all texts. If one of them fails, for example a damaged image, print the error and return None for it."""
    from seq2see.core.errors import UserError

    try:
        return [*model.predict(texts, **settings)]
    except UserError:
        if len(texts) == 1:
            raise
        predictions: list[Prediction | None] = []
        errors: list[str] = []
        for index, text in enumerate(texts):
            try:
                predictions += model.predict([text], indices=[index], **settings)
            except UserError as error:
                predictions.append(None)
                errors.append(str(error))
        for message in dict.fromkeys(errors):  # an error of the settings is printed once, not for every text
            print(f"seq2see: {message}", file=sys.stderr)
        if not any(predictions):
            raise typer.Exit(2) from None
        return predictions


def _stream(
    model: Model, lines: LineSource, settings: dict[str, Any], as_json: bool, output_file: OutputFile | None = None
) -> None:
    """Predict line by line; Ctrl-C prints the progress and the command to resume."""
    from seq2see.cli.progress_meter import Meter
    from seq2see.runs.batch_inference import InferenceOptions, StdoutWriter, predict_lines

    options = InferenceOptions(settings, as_json, _lines_per_input(model, settings, as_json))
    quiet = output_file is None and sys.stdout.isatty()
    with Meter(lines.total, sys.stderr, quiet=quiet) as meter, output_file or contextlib.nullcontext():
        try:
            predict_lines(model, lines, output_file or StdoutWriter(sys.stdout), options, meter)
        except KeyboardInterrupt:
            meter.log(_stop_message(output_file))
            raise typer.Exit(INTERRUPTED) from None
    if output_file:
        speeds = f" ({meter.speeds()})" if meter.new_lines else ""
        meter.log(f"{meter.progress_text()} written to {output_file.path}{speeds}")
    if meter.errors:
        raise typer.Exit(2)


def _open_output(out: Path, run: str, model: Model, settings: dict[str, Any], as_json: bool, engine: str) -> OutputFile:
    """The output file, with all settings that the predictions depend on, for resuming."""
    from seq2see.runs.batch_inference import OutputFile
    from seq2see.runs.run_folder import find_model
    from seq2see.tasks.model_folder import fingerprint_of

    provenance = {
        "model": fingerprint_of(find_model(run)),
        "engine": engine,
        "json": as_json,
        "prefix": settings["prefix"],
        "image_size": settings.get("image_size"),
        "decoding": _final_settings(model, settings).model_dump(mode="json"),
    }
    if experts := getattr(model, "provenance", None):
        provenance["experts"] = experts
    return OutputFile(out, provenance, _lines_per_input(model, settings, as_json))


def _final_settings(model: Model, settings: dict[str, Any]) -> Settings:
    """The prediction settings of the model, changed by those of the command line."""
    changes = {name: value for name, value in settings.items() if name not in ("prefix", "image_size")}
    return cast("Settings", model.prediction_settings.with_(**changes))


def _lines_per_input(model: Model, settings: dict[str, Any], as_json: bool) -> int:
    """The number of output lines for each input."""
    return 1 if as_json else getattr(_final_settings(model, settings), "num_return_sequences", 1)


def _stop_message(output_file: OutputFile | None) -> str:
    from seq2see.runs.terminal import program_name

    if output_file is None:
        return "stopped. With --out FILE, the same command can resume."
    command = shlex.join([program_name(), *sys.argv[1:]])
    lines = f"{output_file.complete()[0]:,} lines are in {output_file.path}"
    return f"stopped; {lines}. To resume, run the same command with the same lines:\n  {command}"


def input_lines(texts: list[str] | None, files: list[Path] | None) -> LineSource:
    """The texts of the command line, or the lines of files or of standard input."""
    from seq2see.runs.batch_inference import LineSource, lines_of, lines_of_pipe

    if texts:
        return LineSource(texts, len(texts))
    return lines_of(files) if files else lines_of_pipe(sys.stdin.buffer)  # type: ignore[arg-type]


def interactive(model: Model, settings: dict[str, Any], as_json: bool = False) -> None:
    """Read texts from a prompt, and print each output as it is generated, or several outputs one per line.

    An empty line or Ctrl-D ends the loop, Ctrl-C stops the current output.
    """
    from seq2see.core.errors import UserError

    model.predict([], **settings)  # checks the settings before the first input
    is_batch = as_json or _lines_per_input(model, settings, as_json) > 1
    more = "" if model.has_source or is_batch else f"\n{MORE} continues the last output."
    print(f"Enter {model.task.input_name}; an empty line ends.{more}")
    previous = ""
    while True:
        try:
            text = input("> ")
        except EOFError:
            print()
            return
        if not text.strip():
            return
        prompt = previous if text.strip() == MORE and previous else text
        try:
            if is_batch:
                _predict_texts(model, [prompt], settings, as_json)
                continue
            if prompt is text:
                print("".join(f"({warning})\n" for warning in model.warnings(text)), end="", file=sys.stderr)
            output = _print_stream(model, prompt, settings)
            previous = "" if model.has_source else prompt + output
        except UserError as error:  # the loop continues after an error
            print(f"seq2see: {error}", file=sys.stderr)
        except KeyboardInterrupt:  # and after an interrupted prediction
            print()


def _print_stream(model: Model, text: str, settings: dict[str, Any]) -> str:
    """Print an output as it is generated, and return it."""
    chunks: list[str] = []
    try:
        for chunk in model.stream(text, **settings):
            chunks.append(chunk)
            print(chunk, end="", flush=True)
    except KeyboardInterrupt:
        pass
    print()
    return "".join(chunks)


def decoding_setting(text: str) -> tuple[str, Any]:
    """Parse a setting of a prediction, given with --set: of decoding, or of an encoder-only model."""
    from seq2see.core.errors import UserError
    from seq2see.core.settings import parse_assignment

    path, value = parse_assignment(text)
    if path == IMAGE_SIZE:  # not a decoding setting, but allowed at every call
        return "image_size", value
    slot, _, rest = path.partition(".")
    if slot not in ("decoding", "prediction") or not rest:
        hint = "Use, for example, decoding.num_beams=5, or prediction.top_k=3 for an encoder-only model."
        if slot in TRAINED_PARTS and rest:
            message = f"'{path}' belongs to the trained model, and cannot be changed after training."
            raise UserError(message, hint=f"Train another run with --set {text}. {hint}")
        raise UserError(f"'{path}' is not a setting of a prediction.", hint=hint)
    return rest, value
