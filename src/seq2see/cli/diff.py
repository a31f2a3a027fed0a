"""`seq2see diff`: which settings differ between two recipes or runs."""

from __future__ import annotations

from typing import Annotated

import typer


def diff(
    first: Annotated[str, typer.Argument(help="A recipe, a TOML file or a run.")],
    second: Annotated[str, typer.Argument(help="Another recipe, TOML file or run.")],
) -> None:
    """Show the settings in which two recipes or runs differ."""
    from seq2see.api import recipe_of

    left, right = (dict(_flat(recipe_of(name))) for name in (first, second))
    for path in sorted(left.keys() | right.keys()):
        left_value, right_value = (each.get(path, "missing") for each in (left, right))
        if left_value != right_value:
            print(f"{path}: {left_value} | {right_value}")


def _flat(recipe: object) -> list[tuple[str, object]]:
    from seq2see.core.settings import Settings, walk

    assert isinstance(recipe, Settings)
    return [(path, value) for path, value, _ in walk(recipe) if not isinstance(value, type)]
