"""Where the weights of ViT lie in four layouts, and where the same weights lie in ours.

Hugging Face's and timm's have the axes of PyTorch, Google's two those of JAX: products are (into, out), heads have an
axis of their own. In all of them the class token has a position of its own, which ours has not: what is added to a
learned vector may as well be learned with it. `vit_weights.py` has the way there and back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from seq2see.interop.causal_layouts import Place
from seq2see.models.picture_settings import Picture
from seq2see.models.settings import ModelSettings, PictureLabel
from seq2see.models.transformer import TransformerSettings

CLASS, TAUGHT, POSITIONS, HEADS = "class token", "taught token", "all positions", ("first head", "second head")
"""What has no counterpart of its own in ours."""


@dataclass(frozen=True)
class Shaped(Place):
    """A place whose axes lie in another order, or are more."""

    order: tuple[int, ...] = ()
    """Their axes in our order; nothing: as they are."""
    form: tuple[int, ...] = ()
    """The shape of each part of ours."""

    def join(self, tensors: list[Tensor]) -> Tensor:
        """Ours, of theirs."""
        return torch.cat([tensor.permute(*self._order).reshape(self.form) for tensor in tensors]).contiguous()

    def part(self, tensor: Tensor) -> dict[str, Tensor]:
        """Theirs, of ours."""
        shape, back = self.shapes[0], sorted(range(len(self._order)), key=self._order.__getitem__)
        pieces = tensor.split(self.form[0])
        turned = (piece.reshape([shape[axis] for axis in self._order]).permute(*back) for piece in pieces)
        return {name: piece.contiguous() for name, piece in zip(self.theirs, turned, strict=True)}

    @property
    def _order(self) -> tuple[int, ...]:
        return self.order or tuple(range(len(self.shapes[0])))


@dataclass(frozen=True)
class Names:
    """What one layout calls its weights; those of a block are told less the block's own name."""

    patches: str
    tokens: tuple[str, str]
    positions: str
    block: str
    look: tuple[str, ...]
    output: str
    widen: str
    narrow: str
    norms: tuple[str, str]
    ending: str
    heads: tuple[str, ...]
    sum_up: str = "pre_logits"
    pool: str = "MAPHead_0/"
    suffixes: dict[str, str] = field(default_factory=lambda: {"weight": ".weight", "bias": ".bias", "scale": ".weight"})
    """How the parts of a product and of a norm are called."""
    turned: bool = False
    """Whether the axes are JAX's."""


def hugging_face(body: str, taught: bool) -> Names:
    """ViT, and DeiT with a second token; the weights of a body alone have no `body` before them."""
    inside = f"{body}embeddings."
    return Names(
        patches=f"{inside}patch_embeddings.projection",
        tokens=(f"{inside}cls_token", f"{inside}distillation_token"),
        positions=f"{inside}position_embeddings",
        block=f"{body}encoder.layer.{{}}.",
        look=tuple(f"attention.attention.{name}" for name in ("query", "key", "value")),
        output="attention.output.dense",
        widen="intermediate.dense",
        narrow="output.dense",
        norms=("layernorm_before", "layernorm_after"),
        ending=f"{body}layernorm",
        heads=("cls_classifier", "distillation_classifier") if taught else ("classifier",),
    )


TIMM = Names(
    patches="patch_embed.proj",
    tokens=("cls_token", "dist_token"),
    positions="pos_embed",
    block="blocks.{}.",
    look=("attn.qkv",),
    output="attn.proj",
    widen="mlp.fc1",
    narrow="mlp.fc2",
    norms=("norm1", "norm2"),
    ending="norm",
    heads=("head", "head_dist"),
)


def google(parts: tuple[str, str, str, str], positions: str) -> Names:
    """Both of Google's; in the older one, parts of a block are counted through, in the newer each kind by itself."""
    first, attention, second, thinking = parts
    return Names(
        patches="embedding",
        tokens=("cls", ""),
        positions=positions,
        block="Transformer/encoderblock_{}/",
        look=tuple(f"{attention}/{name}" for name in ("query", "key", "value")),
        output=f"{attention}/out",
        widen=f"{thinking}/Dense_0",
        narrow=f"{thinking}/Dense_1",
        norms=(first, second),
        ending="Transformer/encoder_norm",
        heads=("head",),
        suffixes={"weight": "/kernel", "bias": "/bias", "scale": "/scale"},
        turned=True,
    )


VISION_TRANSFORMER = google(
    ("LayerNorm_0", "MultiHeadDotProductAttention_1", "LayerNorm_2", "MlpBlock_3"),
    "Transformer/posembed_input/pos_embedding",
)
BIG_VISION = google(("LayerNorm_0", "MultiHeadDotProductAttention_0", "LayerNorm_1", "MlpBlock_0"), "pos_embedding")


def vit_places(names: Names, settings: ModelSettings, positions: int, answers: int) -> Iterator[Place]:
    """All weights of a ViT with so many positions, and so many labels if it has any."""
    picture, stack, target = _parts(settings)
    width, size = stack.width, picture.frontend.size
    into = picture.channels * size * size
    shape = (size, size, picture.channels, width) if names.turned else (width, picture.channels, size, size)
    weight, bias = (names.patches + names.suffixes[part] for part in ("weight", "bias"))
    order = (3, 2, 0, 1) if names.turned else ()
    yield Shaped("source.patches.project.weight", (weight,), (shape,), order=order, form=(width, into))
    yield Place("source.patches.project.bias", (bias,), ((width,),))
    for ours, theirs in list(zip((CLASS, TAUGHT), names.tokens, strict=True))[: settings.in_front]:
        yield Shaped(ours, (theirs,), ((1, 1, width),), form=(1, width))
    yield Shaped(POSITIONS, (names.positions,), ((1, positions, width),), form=(positions, width))
    for number in range(stack.depth):
        yield from _block(names, stack, f"encoder.blocks.{number}", names.block.format(number))
    yield from _norm(names, "encoder.ending", names.ending, width)
    if not isinstance(target, PictureLabel):
        return
    if target.summary == "pre-logits":
        yield from _matrix(names, "pool.sum_up", (names.sum_up,), width, width)
    if target.summary == "attention":
        yield from _pool(names, stack)
    for ours, theirs in list(zip(HEADS, names.heads, strict=False))[: 2 if target.summary == "distilled" else 1]:
        yield from _matrix(names, ours, (theirs,), answers, width)


def _parts(settings: ModelSettings) -> tuple[Picture, TransformerSettings, object]:
    assert isinstance(settings.source, Picture)
    assert isinstance(settings.encoder, TransformerSettings)
    return settings.source, settings.encoder, settings.target


def _block(names: Names, stack: TransformerSettings, ours: str, theirs: str) -> Iterator[Place]:
    width = stack.width
    look = tuple(theirs + name for name in names.look)
    yield from _norm(names, f"{ours}.around_look.norm", theirs + names.norms[0], width)
    yield from _norm(names, f"{ours}.around_think.norm", theirs + names.norms[1], width)
    yield from _heads(names, f"{ours}.look.queries_keys_values", look, stack)
    yield from _out(names, f"{ours}.look.output", theirs + names.output, stack)
    yield from _matrix(names, f"{ours}.think.widen", (theirs + names.widen,), stack.hidden, width)
    yield from _matrix(names, f"{ours}.think.narrow", (theirs + names.narrow,), width, stack.hidden)


def _pool(names: Names, stack: TransformerSettings) -> Iterator[Place]:
    """The question that looks at all patches (big_vision's MAP head)."""
    width, inside = stack.width, names.pool
    attention = f"{inside}MultiHeadDotProductAttention_0"
    yield Shaped("pool.question", (f"{inside}probe",), ((1, 1, width),), form=(1, width))
    yield from _heads(names, "pool.look.queries", (f"{attention}/query",), stack)
    yield from _heads(names, "pool.look.keys_values", (f"{attention}/key", f"{attention}/value"), stack)
    yield from _out(names, "pool.look.output", f"{attention}/out", stack)
    yield from _norm(names, "pool.norm", f"{inside}LayerNorm_0", width)
    yield from _matrix(names, "pool.think.widen", (f"{inside}MlpBlock_0/Dense_0",), stack.hidden, width)
    yield from _matrix(names, "pool.think.narrow", (f"{inside}MlpBlock_0/Dense_1",), width, stack.hidden)


def _matrix(names: Names, ours: str, theirs: tuple[str, ...], out: int, into: int) -> Iterator[Place]:
    """A product with something added."""
    weights, biases = (tuple(name + names.suffixes[part] for name in theirs) for part in ("weight", "bias"))
    shape = (into, out) if names.turned else (out, into)
    yield Place(f"{ours}.weight", weights, (shape,) * len(theirs), turned=names.turned)
    yield Place(f"{ours}.bias", biases, ((out,),) * len(theirs))


def _heads(names: Names, ours: str, theirs: tuple[str, ...], stack: TransformerSettings) -> Iterator[Place]:
    """Products into heads: several of theirs below each other, or one that holds all three."""
    width = stack.width
    if not names.turned:
        yield from _matrix(names, ours, theirs, 3 * width // len(theirs), width)
        return
    weights, biases = (tuple(name + names.suffixes[part] for name in theirs) for part in ("weight", "bias"))
    heads, size, many = stack.heads, width // stack.heads, len(theirs)
    shapes = ((width, heads, size),) * many
    yield Shaped(f"{ours}.weight", weights, shapes, order=(1, 2, 0), form=(width, width))
    yield Shaped(f"{ours}.bias", biases, ((heads, size),) * many, form=(width,))


def _out(names: Names, ours: str, theirs: str, stack: TransformerSettings) -> Iterator[Place]:
    """The product that mixes what the heads found."""
    width = stack.width
    if not names.turned:
        yield from _matrix(names, ours, (theirs,), width, width)
        return
    shape = (stack.heads, width // stack.heads, width)
    weight, bias = (theirs + names.suffixes[part] for part in ("weight", "bias"))
    yield Shaped(f"{ours}.weight", (weight,), (shape,), order=(2, 0, 1), form=(width, width))
    yield Place(f"{ours}.bias", (bias,), ((width,),))


def _norm(names: Names, ours: str, theirs: str, width: int) -> Iterator[Place]:
    yield Place(f"{ours}.weight", (theirs + names.suffixes["scale"],), ((width,),))
    yield Place(f"{ours}.bias", (theirs + names.suffixes["bias"],), ((width,),))
