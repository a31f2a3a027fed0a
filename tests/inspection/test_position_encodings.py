"""What a model is told about places, and what it answers when it is not told."""

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

WAYS = ("sinusoidal", "learned", "rotary", "alibi", "none")


def told(positions: str):
    model = perturbed_model(seq2seq_settings(transformer(), transformer(), positions))
    return find_position_encoding(model.source, model.encoder), model


@pytest.mark.parametrize("positions", WAYS)
def test_the_way_is_recognized(positions: str):
    assert told(positions)[0].kind == positions


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_vectors_are_those_that_are_added(positions: str):
    way, model = told(positions)
    ids = torch.tensor([[3, 4, 5, 6]])
    bare = model.source.table(ids) * model.source.scale
    added = model.source(Sequences(ids, torch.tensor([4]))).values - bare
    np.testing.assert_allclose(position_table(way, 4), added[0].detach().numpy(), atol=1e-5)


def test_rotary_angles_are_those_by_which_attention_turns():
    way, model = told("rotary")
    place = next(
        each.relative_positions for each in model.modules() if getattr(each, "relative_positions", None) is not None
    )
    pieces = torch.tensor([1.0, 1.0, 0.0, 0.0]).expand(1, 1, 9, 4)
    turned = place.turn(pieces, torch.arange(9)[None])[0, 0]
    found = torch.atan2(turned[:, 2:], turned[:, :2]) % math.context
    np.testing.assert_allclose(np.cos(position_table(way, 9)), found.cos().numpy(), atol=1e-5)
    np.testing.assert_allclose(np.sin(position_table(way, 9)), found.sin().numpy(), atol=1e-5)
    assert position_table(way, 9).min() >= 0
    assert math.pi < position_table(way, 9).max() < math.context


def test_places_that_are_turned_are_as_alike_as_the_mean_cosine_of_their_angles():
    """Of a head of four numbers: two angles, of 1 and of 0.01 a place (Su et al. 2021, eq. 15)."""
    apart = np.subtract.outer(range(5), range(5))
    np.testing.assert_allclose(
        position_similarity(told("rotary")[0], 5), (np.cos(apart) + np.cos(apart / 100)) / 2, atol=1e-6
    )


def test_who_is_told_nothing_sees_no_place():
    way, _ = told("none")
    assert position_table(way, 3).tolist() == [[0], [0], [0]]
    assert not position_similarity(way, 3).any()


def test_only_learned_places_have_an_end():
    assert [told(positions)[0].longest for positions in WAYS] == [None, 512, None, None, None]


def test_alibi_is_what_each_head_adds():
    way, _ = told("alibi")
    assert way.heads == 2
    np.testing.assert_allclose(
        position_table(way, 3, head=1), -(2.0**-8) * np.abs(np.subtract.outer([0, 1, 2], [0, 1, 2]))
    )
    np.testing.assert_array_equal(position_similarity(way, 3, 1), position_table(way, 3, 1))


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_every_place_is_most_like_itself(positions: str):
    found = position_similarity(told(positions)[0], 12)
    np.testing.assert_allclose(np.diag(found), 1, atol=1e-5)
    assert (found <= 1 + 1e-5).all()
    np.testing.assert_allclose(found, found.T, atol=1e-5)


def grid(positions: torch.nn.Module):
    nothing = torch.nn.Identity()
    return find_position_encoding(ImageEmbedding(nothing, positions, nothing, 0.0), nothing)


def test_grids_are_read_line_by_line():
    way = grid(SinusoidalPositions2d(8))
    table = position_table(way, 3)
    assert table.shape == (9, 8)
    np.testing.assert_array_equal(table[0, :4], table[1, :4])  # the same line
    np.testing.assert_array_equal(table[0, 4:], table[3, 4:])  # the same column
    learned = grid(LearnedPositions2d(8, (2, 3)))
    assert (learned.kind, learned.grid, position_table(learned, 99).shape) == ("learned-grid", (2, 3), (6, 8))


@pytest.mark.parametrize(
    "positions", [SinusoidalPositions2d(8), LearnedPositions2d(8, (2, 3))], ids=["sinusoidal", "learned"]
)
def test_without_positions_patches_are_told_nothing(positions: torch.nn.Module):
    embedding = ImageEmbedding(torch.nn.Linear(1, 1), positions, torch.nn.Identity(), 0.0).eval()
    blind = remove_positions(embedding)
    assert embedding.positions((2, 3)).any()
    assert not blind.positions((2, 3)).any()
    assert blind.positions((2, 3)).shape[-1] == 8
    assert not blind.training


@pytest.mark.parametrize("positions", WAYS)
@torch.no_grad()
def test_without_positions_order_does_not_matter_to_an_encoder(positions: str):
    _, model = told(positions)
    blind = remove_positions(model)
    ids, order = torch.tensor([[3, 4, 5, 6]]), [2, 0, 3, 1]
    read = blind.encode(Sequences(ids, torch.tensor([4]))).values
    moved = blind.encode(Sequences(ids[:, order], torch.tensor([4]))).values
    torch.testing.assert_close(moved, read[:, order], atol=1e-5, rtol=1e-5)
    seen = model.encode(Sequences(ids, torch.tensor([4]))).values
    assert torch.allclose(seen, read, atol=1e-5) == (positions == "none")


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_the_model_itself_stays_as_it_is_and_shares_its_weights(name: str):
    model = perturbed_model(FAMILIES[name])
    source = Sequences.of([[3, 4, 5, 2]])
    before = model.encode(source).values
    blind = remove_positions(model)
    assert torch.equal(before, model.encode(source).values)
    shared = {parameter.data_ptr() for parameter in model.parameters()}
    assert {parameter.data_ptr() for parameter in blind.parameters()} <= shared
