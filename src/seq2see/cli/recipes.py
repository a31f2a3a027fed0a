"""`seq2see recipes` lists the built-in recipes, `show` explains every setting of one, `diff` compares two."""

from __future__ import annotations

import sys
import textwrap
from typing import Annotated

import typer


def recipes() -> None:
    """List the built-in recipes."""
    from rich.console import Console
    from rich.table import Table

    from seq2see.recipes.registry import RECIPES

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("recipe", "description"):
        table.add_column(title, overflow="fold")
    for name, make in RECIPES.items():
        table.add_row(name, (make.__doc__ or "").split("\n")[0])
    Console().print(table)
    print("\nTrain one:   seq2see train pocket-transformer\nExplain one: seq2see show pocket-transformer")


def show(
    recipe: Annotated[str, typer.Argument(help="A recipe, a task or a TOML file.")],
    toml: Annotated[bool, typer.Option("--toml", help="Print as TOML, to save and change.")] = False,
) -> None:
    """Explain a recipe: every setting, its value and its meaning."""
    from seq2see.core.settings import walk
    from seq2see.recipes import registry

    _print_shared_name(recipe)
    shown = registry.recipe(recipe)
    if toml:
        print(shown.toml(), end="")
        return
    for path, value, meaning in walk(shown):
        print(path if isinstance(value, type) else f"{path} = {_short(value)}")
        if meaning:
            print(textwrap.fill(meaning, width=79, initial_indent="    ", subsequent_indent="    "))


def _print_shared_name(name: str) -> None:
    """Print which of a recipe and a run of one name is meant."""
    from seq2see.api import shared_name_note

    if note := shared_name_note(name):
        print(f"seq2see: {note}", file=sys.stderr)


def _short(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def diff(
    first: Annotated[str, typer.Argument(help="A recipe, a TOML file or a run.")],
    second: Annotated[str, typer.Argument(help="Another recipe, TOML file or run.")],
) -> None:
    """Show the settings in which two recipes or runs differ."""
    from seq2see.api import recipe_of

    for name in (first, second):
        _print_shared_name(name)
    left, right = (dict(_flat(recipe_of(name))) for name in (first, second))
    for path in sorted(left.keys() | right.keys()):
        left_value, right_value = (each.get(path, "missing") for each in (left, right))
        if left_value != right_value:
            print(f"{path}: {left_value} | {right_value}")


def _flat(recipe: object) -> list[tuple[str, object]]:
    from seq2see.core.settings import Settings, walk

    assert isinstance(recipe, Settings)
    return [(path, value) for path, value, _ in walk(recipe) if not isinstance(value, type)]
