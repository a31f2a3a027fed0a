"""The mapping between the weight names of four ViT layouts and the state-dict keys of seq2see.

Hugging Face's and timm's layouts have the axes of PyTorch, Google's two layouts those of JAX: linear layers are
(in, out), and heads have an axis of their own. In all of them the class token has a position embedding, in seq2see it
has none: the sum of two learned vectors is one learned vector. `vit_weights.py` converts in both directions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from seq2see.interop.checkpoint_files import WeightMapping
from seq2see.models.image_settings import ImageSource
from seq2see.models.settings import ImageLabel, ModelSettings
from seq2see.models.transformer import TransformerSettings

CLASS, DISTILLATION, POSITIONS, HEADS = (
    "class token",
    "distillation token",
    "all positions",
    ("first head", "second head"),
)
"""Keys of tensors without a counterpart of their own in seq2see."""


@dataclass(frozen=True)
class PermutedMapping(WeightMapping):
    """A mapping whose external tensors have another order or number of axes."""

    permutation: tuple[int, ...] = ()
    """The external axes in the order of seq2see; empty: unchanged."""
    own_shape: tuple[int, ...] = ()
    """The shape of each chunk of the weight of seq2see."""

    def from_external(self, tensors: list[Tensor]) -> Tensor:
        """The weight of seq2see, from the external tensors."""
        return torch.cat(
            [tensor.permute(*self._permutation).reshape(self.own_shape) for tensor in tensors]
        ).contiguous()

    def to_external(self, tensor: Tensor) -> dict[str, Tensor]:
        """The external tensors by name, from the weight of seq2see."""
        shape, inverse = self.shapes[0], sorted(range(len(self._permutation)), key=self._permutation.__getitem__)
        chunks = tensor.split(self.own_shape[0])
        permuted = (chunk.reshape([shape[axis] for axis in self._permutation]).permute(*inverse) for chunk in chunks)
        return {name: chunk.contiguous() for name, chunk in zip(self.external, permuted, strict=True)}

    @property
    def _permutation(self) -> tuple[int, ...]:
        return self.permutation or tuple(range(len(self.shapes[0])))


@dataclass(frozen=True)
class LayoutNames:
    """The weight names of one layout; the names inside a block are relative to the block's name."""

    patch_embedding: str
    tokens: tuple[str, str]
    positions: str
    block: str
    qkv: tuple[str, ...]
    output: str
    fc1: str
    fc2: str
    norms: tuple[str, str]
    final_norm: str
    heads: tuple[str, ...]
    pre_logits: str = "pre_logits"
    map_head: str = "MAPHead_0/"
    suffixes: dict[str, str] = field(default_factory=lambda: {"weight": ".weight", "bias": ".bias", "scale": ".weight"})
    """The suffixes of the weights of a linear layer and of a norm."""
    transpose: bool = False
    """Whether the axes are those of JAX."""


def hugging_face_names(base_model_prefix: str, distilled: bool) -> LayoutNames:
    """ViT, and DeiT with a second token; an encoder without a head has an empty `base_model_prefix`."""
    prefix = f"{base_model_prefix}embeddings."
    return LayoutNames(
        patch_embedding=f"{prefix}patch_embeddings.projection",
        tokens=(f"{prefix}cls_token", f"{prefix}distillation_token"),
        positions=f"{prefix}position_embeddings",
        block=f"{base_model_prefix}encoder.layer.{{}}.",
        qkv=tuple(f"attention.attention.{name}" for name in ("query", "key", "value")),
        output="attention.output.dense",
        fc1="intermediate.dense",
        fc2="output.dense",
        norms=("layernorm_before", "layernorm_after"),
        final_norm=f"{base_model_prefix}layernorm",
        heads=("cls_classifier", "distillation_classifier") if distilled else ("classifier",),
    )


TIMM = LayoutNames(
    patch_embedding="patch_embed.proj",
    tokens=("cls_token", "dist_token"),
    positions="pos_embed",
    block="blocks.{}.",
    qkv=("attn.qkv",),
    output="attn.proj",
    fc1="mlp.fc1",
    fc2="mlp.fc2",
    norms=("norm1", "norm2"),
    final_norm="norm",
    heads=("head", "head_dist"),
)


def google_names(parts: tuple[str, str, str, str], positions: str) -> LayoutNames:
    """Google's two layouts: the older one numbers the layers of a block together, the newer one by kind."""
    first, attention, second, mlp = parts
    return LayoutNames(
        patch_embedding="embedding",
        tokens=("cls", ""),
        positions=positions,
        block="Transformer/encoderblock_{}/",
        qkv=tuple(f"{attention}/{name}" for name in ("query", "key", "value")),
        output=f"{attention}/out",
        fc1=f"{mlp}/Dense_0",
        fc2=f"{mlp}/Dense_1",
        norms=(first, second),
        final_norm="Transformer/encoder_norm",
        heads=("head",),
        suffixes={"weight": "/kernel", "bias": "/bias", "scale": "/scale"},
        transpose=True,
    )


VISION_TRANSFORMER = google_names(
    ("LayerNorm_0", "MultiHeadDotProductAttention_1", "LayerNorm_2", "MlpBlock_3"),
    "Transformer/posembed_input/pos_embedding",
)
BIG_VISION = google_names(
    ("LayerNorm_0", "MultiHeadDotProductAttention_0", "LayerNorm_1", "MlpBlock_0"), "pos_embedding"
)


def vit_mappings(
    names: LayoutNames, settings: ModelSettings, positions: int, num_labels: int
) -> Iterator[WeightMapping]:
    """All weights of a ViT with `positions` positions, and with `num_labels` labels if it has a head."""
    image, stack, target = _vit_settings(settings)
    width, size = stack.width, image.embedding.size
    in_features = image.channels * size * size
    shape = (size, size, image.channels, width) if names.transpose else (width, image.channels, size, size)
    weight, bias = (names.patch_embedding + names.suffixes[part] for part in ("weight", "bias"))
    permutation = (3, 2, 0, 1) if names.transpose else ()
    yield PermutedMapping(
        "source.patches.projection.weight", (weight,), (shape,), permutation=permutation, own_shape=(width, in_features)
    )
    yield WeightMapping("source.patches.projection.bias", (bias,), ((width,),))
    for key, external in list(zip((CLASS, DISTILLATION), names.tokens, strict=True))[: settings.prefix_tokens]:
        yield PermutedMapping(key, (external,), ((1, 1, width),), own_shape=(1, width))
    yield PermutedMapping(POSITIONS, (names.positions,), ((1, positions, width),), own_shape=(positions, width))
    for number in range(stack.depth):
        yield from _block(names, stack, f"encoder.blocks.{number}", names.block.format(number))
    yield from _norm(names, "encoder.final_norm", names.final_norm, width)
    if not isinstance(target, ImageLabel):
        return
    if target.pooling == "pre-logits":
        yield from _linear(names, "pooling.dense", (names.pre_logits,), width, width)
    if target.pooling == "map":
        yield from _attention_pooling(names, stack)
    for key, external in list(zip(HEADS, names.heads, strict=False))[: 2 if target.pooling == "distilled" else 1]:
        yield from _linear(names, key, (external,), num_labels, width)


def _vit_settings(settings: ModelSettings) -> tuple[ImageSource, TransformerSettings, object]:
    assert isinstance(settings.source, ImageSource)
    assert isinstance(settings.encoder, TransformerSettings)
    return settings.source, settings.encoder, settings.target


def _block(names: LayoutNames, stack: TransformerSettings, key: str, external: str) -> Iterator[WeightMapping]:
    width = stack.width
    qkv = tuple(external + name for name in names.qkv)
    yield from _norm(names, f"{key}.self_attention_residual.norm", external + names.norms[0], width)
    yield from _norm(names, f"{key}.feed_forward_residual.norm", external + names.norms[1], width)
    yield from _head_projections(names, f"{key}.self_attention.qkv_proj", qkv, stack)
    yield from _output_projection(names, f"{key}.self_attention.out_proj", external + names.output, stack)
    yield from _linear(names, f"{key}.feed_forward.up_proj", (external + names.fc1,), stack.feed_forward_width, width)
    yield from _linear(names, f"{key}.feed_forward.down_proj", (external + names.fc2,), width, stack.feed_forward_width)


def _attention_pooling(names: LayoutNames, stack: TransformerSettings) -> Iterator[WeightMapping]:
    """Attention pooling with a learned query (big_vision's MAP head)."""
    width, prefix = stack.width, names.map_head
    attention = f"{prefix}MultiHeadDotProductAttention_0"
    yield PermutedMapping("pooling.query", (f"{prefix}probe",), ((1, 1, width),), own_shape=(1, width))
    yield from _head_projections(names, "pooling.attention.q_proj", (f"{attention}/query",), stack)
    yield from _head_projections(names, "pooling.attention.kv_proj", (f"{attention}/key", f"{attention}/value"), stack)
    yield from _output_projection(names, "pooling.attention.out_proj", f"{attention}/out", stack)
    yield from _norm(names, "pooling.norm", f"{prefix}LayerNorm_0", width)
    fc1, fc2, hidden = f"{prefix}MlpBlock_0/Dense_0", f"{prefix}MlpBlock_0/Dense_1", stack.feed_forward_width
    yield from _linear(names, "pooling.feed_forward.up_proj", (fc1,), hidden, width)
    yield from _linear(names, "pooling.feed_forward.down_proj", (fc2,), width, hidden)


def _linear(
    names: LayoutNames, key: str, external: tuple[str, ...], out_features: int, in_features: int
) -> Iterator[WeightMapping]:
    """A linear layer."""
    weights, biases = (tuple(name + names.suffixes[part] for name in external) for part in ("weight", "bias"))
    shape = (in_features, out_features) if names.transpose else (out_features, in_features)
    yield WeightMapping(f"{key}.weight", weights, (shape,) * len(external), transpose=names.transpose)
    yield WeightMapping(f"{key}.bias", biases, ((out_features,),) * len(external))


def _head_projections(
    names: LayoutNames, key: str, external: tuple[str, ...], stack: TransformerSettings
) -> Iterator[WeightMapping]:
    """The projections to heads: several external layers that are concatenated, or one for q, k and v together."""
    width = stack.width
    if not names.transpose:
        yield from _linear(names, key, external, 3 * width // len(external), width)
        return
    weights, biases = (tuple(name + names.suffixes[part] for name in external) for part in ("weight", "bias"))
    heads, head_dim, count = stack.heads, width // stack.heads, len(external)
    shapes = ((width, heads, head_dim),) * count
    yield PermutedMapping(f"{key}.weight", weights, shapes, permutation=(1, 2, 0), own_shape=(width, width))
    yield PermutedMapping(f"{key}.bias", biases, ((heads, head_dim),) * count, own_shape=(width,))


def _output_projection(
    names: LayoutNames, key: str, external: str, stack: TransformerSettings
) -> Iterator[WeightMapping]:
    """The output projection of attention."""
    width = stack.width
    if not names.transpose:
        yield from _linear(names, key, (external,), width, width)
        return
    shape = (stack.heads, width // stack.heads, width)
    weight, bias = (external + names.suffixes[part] for part in ("weight", "bias"))
    yield PermutedMapping(f"{key}.weight", (weight,), (shape,), permutation=(2, 0, 1), own_shape=(width, width))
    yield WeightMapping(f"{key}.bias", (bias,), ((width,),))


def _norm(names: LayoutNames, key: str, external: str, width: int) -> Iterator[WeightMapping]:
    yield WeightMapping(f"{key}.weight", (external + names.suffixes["scale"],), ((width,),))
    yield WeightMapping(f"{key}.bias", (external + names.suffixes["bias"],), ((width,),))
