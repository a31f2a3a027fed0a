"""Splitting examples into train, valid and test, without overlap between training and test data.

The split depends on the texts alone: groups of examples are sorted by a hash; test is the beginning of this order and
valid its end, so when the data grow hardly any example changes its split. A group is, in the user's own files, all
examples with the same source (a target may be a label, shared by many); in corpora where sentences have several
translations, all pairs connected by an equal text on either side. Of every label or tag at least one example remains
in training.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any, TypeVar

from seq2see.core.errors import UserError
from seq2see.data.examples import Example
from seq2see.data.readers.data_report import DataReport, Location

Splits = dict[str, list[Example]]
Item = TypeVar("Item")

HELD_OUT = 0.05
"""The share of the examples that each of valid and test holds out: 5 %, ..."""

MAX_HELD_OUT = 1000
"""... at least one and at most 1,000."""


def hold_out(
    examples: Sequence[Example],
    valid: Sequence[Example] | None = None,
    test: Sequence[Example] | None = None,
    *,
    allow_overlap: bool = False,
    labels: Callable[[Example], Collection[str]] = lambda example: (),
    groups: Callable[[Sequence[Example]], list[str]] | None = None,
) -> Splits:
    """Split examples so that no held-out source occurs in training; given valid or test examples are used unchanged.

    `labels` returns the label or the tags of an example, each of which must remain in training. `groups` returns for
    each example the group that stays together; by default its source.
    """
    missing = [name for name, split in (("test", test), ("valid", valid)) if split is None]
    names = groups(examples) if groups else [example.source for example in examples]
    splits = split_groups(examples, names, missing, list(map(labels, examples)))
    splits["valid"] += valid or []
    splits["test"] += test or []
    if test is not None and not allow_overlap:
        _check_overlap(examples, test)  # including validation examples: the checkpoint is selected with them
    return splits


MAX_GROUP = 0.5
"""Groups of connected pairs are used if none has more than this share of all pairs."""


def groups_of_pairs(examples: Sequence[Example]) -> list[str]:
    """For each pair the name of its group: pairs that share a source or a target are in one.

    So neither text of a held-out pair occurs in training. If nearly all pairs are connected (many sources with one
    target), this would leave nothing to hold out, and the source alone is the group. The name is the first source in
    alphabetical order: a pair that shares no target is held out as by its source.

    >>> pairs = [Example("b", "x"), Example("a", "x"), Example("a", "y"), *(Example(str(n), str(n)) for n in range(9))]
    >>> groups_of_pairs(pairs)[:4]
    ['a', 'a', 'a', '0']
    """
    parents: dict[tuple[str, str], tuple[str, str]] = {}

    def root(text: tuple[str, str]) -> tuple[str, str]:
        parents.setdefault(text, text)
        while parents[text] != text:
            parents[text] = text = parents[parents[text]]  # path halving, for later calls
        return text

    for example in examples:
        parents[root(("target", example.target))] = root(("source", example.source))
    first: dict[tuple[str, str], str] = {}
    roots = [root(("source", example.source)) for example in examples]
    for example, each in zip(examples, roots, strict=True):
        first[each] = min(first.get(each, example.source), example.source)
    names = [first[each] for each in roots]
    largest = max(Counter(names).values(), default=0)
    return names if largest <= MAX_GROUP * len(names) else [example.source for example in examples]


def check_hold_out(hold: Callable[[], Any], report: DataReport) -> None:
    """Add a warning if these data could not be split for training; as test data alone they may be that small."""
    if report.first_error is not None:  # the data change when the errors are corrected
        return
    try:
        hold()
    except UserError as error:
        report.add_issue("too small to split", Location(report.files[0]), error.message, hint=error.hint)


def hold_out_components(examples: Sequence[Example]) -> Splits:
    """Split examples so that neither text of a held-out pair occurs in training, whichever side is the source.

    Pairs that share a text are connected, directly or through other pairs; a connected component belongs to one split.
    Both translation directions have the same splits.
    """
    return split_groups(examples, connected_components(examples), ["test", "valid"])


def connected_components(examples: Sequence[Example]) -> list[str]:
    """For each example the name of its component: the alphabetically first of all its texts.

    Texts that differ in case and punctuation only are equal. The components are computed with the disjoint-set
    forest of Galler & Fischer 1964.

    >>> connected_components([Example("Hi.", "嗨。"), Example("hi!", "你好。"), Example("Run!", "跑！")])
    ['hi', 'hi', 'run']
    """
    parents: dict[str, str] = {}

    def root(text: str) -> str:
        parents.setdefault(text, text)
        while parents[text] != text:
            parents[text] = text = parents[parents[text]]  # path halving, for later calls
        return text

    normalized = cache(_normalized)
    for example in examples:
        first, second = sorted((root(normalized(example.source)), root(normalized(example.target))))
        parents[second] = first
    return [root(normalized(example.source)) for example in examples]


def _normalized(text: str) -> str:
    """A text in lower case without punctuation; one that consists of punctuation only is unchanged."""
    return "".join(filter(str.isalnum, text.casefold())) or text


def split_groups(
    examples: Sequence[Item], names: Sequence[str], missing: Sequence[str], labels: Sequence[Collection[str]] = ()
) -> dict[str, list[Item]]:
    """Hold out groups of examples for the missing splits; `names` has the group of each example.

    At least one group with each of the `labels` remains in training.
    """
    sizes: dict[str, int] = {}
    for name in names:
        sizes[name] = sizes.get(name, 0) + 1
    if len(sizes) <= len(missing):
        raise UserError(
            f"There are {len(sizes)} different sources, and at least {len(missing) + 1} are needed: "
            "one each for train, valid and test.",
            hint="Add examples, or give files as corpus.valid and corpus.test.",
        )
    order = sorted(sizes, key=lambda name: hashlib.blake2b(name.encode(), digest_size=16).digest())
    capacity = min(max(round(HELD_OUT * len(examples)), 1), MAX_HELD_OUT)
    split_of, remaining_labels = dict.fromkeys(order, "train"), _RemainingLabels(names, labels if missing else ())
    for split in missing:
        free = [name for name in (order if split == "test" else reversed(order)) if split_of[name] == "train"]
        split_of.update(dict.fromkeys(_select_groups(free, sizes, capacity, remaining_labels), split))
    splits: dict[str, list[Item]] = {"train": [], "valid": [], "test": []}
    for example, name in zip(examples, names, strict=True):
        splits[split_of[name]].append(example)
    return splits


class _RemainingLabels:
    """The labels of the groups that are still in training."""

    def __init__(self, names: Sequence[str], labels: Sequence[Collection[str]]):
        self.labels_of: dict[str, set[str]] = {name: set() for name in names}
        for name, group_labels in zip(names, labels, strict=bool(labels)):
            self.labels_of[name].update(group_labels)
        self.remaining = Counter(label for group_labels in self.labels_of.values() for label in group_labels)
        if (spared := sum(map(self.can_spare, self.labels_of))) < len(self.labels_of) / 2:
            raise UserError(
                f"Of {len(self.labels_of):,} different examples only {spared:,} share their label or tags with another "
                "example, which is needed to train on one and test on the other.",
                hint="Add examples of each label, or give files as corpus.valid and corpus.test.",
            )

    def can_spare(self, name: str) -> bool:
        """Whether every label of a group also belongs to another group in training."""
        return all(self.remaining[label] > 1 for label in self.labels_of[name])

    def remove(self, name: str) -> None:
        """Remove a group from training."""
        self.remaining.subtract(self.labels_of[name])


def _select_groups(
    order: Sequence[str], sizes: dict[str, int], capacity: int, remaining_labels: _RemainingLabels
) -> list[str]:
    """Groups in order, up to `capacity` examples; at least one group."""
    chosen = list[str]()
    for name in order:
        if sizes[name] <= capacity and remaining_labels.can_spare(name):
            chosen.append(name)
            remaining_labels.remove(name)
            capacity -= sizes[name]
        if not capacity:
            return chosen
    if not chosen:
        # If no group can be spared, a label is missing in training; the dataset of the labels reports which.
        chosen = [min(filter(remaining_labels.can_spare, order), key=lambda name: sizes[name], default=order[0])]
        remaining_labels.remove(chosen[0])
    return chosen


def _check_overlap(train: Sequence[Example], test: Sequence[Example]) -> None:
    """Raise an error if a test source is also in the training data: it would make the score invalid."""
    train_examples = {example.source: example for example in reversed(train)}
    shared = [example for example in test if example.source in train_examples]
    if shared:
        first = shared[0]
        raise UserError(
            f"{len(shared):,} of {len(test):,} test sources are also in the training data; "
            f"the first is at {train_examples[first.source].location or 'an unknown location'}.",
            location=first.location,
            hint="Leave them out of training with corpus.overlap=leave-out, or set corpus.overlap=allow.",
        )
