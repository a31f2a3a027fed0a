"""The table of fast layers: which apply when, that they come and go without a trace, and what `explain` says."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from seq2see.acceleration.layers import ChannelsLastConv2d, FastDropout, FusedPreNorm, PrecomputedLayerNorm
from seq2see.acceleration.swaps import PARTS, SWAPS, Conditions, accelerate, accelerated, describe, parts_for, restore
from seq2see.acceleration.trainer import AcceleratedTrainer, training_conditions
from seq2see.core.batch import WordSequences
from seq2see.core.devices import plain_class
from seq2see.layers.norms_and_dropout import Dropout
from seq2see.models.resnet_encoder import ConvolutionalStem
from seq2see.models.subword_ngrams import NgramEmbedding
from seq2see.training.objectives import NextToken
from seq2see.training.settings import Training
from tiny_models import FAMILIES, pairs, perturbed_model

CPU = torch.device("cpu")
TRAINING, PREDICTION = Conditions("cpu", training=True), Conditions("cpu")
GPU = Conditions("cuda", True, "bf16", kernels=True)
BATCH = pairs([3, 5, 2])
ROOT = Path(__file__).resolve().parents[2]


def model(name: str = "transformer, pre-norm", **changes: Any) -> nn.Module:
    return perturbed_model(FAMILIES[name].with_(**changes))


def fast_modules(module: nn.Module) -> dict[str, str]:
    """The names of the fast classes in a model, by the class that each replaces."""
    swapped = (each for each in module.modules() if plain_class(each) is not type(each))
    return {plain_class(each).__name__: type(each).__name__ for each in swapped}


@pytest.mark.parametrize("entry", [*SWAPS, *PARTS], ids=lambda entry: entry.name)
def test_every_entry_names_its_test_and_its_benchmarks(entry):
    assert (ROOT / entry.test).is_file()
    assert all((ROOT / "benchmarks" / name.strip()).is_file() for name in entry.benchmark.split(","))


def test_names_are_unique():
    names = [each.name for each in (*SWAPS, *PARTS)]
    assert len(names) == len(set(names))


def test_which_layers_are_fast_depends_on_the_conditions():
    attention = {
        "SelfAttention": "FusedSelfAttention",
        "CrossAttention": "FusedCrossAttention",
        "TransformerEncoder": "UnpaddedTransformerEncoder",
        "TransformerDecoder": "UnpaddedTransformerDecoder",
    }
    dropout = {"Dropout": "FastDropout", "DropPath": "FastDropPath"}
    fused = {"PreNorm": "FusedPreNorm", "LayerNorm": "PrecomputedLayerNorm", "FeedForward": "FusedFeedForward"}
    assert fast_modules(accelerate(model(**{"encoder.drop_path": 0.1}), PREDICTION)) == attention
    assert fast_modules(accelerate(model(**{"encoder.drop_path": 0.1}), TRAINING)) == attention | dropout
    assert fast_modules(accelerate(model(**{"encoder.drop_path": 0.1}), GPU)) == attention | dropout | fused
    for less in (Conditions("cuda", True, "float32", True), Conditions("cuda", True, "bf16", False)):
        assert fast_modules(accelerate(model(**{"encoder.drop_path": 0.1}), less)) == attention | dropout
    assert not fast_modules(model(**{"encoder.drop_path": 0.1}))


def test_which_other_parts_are_fast_depends_on_the_conditions():
    always = {"chunked-cross-entropy"}
    assert parts_for(PREDICTION) == set()
    assert parts_for(TRAINING) == always
    assert parts_for(Conditions("cpu", True, kernels=True)) == always | {"onednn-linear"}
    assert parts_for(Conditions("cpu", True, "bf16", kernels=True)) == always
    on_gpu = always | {"fused-cross-entropy", "bf16-muon", "cuda-graph"}
    assert parts_for(Conditions("cuda", True, kernels=True)) == on_gpu
    in_bf16 = on_gpu | {"short-attention", "bf16-weights", "flat-adam"}
    assert parts_for(GPU) == in_bf16 | {"asynchronous-gradients"}
    assert parts_for(Conditions("cuda", True, "bf16", kernels=True, compiled=True)) == in_bf16
    assert parts_for(Conditions("cuda", True, "bf16")) == always | {
        "bf16-weights", "asynchronous-gradients", "bf16-muon", "cuda-graph",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "device", "expected"),
    [
        ({}, "cpu", Conditions("cpu", True, "float32", True)),
        ({"custom_kernels": False, "precision": "bf16"}, "cuda", Conditions("cuda", True, "bf16", False)),
        ({"compile": True}, "cuda", Conditions("cuda", True, "float32", True, True)),
        ({"compile": True}, "cpu", Conditions("cpu", True, "float32", True, False)),
    ],
)
def test_conditions_follow_the_settings(changes, device, expected, monkeypatch):
    monkeypatch.setattr("seq2see.acceleration.trainer.TRITON", True)
    assert training_conditions(Training(**changes), torch.device(device)) == expected


def test_kernels_of_a_gpu_need_triton(monkeypatch):
    monkeypatch.setattr("seq2see.acceleration.trainer.TRITON", False)
    assert not training_conditions(Training(), torch.device("cuda")).kernels
    assert training_conditions(Training(), CPU).kernels


def test_one_swap_can_be_left_out():
    without = accelerate(model(), TRAINING, without=["dropout"])
    assert any(type(each) is Dropout for each in without.modules())
    assert "FusedSelfAttention" in fast_modules(without).values()
    assert "onednn-linear" not in parts_for(Conditions("cpu", True, kernels=True), without=["onednn-linear"])


def test_what_needs_an_omitted_entry_is_left_out_with_it():
    names = {each.name for each in (*SWAPS, *PARTS)}
    assert all(each.needs in names | {""} for each in (*SWAPS, *PARTS))
    assert fast_modules(accelerate(model(), PREDICTION, without=["fused-attention"])) == {}
    assert not {"asynchronous-gradients", "flat-adam"} & parts_for(GPU, without=["bf16-weights"])
    padded = pairs([5, 1])
    expected = model().eval()(padded)
    for entry in ("fused-attention", "no-padding"):
        assert_close(accelerate(model().eval(), PREDICTION, without=[entry])(padded), expected, rtol=1e-4, atol=1e-5)


def test_after_the_context_the_model_is_the_textbooks_again():
    plain, other = model(), model()
    before = [vars(each).keys() for each in plain.modules()]
    with accelerated(plain, GPU):
        assert FusedPreNorm in map(type, plain.modules())
        assert PrecomputedLayerNorm in map(type, plain.modules())
        assert list(plain.state_dict()) == list(other.state_dict())
    assert not fast_modules(plain)
    assert [vars(each).keys() for each in plain.modules()] == before
    with pytest.raises(ZeroDivisionError), accelerated(plain, TRAINING):
        raise ZeroDivisionError
    assert not fast_modules(plain)


def test_another_call_replaces_the_swaps_of_the_first():
    both = accelerate(accelerate(model(), TRAINING), PREDICTION)
    assert FastDropout not in map(type, both.modules())
    assert not fast_modules(restore(both))


def test_only_convolutions_of_images_change_their_memory_format():
    images, texts = ConvolutionalStem(3, 8, 1), nn.Sequential(nn.Conv2d(1, 1, 1))
    accelerate(images, Conditions("cuda"))
    accelerate(texts, Conditions("cuda"))
    assert ChannelsLastConv2d in map(type, images.modules())
    assert not fast_modules(texts)
    pixels = torch.rand(2, 3, 8, 8)
    assert_close(images(pixels), restore(images)(pixels))


def test_words_are_counted_where_that_needs_no_synchronization():
    embedding = NgramEmbedding(buckets=64, width=5, max_n=2, word_dropout=0.0, dropout=0.0)
    words = torch.tensor([[0, 1, 1, 2, 0], [0, 1, 2, 3, 0]])
    characters = WordSequences(torch.randint(5, 9, (2, 5)), torch.tensor([5, 5]), words)
    expected = embedding(characters)
    actual = accelerate(embedding, Conditions("cuda"))(characters)
    assert (expected.values.size(1), actual.values.size(1)) == (4, 5)  # <bos> and three words; all positions
    assert torch.equal(actual.lengths, expected.lengths)
    assert_close(actual.values[:, :4], expected.values)


def test_a_copy_of_a_fast_model_is_a_model_of_its_own():
    original = accelerate(model(), TRAINING).eval()
    expected = original(BATCH)
    copied = copy.deepcopy(original)
    with torch.no_grad():
        for weight in original.parameters():
            weight.zero_()
    assert torch.equal(copied(BATCH), expected)
    assert fast_modules(copied) == fast_modules(original)


def test_two_models_train_in_one_process_as_if_each_were_alone():
    def trainer(name: str) -> AcceleratedTrainer:
        return AcceleratedTrainer(model(name), NextToken(), Training(steps=9, seed=3), CPU)

    names = ["transformer, pre-norm", "recurrent, bilinear"]
    alone = [[one.train_step(BATCH) for _ in range(3)] for one in map(trainer, names)]
    trainers, together = [trainer(name) for name in names], [[], []]
    for _ in range(3):
        for one, metrics in zip(trainers, together, strict=True):
            metrics.append(one.train_step(BATCH))
    assert together == alone


def test_a_description_has_a_row_for_each_kind_of_layer_and_leaves_the_model_plain():
    plain = model()
    rows = {row.plain: row for row in describe(plain, Conditions("cpu", True, kernels=True), unused=["bf16-muon"])}
    assert rows["SelfAttention × 4"].fast == "FusedSelfAttention"
    assert rows["PreNorm × 10"].fast == ""
    assert rows["PreNorm × 10"].where.startswith("training in bf16 on a GPU")
    assert rows["Linear"].fast == "linear layers by oneDNN"
    assert "Muon in float32" not in rows
    assert not fast_modules(plain)
    assert not any(row.name in parts_for(GPU) for row in describe(plain, PREDICTION))


def test_restoring_leaves_the_attributes_of_other_modules_alone():
    module = nn.Linear(3, 5)
    module.after = 7
    assert restore(module).after == 7
