"""Image grids: the most confident mistakes first, the most common confusions, and attention maps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import seq2see.inspection.attention_plots as tiles
from seq2see.data.examples import ImageExamples
from seq2see.data.image_dataset import ImageProcessor
from seq2see.inspection.trace import trace
from seq2see.models.build import fresh_model
from seq2see.models.image_settings import ImageSource, PatchEmbeddingSettings
from seq2see.models.settings import ImageLabel, ModelSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.runs.evaluate import write_evaluation
from seq2see.runs.run_folder import RunFolder
from seq2see.tasks.encoder_only import TaskResult, batch_of
from seq2see.tasks.image_figures import mistake_figures, patch_attention, region_attention
from seq2see.tasks.model import TextAttention
from seq2see.tasks.model_folder import ModelConfig, StoredModel, Tokenizers
from seq2see.tasks.task import EncodedInput, Evaluation, pretrained_task


@pytest.fixture
def drawn(monkeypatch) -> dict[str, list[tiles.TileRow]]:
    """The rows that are drawn, by the name of the file."""
    calls: dict[str, list[tiles.TileRow]] = {}
    monkeypatch.setattr(tiles, "draw_tiles", lambda rows, path: calls.setdefault(path.name, list(rows)))
    return calls


def predicted(rows: list[tuple[str, str, float]]) -> tuple[ImageExamples, list[TaskResult]]:
    pixels = np.zeros((len(rows), 4, 4, 3), np.uint8)
    names = tuple(map(str, range(len(rows))))
    results = [
        TaskResult(EncodedInput("", [], False), label, float(np.log(probability)), ()) for _, label, probability in rows
    ]
    return ImageExamples(pixels, tuple(truth for truth, _, _ in rows), names), results


def draw_mistakes(run: RunFolder, examples: ImageExamples, results: list[TaskResult]) -> None:
    write_evaluation(run, Evaluation(figures=mistake_figures(examples, results)))


def test_the_most_confident_mistakes_come_first_and_correct_predictions_are_left_out(drawn, tmp_path: Path):
    rows = [("cat", "cat", 0.99), ("cat", "dog", 0.6), ("dog", "cat", 0.9), ("dog", "cow", 0.5), ("cow", "dog", 0.95)]
    draw_mistakes(RunFolder(tmp_path), *predicted(rows))
    (row,) = drawn["mistakes.png"]
    assert [tile.caption for tile in row.tiles] == [
        "cow → dog\n0.95", "dog → cat\n0.90", "cat → dog\n0.60", "dog → cow\n0.50"
    ]  # fmt: skip


def test_the_most_common_confusions_come_first_with_their_counts(drawn, tmp_path: Path):
    rows = [("cat", "dog", 0.6), *[("dog", "cat", 0.5 + n / 100) for n in range(12)], ("cow", "cat", 0.9)]
    draw_mistakes(RunFolder(tmp_path), *predicted(rows))
    confused = drawn["confused.png"]
    assert [row.heading for row in confused] == ["dog → cat: 12", "cow → cat: 1", "cat → dog: 1"]
    assert [tile.caption for tile in confused[0].tiles[:2]] == ["0.61", "0.60"]
    assert len(confused[0].tiles) == 10


def test_without_a_mistake_nothing_is_drawn(drawn, tmp_path: Path):
    draw_mistakes(RunFolder(tmp_path), *predicted([("cat", "cat", 0.9)]))
    assert not drawn


@pytest.mark.parametrize("pooling", ["cls", "mean", "distilled"])
def test_attention_is_that_of_the_class_token_or_of_all_patches(pooling):
    settings = ModelSettings(
        source=ImageSource(image_size=12, embedding=PatchEmbeddingSettings(size=4)),
        target=ImageLabel(pooling=pooling),
        encoder=TransformerSettings(width=16, depth=2, heads=2, dropout=0.0),
    )
    module = fresh_model(settings, (256, 3), "xavier", seed=1).eval()
    processor = ImageProcessor(12, 3)
    config = ModelConfig(
        task=pretrained_task(settings), name="x", step=0, model=settings, decoding={"max_new_tokens": 1}
    )
    stored = StoredModel(config, module, Tokenizers(processor, processor, ("a", "b", "c")))
    rng = np.random.default_rng(1)
    inputs = [EncodedInput("", [], False, pixels=rng.integers(0, 256, (3, 12, 12), dtype=np.uint8)) for _ in range(2)]
    maps = patch_attention(stored, [TaskResult(each, "a", 0.0, ()) for each in inputs])
    assert list(maps) == ["layer 1", "layer 2", "rollout"]
    with torch.inference_mode(), trace(module) as traced:
        module(batch_of(inputs))
    weights = traced.of("attention")[1].values.mean(1)
    expected = {
        "cls": weights[:, 0, 1:],
        "mean": weights.mean(1),
        "distilled": (weights[:, 0, 2:] + weights[:, 1, 2:]) / 2,
    }[pooling]
    assert maps["layer 2"].reshape(2, 9) == pytest.approx(expected.numpy(), abs=1e-6)
    assert maps["rollout"].shape == (2, 3, 3)


def test_a_region_is_the_attention_of_one_word_without_the_class_token():
    weights = np.arange(2 * 3 * 7, dtype=np.float32).reshape(2, 3, 7)
    names = ["class", *(f"{row},{column}" for row in (1, 2) for column in (1, 2, 3))]
    attention = TextAttention(names, ["a", "cat", "<eos>"], ["last"], [weights])
    assert region_attention(attention, 1).tolist() == weights.mean(0)[1, 1:].reshape(2, 3).tolist()
