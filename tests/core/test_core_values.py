"""Sequences, rows, seeds, files, devices: the values and functions that everything else is built on."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2see.core.batch import (
    IGNORE_INDEX,
    INPUT_ONLY,
    Batch,
    Images,
    Sequences,
    Videos,
    clone_state,
    pick_rows,
    reorder_rows,
    repeat_rows,
    tensors_of,
)
from seq2see.core.devices import autocast
from seq2see.core.errors import UserError, closest_match, missing_file, unknown_name
from seq2see.core.files import sha256, write_bytes, write_json
from seq2see.core.seeds import derive_seed, generator, permutation, seed_torch, uniform

ROWS = st.lists(st.lists(st.integers(0, 99), max_size=5), min_size=1, max_size=5)


@given(ROWS)
def test_unpadding_keeps_exactly_the_valid_values_in_order(rows: list[list[int]]):
    sequences = Sequences.of(rows, padding=-1)
    assert sequences.unpad().tolist() == [value for row in rows for value in row]
    assert torch.equal(sequences.pad(sequences.unpad(), padding=-1).values, sequences.values)


def test_padding_vectors_appends_zeros_to_each_row():
    sequences = Sequences.of([[5], [6, 7]])
    padded = sequences.pad(torch.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]))
    assert padded.values.tolist() == [[[1, 1], [0, 0]], [[2, 2], [3, 3]]]


def test_valid_marks_data_and_label_mask_marks_labels():
    sequences = Sequences.of([[5, 6], [7]])
    assert sequences.valid.tolist() == [[True, True], [True, False]]
    batch = Batch(sequences, sequences, torch.tensor([[6, 2], [2, IGNORE_INDEX]]), torch.arange(2))
    assert batch.label_mask.tolist() == [[True, True], [True, False]]
    assert batch.to("cpu").source is not None


def test_all_tensors_of_a_batch_move_to_the_device():
    sequences, images = Sequences.of([[5, 6], [7]]), Images(torch.zeros(2, 3, 4, 4))
    for source in (sequences, images, Videos(torch.zeros(2, 5, 3, 4, 4))):
        moved = Batch(source, sequences, torch.zeros(2, 2), torch.arange(2)).to("meta")
        assert {tensor.device.type for tensor in tensors_of(moved)} == {"meta"}
        assert type(moved.source) is type(source)


@dataclass(frozen=True)
class State:
    values: torch.Tensor
    pair: tuple[torch.Tensor, None]
    width: int


def state() -> State:
    return State(torch.arange(6).view(3, 2), (torch.tensor([10, 20, 30]), None), 7)


def test_rows_are_picked_in_all_tensors_of_a_state():
    picked = pick_rows(state(), torch.tensor([2, 0, 0]))
    assert picked.values.tolist() == [[4, 5], [0, 1], [0, 1]]
    assert picked.pair[0].tolist() == [30, 10, 10]
    assert (picked.pair[1], picked.width) == (None, 7)


@dataclass(frozen=True)
class StateWithInput:
    tokens: torch.Tensor
    source: torch.Tensor = field(metadata=INPUT_ONLY)


def test_input_only_parts_stay_when_rows_are_reordered():
    before = StateWithInput(torch.tensor([1, 2]), torch.tensor([10, 20]))
    moved = reorder_rows(before, torch.tensor([1, 1]))
    assert moved.tokens.tolist() == [2, 2]
    assert moved.source is before.source
    assert pick_rows(before, torch.tensor([1, 1])).source.tolist() == [20, 20]
    assert [each.tolist() for each in tensors_of(before)] == [[1, 2], [10, 20]]
    assert [each.tolist() for each in tensors_of(before, without_input_only=True)] == [[1, 2]]


def test_repeated_rows_are_adjacent():
    assert repeat_rows(state(), 2).pair[0].tolist() == [10, 10, 20, 20, 30, 30]
    assert repeat_rows(state(), 1).pair[0].tolist() == [10, 20, 30]


def test_a_cloned_state_has_its_own_tensors():
    first = state()
    second = clone_state(first)
    second.values.zero_()
    assert first.values.sum() == 15


def test_randomness_depends_on_purpose_and_every_number():
    numbers = {
        derive_seed(1, "a", 2),
        derive_seed(1, "a", 3),
        derive_seed(1, "b", 2),
        derive_seed(2, "a", 2),
        derive_seed(1, "a", 2, 0),
        derive_seed(1, "a"),
    }
    assert len(numbers) == 6
    assert all(0 <= number < 2**63 for number in numbers)
    assert derive_seed(12, "a", 3) != derive_seed(1, "a", 23)


def test_these_random_numbers_must_never_change_or_old_runs_are_not_reproducible():
    assert derive_seed(1, "dropout", 2, 3) == 8472169242287285429
    assert permutation(6, 1, "examples", 0).tolist() == [5, 1, 2, 3, 0, 4]
    assert generator(1, "feeding", 5).random() == pytest.approx(0.848562898411378, abs=1e-15)


def test_random_numbers_are_uniform():
    draws = np.array([uniform(3, "coin", number) for number in range(4000)])
    assert draws.min() >= 0
    assert draws.max() < 1
    assert np.abs(np.histogram(draws, bins=10, range=(0, 1))[0] - 400).max() < 100


def test_torch_is_seeded_by_purpose():
    seed_torch(1, "dropout", 5)
    first = torch.rand(3)
    seed_torch(1, "dropout", 5)
    assert torch.equal(torch.rand(3), first)


def test_a_file_is_replaced_completely_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "new" / "folder" / "a.json"
    write_json(path, {"字": 1})
    assert path.read_text(encoding="utf-8") == '{\n  "字": 1\n}\n'

    def broken(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="disk full"):
        write_bytes(path, b"half")
    assert path.read_text(encoding="utf-8") == '{\n  "字": 1\n}\n'
    assert [item.name for item in path.parent.iterdir()] == ["a.json"]


def test_the_old_file_stays_until_the_new_one_replaces_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_bytes(tmp_path / "a", b"old")

    def killed(self: Path, target: Path) -> None:
        assert self.read_bytes() == b"new"
        assert target.read_bytes() == b"old"
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_bytes(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_files_hash(tmp_path: Path):
    (tmp_path / "abc").write_bytes(b"abc")
    assert sha256(tmp_path / "abc").startswith("ba7816bf")


def test_the_error_of_a_missing_file_suggests_a_similar_name(tmp_path: Path):
    (tmp_path / "pairs.tsv").touch()
    assert "Did you mean" in str(missing_file(tmp_path / "pair.tsv"))
    assert "Check the path" in str(missing_file(tmp_path / "nowhere" / "x"))
    assert closest_match("zzz", ["abc"]) is None
    assert str(unknown_name("word", "zzz", ["b", "a"])) == "There is no word 'zzz'. There are: a, b."
    assert str(UserError("It broke.", location="a:1", hint="Repair it.")) == "a:1: It broke. Repair it."


def test_bf16_is_used_only_if_set():
    vectors = torch.ones(2, 2)
    with autocast(torch.device("cpu"), "bf16"):
        assert (vectors @ vectors).dtype == torch.bfloat16
    with autocast(torch.device("cpu"), "float32"):
        assert (vectors @ vectors).dtype == torch.float32
