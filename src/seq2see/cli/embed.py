"""`seq2see embed`: texts as vectors, and how alike they are."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

SHOWN = 20
"""Texts that a table of every two can be shown of."""


def embed(
    run: Annotated[str, typer.Argument(help="A run folder, its name, or latest; or a Hugging Face folder.")],
    texts: Annotated[list[str] | None, typer.Argument(help="Texts; without any, lines from standard input.")] = None,
    file: Annotated[list[Path] | None, typer.Option("--file", "-f", help="A file with one text a line.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the vectors to this .npy file, a row for each text.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object a text, with its vector.")] = False,
) -> None:
    """Give a vector for each text; without --out or --json, tell how alike every two texts are."""
    from seq2see.cli.predict import input_lines
    from seq2see.cli.progress_meter import show_status
    from seq2see.core.errors import UserError
    from seq2see.runs.model import load
    from seq2see.runs.predictor import Predictor
    from seq2see.runs.sentence_embeddings import cosine_similarities
    from seq2see.runs.terminal import Terminal
    from seq2see.sources.lines import is_blank

    if out is not None and out.suffix != ".npy":
        raise UserError("Vectors are written as a .npy file.", location=str(out), hint=f"Say --out {out.stem}.npy.")
    with show_status(f"opening {run}"):
        model = load(run)
    if not isinstance(model, Predictor):
        raise UserError("Only a model that reads gives a vector for a text; this one writes.", location=run)
    asked = list(input_lines(texts, file).texts)
    if any(map(is_blank, asked)):
        print("seq2see: an empty text has an embedding of zeros", file=sys.stderr)
    if len(asked) > SHOWN and out is None and not json_:
        what = f"There are {len(asked):,} texts, and a table of every two can be shown of {SHOWN}."
        raise UserError(what, hint="Write the vectors with --out vectors.npy, or print them with --json.")
    with Terminal("read", len(asked)) as terminal:
        found = model.embed(asked, lambda count: terminal.advance("read", count))
    if out is not None:
        _write(out, found)
    if json_:
        for text, vector in zip(asked, found, strict=True):
            print(json.dumps({"text": text, "vector": [round(float(each), 7) for each in vector]}, ensure_ascii=False))
    elif out is None:
        for text, row in zip(asked, cosine_similarities(found), strict=True):
            print(" ".join(f"{each:6.3f}" for each in row), text, sep="\t")


def _write(path: Path, found: Any) -> None:
    import io

    import numpy as np

    from seq2see.core.files import write_bytes

    content = io.BytesIO()
    np.save(content, found, allow_pickle=False)
    write_bytes(path, content.getvalue())
    print(f"wrote {path}: {found.shape[0]:,} vectors of {found.shape[1]:,} numbers")
