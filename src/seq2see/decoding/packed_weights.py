"""A twin of a model whose matrix products are prepacked for this CPU: faster decoding where there is no compiler, and
faster reading of many texts or images.

One token at a time, decoding spends its time reading weights. oneDNN reads them faster in an order of its own
(`PackedLinearFloat32`), half of the bytes in bf16 (`PackedLinearBfloat16`), and a quarter in int8 (`PackedLinearInt8`). Norms,
attention and softmax stay float32, and so does the head of a bf16 twin: rounded to bf16, the scores of
many tokens would be equal.
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

from seq2see.core.devices import device_of
from seq2see.models.heads import TiedHead
from seq2see.models.language_model import LanguageModel

MIN_PACKED_SIZE = 1 << 20
"""Float32 matrices with fewer numbers than this are read as fast as they are."""


def quantize(vectors: Float[Tensor, "... width"]) -> tuple[Float[Tensor, "... width"], Float[Tensor, "... 1"]]:
    """Each vector as whole numbers from -127 to 127 times a scale of its own.

    A token's vector has its scale to itself, so what becomes of it never depends on its neighbors.

    >>> quantize(torch.tensor([[0.5, -2.54]]))[0].tolist()
    [[25.0, -127.0]]
    """
    largest = vectors.abs().amax(dim=-1, keepdim=True)
    scales = largest.clamp_(min=1e-30) / 127  # a vector of zeros has any scale
    return (vectors / scales).round_(), scales


def int8_linear(
    vectors: Float[Tensor, "row inputs"], weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, "outputs"] | None
) -> Float[Tensor, "row outputs"]:
    """The definition: whole numbers are multiplied and summed exactly, then scaled.

    Rows of the weight are quantized like the vectors, so each output has a scale too.
    """
    numbers, scales = quantize(vectors)
    weights, weight_scales = quantize(weight)
    exact = (numbers.double() @ weights.double().T).float()
    return exact * scales * weight_scales.T + (0 if bias is None else bias)


class PackedLinear(nn.Module):
    """A linear layer as a decoder needs it; `weight` is still the layer's own, for whoever asks its size."""

    def __init__(self, weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, "outputs"] | None):
        super().__init__()
        self.weight = weight.detach()
        self.bias = None if bias is None else bias.detach()
        self.outputs = weight.size(0)

    def forward(self, vectors: Float[Tensor, "... inputs"]) -> Float[Tensor, "... outputs"]:
        """W x + b for each vector."""
        return self.multiply_rows(vectors.reshape(-1, vectors.size(-1))).view(*vectors.shape[:-1], self.outputs)

    def multiply_rows(self, vectors: Float[Tensor, "row inputs"]) -> Float[Tensor, "row outputs"]:
        """The same for rows of vectors."""
        raise NotImplementedError


class PackedLinearFloat32(PackedLinear):
    """The very same numbers in the order in which oneDNN likes to read them, if there is a oneDNN."""

    usual_rows = 1
    """Vectors that are mostly multiplied at one time."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        super().__init__(weight, bias)
        self.matrix, self.is_packed = self.weight.contiguous(), _onednn_reads(weight.dtype)
        if self.is_packed:
            self.matrix = torch.ops.mkldnn._reorder_linear_weight(self.matrix, self.usual_rows)

    def multiply_rows(self, vectors: Float[Tensor, "row inputs"]) -> Float[Tensor, "row outputs"]:
        """By oneDNN."""
        if not self.is_packed:
            return functional.linear(vectors, self.matrix, self.bias)
        return torch.ops.mkldnn._linear_pointwise(vectors, self.matrix, self.bias, "none", [], "")


def _onednn_reads(dtype: torch.dtype) -> bool:
    """Whether torch was built with oneDNN, and this processor has its instructions for this type."""
    if not torch.backends.mkldnn.is_available():
        return False
    return dtype == torch.float32 or torch.ops.mkldnn._is_mkldnn_bf16_supported()


class PackedLinearLargeBatch(PackedLinearFloat32):
    """The same for whoever reads many texts at a time; the bias is added by the product itself."""

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
    """The same for many texts at a time, and what comes out stays rounded, as where torch casts by itself."""

    usual_rows = 2048

    def multiply_rows(self, vectors: Float[Tensor, "row inputs"]) -> Float[Tensor, "row outputs"]:
        """By oneDNN."""
        return PackedLinearFloat32.multiply_rows(self, vectors.bfloat16())


class PackedLinearInt8(PackedLinear):
    """`int8_linear`, with weights quantized once and whole numbers multiplied as such."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        super().__init__(weight, bias)
        numbers, scales = quantize(self.weight.float())
        self.weight_scales = scales.flatten()
        self.matmul = _fastest_int_matmul(numbers)

    def multiply_rows(self, vectors: Float[Tensor, "row inputs"]) -> Float[Tensor, "row outputs"]:
        """Quantize, multiply, scale."""
        numbers, scales = quantize(vectors)
        scaled = self.matmul(numbers).mul_(scales).mul_(self.weight_scales)
        return scaled if self.bias is None else scaled.add_(self.bias)


IntMatmul = Callable[[Tensor], Tensor]
"""Whole numbers from -127 to 127 (row, inputs), as float32 -> their products with a matrix, exact, as float32."""


def _fastest_int_matmul(weights: Float[Tensor, "outputs inputs"]) -> IntMatmul:
    """The fastest exact product that this processor has."""
    return (_by_fbgemm if _fbgemm_is_exact() else _by_int_mm)(weights)


def _by_fbgemm(weights: Float[Tensor, "outputs inputs"]) -> IntMatmul:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces that quantized tensors will go; then there is `_int_mm`
        matrix = torch._make_per_tensor_quantized_tensor(weights.to(torch.int8), 1.0, 0)
        packed = torch.ops.quantized.linear_prepack(matrix, None)
    # It multiplies unsigned numbers, so 128 is added and taken away again inside.
    return lambda numbers: torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(numbers, 1.0, 128, packed)


def _by_int_mm(weights: Float[Tensor, "outputs inputs"]) -> IntMatmul:
    matrix = weights.to(torch.int8).T
    return lambda numbers: torch._int_mm(numbers.to(torch.int8), matrix).float()


@functools.cache
def _fbgemm_is_exact() -> bool:
    """Processors without an instruction for it sum pairs of products in 16 bits, which can overflow."""
    extremes = torch.full((1, 64), 127.0)
    try:
        product = torch.cat([_by_fbgemm(extremes)(extremes), _by_fbgemm(extremes)(-extremes)])
    except (AttributeError, RuntimeError):  # a torch without it
        return False
    return product.flatten().tolist() == [64 * 127.0**2, -64 * 127.0**2]


Packer = Callable[[Tensor, Tensor | None], PackedLinear | None]
"""(weight, bias) -> the product packed; None if the layer is better left as it is."""


def _pack_if_large(weight: Tensor, bias: Tensor | None) -> PackedLinear | None:
    return PackedLinearFloat32(weight, bias) if weight.numel() >= MIN_PACKED_SIZE else None


PACKERS: dict[str, tuple[Packer, Packer]] = {  # of the layers, of the head
    "float32": (_pack_if_large, _pack_if_large),
    "bf16": (PackedLinearBfloat16, _pack_if_large),
    "int8": (PackedLinearInt8, PackedLinearInt8),
}


def make_packed_model(model: LanguageModel, precision: str) -> LanguageModel:
    """A model whose linear layers and head are packed in this precision; the rest it shares with the original.

    It is the model as it is now: of what the model learns later, the twin knows only a part.
    """
    pack_layer, pack_head = PACKERS[precision]
    swapped = _with_packed_layers(model, pack_layer)
    optimized_model = copy.copy(model)
    optimized_model._modules = {**swapped._modules, "head": _with_packed_layers(model.head, pack_head)}
    return optimized_model


LARGE_BATCH_PACKERS: dict[str, Packer] = {"float32": PackedLinearLargeBatch, "bf16": PackedLinearBfloat16LargeBatch}


def pack_for_large_batches(model: nn.Module, precision: str = "float32") -> nn.Module:
    """A model that only reads, with its products packed for many vectors at a time; on a GPU the model itself.

    In bf16 it is to be called where torch casts (`autocast`).
    """
    return _with_packed_layers(model, LARGE_BATCH_PACKERS[precision]) if device_of(model).type == "cpu" else model


def _with_packed_layers(module: nn.Module, pack: Packer) -> nn.Module:
    """A copy with the linear layers inside replaced; the module itself if there are none."""
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
