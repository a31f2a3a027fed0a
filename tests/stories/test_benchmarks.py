"""Benchmarks that run on a CPU, on tiny settings, so that none of them rots."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))
NEEDS_TRITON = {"kernels_gpu"}


@pytest.fixture(autouse=True)
def path_of_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.triton) if name in NEEDS_TRITON else name for name in SCRIPTS]
)
def test_every_benchmark_can_be_imported(name):
    """Names of the source that a benchmark imports exist."""
    importlib.import_module(name)


@pytest.fixture
def ablation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    import ablation
    import train_cpu
    import vit_cpu

    monkeypatch.setattr(ablation, "RESULTS", tmp_path / "ablation.json")
    monkeypatch.setattr(ablation, "ROUNDS", {"cpu": 1})
    monkeypatch.setattr(ablation, "LLAMA", ablation.LLAMA.with_(width=24, depth=1))
    monkeypatch.setattr(train_cpu, "SIZES", {"small": train_cpu.Size(16, 1, 2, 50, 1, 1)})
    tokens = torch.randint(3, 50, (3, 7))
    sequences = ablation.Sequences(tokens, torch.tensor([7, 2, 4]))
    batch = ablation.Batch(sequences, sequences, tokens, torch.arange(3))
    monkeypatch.setattr(train_cpu, "batches", lambda: {"random order": batch})
    for name, value in {"ROWS": 2, "SIDE": 8, "WIDTH": 16, "DEPTH": 1, "HEADS": 2}.items():
        monkeypatch.setattr(vit_cpu, name, value)
    return ablation


def test_the_ablation_has_a_row_for_each_entry_that_applies(ablation, monkeypatch):
    seconds = iter(range(1, 10_000))
    monkeypatch.setattr(ablation, "seconds_of", lambda trainer, batch, steps: trainer.enqueue(batch) or next(seconds))
    ablation.main(["cpu"])
    part = json.loads(ablation.RESULTS.read_text(encoding="utf-8"))["tables"]["cpu"]
    rows = {row["name"]: row for row in part["rows"]}
    assert [column["key"] for column in part["columns"]][1:3] == [
        "translator, random order, float32", "translator, random order, bf16",
    ]  # fmt: skip
    everywhere = {"fused-attention", "no-padding", "dropout", "chunked-cross-entropy", ablation.DEFINITION}
    assert everywhere <= rows["fused-attention"].keys() | rows.keys()
    assert rows.keys() == everywhere | {"onednn-linear", "rotary-positions", "gated-feed-forward"}
    assert "translator, random order, bf16" not in rows["onednn-linear"]
    assert part["rows"][-1]["name"] == ablation.DEFINITION
    assert all(row["best"] == max(v for k, v in row.items() if k not in ("name", "best")) for row in part["rows"])
    # Each turn takes one more second than the one before: in the second round everything takes n + 1 seconds,
    # and the entry after it n + 2.
    titles = [column["key"] for column in part["columns"]][1:-1]
    assert rows["fused-attention"][titles[0]] == round(100 / 8, 1)


def test_a_training_step_on_a_cpu_is_measured(monkeypatch, capsys):
    import train_cpu

    monkeypatch.setattr(train_cpu, "SIZES", {"small": train_cpu.Size(16, 1, 2, 60, 1, 1)})
    monkeypatch.setattr(train_cpu, "MAKERS", {
        "HF Marian, float32": lambda size: train_cpu.peer(train_cpu.TorchTransformer(size), "float32"),
        "seq2see, float32": lambda size: train_cpu.seq2see_step(size, "float32"),
    })  # fmt: skip
    monkeypatch.setattr(train_cpu, "VOCABULARY", 60)
    tokens = torch.randint(3, 60, (3, 7))
    from seq2see.core.batch import Sequences

    sequences = Sequences(tokens, torch.tensor([7, 2, 4]))
    batch = train_cpu.Batch(sequences, sequences, tokens, torch.arange(3))
    rows = train_cpu.measure("small", {"random order": batch})
    assert [row["name"] for row in rows] == ["HF Marian, float32", "seq2see, float32"]
    assert rows[0]["ratio"] == 1
    assert all(row["value"] > 0 and row["tokens"] == 21 for row in rows)
    train_cpu.show(rows)
    assert all(len(line) <= 80 for line in capsys.readouterr().out.splitlines())


def test_the_images_of_the_vit_benchmark_train_a_model(monkeypatch):
    import vit_cpu

    for name, value in {"ROWS": 2, "SIDE": 8, "WIDTH": 16, "DEPTH": 1, "HEADS": 2}.items():
        monkeypatch.setattr(vit_cpu, name, value)
    steps, model = vit_cpu.steps_of("seq2see", "float32")
    data = vit_cpu.images()
    assert steps["training"](data)["loss"] > 0
    assert steps["forward"](data).shape == (2, 1, vit_cpu.CLASSES)
    assert sum(weight.numel() for weight in model.parameters()) > 0


def test_rows_of_other_processors_stay():
    import processors

    name = processors.processor_name()
    stored = [{"processor": name, "value": 1}, {"processor": "another", "value": 2}]
    assert processors.replace_rows(stored, [{"value": 3}]) == [
        {"processor": name, "value": 3}, {"processor": "another", "value": 2},
    ]  # fmt: skip


def test_the_ablation_of_decoding_has_a_column_for_each_cell(ablation, monkeypatch):
    import ablation_decoding

    for name, value in {"ROUNDS": 1, "NEW": 2, "TIMES": 3, "VOCABULARY": 50, "CASES": [(1, 1), (2, 4)]}.items():
        monkeypatch.setattr(ablation_decoding, name, value)
    seconds = iter(range(1, 10_000))
    measure = ablation_decoding.seconds_of
    monkeypatch.setattr(ablation_decoding, "seconds_of", lambda *cell: (measure(*cell), next(seconds))[1])
    ablation_decoding.main(["cpu"])
    part = json.loads(ablation.RESULTS.read_text(encoding="utf-8"))["tables"]["cpu-decoding"]
    rows = {row["name"]: row for row in part["rows"]}
    assert rows.keys() == {"C++", "packed weights", "fast search", ablation.DEFINITION}
    assert rows["packed weights"].keys() - {"name", "best"} == {
        f"Llama, {precision}, {cell}" for precision in ("float32", "int8") for cell in ("1 x greedy", "2 x beam 4")
    }
    assert len(part["columns"]) == 1 + 8 + 1


def test_the_speed_of_sound_is_measured(monkeypatch):
    import sound

    for name, value in {"COUNT": 3, "SECONDS": 0.2, "REPEATS": 1}.items():
        monkeypatch.setattr(sound, name, value)
    rows = {row["name"]: row for row in sound.measure()}
    assert rows.keys() == sound.cases().keys()
    assert all(row["real_time"] > 0 and len(row["all"]) == 1 for row in rows.values())
