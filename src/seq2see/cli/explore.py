"""`seq2see explore`: inspect models in a browser on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seq2see.core.startup import importing


def explore(
    runs: Annotated[list[str], typer.Argument(help="Run folders, their names, or latest; or Hugging Face folders.")],
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="The port; default: 7321, or a free port.")] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    save: Annotated[
        Path | None, typer.Option(help="Write a page that needs no server, instead of serving.", metavar="FILE")
    ] = None,
    text: Annotated[str, typer.Option(help="With --save: the text that the page shows.")] = "",
) -> None:
    """Inspect trained models in a browser on this machine."""
    with importing():
        from seq2see.explorer.server import serve
        from seq2see.explorer.workspace import Workspace

    if save is None:
        serve(Workspace.open(runs), port, browser)
    else:
        from seq2see.explorer.offline import write_page

        write_page(Workspace.open(runs), save, text)
