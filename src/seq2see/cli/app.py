"""The commands, how errors are printed, and how the process starts and ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from types import FrameType
from typing import Any

import typer
from typer.core import TyperGroup

import seq2see
from seq2see.cli.chat import chat
from seq2see.cli.data import data
from seq2see.cli.doctor import doctor, explain
from seq2see.cli.embed import analogy, contexts, embed, neighbors
from seq2see.cli.evaluate import evaluate
from seq2see.cli.explore import explore
from seq2see.cli.export import export
from seq2see.cli.predict import predict
from seq2see.cli.recipes import diff, recipes, show
from seq2see.cli.runs import ensemble, runs
from seq2see.cli.train import train
from seq2see.cli.transcribe import transcribe
from seq2see.core.errors import UserError, unknown_name

USER_ERROR = 2
BROKEN_PIPE = 1
"""The exit code of typer when its output pipe is closed, for example by `head`."""
CHECK = "Check the path, the permissions and the free disk space."


class CommandGroup(TyperGroup):
    """A group of commands that suggests the closest command for an unknown name."""

    def resolve_command(self, context: Any, arguments: list[str]) -> Any:
        """Find the command by its name."""
        if arguments and not arguments[0].startswith("-") and self.get_command(context, arguments[0]) is None:
            raise unknown_name("command", arguments[0], self.list_commands(context))
        return super().resolve_command(context, arguments)


app = typer.Typer(
    cls=CommandGroup,
    help="Sequence models you can read, train with one command, and look inside.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("train")(train)
app.command("eval")(evaluate)
app.command("predict")(predict)
app.command("transcribe")(transcribe)
app.command("chat")(chat)
app.command("explore")(explore)
app.command("embed")(embed)
app.command("export")(export)
app.command("ensemble")(ensemble)
app.command("recipes")(recipes)
app.command("show")(show)
app.command("neighbors")(neighbors)
app.command("analogy")(analogy)
app.command("contexts")(contexts)
app.command("runs")(runs)
app.command("diff")(diff)
app.add_typer(data, name="data")
app.command("explain")(explain)
app.command("doctor")(doctor)


def _version(is_set: bool) -> None:
    if is_set:
        print(seq2see.__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Sequence models you can read, train with one command, and look inside."""


def main() -> None:
    """The entry point of the command `seq2see`. User errors are printed in one or two lines, with exit code 2."""
    _open_streams()
    code = run(sys.argv[1:])
    if "torch" in sys.modules and _is_main_program(sys._getframe(1)):
        _exit_fast(code)
    sys.exit(code)


def _open_streams() -> None:
    """Replace closed standard streams (`<&-`) by the null device."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def _is_main_program(caller: FrameType) -> bool:
    """Whether the process runs only this command: no calling code, profiler or other thread continues after it."""
    frame = caller.f_back
    while frame and frame.f_globals.get("__name__") == "runpy":  # `python -m` calls modules from runpy
        frame = frame.f_back
    threads = [thread for thread in threading.enumerate() if not thread.daemon]
    return caller.f_code.co_filename == sys.argv[0] and frame is None and threads == [threading.main_thread()]


def _exit_fast(code: int) -> None:
    """Run the registered exit functions, and end this process without destroying its objects.

    The destructors of torch and the GPU libraries take about as long as drawing the curves of a run, and the operating
    system frees all memory anyway.
    """
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError):  # a closed pipe: the normal exit of Python reports it
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run(arguments: list[str]) -> int:
    """Run one command, and return its exit code."""
    try:
        code = app(args=arguments, prog_name="seq2see", standalone_mode=False) or 0
        sys.stdout.flush()  # output to a file or a pipe is buffered; this raises an error if it cannot be written
        return code
    except UserError as error:
        print(f"seq2see: {error}", file=sys.stderr)
        return USER_ERROR
    except SystemExit as end:
        if end.code != BROKEN_PIPE:
            raise
        _discard_output()
        return 0
    except BrokenPipeError:
        _discard_output()
        return 0
    except OSError as error:  # a full disk, a locked folder, a name that is too long
        if error.strerror is None:
            raise
        if error.filename is None:
            _discard_output()
        subject = f"{error.filename}: This" if error.filename else "The output"
        print(f"seq2see: {subject} cannot be written or read ({error.strerror}). {CHECK}", file=sys.stderr)
        return USER_ERROR
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("click", "typer"):
            raise
        # A command without its subcommand raises its help text as a message.
        is_help = type(error).__name__ == "NoArgsIsHelpError"
        print(error.format_message() if is_help else f"seq2see: {_usage(error)}", file=sys.stderr)  # type: ignore[attr-defined]
        return USER_ERROR


def _discard_output() -> None:
    """Redirect standard output to the null device."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage(error: Any) -> str:
    """The message for a wrong option or a missing argument."""
    context = getattr(error, "ctx", None)
    help_line = f" See `{context.command_path} --help`." if context else ""
    return f"{error.format_message()}{help_line}"


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
