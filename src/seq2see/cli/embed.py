"""`seq2see embed`: sentence embeddings and their cosine similarities."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

SHOWN = 20
"""The maximum number of texts in the table of cosine similarities."""


def embed(
    run: Annotated[str, typer.Argument(help="A run folder, its name, or latest; or a Hugging Face folder.")],
    texts: Annotated[list[str] | None, typer.Argument(help="Texts; without any, lines from standard input.")] = None,
    file: Annotated[list[Path] | None, typer.Option("--file", "-f", help="A file with one text per line.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the embeddings to this .npy file, one row per text.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object per text, with its embedding.")] = False,
) -> None:
    """Compute embeddings of texts, or their cosine similarities."""
    from seq2see.cli.predict import input_lines
    from seq2see.cli.progress_meter import show_status
    from seq2see.core.errors import UserError
    from seq2see.data.readers.lines import is_blank
    from seq2see.runs.load import load
    from seq2see.runs.terminal import Terminal
    from seq2see.tasks.embed import cosine_similarities

    if out is not None and out.suffix != ".npy":
        raise UserError("Embeddings are written as a .npy file.", location=str(out), hint=f"Use --out {out.stem}.npy.")
    with show_status(f"loading {run}"):
        model: Any = load(run)
    if not hasattr(model, "embed"):
        raise UserError("Only encoder-only models give sentence embeddings; this is a generative model.", location=run)
    inputs = list(input_lines(texts, file).texts)
    if any(map(is_blank, inputs)):
        print("seq2see: an empty text has an embedding of zeros", file=sys.stderr)
    if len(inputs) > SHOWN and out is None and not json_:
        message = f"There are {len(inputs):,} texts; the table of similarities is limited to {SHOWN}."
        raise UserError(message, hint="Write the embeddings with --out embeddings.npy, or print them with --json.")
    with Terminal("embed", len(inputs)) as terminal:
        embeddings = model.embed(inputs, lambda count: terminal.advance("embed", count))
    if out is not None:
        _write(out, embeddings)
    if json_:
        for text, embedding in zip(inputs, embeddings, strict=True):
            values = [round(float(each), 7) for each in embedding]
            print(json.dumps({"text": text, "embedding": values}, ensure_ascii=False))
    elif out is None:
        for text, row in zip(inputs, cosine_similarities(embeddings), strict=True):
            print(" ".join(f"{each:6.3f}" for each in row), text, sep="\t")


def _write(path: Path, embeddings: Any) -> None:
    import io

    import numpy as np

    from seq2see.core.files import write_bytes

    content = io.BytesIO()
    np.save(content, embeddings, allow_pickle=False)
    write_bytes(path, content.getvalue())
    print(f"wrote {path}: {embeddings.shape[0]:,} embeddings with {embeddings.shape[1]:,} dimensions")
