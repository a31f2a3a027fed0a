"""The image an evaluation leaves behind: where the model looked while it wrote a few test sentences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from seq2see.metrics.alignment import HeadSelection, word_attention
from seq2see.runs.model import Model
from seq2see.runs.prepare import encode
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.teacher_forcing import collect_attention
from seq2see.runs.text_attention import TextAttention
from seq2see.sequences.pair_dataset import PairDataset
from seq2see.sources.examples import Example

if TYPE_CHECKING:
    from seq2see.inspection.attention_plots import Alignment

SHOWN = 4
"""Sentences in the image."""
LONG = 80
"""Sentences of more characters make an image nobody reads; they are drawn only if there are no others."""


def draw_attention(
    run: RunFolder, model: Model, examples: Sequence[Example], choice: HeadSelection | None = None
) -> Path | None:
    """Draw `attention/alignment.png`; None if the model has no attention from target to source.

    With gold links and a choice of heads: those heads, between words, while the model writes the
    reference. Otherwise: the mean of the last layer, between pieces, while it writes its own answer.
    """
    from seq2see.inspection.attention_plots import draw_alignments  # matplotlib only where it is used

    linked = [example for example in examples if example.sure_links]
    if choice is not None and linked:
        alignments = [_between_words(run, model, example, choice) for example in _readable(linked)]
        heads = ", ".join(str(head + 1) for head in choice.heads)
        title = f"attention of decoder layer {choice.layer + 1}, head {heads}, while the reference is written"
    else:
        found = [_between_pieces(model, example) for example in _readable(examples)]
        alignments = [alignment for alignment in found if alignment is not None]
        title = "attention of the last decoder layer (mean of its heads), while the model writes"
    if not alignments:
        return None
    path = run.path / "attention" / "alignment.png"
    draw_alignments(alignments, path, title)
    return path


def _readable(examples: Sequence[Example]) -> list[Example]:
    short = [example for example in examples if max(len(example.source), len(example.target)) <= LONG]
    return list(short or examples)[:SHOWN]


def _between_words(run: RunFolder, model: Model, example: Example, choice: HeadSelection) -> Alignment:
    from seq2see.inspection.attention_plots import Alignment

    pairs = encode(run.recipe(), model.tokenizers, [example])
    assert isinstance(pairs, PairDataset)
    (sentence,), _ = collect_attention(model.module, pairs, model.tokenizers)
    weights = word_attention(sentence)[choice.layer, list(choice.heads)].mean(axis=0)
    target, source = weights.shape  # fewer than the words, if a text was cut off
    return Alignment(
        source=example.source_words[:source],
        target=example.target_words[:target],
        weights=weights,
        links=example.sure_links,
        possible=example.possible_links,
    )


def _between_pieces(model: Model, example: Example) -> Alignment | None:
    from seq2see.inspection.attention_plots import Alignment

    seen = TextAttention.of(model.trace(example.source))
    return Alignment(seen.source, seen.target, seen.matrix) if seen.weights else None
