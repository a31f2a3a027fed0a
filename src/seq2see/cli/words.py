"""`seq2see neighbors`, `analogy` and `contexts`: words as a trained model has them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seq2see.inspection.nearest_neighbors import Neighbor
    from seq2see.runs.word_embeddings import WordEmbeddings

Run = Annotated[str, typer.Argument(help="A run folder, its name, or latest; or a Hugging Face folder.")]
Count = Annotated[int, typer.Option("--count", min=1, help="How many to show.")]


def neighbors(
    run: Run, words: Annotated[list[str], typer.Argument(help="Words that the model knows.")], count: Count = 8
) -> None:
    """Show the words whose vectors are nearest to those of given words."""
    found = _words(run)
    for word in words:
        print(f"{word}: {_listed(found.neighbors(word, count))}")


def analogy(
    run: Run,
    first: Annotated[str, typer.Argument(help="As king")],
    second: Annotated[str, typer.Argument(help="is to man")],
    third: Annotated[str, typer.Argument(help="so what is to woman?")],
    count: Count = 5,
) -> None:
    """Show which words are nearest to FIRST - SECOND + THIRD, with and without those three themselves."""
    everything, others = _words(run).analogy((first, second, third), count)
    print(f"{first} - {second} + {third}")
    print(f"all words:         {_listed(everything)}")
    print(f"without the three: {_listed(others)}")


def contexts(
    run: Run,
    word: Annotated[str, typer.Argument(help="A word that stands in every sentence.")],
    sentences: Annotated[list[str], typer.Argument(help="Two sentences or more.")],
    out: Annotated[Path | None, typer.Option("--out", help="Draw the image here; else RUN/contexts/WORD.png.")] = None,
) -> None:
    """Show how the vectors of one word part, layer by layer, in different sentences."""
    from rich.console import Console
    from rich.table import Table

    from seq2see.core.errors import UserError
    from seq2see.inspection.context_plot import draw_contexts
    from seq2see.interop.folders import is_pretrained
    from seq2see.runs.run_folder import find_model

    if len(sentences) < 2:
        raise UserError("One sentence has nothing to be compared with.", hint="Give two sentences or more.")
    found = _words(run).contexts(word, sentences)
    for number, sentence in enumerate(sentences, 1):
        print(f"{number}  {sentence}")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("cosine of")
    for first, second in found.pairs:
        table.add_column(f"{first + 1} and {second + 1}", justify="right")
    for name, cosines in found.cosines.items():
        table.add_row(name, *(f"{value:.3f}" for value in cosines))
    Console().print(table)
    folder = find_model(run)
    if out or not is_pretrained(folder):
        path = out or folder.parent / "contexts" / f"{word.replace('/', '-')}.png"
        draw_contexts(word, found.pairs, found.cosines, path)
        print(f"drawn  {path}")


def _words(run: str) -> WordEmbeddings:
    from seq2see.cli.progress_meter import show_status
    from seq2see.core.devices import pick_device
    from seq2see.runs.model_folder import read_model
    from seq2see.runs.run_folder import find_model
    from seq2see.runs.word_embeddings import WordEmbeddings

    with show_status(f"opening {run}"):
        return WordEmbeddings(read_model(find_model(run), pick_device()))


def _listed(found: Sequence[Neighbor]) -> str:
    return "  ".join(f"{each.token} {each.cosine:.3f}" for each in found)
