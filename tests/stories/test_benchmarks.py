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
    # Each turn takes one more second than the one before: after both warm-ups, the first entry's only round is the
    # third turn with everything, and the fourth without the entry.
    titles = [column["key"] for column in part["columns"]][1:-1]
    assert rows["fused-attention"][titles[0]] == round(100 * (4 / 3 - 1), 1)


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


def test_the_batches_of_the_gpu_benchmark_have_the_same_pairs_padded_and_packed(monkeypatch):
    import train_gpu

    from seq2see.recipes.registry import recipe

    pocket = recipe("pocket-transformer").with_(**{"corpus.size": 200})
    monkeypatch.setattr(train_gpu, "recipe", lambda name: pocket)
    monkeypatch.setattr(train_gpu, "ROWS", 8)
    padded, packed = train_gpu.real_sentences()
    assert padded.label_mask.sum() == packed.label_mask.sum() > 0
    assert sorted(padded.labels[padded.label_mask]) == sorted(packed.labels[packed.label_mask])
    full, same = train_gpu.full_sequences()
    assert full is same
    assert full.labels.shape == (8, train_gpu.TIMES)


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


def test_the_benchmark_of_dialogues_has_a_row_for_each_recipe(tmp_path, monkeypatch):
    import chat

    from seq2see.metrics import dialogue
    from seq2see.tasks import dialogue_scores

    monkeypatch.setattr(chat, "RESULTS", tmp_path / "chat.json")
    monkeypatch.setattr(chat, "RECALL", ("chat", "chat-retrieve"))
    monkeypatch.setattr(dialogue, "SAMPLES", 20)
    for name, value in {"MAX_REPLIES": 40, "MAX_CHOICES": 5}.items():
        monkeypatch.setattr(dialogue_scores, name, value)
    changes = {"training.steps": 2, "training.evaluate_every": 2, "training.batch_tokens": 256, "corpus.size": 40}
    monkeypatch.setattr(chat, "CHANGES", changes)
    chat.main(["recall"])
    chat.main(["hits", "chat"])
    chat.main(["recall", "chat"])  # replaces a row
    tables = json.loads(chat.RESULTS.read_text(encoding="utf-8"))["tables"]
    assert [row["name"] for row in tables["recall"]["rows"]] == ["chat", "chat-retrieve"]
    assert [row["name"] for row in tables["hits"]["rows"]] == ["chat"]
    for kind, table in tables.items():
        required = {column["key"] for column in table["columns"] if "distance" not in column["key"]}
        assert all(required <= set(row) for row in table["rows"]), kind
    assert all(row["distance 1"] + 1 > 0 for row in tables["recall"]["rows"])


def test_the_speed_of_a_conversation_counts_from_the_second_token():
    import chat_speed

    dialogues = iter([[[0, 5, 6, 7], [10, 11, 12, 13], [20, 23, 24, 25]]])
    first, speed = chat_speed.measured(lambda: dict(zip(chat_speed.QUESTIONS, next(dialogues), strict=True)).get)
    assert first == (5 + 1 + 3) / 3
    assert speed == 1.0


def test_the_best_round_of_each_side_is_compared_with_the_fastest_peer_of_its_precision():
    import chat_speed

    def side(speeds: list[float]):
        times = iter(speeds)

        def dialogue():
            speed = next(times)
            return lambda question: [0, 1, 1 + 1 / speed]

        return dialogue

    sides = [
        ("bf16", "seq2see", side([1, 30, 40])),
        ("float32", "seq2see", side([1, 9, 8])),
        ("bf16", "transformers", side([99, 20, 10])),
        ("bf16", "compiled", side([99, 5, 6])),
    ]
    rows = chat_speed.speed_rows(sides, rounds=2)
    assert [(row["precision"], row["name"]) for row in rows] == [
        ("float32", "seq2see"), ("bf16", "seq2see"), ("bf16", "transformers"), ("bf16", "compiled")
    ]  # fmt: skip
    assert [row["ratio"] and round(row["ratio"], 6) for row in rows] == [None, 2.0, 1.0, 0.3]


def test_the_benchmark_of_conversations_measures_our_model_in_each_precision(tmp_path, monkeypatch):
    """With a model of random weights that is as small as possible, and without the other library."""
    import chat_speed

    from seq2see.recipes.registry import recipe
    from seq2see.runs.chat import open_chat
    from seq2see.runs.train import train_recipe

    monkeypatch.setattr(chat_speed, "NEW_TOKENS", 4)
    settings = {"corpus.size": 20, "training.steps": 1, "training.evaluate_every": 1, "decoder.width": 16}
    model = open_chat(str(train_recipe(recipe("chat").with_(**settings), tmp_path / "run").path))
    rows = chat_speed.speed_rows(chat_speed.our_sides(model), rounds=1)
    assert [row["precision"] for row in rows] == list(chat_speed.PRECISIONS)
    assert all(row["speed"] > 0 for row in rows)
    exact, rounded, _ = chat_speed.our_precision_rows(model)
    assert (exact["divergence"], exact["same"]) == (0, 100)
    assert 0 < rounded["divergence"] < 0.1


@pytest.mark.long
def test_the_benchmark_of_packed_layers_has_every_kind():
    import packed_layers

    row = packed_layers.row_of(32, rounds=1)
    assert row["weights"] == 2**10 / 2**18
    assert all(row[name] > 0 for name in packed_layers.KINDS)
