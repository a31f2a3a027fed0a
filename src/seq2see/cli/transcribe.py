"""`seq2see transcribe`: the text of recordings, or of sound from a pipe while it is recorded."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from seq2see.tasks.transcriber import Transcriber, Transcription

CHUNK_SECONDS = 0.2
"""The duration of sound that is read from a pipe at a time."""


def transcribe(
    run: Annotated[str, typer.Argument(help="A run of the task transcribe: its folder, its name, or latest.")],
    sounds: Annotated[list[str], typer.Argument(help="Sound files or folders; - for samples (int16) from a pipe.")],
    rate: Annotated[
        int | None, typer.Option(help="Samples per second of the pipe; default: those of the model.")
    ] = None,
    times: Annotated[bool, typer.Option("--times", help="Print a line for each letter, with its times.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object per recording.")] = False,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A decoding setting: decoding.num_beams=5.")] = None,
) -> None:
    """Transcribe recordings, a folder of them, or a pipe of raw samples."""
    from seq2see.cli.predict import decoding_setting
    from seq2see.core.errors import UserError
    from seq2see.runs.load import load
    from seq2see.tasks.transcriber import Transcriber

    model = load(run)
    if not isinstance(model, Transcriber):
        raise UserError("This model does not transcribe sound.", location=run, hint="Use `seq2see predict`.")
    settings = dict(map(decoding_setting, set_ or []))
    if sounds == ["-"]:
        if times or json_ or settings:
            raise UserError("--times, --json and --set have no effect on a pipe.", hint="Leave them out.")
        _live(model, rate)
        return
    if rate is not None:
        raise UserError("--rate is for a pipe: a file contains its sampling rate.", hint="Leave it out.")
    files = [file for name in sounds for file in _files(Path(name))]
    failed = 0
    for file in files:
        try:
            prediction: Any = model.predict([str(file)], **settings)[0]
        except UserError as error:
            if len(files) == 1:
                raise
            print(f"seq2see: {error}", file=sys.stderr)
            failed += 1
            continue
        _print(prediction, file if len(files) > 1 else None, times, json_)
    if failed:
        raise typer.Exit(2)


def _files(path: Path) -> list[Path]:
    """The file, or all sound files of a folder."""
    from seq2see.core.errors import UserError
    from seq2see.data.readers.sound_files import SUFFIX_FORMATS

    if not path.is_dir():
        return [path]
    found = [file for file in sorted(path.rglob("*")) if file.suffix.lower() in SUFFIX_FORMATS]
    if not found:
        raise UserError("There is no sound file in this folder.", location=str(path))
    return found


def _print(prediction: Transcription, file: Path | None, times: bool, as_json: bool) -> None:
    for warning in prediction.warnings:
        print(f"seq2see: {prediction.source}: {warning}", file=sys.stderr)
    letters = [
        {"text": each.text, "start": round(each.start, 3), "end": round(each.end, 3), "p": round(each.probability, 4)}
        for each in prediction.letters
    ]
    if as_json:
        shown = {"file": prediction.source, "text": prediction.text, "letters": letters}
        print(json.dumps(shown, ensure_ascii=False))
        return
    print(f"{file}\t{prediction.text}" if file else prediction.text)
    if times:
        for each in letters:
            print(f"  {each['start']:8.2f} s {each['end']:8.2f} s  {each['p']:.2f}  {each['text']}")


def _live(model: Transcriber, rate: int | None) -> None:
    """Print letters as they are committed."""
    import numpy as np

    from seq2see.tasks.live_transcript import LiveTranscript

    live, rest = LiveTranscript(model, rate), b""
    size = 2 * round(CHUNK_SECONDS * live.rate)
    while content := sys.stdin.buffer.read1(size):  # type: ignore[union-attr]
        content = rest + content
        whole = len(content) // 2 * 2
        rest = content[whole:]
        print(live.feed(np.frombuffer(content[:whole], "<i2")), end="", flush=True)
    print(live.finish())
