"""`seq2see embed`, `neighbors`, `analogy` and `contexts`: embeddings of sentences and of words."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seq2see.inspection.embedding_space import Neighbor
    from seq2see.runs.word_embeddings import WordEmbeddings


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


Run = Annotated[str, typer.Argument(help="A run folder, its name, or latest; or a Hugging Face folder.")]
Count = Annotated[int, typer.Option("--count", min=1, help="The number of words to show.")]


def neighbors(
    run: Run, words: Annotated[list[str], typer.Argument(help="Words of the model's vocabulary.")], count: Count = 8
) -> None:
    """Show the nearest neighbors of words in the embedding table."""
    embeddings = _load_embeddings(run)
    for word in words:
        print(f"{word}: {_format(embeddings.neighbors(word, count))}")


def analogy(
    run: Run,
    first: Annotated[str, typer.Argument(help="First word: king - man + woman.")],
    second: Annotated[str, typer.Argument(help="Word to subtract.")],
    third: Annotated[str, typer.Argument(help="Word to add.")],
    count: Count = 5,
) -> None:
    """Show the words nearest to FIRST - SECOND + THIRD."""
    all_words, other_words = _load_embeddings(run).analogy((first, second, third), count)
    print(f"{first} - {second} + {third}")
    print(f"all words:         {_format(all_words)}")
    print(f"without the three: {_format(other_words)}")


def contexts(
    run: Run,
    word: Annotated[str, typer.Argument(help="A word that every sentence contains.")],
    sentences: Annotated[list[str], typer.Argument(help="Two sentences or more.")],
    out: Annotated[Path | None, typer.Option("--out", help="The plot; default: RUN/contexts/WORD.png.")] = None,
) -> None:
    """Compare the vectors of one word in several sentences."""
    from rich.console import Console
    from rich.table import Table

    from seq2see.core.errors import UserError
    from seq2see.inspection.plotting import draw_contexts
    from seq2see.interop.checkpoint_files import is_pretrained
    from seq2see.runs.run_folder import find_model

    if len(sentences) < 2:
        raise UserError("A comparison needs two sentences or more.", hint="Add a sentence.")
    word_contexts = _load_embeddings(run).contexts(word, sentences)
    for number, sentence in enumerate(sentences, 1):
        print(f"{number}  {sentence}")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("cosine of")
    for first, second in word_contexts.pairs:
        table.add_column(f"{first + 1} and {second + 1}", justify="right")
    for name, cosines in word_contexts.cosines.items():
        table.add_row(name, *(f"{value:.3f}" for value in cosines))
    Console().print(table)
    folder = find_model(run)
    if out or not is_pretrained(folder):
        path = out or folder.parent / "contexts" / f"{word.replace('/', '-')}.png"
        draw_contexts(word, word_contexts.pairs, word_contexts.cosines, path)
        print(f"plot   {path}")


def _load_embeddings(run: str) -> WordEmbeddings:
    from seq2see.cli.progress_meter import show_status
    from seq2see.core.devices import pick_device
    from seq2see.runs.load import read_model
    from seq2see.runs.run_folder import find_model
    from seq2see.runs.word_embeddings import WordEmbeddings

    with show_status(f"loading {run}"):
        return WordEmbeddings(read_model(find_model(run), pick_device()))


def _format(neighbors: Sequence[Neighbor]) -> str:
    return "  ".join(f"{each.token} {each.cosine:.3f}" for each in neighbors)
