"""`seq2see eval`: score a run, or compare two."""

from __future__ import annotations

from typing import Annotated

import typer


def evaluate(
    run: Annotated[str, typer.Argument(help="A run folder, its name, or latest.")],
    other: Annotated[str | None, typer.Argument(help="A second run, to compare with.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A setting, as decoding.num_beams=5.")] = None,
) -> None:
    """Translate the test splits and score them; with two runs, tell whether they really differ, and where most."""
    from seq2see.cli.predict import decoding_setting
    from seq2see.cli.scores import print_changes, print_scores
    from seq2see.metrics.tokenised_bleu import ADVICE, has_moses
    from seq2see.workbench.evaluate import changed_most, compare, evaluate, read_scores, test_size
    from seq2see.workbench.report import write_report
    from seq2see.workbench.run_folder import find_run
    from seq2see.workbench.terminal import Terminal

    folders = [find_run(name) for name in (run, other) if name]
    settings = dict(map(decoding_setting, set_ or []))
    for folder in folders:
        if other and not settings and read_scores(folder):
            continue  # a comparison needs the predictions, and they are there
        with Terminal("eval", test_size(folder)) as terminal:
            scores = evaluate(folder, terminal.advance, **settings)
        write_report(folder)
        print_scores(folder, scores)
        if "bleu-tokenised" in folder.recipe().metrics and not has_moses():
            print(ADVICE)
    if other:
        print(compare(*folders))
        print_changes(folders[0], folders[1], changed_most(folders[0], folders[1]))
