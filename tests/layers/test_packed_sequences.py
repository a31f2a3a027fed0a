"""Several texts on a line: who may look at whom."""

from __future__ import annotations

import torch

from seq2see.core.batch import PackedSequences
from seq2see.layers.masks import causal_document_mask, document_mask

CPU = torch.device("cpu")


def line_of(document_ids: list[int], position_ids: list[int]) -> PackedSequences:
    real = sum(text > 0 for text in document_ids)
    return PackedSequences(
        torch.zeros(1, len(document_ids)),
        torch.tensor([real]),
        torch.tensor([document_ids]),
        torch.tensor([position_ids]),
    )


def test_a_text_looks_at_itself_alone():
    line = line_of([1, 1, 2, 0], [0, 1, 0, 0])
    table = document_mask(line, line).to_dense(4, 4, CPU)[0, 0].int().tolist()
    assert table == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [1, 1, 1, 1]]  # the last is padding, which asks nothing


def test_a_text_looks_at_its_own_past():
    line = line_of([1, 1, 2, 2, 0], [0, 1, 0, 1, 0])
    table = causal_document_mask(line).to_dense(5, 5, CPU)[0, 0].int().tolist()
    assert table == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1]]


def test_across_lines_a_text_looks_at_the_text_with_its_number():
    queries, keys = line_of([1, 2, 2], [0, 0, 1]), line_of([1, 1, 2], [0, 1, 0])
    assert document_mask(queries, keys).to_dense(3, 3, CPU)[0, 0].int().tolist() == [[1, 1, 0], [0, 0, 1], [0, 0, 1]]
