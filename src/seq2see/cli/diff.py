"""`seq2see diff`: which settings differ between two recipes or runs."""

from __future__ import annotations

from typing import Annotated

import typer


def diff(
    first: Annotated[str, typer.Argument(help="A recipe, a TOML file or a run.")],
    second: Annotated[str, typer.Argument(help="Another one.")],
) -> None:
    """Show the settings in which two recipes or runs differ."""
    from seq2see.api import recipe_of

    left, right = (dict(_flat(recipe_of(name))) for name in (first, second))
    for path in sorted(left.keys() | right.keys()):
        if left.get(path) != right.get(path):
            print(f"{path}: {left.get(path, 'not there')} | {right.get(path, 'not there')}")


def _flat(recipe: object) -> list[tuple[str, str]]:
    from seq2see.core.settings import Settings, walk

    assert isinstance(recipe, Settings)
    return [(path, str(value)) for path, value, _ in walk(recipe) if not isinstance(value, type)]
