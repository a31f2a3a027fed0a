"""`seq2see eval`: score a run, or compare two."""

from __future__ import annotations

from typing import Annotated

import typer


def evaluate(
    run: Annotated[str, typer.Argument(help="A run folder, its name, or latest.")],
    other: Annotated[str | None, typer.Argument(help="A second run, to compare with.")] = None,
) -> None:
    """Translate the test splits and score them; with two runs, tell whether they really differ."""
    from seq2see.cli.scores import print_scores
    from seq2see.workbench.evaluate import compare, evaluate, read_scores, test_size
    from seq2see.workbench.report import write_report
    from seq2see.workbench.run_folder import find_run
    from seq2see.workbench.terminal import Terminal

    folders = [find_run(name) for name in (run, other) if name]
    for folder in folders:
        if other and read_scores(folder):
            continue  # a comparison needs the predictions, and they are there
        with Terminal("eval", test_size(folder)) as terminal:
            scores = evaluate(folder, terminal.advance)
        write_report(folder)
        print_scores(folder, scores)
    if other:
        print(compare(*folders))
