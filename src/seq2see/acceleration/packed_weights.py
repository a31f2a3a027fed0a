"""Packed weights: a copy of a model whose linear layers are packed for this CPU.

It decodes faster where there is no C++ compiler, and encodes large batches of texts or images faster. Decoding one
token at a time spends most of its time reading weights. oneDNN reads them faster in a packed order
(`PackedLinearFloat32`), half of the bytes in bf16 (`PackedLinearBfloat16`), and a quarter in int8 (`PackedLinearInt8`).
Weights from a file of four bits are read as four bits in bf16 (`PackedLinearFourBit`).
Norms, attention and softmax stay float32, and so does the head of a bf16 copy: rounded to bf16, the scores of many
tokens would be equal.

The definition is the linear layer of torch, and of an int8 copy `int8_linear`;
tests/acceleration/test_packed_weights.py compares them.
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from seq2see.acceleration.four_bit_weights import BLOCK, FourBitWeight, find_four_bit_weight
from seq2see.core.devices import device_of
from seq2see.models.embeddings_and_heads import TiedHead
from seq2see.models.language_model import LanguageModel

MIN_PACKED_SIZE = 1 << 18
"""Float32 weights with fewer numbers than this are not packed: it would not be faster."""

OUTPUTS_MULTIPLE = 16
"""The operator for weights of four bits needs a multiple of this number of outputs."""


def quantize(vectors: Float[Tensor, "... width"]) -> tuple[Float[Tensor, "... width"], Float[Tensor, "... 1"]]:
    """Quantize each vector to integers from -127 to 127 and a scale.

    Every vector has its own scale, so the result of a row does not depend on the other rows of the batch.

    >>> quantize(torch.tensor([[0.5, -2.54]]))[0].tolist()
    [[25.0, -127.0]]
    """
    largest = vectors.abs().amax(dim=-1, keepdim=True)
    scales = largest.clamp_(min=1e-30) / 127  # for a vector of zeros any scale is right
    return (vectors / scales).round_(), scales


def int8_linear(
    vectors: Float[Tensor, "row inputs"], weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, "outputs"] | None
) -> Float[Tensor, "row outputs"]:
    """The definition of a linear layer in int8: integers are multiplied and summed exactly, then scaled.

    Rows of the weight are quantized like the vectors, so each output has a scale, too.
    """
    integers, scales = quantize(vectors)
    weights, weight_scales = quantize(weight)
    exact = (integers.double() @ weights.double().T).float()
    return exact * scales * weight_scales.T + (0 if bias is None else bias)


class PackedLinear(nn.Module):
    """A linear layer with packed weights; `weight` stays that of the original layer."""

    def __init__(self, weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, "outputs"] | None):
        super().__init__()
        self.weight = weight.detach()
        self.bias = None if bias is None else bias.detach()
        self.outputs = weight.size(0)

    def forward(self, vectors: Float[Tensor, "... inputs"]) -> Float[Tensor, "... outputs"]:
        """Compute W x + b for each vector."""
        return self.multiply_rows(vectors.reshape(-1, vectors.size(-1))).view(*vectors.shape[:-1], self.outputs)

    def multiply_rows(self, vectors: Float[Tensor, "row inputs"]) -> Float[Tensor, "row outputs"]:
        """Compute W x + b for a matrix of row vectors."""
        raise NotImplementedError


class PackedLinearFloat32(PackedLinear):
    """Float32 weights in the packed order of oneDNN; if oneDNN is not available, in the original order."""

    usual_rows = 1
    """The usual batch size, for which oneDNN optimizes the order."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        super().__init__(weight, bias)
        self.matrix, self.is_packed = self.weight.contiguous(), _onednn_supports(weight.dtype)
        if self.is_packed:
            self.matrix = torch.ops.mkldnn._reorder_linear_weight(self.matrix, self.usual_rows)

    def multiply_rows(self, vectors: Float[Tensor, "row inputs"]) -> Float[Tensor, "row outputs"]:
        """Multiply with oneDNN if the weight is packed."""
        if not self.is_packed:
            return functional.linear(vectors, self.matrix, self.bias)
        return torch.ops.mkldnn._linear_pointwise(vectors, self.matrix, self.bias, "none", [], "")


def _onednn_supports(dtype: torch.dtype) -> bool:
    """Whether torch was built with oneDNN, and this processor has the instructions for this type."""
    if not torch.backends.mkldnn.is_available():
        return False
    return dtype == torch.float32 or torch.ops.mkldnn._is_mkldnn_bf16_supported()


class PackedLinearLargeBatch(PackedLinearFloat32):
    """Float32 weights packed for large batches."""

    usual_rows = 2048


class PackedLinearBfloat16(PackedLinearFloat32):
    """Weights and vectors rounded to bf16; their products are summed in float32."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        super().__init__(weight.bfloat16(), None if bias is None else bias.bfloat16())
        self.weight = weight.detach()

    def multiply_rows(self, vectors: Float[Tensor, "row inputs"]) -> Float[Tensor, "row outputs"]:
        """By oneDNN."""
        return super().multiply_rows(vectors.bfloat16()).float()


class PackedLinearBfloat16LargeBatch(PackedLinearBfloat16):
    """The bf16 linear layer for large batches: outputs stay rounded to bf16, as with autocast in torch."""

    usual_rows = 2048

    def multiply_rows(self, vectors: Float[Tensor, "row inputs"]) -> Float[Tensor, "row outputs"]:
        """Multiply with oneDNN in bf16."""
        return PackedLinearFloat32.multiply_rows(self, vectors.bfloat16())


class PackedLinearFourBit(PackedLinearBfloat16):
    """Weights of four bits; vectors, steps and minima are rounded to bf16. It is fast for a few rows.

    Its definition is the bf16 linear layer, whose matrix more rows are multiplied with.
    """

    max_rows = 8
    """With more rows the bf16 matrix is faster."""

    def __init__(self, weight: Tensor, bias: Tensor | None, parts: FourBitWeight):
        super().__init__(weight, bias)
        self.integers = torch.ops.aten._convert_weight_to_int4pack_for_cpu(parts.integers, 1)
        # The operator computes (integer - 8) x step + zero.
        self.steps_and_zeros = torch.stack([parts.steps, parts.minima + 8 * parts.steps], dim=-1)
        self.steps_and_zeros = self.steps_and_zeros.transpose(0, 1).bfloat16().contiguous()

    def multiply_rows(self, vectors: Float[Tensor, "row inputs"]) -> Float[Tensor, "row outputs"]:
        """Multiply a few rows with the integers, more rows with the bf16 matrix."""
        if vectors.size(0) > self.max_rows:
            return super().multiply_rows(vectors)
        multiply = torch.ops.aten._weight_int4pack_mm_for_cpu
        product = multiply(vectors.bfloat16(), self.integers, BLOCK, self.steps_and_zeros).float()
        return product if self.bias is None else product + self.bias


def has_fast_four_bit() -> bool:
    """Whether torch has an operator for weights of four bits, with fast instructions of this processor."""
    return (
        hasattr(torch.ops.aten, "_weight_int4pack_mm_for_cpu")
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and _onednn_supports(torch.bfloat16)
    )


def has_four_bit_weights(model: nn.Module) -> bool:
    """Whether a linear layer of a model has weights of four bits, which are fast on this processor."""
    layers = (each.weight for each in model.modules() if isinstance(each, nn.Linear))
    return has_fast_four_bit() and any(
        _is_large(weight) and find_four_bit_weight(weight[:1]) is not None for weight in layers
    )


class PackedLinearInt8(PackedLinear):
    """`int8_linear` with weights that are quantized once, and an integer matmul."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        super().__init__(weight, bias)
        integers, scales = quantize(self.weight.float())
        self.weight_scales = scales.flatten()
        self.matmul = _fastest_int_matmul(integers)

    def multiply_rows(self, vectors: Float[Tensor, "row inputs"]) -> Float[Tensor, "row outputs"]:
        """Quantize, multiply, scale."""
        integers, scales = quantize(vectors)
        scaled = self.matmul(integers).mul_(scales).mul_(self.weight_scales)
        return scaled if self.bias is None else scaled.add_(self.bias)


IntMatmul = Callable[[Tensor], Tensor]
"""Integers from -127 to 127 (row, inputs), as float32 -> their exact product with a weight, as float32."""


def _fastest_int_matmul(weights: Float[Tensor, "outputs inputs"]) -> IntMatmul:
    """Return the fastest exact integer matmul of this processor."""
    return (_by_fbgemm if _fbgemm_is_exact() else _by_int_mm)(weights)


def _by_fbgemm(weights: Float[Tensor, "outputs inputs"]) -> IntMatmul:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces the removal of quantized tensors; then `_int_mm` is used
        matrix = torch._make_per_tensor_quantized_tensor(weights.to(torch.int8), 1.0, 0)
        packed = torch.ops.quantized.linear_prepack(matrix, None)
    # FBGEMM multiplies unsigned inputs, so the operator adds 128 to them and subtracts its effect from the result.
    return lambda inputs: torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(inputs, 1.0, 128, packed)


def _by_int_mm(weights: Float[Tensor, "outputs inputs"]) -> IntMatmul:
    matrix = weights.to(torch.int8).T
    return lambda inputs: torch._int_mm(inputs.to(torch.int8), matrix).float()


@functools.cache
def _fbgemm_is_exact() -> bool:
    """Whether FBGEMM is exact here: without VNNI it sums pairs of products in 16 bits, which can overflow."""
    extremes = torch.full((1, 64), 127.0)
    try:
        sums = torch.cat([_by_fbgemm(extremes)(extremes), _by_fbgemm(extremes)(-extremes)])
    except (AttributeError, RuntimeError):  # torch without FBGEMM
        return False
    return sums.flatten().tolist() == [64 * 127.0**2, -64 * 127.0**2]


Packer = Callable[[Tensor, Tensor | None], PackedLinear | None]
"""(weight, bias) -> a packed layer; None if packing does not make the layer faster."""


def _is_large(weight: Tensor) -> bool:
    return weight.numel() >= MIN_PACKED_SIZE


def _pack_if_large(weight: Tensor, bias: Tensor | None) -> PackedLinear | None:
    return PackedLinearFloat32(weight, bias) if _is_large(weight) else None


def _pack_bf16(weight: Tensor, bias: Tensor | None) -> PackedLinear:
    """In four bits if the weights have 16 values in each block, and the operator has a form for these sizes."""
    if _is_large(weight) and len(weight) % OUTPUTS_MULTIPLE == 0 and has_fast_four_bit():
        parts = find_four_bit_weight(weight)
        if parts is not None:
            return PackedLinearFourBit(weight, bias, parts)
    return PackedLinearBfloat16(weight, bias)


PACKERS: dict[str, tuple[Packer, Packer]] = {  # (for the layers, for the head)
    "float32": (_pack_if_large, _pack_if_large),
    "bf16": (_pack_bf16, _pack_if_large),
    "int8": (PackedLinearInt8, PackedLinearInt8),
}


def make_packed_model(model: LanguageModel, precision: str) -> LanguageModel:
    """Return a copy with packed linear layers and head in this precision; all other modules are shared.

    The packed weights are a copy of the current ones: after further training only the shared modules are up to date.
    """
    pack_layer, pack_head = PACKERS[precision]
    packed_model = _with_packed_layers(model, pack_layer)
    optimized_model = copy.copy(model)
    optimized_model._modules = {**packed_model._modules, "head": _with_packed_layers(model.head, pack_head)}
    return optimized_model


LARGE_BATCH_PACKERS: dict[str, Packer] = {"float32": PackedLinearLargeBatch, "bf16": PackedLinearBfloat16LargeBatch}


def pack_for_large_batches(model: nn.Module, precision: str = "float32") -> nn.Module:
    """Return a copy of an encoder-only model with linear layers packed for large batches; on a GPU the model itself.

    The bf16 copy must be called under `torch.autocast`.
    """
    return _with_packed_layers(model, LARGE_BATCH_PACKERS[precision]) if device_of(model).type == "cpu" else model


def _with_packed_layers(module: nn.Module, pack: Packer) -> nn.Module:
    """Return a copy with packed linear layers; the module itself if it contains none."""
    if isinstance(module, nn.Linear):
        return pack(module.weight, module.bias) or module
    if isinstance(module, TiedHead):
        return pack(module.table.weight, None) or module
    children = {name: _with_packed_layers(child, pack) for name, child in module.named_children()}
    if all(children[name] is child for name, child in module.named_children()):
        return module
    optimized_model = copy.copy(module)
    optimized_model._modules = {name: children.get(name, child) for name, child in module._modules.items()}
    return optimized_model
