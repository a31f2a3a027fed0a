"""Labeled texts of the catalogue: reviews that are good or bad."""

from __future__ import annotations

from dataclasses import replace

from seq2see.sources.corpus_files import CatalogueEntry, CorpusFiles, File
from seq2see.sources.examples import Example
from seq2see.sources.hold_out import Splits, hold_out
from seq2see.sources.pair_files import read_pairs

LABELED_CORPORA: dict[str, CatalogueEntry] = {
    "sst2": CatalogueEntry(
        name="sst2",
        description="English movie reviews and parts of them, good or bad; 67,349 + 872 texts",
        license="none stated; used for research",
        home="https://nlp.stanford.edu/sentiment",
        columns=("text", "label"),
        files=(
            File("sst2/train.tsv.xz", 3_806_081, "e981ceb4fe6c9acd1c79851d0d091b9e78103f1f2a399ca83dda27915d41c56c"),
            File("sst2/dev.tsv.xz", 94_414, "84207e6be5873fb18db798cc6faec86871f5a426554650ff64a1c34e87665f6f"),
        ),
    ),
    "chnsenticorp": CatalogueEntry(
        name="chnsenticorp",
        description="Chinese reviews of hotels, books and computers, good or bad; 9,600 + 1,200 texts",
        license="none stated; used for research",
        home="no known public home; SEQ2SEE_DATA must name a folder that contains it",
        columns=("text", "label"),
        files=(
            File(
                "chnsenticorp/train.tsv.xz",
                3_087_161,
                "2d055b163db91611d08039f7b8d7fec453fb9de45e3d892f1dbc162fb0486da4",
            ),
            File(
                "chnsenticorp/dev.tsv.xz", 382_617, "7f55d58efd9783720ff9247de3513bb11a09521e77a6c73a7c7767b5d6d8279a"
            ),
        ),
    ),
}
LABEL_NAMES = {"0": "negative", "1": "positive"}
"""The names of the labels of SST-2."""


def read_labeled(corpus_files: CorpusFiles, source: str, target: str) -> Splits:
    """The published development texts are the test split; some of the training texts are held out as valid.

    Training texts that also occur in the test split are removed.
    """
    train, test = ([_labeled(example) for example in read_pairs([path])[0]] for path in corpus_files.paths)
    train, test = ([example for example in each if example.target != "label"] for each in (train, test))
    test_sources = {example.source for example in test}
    return hold_out([example for example in train if example.source not in test_sources], test=test)


def _labeled(example: Example) -> Example:
    """The example with the text as source and the label as target; SST-2 has them swapped, with a header."""
    if example.source in (*LABEL_NAMES, "label"):
        label = LABEL_NAMES.get(example.source, example.source)
        return replace(example, source=example.target.strip(), target=label)
    return example
