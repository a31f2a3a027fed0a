"""Position encodings as arrays, and models without them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from seq2see.core.batch import Sequences
from seq2see.inspection.position_encodings import (
    find_position_encoding,
    position_similarity,
    position_table,
    remove_positions,
)
from seq2see.layers.positions import LearnedPositions2d, SinusoidalPositions2d
from seq2see.models.vit import ImageEmbedding
from tiny_models import FAMILIES, perturbed_model, seq2seq_settings, transformer

KINDS = ("sinusoidal", "learned", "rotary", "alibi", "none")


def encoding_of(positions: str):
    model = perturbed_model(seq2seq_settings(transformer(), transformer(), positions))
    return find_position_encoding(model.source, model.encoder), model


@pytest.mark.parametrize("positions", KINDS)
def test_the_kind_is_recognized(positions: str):
    assert encoding_of(positions)[0].kind == positions


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_vectors_are_those_that_are_added_to_the_embeddings(positions: str):
    encoding, model = encoding_of(positions)
    ids = torch.tensor([[3, 4, 5, 6]])
    embeddings = model.source.table(ids) * model.source.scale
    added = model.source(Sequences(ids, torch.tensor([4]))).values - embeddings
    np.testing.assert_allclose(position_table(encoding, 4), added[0].detach().numpy(), atol=1e-5)


def test_rotary_angles_are_those_of_attention():
    encoding, model = encoding_of("rotary")
    positions = next(
        each.relative_positions for each in model.modules() if getattr(each, "relative_positions", None) is not None
    )
    vectors = torch.tensor([1.0, 1.0, 0.0, 0.0]).expand(1, 1, 9, 4)
    rotated = positions.rotate(vectors, torch.arange(9)[None])[0, 0]
    angles = torch.atan2(rotated[:, 2:], rotated[:, :2]) % math.tau
    np.testing.assert_allclose(np.cos(position_table(encoding, 9)), angles.cos().numpy(), atol=1e-5)
    np.testing.assert_allclose(np.sin(position_table(encoding, 9)), angles.sin().numpy(), atol=1e-5)
    assert position_table(encoding, 9).min() >= 0
    assert math.pi < position_table(encoding, 9).max() < math.tau


def test_the_similarity_of_rotary_positions_is_the_mean_cosine_of_their_angles():
    """Of a head of width 4: two angles, of 1 and of 0.01 per position (Su et al. 2021, eq. 15)."""
    distances = np.subtract.outer(range(5), range(5))
    np.testing.assert_allclose(
        position_similarity(encoding_of("rotary")[0], 5),
        (np.cos(distances) + np.cos(distances / 100)) / 2,
        atol=1e-6,
    )


def test_without_an_encoding_all_positions_are_zero():
    encoding, _ = encoding_of("none")
    assert position_table(encoding, 3).tolist() == [[0], [0], [0]]
    assert not position_similarity(encoding, 3).any()


def test_only_learned_positions_have_a_maximum():
    assert [encoding_of(positions)[0].max_positions for positions in KINDS] == [None, 512, None, None, None]


def test_alibi_is_the_attention_bias_of_each_head():
    encoding, _ = encoding_of("alibi")
    assert encoding.heads == 2
    np.testing.assert_allclose(
        position_table(encoding, 3, head=1), -(2.0**-8) * np.abs(np.subtract.outer([0, 1, 2], [0, 1, 2]))
    )
    np.testing.assert_array_equal(position_similarity(encoding, 3, 1), position_table(encoding, 3, 1))


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_every_position_is_most_similar_to_itself(positions: str):
    found = position_similarity(encoding_of(positions)[0], 12)
    np.testing.assert_allclose(np.diag(found), 1, atol=1e-5)
    assert (found <= 1 + 1e-5).all()
    np.testing.assert_allclose(found, found.T, atol=1e-5)


def grid_encoding(positions: torch.nn.Module):
    identity = torch.nn.Identity()
    return find_position_encoding(ImageEmbedding(identity, positions, identity, 0.0), identity)


def test_grids_are_flattened_row_by_row():
    table = position_table(grid_encoding(SinusoidalPositions2d(8)), 3)
    assert table.shape == (9, 8)
    np.testing.assert_array_equal(table[0, :4], table[1, :4])  # the same row
    np.testing.assert_array_equal(table[0, 4:], table[3, 4:])  # the same column
    learned = grid_encoding(LearnedPositions2d(8, (2, 3)))
    assert (learned.kind, learned.grid, position_table(learned, 99).shape) == ("learned-grid", (2, 3), (6, 8))


@pytest.mark.parametrize(
    "positions", [SinusoidalPositions2d(8), LearnedPositions2d(8, (2, 3))], ids=["sinusoidal", "learned"]
)
def test_without_positions_the_vectors_of_patches_are_zero(positions: torch.nn.Module):
    embedding = ImageEmbedding(torch.nn.Linear(1, 1), positions, torch.nn.Identity(), 0.0).eval()
    ablated = remove_positions(embedding)
    assert embedding.positions((2, 3)).any()
    assert not ablated.positions((2, 3)).any()
    assert ablated.positions((2, 3)).shape[-1] == 8
    assert not ablated.training


@pytest.mark.parametrize("positions", KINDS)
@torch.no_grad()
def test_without_positions_an_encoder_is_equivariant_to_permutations(positions: str):
    _, model = encoding_of(positions)
    ablated = remove_positions(model)
    ids, order = torch.tensor([[3, 4, 5, 6]]), [2, 0, 3, 1]
    encoded = ablated.encode(Sequences(ids, torch.tensor([4]))).values
    permuted = ablated.encode(Sequences(ids[:, order], torch.tensor([4]))).values
    torch.testing.assert_close(permuted, encoded[:, order], atol=1e-5, rtol=1e-5)
    original = model.encode(Sequences(ids, torch.tensor([4]))).values
    assert torch.allclose(original, encoded, atol=1e-5) == (positions == "none")


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_the_model_does_not_change_and_the_copy_shares_its_weights(name: str):
    model = perturbed_model(FAMILIES[name])
    source = Sequences.of([[3, 4, 5, 2]])
    before = model.encode(source).values
    ablated = remove_positions(model)
    assert torch.equal(before, model.encode(source).values)
    shared = {parameter.data_ptr() for parameter in model.parameters()}
    assert {parameter.data_ptr() for parameter in ablated.parameters()} <= shared
