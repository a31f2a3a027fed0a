"""Dividing examples into train, valid and test, so that nothing that is tested was learned.

What is held out depends on the texts alone: groups of examples are put in the order of a hash, test is
taken from its beginning and valid from its end, so growing data hardly change who is where. What makes a
group is the question: your own files go by equal sources (a target may be a mere label, shared by many),
sentences that volunteers translated several times go by equal texts on either side. Where answers are labels or
tags, of each some example stays to be learned from.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any, TypeVar

from seq2see.core.errors import UserError
from seq2see.sources.data_report import DataReport, Location
from seq2see.sources.examples import Example

Splits = dict[str, list[Example]]
Item = TypeVar("Item")

HELD_OUT = 0.05
"""The share of the examples that becomes each of valid and test: 5 %, ..."""

MAX_HELD_OUT = 1000
"""... at least one and at most 1,000."""


def hold_out(
    examples: Sequence[Example],
    valid: Sequence[Example] | None = None,
    test: Sequence[Example] | None = None,
    *,
    allow_overlap: bool = False,
    labels: Callable[[Example], Collection[str]] = lambda example: (),
) -> Splits:
    """Divide examples so that no held-out source is learned from; given valid or test are used as they are.

    `labels` tells what can only be learned from examples that have it: a label, or tags.
    """
    missing = [name for name, given in (("test", test), ("valid", valid)) if given is None]
    splits = split_groups(examples, [example.source for example in examples], missing, list(map(labels, examples)))
    splits["valid"] += valid or []
    splits["test"] += test or []
    if test is not None and not allow_overlap:
        _check_overlap(examples, test)  # with those to validate on, too: a model is chosen by them
    return splits


def check_hold_out(hold: Callable[[], Any], report: DataReport) -> None:
    """Tell while data are checked what would end a training on them; a file to test on may be as small as it likes."""
    if report.first_error is not None:  # of what is there once it is mended nothing is known
        return
    try:
        hold()
    except UserError as error:
        report.add_issue("too small to split", Location(report.files[0]), error.message, hint=error.hint)


def hold_out_components(examples: Sequence[Example]) -> Splits:
    """Divide examples so that neither text of a held-out pair is learned from, whichever side is the source.

    Pairs that share a text are linked, and so are pairs that are linked to the same third one: all of them
    go into the same split. Reading the pairs the other way round divides them in the same way.
    """
    return split_groups(examples, connected_components(examples), ["test", "valid"])


def connected_components(examples: Sequence[Example]) -> list[str]:
    """For each example the name of its group: of all texts in the group the first in the alphabet.

    Texts count as equal if they differ in case and punctuation only. The links are followed by the
    disjoint-set method of Galler & Fischer 1964.

    >>> linked_groups([Example("Hi.", "嗨。"), Example("hi!", "你好。"), Example("Run!", "跑！")])
    ['hi', 'hi', 'run']
    """
    parents: dict[str, str] = {}

    def root(text: str) -> str:
        parents.setdefault(text, text)
        while parents[text] != text:
            parents[text] = text = parents[parents[text]]  # halves the way for whoever comes next
        return text

    bare = cache(_normalized)
    for example in examples:
        first, second = sorted((root(bare(example.source)), root(bare(example.target))))
        parents[second] = first
    return [root(bare(example.source)) for example in examples]


def _normalized(text: str) -> str:
    """A text without case and punctuation, unless it has nothing else."""
    return "".join(filter(str.isalnum, text.casefold())) or text


def split_groups(
    examples: Sequence[Item], names: Sequence[str], missing: Sequence[str], labels: Sequence[Collection[str]] = ()
) -> dict[str, list[Item]]:
    """Hold out groups of examples for the wanted splits; `names` say which group each example belongs to.

    What `labels` tells of the examples stays in training, each with at least one group.
    """
    sizes: dict[str, int] = {}
    for name in names:
        sizes[name] = sizes.get(name, 0) + 1
    if len(sizes) <= len(missing):
        raise UserError(
            f"There are {len(sizes)} different sources, and at least {len(missing) + 1} are needed: "
            "one each to train, to validate and to test on.",
            hint="Give more pairs, or files for valid and test.",
        )
    order = sorted(sizes, key=lambda name: hashlib.blake2b(name.encode(), digest_size=16).digest())
    capacity = min(max(round(HELD_OUT * len(examples)), 1), MAX_HELD_OUT)
    place, remaining_labels = dict.fromkeys(order, "train"), _RemainingLabels(names, labels if missing else ())
    for split in missing:
        free = [name for name in (order if split == "test" else reversed(order)) if place[name] == "train"]
        place.update(dict.fromkeys(_select_groups(free, sizes, capacity, remaining_labels), split))
    splits: dict[str, list[Item]] = {"train": [], "valid": [], "test": []}
    for example, name in zip(examples, names, strict=True):
        splits[place[name]].append(example)
    return splits


class _RemainingLabels:
    """Which labels the groups have that are still learned from."""

    def __init__(self, names: Sequence[str], labels: Sequence[Collection[str]]):
        self.labels_of: dict[str, set[str]] = {name: set() for name in names}
        for name, some in zip(names, labels, strict=bool(labels)):
            self.labels_of[name].update(some)
        self.remaining = Counter(label for some in self.labels_of.values() for label in some)
        if (spared := sum(map(self.can_spare, self.labels_of))) < len(self.labels_of) / 2:
            raise UserError(
                f"Of {len(self.labels_of):,} different examples only {spared:,} share their label or tags with another, so "
                "that it could be learned from one and asked for with the other.",
                hint="Give more examples of each label, or files for valid and test.",
            )

    def can_spare(self, name: str) -> bool:
        """Whether every label of a group is in another group, too."""
        return all(self.remaining[label] > 1 for label in self.labels_of[name])

    def remove(self, name: str) -> None:
        """From now on a group is not learned from."""
        self.remaining.subtract(self.labels_of[name])


def _select_groups(
    order: Sequence[str], sizes: dict[str, int], capacity: int, remaining_labels: _RemainingLabels
) -> list[str]:
    """Groups in order, as long as their examples fit into the room; at least one group."""
    chosen = list[str]()
    for name in order:
        if sizes[name] <= capacity and remaining_labels.can_spare(name):
            chosen.append(name)
            remaining_labels.remove(name)
            capacity -= sizes[name]
        if not capacity:
            return chosen
    if not chosen:
        # Where nobody can be spared a label will not be learned; whoever reads the labels says which.
        chosen = [min(filter(remaining_labels.can_spare, order), key=lambda name: sizes[name], default=order[0])]
        remaining_labels.remove(chosen[0])
    return chosen


def _check_overlap(train: Sequence[Example], test: Sequence[Example]) -> None:
    """A test source that was learned from makes the score a lie."""
    learned = {example.source: example for example in reversed(train)}
    shared = [example for example in test if example.source in learned]
    if shared:
        first = shared[0]
        raise UserError(
            f"{len(shared):,} of {len(test):,} test sources are in the training data too; "
            f"the first stands at {learned[first.source].location or 'some place'}.",
            location=first.location,
            hint="Take them out of one of the two, or set corpus.overlap=allow.",
        )
