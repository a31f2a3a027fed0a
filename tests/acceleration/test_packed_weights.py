"""Packed layers against their definitions, and packed models against the original models."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from seq2see.acceleration import packed_weights
from seq2see.acceleration.packed_weights import (
    PackedLinear,
    PackedLinearBfloat16,
    PackedLinearFloat32,
    PackedLinearInt8,
    PackedLinearLargeBatch,
    int8_linear,
    make_packed_model,
    pack_for_large_batches,
    quantize,
)
from seq2see.core.batch import Batch, Images
from seq2see.decoding.beam import BeamSampler
from seq2see.decoding.engine import Limits, decode
from seq2see.decoding.samplers import GreedySampler
from seq2see.models.build import fresh_model
from seq2see.models.image_settings import ImageSource, PatchEmbeddingSettings
from seq2see.models.settings import ImageLabel, ModelSettings
from seq2see.models.transformer import TransformerSettings
from tiny_models import FAMILIES, full_logits, sources, tiny_model

PRECISIONS = {"float32": 1e-5, "bf16": 0.1, "int8": 0.2}
LIMITS = Limits(7)


def layer(inputs, outputs, seed=0):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(outputs, inputs, generator=random), torch.randn(outputs, generator=random)


def test_by_hand_the_largest_number_of_a_vector_is_quantized_to_127():
    numbers, scales = quantize(torch.tensor([[1.27, 0.014, -0.635], [0.0, -254.0, 3.0]]))
    assert numbers.tolist() == [[127, 1, -64], [0, -127, 2]]  # 63.5 and 1.5 are rounded to the even number
    assert scales.flatten().tolist() == pytest.approx([0.01, 2.0])


def test_a_vector_of_zeros_stays_zero():
    assert quantize(torch.zeros(1, 3))[0].tolist() == [[0, 0, 0]]
    assert int8_linear(torch.zeros(1, 3), torch.ones(2, 3), torch.tensor([1.0, 2.0])).tolist() == [[1.0, 2.0]]


def test_by_hand_an_int8_linear_layer():
    """(100, -127) x 0.01 times (127, 50) x 0.1 is (12700 - 6350) x 0.001, and 3 is added."""
    output = int8_linear(torch.tensor([[1.0, -1.27]]), torch.tensor([[12.7, 5.0]]), torch.tensor([3.0]))
    assert output.item() == pytest.approx(6.35 + 3)


@given(rows=st.integers(1, 9), inputs=st.integers(1, 300), outputs=st.integers(1, 70), seed=st.integers(0, 99))
def test_int8_is_its_definition_to_the_last_bit(rows, inputs, outputs, seed):
    weight, bias = layer(inputs, outputs, seed)
    vectors = torch.randn(rows, inputs, generator=torch.Generator().manual_seed(seed)) * 10 ** (seed % 7 - 3)
    assert torch.equal(PackedLinearInt8(weight, bias)(vectors), int8_linear(vectors, weight, bias))
    assert torch.equal(PackedLinearInt8(weight, None)(vectors), int8_linear(vectors, weight, None))


@pytest.mark.parametrize("make_matmul", [packed_weights._by_fbgemm, packed_weights._by_int_mm])
def test_integers_are_multiplied_exactly_up_to_the_largest(make_matmul):
    """2,048 x 127 x 127 needs 26 bits."""
    weights = torch.full((3, 2048), 127.0)
    numbers = torch.tensor([[127.0], [-127.0]]).expand(2, 2048).clone()
    numbers[1, 0] = 1
    expected = [[2048 * 127**2] * 3, [-2047 * 127**2 + 127] * 3]
    assert make_matmul(weights)(numbers).tolist() == torch.tensor(expected).float().tolist()


def test_without_an_exact_instruction_another_matmul_is_used(monkeypatch):
    weight, bias = layer(11, 7)
    vectors = torch.randn(5, 11)
    monkeypatch.setattr(packed_weights, "_fbgemm_is_exact", lambda: False)
    monkeypatch.setattr(packed_weights, "_by_fbgemm", None)
    assert torch.equal(PackedLinearInt8(weight, bias)(vectors), int8_linear(vectors, weight, bias))


def test_a_processor_that_sums_pairs_in_16_bits_is_detected(monkeypatch):
    monkeypatch.setattr(
        packed_weights, "_by_fbgemm", lambda weights: lambda numbers: (numbers @ weights.T).clamp(max=2**15)
    )
    packed_weights._fbgemm_is_exact.cache_clear()
    try:
        assert not packed_weights._fbgemm_is_exact()
    finally:
        packed_weights._fbgemm_is_exact.cache_clear()


def test_a_row_of_int8_never_depends_on_its_neighbors():
    weight, bias = layer(64, 130)
    linear, vectors = PackedLinearInt8(weight, bias), torch.randn(33, 64)
    vectors[5] *= 1000  # with one scale for all rows the other rows would become 0
    together = linear(vectors)
    for count in (1, 2, 4, 31):
        assert torch.equal(linear(vectors[:count]), together[:count])
    assert torch.equal(linear(vectors.flip(0)), together.flip(0))


def test_packed_float32_equals_linear():
    weight, bias = layer(64, 130)
    vectors = torch.randn(3, 5, 64)
    for kind in (PackedLinearFloat32, PackedLinearLargeBatch):
        for each in (bias, None):
            expected = nn.functional.linear(vectors, weight, each)
            torch.testing.assert_close(kind(weight, each)(vectors), expected)


def test_packed_bf16_equals_linear_of_rounded_numbers():
    weight, bias = layer(64, 130)
    vectors = torch.randn(3, 5, 64)
    rounded = nn.functional.linear(vectors.bfloat16().double(), weight.bfloat16().double(), bias.bfloat16().double())
    output = PackedLinearBfloat16(weight, bias)(vectors)
    assert output.dtype == torch.float32
    torch.testing.assert_close(output.double(), rounded, rtol=1 / 128, atol=1e-3)
    assert torch.equal(output, output.bfloat16().float())


@pytest.mark.parametrize("kind", [PackedLinearFloat32, PackedLinearBfloat16])
def test_without_onednn_linear_of_torch_is_used(kind, monkeypatch):
    weight, bias = layer(64, 130)
    vectors = torch.randn(3, 64)
    expected = kind(weight, bias)(vectors)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    unpacked = kind(weight, bias)
    assert not unpacked.is_packed
    torch.testing.assert_close(unpacked(vectors), expected, rtol=1e-2, atol=1e-2)


@pytest.fixture
def pack_all_layers(monkeypatch):
    monkeypatch.setattr(packed_weights, "MIN_PACKED_SIZE", 1)


def packed_layers(model):
    return {name for name, module in model.named_modules() if isinstance(module, PackedLinear)}


def linear_layers(model):
    return {name for name, module in model.named_modules() if isinstance(module, nn.Linear)}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", FAMILIES)
def test_a_packed_model_scores_like_the_model_and_does_not_change_it(name, precision, pack_all_layers):
    model, source = tiny_model(name), sources([4, 2, 5], seed=3)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    linear, tokens = linear_layers(model), torch.randint(3, 13, (3, 6))
    optimized_model = make_packed_model(model, precision)
    assert packed_layers(optimized_model) >= linear
    assert not linear_layers(optimized_model)
    assert any(each.startswith("head") for each in packed_layers(optimized_model))
    with torch.no_grad():
        expected, scores = full_logits(model, source, tokens), full_logits(optimized_model, source, tokens)
        state = optimized_model.start(source, 3, 6)
        stepped, state = optimized_model.step(tokens[:, :2], state)
    scale = expected.abs().max()
    assert (scores - expected).abs().max() < PRECISIONS[precision] * scale
    assert (scores - expected).abs().max() > 0 or precision == "float32"
    torch.testing.assert_close(stepped, scores[:, :2], rtol=1e-2, atol=1e-2 * float(scale))
    assert not packed_layers(model)
    assert linear_layers(model) == linear
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


@pytest.mark.parametrize("name", ["transformer, pre-norm", "recurrent, additive"])
def test_a_packed_float32_model_gives_the_same_hypotheses(name, pack_all_layers):
    model, source = tiny_model(name), sources([4, 2, 5, 3], seed=3)
    for sampler in (GreedySampler(), BeamSampler(3)):
        actual = decode(make_packed_model(model, "float32"), source, sampler, LIMITS)
        expected = decode(model, source, sampler, LIMITS)
        assert [[each.tokens for each in row] for row in actual] == [[each.tokens for each in row] for row in expected]


def test_small_float32_layers_are_not_packed():
    model = tiny_model("transformer, pre-norm")
    assert not packed_layers(make_packed_model(model, "float32"))


def test_the_head_of_a_packed_bf16_model_computes_in_float32(pack_all_layers):
    for name in ("transformer, pre-norm", "transformer, post-norm"):  # a tied and an untied head
        optimized_model = make_packed_model(tiny_model(name), "bf16")
        heads = [module for module in optimized_model.head.modules() if isinstance(module, PackedLinear)]
        assert [type(head) for head in heads] == [PackedLinearFloat32]
        assert type(optimized_model.decoder.blocks[0].feed_forward.up_proj) is PackedLinearBfloat16


def test_a_packed_model_shares_the_other_modules():
    model = tiny_model("transformer, pre-norm")
    optimized_model = make_packed_model(model, "int8")
    assert optimized_model.target.table.weight is model.target.table.weight
    assert (
        optimized_model.decoder.blocks[0].feed_forward.up_proj.weight.data_ptr()
        == model.decoder.blocks[0].feed_forward.up_proj.weight.data_ptr()
    )


@pytest.mark.parametrize("activation", ["gelu", "swiglu"])
def test_a_model_packed_for_large_batches_scores_like_the_model_and_does_not_change_it(activation):
    stack = TransformerSettings(width=16, depth=2, heads=2, activation=activation)
    settings = ModelSettings(
        source=ImageSource(image_size=8, embedding=PatchEmbeddingSettings(size=4)), encoder=stack, target=ImageLabel()
    )
    model = fresh_model(settings, (0, 3), "xavier", seed=1).eval()
    pixels = torch.randint(0, 256, (5, 3, 8, 8), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    batch = Batch(Images(pixels), None, torch.zeros(5, 1, dtype=torch.long), torch.arange(5))
    linear, optimized_model = linear_layers(model), pack_for_large_batches(model)
    assert packed_layers(optimized_model) == linear == linear_layers(model)
    assert not packed_layers(model)
    with torch.no_grad():
        torch.testing.assert_close(optimized_model(batch), model(batch))
        with torch.autocast("cpu", torch.bfloat16):
            rounded = pack_for_large_batches(model, "bf16")(batch)
            torch.testing.assert_close(rounded, model(batch), rtol=0.02, atol=0.02)
    assert rounded.dtype == torch.bfloat16
    meta_model = copy.deepcopy(model).to("meta")
    assert pack_for_large_batches(meta_model) is meta_model
