"""The attention masks of packed sequences."""

from __future__ import annotations

import torch

from seq2see.core.batch import PackedSequences
from seq2see.layers.masks import causal_document_mask, document_mask

CPU = torch.device("cpu")


def packed_row(document_ids: list[int], position_ids: list[int]) -> PackedSequences:
    length = sum(document > 0 for document in document_ids)
    return PackedSequences(
        torch.zeros(1, len(document_ids)),
        torch.tensor([length]),
        torch.tensor([document_ids]),
        torch.tensor([position_ids]),
    )


def test_a_document_attends_to_itself_alone():
    packed = packed_row([1, 1, 2, 0], [0, 1, 0, 0])
    mask = document_mask(packed, packed).to_dense(4, 4, CPU)[0, 0].int().tolist()
    assert mask == [
        [1, 1, 0, 0],
        [1, 1, 0, 0],
        [0, 0, 1, 0],
        [1, 1, 1, 1],
    ]  # the last is padding, whose outputs are not used


def test_a_document_attends_to_its_own_past():
    packed = packed_row([1, 1, 2, 2, 0], [0, 1, 0, 1, 0])
    mask = causal_document_mask(packed).to_dense(5, 5, CPU)[0, 0].int().tolist()
    assert mask == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1]]


def test_in_cross_attention_a_document_attends_to_the_document_with_its_id():
    queries, keys = packed_row([1, 2, 2], [0, 0, 1]), packed_row([1, 1, 2], [0, 1, 0])
    assert document_mask(queries, keys).to_dense(3, 3, CPU)[0, 0].int().tolist() == [[1, 1, 0], [0, 0, 1], [0, 0, 1]]
