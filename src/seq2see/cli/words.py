"""`seq2see neighbors`, `analogy` and `contexts`: the word embeddings of a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seq2see.inspection.embedding_space import Neighbor
    from seq2see.runs.word_embeddings import WordEmbeddings

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
