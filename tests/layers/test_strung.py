"""Several texts on a line: who may look at whom."""

from __future__ import annotations

import torch

from seq2see.core.batch import Strung
from seq2see.layers.masks import own_past, own_text

CPU = torch.device("cpu")


def line_of(texts: list[int], times: list[int]) -> Strung:
    real = sum(text > 0 for text in texts)
    return Strung(torch.zeros(1, len(texts)), torch.tensor([real]), torch.tensor([texts]), torch.tensor([times]))


def test_a_text_looks_at_itself_alone():
    line = line_of([1, 1, 2, 0], [0, 1, 0, 0])
    table = own_text(line, line).table(4, 4, CPU)[0, 0].int().tolist()
    assert table == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [1, 1, 1, 1]]  # the last is padding, which asks nothing


def test_a_text_looks_at_its_own_past():
    line = line_of([1, 1, 2, 2, 0], [0, 1, 0, 1, 0])
    table = own_past(line).table(5, 5, CPU)[0, 0].int().tolist()
    assert table == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1]]


def test_across_lines_a_text_looks_at_the_text_with_its_number():
    asking, asked = line_of([1, 2, 2], [0, 0, 1]), line_of([1, 1, 2], [0, 1, 0])
    assert own_text(asking, asked).table(3, 3, CPU)[0, 0].int().tolist() == [[1, 1, 0], [0, 0, 1], [0, 0, 1]]
