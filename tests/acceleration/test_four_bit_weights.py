"""Weights of four bits: found again in float32 weights, and multiplied as their definition."""

import copy

import pytest
import torch
from torch import nn

from seq2see.acceleration import packed_weights
from seq2see.acceleration.four_bit_weights import BLOCK, find_four_bit_weight
from seq2see.acceleration.packed_weights import (
    PackedLinear,
    PackedLinearBfloat16,
    PackedLinearFourBit,
    has_four_bit_weights,
    make_packed_model,
)
from seq2see.runs.chat import usual_precision
from tiny_models import tiny_model


def four_bit_weight(outputs: int, inputs: int, largest: int = 15, symmetric: bool = False):
    """Weights as in a file of llama.cpp: integers, and a step and a minimum of 16 bits for each block."""
    random = torch.Generator().manual_seed(outputs + inputs + largest)
    integers = torch.randint(0, largest + 1, (outputs, inputs // BLOCK, BLOCK), generator=random)
    integers[..., 0], integers[..., -1] = 0, largest
    steps = torch.rand(outputs, inputs // BLOCK, 1, generator=random).half().float() / 32
    minima = -8 * steps if symmetric else torch.randn(steps.shape, generator=random).half().float() / 8
    return (minima + steps * integers).flatten(1), integers.flatten(1)


def test_by_hand_a_block_is_its_minimum_and_multiples_of_its_step():
    weight = torch.tensor([[-1.0, -0.5, 6.5] + [0.0] * 29, [3.0] * 32])
    found = find_four_bit_weight(weight)
    assert found.integers[:, :4].tolist() == [[0, 1, 15, 2], [0, 0, 0, 0]]
    assert found.minima.tolist() == [[-1.0], [3.0]]
    assert found.steps[0].tolist() == [0.5]
    assert torch.equal(found.to_float(), weight)


@pytest.mark.parametrize("largest", [15, 14, 7, 1])
@pytest.mark.parametrize("symmetric", [False, True])
def test_the_integers_of_a_file_are_found_again(largest: int, symmetric: bool):
    weight, integers = four_bit_weight(9, 96, largest, symmetric)
    found = find_four_bit_weight(weight)
    torch.testing.assert_close(found.to_float(), weight, rtol=1e-6, atol=1e-6)
    factor = found.integers.view(9, 3, BLOCK).amax(-1) // largest  # 15 = 15 x 1 also fits a block of two values
    assert torch.equal(found.integers, integers * factor.repeat_interleave(BLOCK, dim=1))


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1"])
def test_the_weights_of_llama_cpp_are_found(name: str):
    gguf = pytest.importorskip("gguf")
    kind = gguf.GGMLQuantizationType[name]
    data = gguf.quants.quantize(torch.randn(64, 64, generator=torch.Generator().manual_seed(1)).numpy(), kind)
    weight = torch.from_numpy(gguf.quants.dequantize(data, kind).copy())
    torch.testing.assert_close(find_four_bit_weight(weight).to_float(), weight, rtol=1e-6, atol=1e-6)


def test_other_weights_are_not_four_bits():
    assert find_four_bit_weight(torch.randn(8, 64, generator=torch.Generator().manual_seed(1))) is None
    weight, _ = four_bit_weight(8, 64)
    assert find_four_bit_weight(weight[:, :48]) is None
    weight[6, 40] += 1e-3
    assert find_four_bit_weight(weight) is None


@pytest.mark.parametrize("rows", [1, 8, 9, 40])
@pytest.mark.parametrize("with_bias", [False, True])
def test_a_four_bit_layer_equals_linear_of_rounded_numbers(rows: int, with_bias: bool):
    weight, _ = four_bit_weight(48, 96)
    bias = torch.randn(48, generator=torch.Generator().manual_seed(2)) if with_bias else None
    vectors = torch.randn(rows, 96, generator=torch.Generator().manual_seed(rows))
    output = PackedLinearFourBit(weight, bias, find_four_bit_weight(weight))(vectors)
    expected = nn.functional.linear(vectors.bfloat16().float(), weight, bias)
    assert output.dtype == torch.float32
    assert (output - expected).abs().max() < 0.01 * expected.abs().max()


@pytest.fixture
def model(monkeypatch):
    """A tiny model, one layer of which has weights of four bits, on a processor with the fast instructions."""
    monkeypatch.setattr(packed_weights, "MIN_PACKED_SIZE", 1)
    monkeypatch.setattr(packed_weights, "_onednn_supports", lambda dtype: True)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    found = copy.deepcopy(tiny_model("transformer, pre-norm"))
    layer = nn.Linear(BLOCK, 16)
    layer.weight.data = four_bit_weight(16, BLOCK)[0]
    found.decoder.extra = layer
    return found


def test_bf16_layers_with_weights_of_four_bits_are_packed_in_four_bits(model, monkeypatch):
    packed = [each for each in make_packed_model(model, "bf16").decoder.modules() if isinstance(each, PackedLinear)]
    assert [type(each) for each in packed].count(PackedLinearFourBit) == 1
    assert type(packed[-1]) is PackedLinearFourBit
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    packed = [each for each in make_packed_model(model, "bf16").decoder.modules() if isinstance(each, PackedLinear)]
    assert {type(each) for each in packed} == {PackedLinearBfloat16}


def test_a_pretrained_model_of_four_bits_is_in_bf16_in_a_conversation_on_a_cpu(model, monkeypatch):
    assert has_four_bit_weights(model)
    assert usual_precision(model) == "bf16"
    monkeypatch.setenv("SEQ2SEE_PLAIN", "1")
    assert usual_precision(model) == "float32"
    monkeypatch.delenv("SEQ2SEE_PLAIN")
    assert usual_precision(model.to("meta")) == "float32"
    assert usual_precision(tiny_model("transformer, pre-norm")) == "float32"
