"""A record is plain data: it is saved and loaded without loss and without torch, and other files are errors."""

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

CROSS_ATTENTION = Signal(
    "decoder.blocks.0.cross_attention", "attention", np.float32([[[0.25, 0.75]]]), "target", "source", "", "scaled-dot"
)
GATE = Signal(
    "encoder.cells.0", "gate", np.arange(6, dtype=np.float32).reshape(2, 3)[::-1], "source", component="reset"
)
RECORD = ActivationRecord(
    "Seq2Seq",
    {"source": ["我", "<eos>"], "target": ["<bos>"], "labels": ["I"]},
    {"source": [False, True]},
    (CROSS_ATTENTION, GATE),
    (2, 3),
)
WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # importing it is an error
from seq2see.inspection.record import ActivationRecord
record = ActivationRecord.load(sys.argv[1])
print(record.tokens["source"][0], record.find("encoder.cells.0", "gate", "reset").values.tolist(), record.grid)
"""


def test_a_record_is_saved_and_loaded_without_loss(tmp_path: Path):
    RECORD.save(tmp_path / "a.safetensors")
    loaded = ActivationRecord.load(tmp_path / "a.safetensors")
    assert (loaded.model, loaded.tokens, loaded.special) == ("Seq2Seq", RECORD.tokens, RECORD.special)
    assert loaded.grid == (2, 3)
    for before, after in zip(RECORD.signals, loaded.signals, strict=True):
        assert np.array_equal(before.values, after.values)
        fields = ("name", "kind", "side", "key_side", "component", "score_function")
        assert [getattr(before, name) for name in fields] == [getattr(after, name) for name in fields]


def test_it_is_loaded_without_torch(tmp_path: Path):
    RECORD.save(tmp_path / "a.safetensors")
    command = [sys.executable, "-X", "utf8", "-c", WITHOUT_TORCH, str(tmp_path / "a.safetensors")]
    found = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert found.stdout.strip() == "我 [[3.0, 4.0, 5.0], [0.0, 1.0, 2.0]] (2, 3)", found.stderr


def test_rows_of_cross_attention_are_labels_and_of_other_attention_the_input_tokens():
    assert RECORD.query_tokens(CROSS_ATTENTION) == ["I"]
    self_attention = Signal("x", "attention", np.ones((1, 1, 1), np.float32), "target", "target")
    assert RECORD.query_tokens(self_attention) == ["<bos>"]
    pooling = Signal("pooling", "attention", np.ones((1, 1, 1), np.float32), "pooled", "source")
    assert ActivationRecord("x", {"pooled": ["all"], "labels": ["I"]}).query_tokens(pooling) == ["all"]
    signals = (CROSS_ATTENTION, self_attention, pooling, GATE)
    assert [each.is_cross_attention for each in signals] == [True, False, True, False]


def test_its_size_is_that_of_its_arrays():
    assert RECORD.bytes == 4 * (2 + 6)


def test_the_error_of_a_missing_signal_lists_the_existing_ones():
    with pytest.raises(UserError, match="no 'attention' of a module 'decoder'") as error:
        RECORD.find("decoder", "attention")
    assert error.value.hint == "Modules with 'attention': decoder.blocks.0.cross_attention."


def test_any_other_file_is_an_error(tmp_path: Path, monkeypatch):
    path = tmp_path / "a.safetensors"
    with pytest.raises(UserError):
        ActivationRecord.load(path)
    RECORD.save(path)
    content = path.read_bytes()
    for damaged in (
        b"", b"{}", content[:-3], content.replace(b'"gate', b'"goat'), content.replace(b"[2, 3]", b"[3, 2]"),
    ):  # fmt: skip
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="no activation record"):
            ActivationRecord.load(path)
    for header in (None, {}, {"record": "{}"}, {"record": "[]"}, {"record": '{"version": 1, "signals": [5]}'}):
        path.write_bytes(save({"0": np.zeros(1, np.float32)}, header))
        with pytest.raises(UserError, match="no activation record"):
            ActivationRecord.load(path)
    monkeypatch.setattr(module, "VERSION", 2)
    RECORD.save(path)
    monkeypatch.undo()
    with pytest.raises(UserError, match="has version 2"):
        ActivationRecord.load(path)
