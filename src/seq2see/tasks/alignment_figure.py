"""The attention plot of an evaluation: cross-attention for a few test sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2see.data.examples import Example
from seq2see.data.pair_dataset import PairDataset
from seq2see.metrics.alignment import HeadSelection, word_attention
from seq2see.tasks.model import Model
from seq2see.tasks.teacher_forcing import collect_attention
from seq2see.tasks.tracing import TextAttention

if TYPE_CHECKING:
    from seq2see.inspection.attention_plots import Alignment


SHOWN = 4
"""Sentences in the plot."""
MAX_CHARACTERS = 80
"""Maximum length in characters; longer sentences are drawn only if there are no shorter ones."""


def alignment_figure(
    model: Model,
    dataset: Callable[[Example], PairDataset],
    examples: Sequence[Example],
    selection: HeadSelection | None = None,
) -> Callable[[Path], Any] | None:
    """A function that draws the attention from target to source; None if the model has none.

    With gold links and a selection of heads: the mean of those heads, between words, for the reference. Otherwise: the
    mean of the last layer, between tokens, for the model's own output. `dataset` encodes one example.
    """
    linked = [example for example in examples if example.sure_links]
    if selection is not None and linked:
        alignments = [_between_words(model, dataset(each), each, selection) for each in _short_examples(linked)]
        heads = ", ".join(str(head + 1) for head in selection.heads)
        title = f"attention of decoder layer {selection.layer + 1}, head {heads}, for the reference"
    else:
        found = [_between_tokens(model, example) for example in _short_examples(examples)]
        alignments = [alignment for alignment in found if alignment is not None]
        title = "attention of the last decoder layer (mean of its heads), for the model's output"
    return partial(_draw, alignments, title) if alignments else None


def _draw(alignments: list[Alignment], title: str, path: Path) -> None:
    from seq2see.inspection.attention_plots import draw_alignments  # matplotlib only where it is used

    draw_alignments(alignments, path, title)


def _short_examples(examples: Sequence[Example]) -> list[Example]:
    short = [example for example in examples if max(len(example.source), len(example.target)) <= MAX_CHARACTERS]
    return list(short or examples)[:SHOWN]


def _between_words(model: Model, pairs: PairDataset, example: Example, selection: HeadSelection) -> Alignment:
    from seq2see.inspection.attention_plots import Alignment  # matplotlib only where it is used

    (sentence,), _ = collect_attention(model.module, pairs, model.tokenizers)
    weights = word_attention(sentence)[selection.layer, list(selection.heads)].mean(axis=0)
    target, source = weights.shape  # fewer than the words if a text was truncated
    return Alignment(
        source=example.source_words[:source],
        target=example.target_words[:target],
        weights=weights,
        links=example.sure_links,
        possible=example.possible_links,
    )


def _between_tokens(model: Model, example: Example) -> Alignment | None:
    from seq2see.inspection.attention_plots import Alignment  # matplotlib only where it is used

    attention = TextAttention.of(model.trace(example.source))
    return Alignment(attention.source, attention.target, attention.matrix) if attention.weights else None
