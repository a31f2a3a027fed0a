"""`seq2see chat`: a conversation in the terminal, or a message on each line of a pipe."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2see.core.startup import importing

if TYPE_CHECKING:
    from seq2see.tasks.conversation import Conversation

HELP = """/undo        remove the last message and its reply
/again       another reply to the last message
/save FILE   append the dialogue to a file that `seq2see train chat` reads
/help        this list
/quit        end (so does an empty line, or Ctrl-D)"""


def chat(
    run: Annotated[
        str, typer.Argument(help="A run of chat, its name, or latest; or a Hugging Face folder or GGUF file.")
    ],
    system: Annotated[str, typer.Option(help="The message of the system, at the beginning of the dialogue.")] = "",
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A decoding setting: decoding.temperature=0.7.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of sampled replies.")] = 0,
) -> None:
    """Talk to a model; the earlier messages are part of its input."""
    with importing():
        from seq2see.cli.predict import decoding_setting
        from seq2see.cli.progress_meter import show_status
        from seq2see.runs.chat import open_chat

    settings = dict(map(decoding_setting, set_ or []))
    with show_status(f"loading {run}"):
        model = open_chat(run)
    conversation = model.conversation(system, seed, **settings)
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        print("Enter a message; /help lists the commands, an empty line ends.")
    talk(conversation, _terminal_lines() if is_terminal else _pipe_lines())


def _terminal_lines() -> Iterator[str]:
    """The lines that a user types, up to an empty one."""
    while True:
        try:
            line = input("> ")
        except EOFError:
            print()
            return
        if not line.strip():
            return
        yield line


def _pipe_lines() -> Iterator[str]:
    """The lines of a pipe; blank ones are skipped."""
    for line in sys.stdin:
        if line.strip():
            yield line.rstrip("\r\n")


def talk(conversation: Conversation, lines: Iterator[str]) -> None:
    """Answer each line: a command, or a message of the user; the conversation continues after an error."""
    from seq2see.core.errors import UserError

    for line in lines:
        try:
            if not line.startswith("/"):
                _print_reply(conversation, conversation.reply(line))
            elif not _run_command(conversation, line):
                return
        except UserError as error:
            print(f"seq2see: {error}", file=sys.stderr)


def _print_reply(conversation: Conversation, chunks: Iterator[str]) -> None:
    """Print a reply as it is generated; Ctrl-C ends it."""
    try:
        for chunk in chunks:
            print(chunk, end="", flush=True)
    except KeyboardInterrupt:
        chunks.close()  # type: ignore[attr-defined]  # closing the generator stores the chunks so far
    print(flush=True)
    for notice in conversation.notices:
        print(f"({notice})", file=sys.stderr)


def _run_command(conversation: Conversation, line: str) -> bool:
    """Run a command; false if the conversation ends."""
    from seq2see.core.errors import unknown_name

    name, _, argument = line[1:].partition(" ")
    if name == "quit":
        return False
    commands: dict[str, Callable[[], None]] = {
        "again": lambda: _print_reply(conversation, conversation.again()),
        "help": lambda: print(HELP),
        "save": lambda: _save(conversation, argument.strip()),
        "undo": lambda: _undo(conversation),
    }
    if name not in commands:
        raise unknown_name("command", name, [*commands, "quit"])
    commands[name]()
    return True


def _undo(conversation: Conversation) -> None:
    conversation.undo()
    print(f"({len(conversation.messages)} messages are left)")


def _save(conversation: Conversation, file: str) -> None:
    """Append the dialogue to a file."""
    from seq2see.core.errors import UserError

    if not file:
        raise UserError("There is no file name.", hint="Write /save FILE.")
    messages = [{"role": each.role, "content": each.content} for each in conversation.history]
    if not conversation.messages:
        raise UserError("There is no message yet.", hint="Enter one first.")
    path = Path(file)
    try:
        with path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"messages": messages}, ensure_ascii=False) + "\n")
    except OSError as error:  # the conversation continues
        message = f"The dialogue cannot be written ({error.strerror})."
        raise UserError(message, location=file, hint="Write /save FILE.") from None
    print(f"({len(messages)} messages written to {path})")
