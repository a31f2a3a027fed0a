"""A record is plain data: it comes back as it was, without torch, and nothing else is taken for one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from seq2see.core.errors import UserError
from seq2see.inspection import record as module
from seq2see.inspection.record import ActivationRecord, Signal

LOOK = Signal(
    "decoder.blocks.0.look_across", "attention", np.float32([[[0.25, 0.75]]]), "target", "source", "", "scaled-dot"
)
GATE = Signal("encoder.cells.0", "gate", np.arange(6, dtype=np.float32).reshape(2, 3)[::-1], "source", part="reset")
RECORD = ActivationRecord(
    "Seq2Seq",
    {"source": ["我", "<eos>"], "target": ["<bos>"], "written": ["I"]},
    {"source": [False, True]},
    (LOOK, GATE),
    (2, 3),
)
WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # whoever imports it fails
from seq2see.inspection.record import Record
record = Record.load(sys.argv[1])
print(record.tokens["source"][0], record.find("encoder.cells.0", "gate", "reset").values.tolist(), record.grid)
"""


def test_a_record_comes_back_as_it_was(tmp_path: Path):
    RECORD.save(tmp_path / "a.safetensors")
    back = ActivationRecord.load(tmp_path / "a.safetensors")
    assert (back.model, back.tokens, back.special, back.grid) == ("Seq2Seq", RECORD.tokens, RECORD.special, (2, 3))
    for one, other in zip(RECORD.signals, back.signals, strict=True):
        assert np.array_equal(one.values, other.values)
        told = ("name", "kind", "side", "looks_at", "part", "formula")
        assert [getattr(one, name) for name in told] == [getattr(other, name) for name in told]


def test_it_is_read_where_there_is_no_torch(tmp_path: Path):
    RECORD.save(tmp_path / "a.safetensors")
    command = [sys.executable, "-X", "utf8", "-c", WITHOUT_TORCH, str(tmp_path / "a.safetensors")]
    found = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert found.stdout.strip() == "我 [[3.0, 4.0, 5.0], [0.0, 1.0, 2.0]] (2, 3)", found.stderr


def test_rows_of_a_look_across_are_what_is_written_and_of_others_what_is_read():
    assert RECORD.query_tokens(LOOK) == ["I"]
    inside = Signal("x", "attention", np.ones((1, 1, 1), np.float32), "target", "target")
    assert RECORD.query_tokens(inside) == ["<bos>"]
    summing = Signal("pool", "attention", np.ones((1, 1, 1), np.float32), "pooled", "source")
    assert ActivationRecord("x", {"pooled": ["all"], "written": ["I"]}).query_tokens(summing) == ["all"]
    assert [each.is_cross_attention for each in (LOOK, inside, summing, GATE)] == [True, False, True, False]


def test_its_size_is_that_of_its_numbers():
    assert RECORD.bytes == 4 * (2 + 6)


def test_what_is_not_there_is_said_with_what_is():
    with pytest.raises(UserError, match="shows attention"):
        RECORD.find("decoder", "attention")
    with pytest.raises(UserError) as told:
        RECORD.find("decoder", "attention")
    assert told.value.hint == "There is: decoder.blocks.0.look_across."


def test_anything_else_is_refused(tmp_path: Path, monkeypatch):
    path = tmp_path / "a.safetensors"
    with pytest.raises(UserError):
        ActivationRecord.load(path)
    RECORD.save(path)
    whole = path.read_bytes()
    for wrong in (b"", b"{}", whole[:-3], whole.replace(b'"gate', b'"goat'), whole.replace(b"[2, 3]", b"[3, 2]")):
        path.write_bytes(wrong)
        with pytest.raises(UserError, match="not a record"):
            ActivationRecord.load(path)
    for header in (None, {}, {"record": "{}"}, {"record": "[]"}, {"record": '{"version": 1, "signals": [5]}'}):
        path.write_bytes(save({"0": np.zeros(1, np.float32)}, header))
        with pytest.raises(UserError, match="not a record"):
            ActivationRecord.load(path)
    monkeypatch.setattr(module, "VERSION", 2)
    RECORD.save(path)
    monkeypatch.undo()
    with pytest.raises(UserError, match="has version 2"):
        ActivationRecord.load(path)
