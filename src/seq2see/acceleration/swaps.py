"""The table of fast layers, and the functions that put them in place of the textbook's, from outside.

A swap replaces the class of a module by a subclass that computes the same with fewer or faster operations. Weights,
names and hooks of the module stay. Each swap names the definition that it must equal, the test that compares both, and
the benchmark that shows its gain. Which swaps apply is a function of device, precision and settings, and never of a
measured time. With `SEQ2SEE_PLAIN=1` in the environment, the textbook runs alone.

`describe` returns the table that `seq2see explain` prints: which layer of a model runs on what, and why.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import nn

from seq2see.acceleration.async_weight_grad import AsyncWeightGrads
from seq2see.acceleration.attention import FusedCrossAttention, FusedGroupedSelfAttention, FusedSelfAttention
from seq2see.acceleration.layers import (
    ChannelsLastConv2d,
    FastDropout,
    FastDropPath,
    FastVariationalDropout,
    FusedFeedForward,
    FusedGatedFeedForward,
    FusedGeluFeedForward,
    FusedGeluTanhFeedForward,
    FusedPostNorm,
    FusedPreNorm,
    FusedRotaryPositions,
    NativeCTCLoss,
    PrecomputedLayerNorm,
    PrecomputedRMSNorm,
    UnpaddedGPTDecoder,
    UnpaddedTransformerDecoder,
    UnpaddedTransformerEncoder,
    UnsynchronizedNgramEmbedding,
    has_kernel,
    link_residuals,
)
from seq2see.core.devices import plain_class
from seq2see.models.resnet_encoder import ConvolutionalStem, ResNet, ResNetStem


def plain_only() -> bool:
    """Whether everything is to be computed by the definitions."""
    return os.environ.get("SEQ2SEE_PLAIN", "") not in ("", "0")


@dataclass(frozen=True)
class Conditions:
    """What decides which swaps apply."""

    device: str
    """The type of the device: "cpu" or "cuda"."""
    training: bool = False
    """Whether the model is trained, and not only used."""
    precision: str = "float32"
    """The precision of training."""
    kernels: bool = False
    """Whether our own kernels may run: they are installed and not switched off."""
    compiled: bool = False
    """Whether blocks are compiled by torch.compile."""

    @property
    def bf16_on_gpu(self) -> bool:
        """Whether a model is trained in bf16 on a GPU."""
        return self.training and self.precision == "bf16" and self.device == "cuda"

    @property
    def fused_training(self) -> bool:
        """Whether our own kernels for bf16 training apply."""
        return self.bf16_on_gpu and self.kernels


@dataclass(frozen=True)
class Part:
    """A part of a training step that has a faster form but is no layer; `trainer.py` puts it in place."""

    name: str
    plain: str
    fast: str
    """What computes it, by the textbook and fast."""
    where: str
    """The conditions in words."""
    applies: Callable[[Conditions], bool]
    test: str
    """The test that compares the fast with the plain form."""
    benchmark: str
    """The benchmark that measures its gain."""
    needs: str = ""
    """The entry without which this one does not work."""


@dataclass(frozen=True)
class Swap:
    """One entry of the table: fast classes of one idea, each in place of the class that it names as `plain`."""

    name: str
    fast: tuple[type[nn.Module], ...]
    where: str
    """The conditions in words."""
    applies: Callable[[Conditions], bool]
    test: str
    """The test that compares the fast with the plain class."""
    benchmark: str
    """The benchmark that measures its gain."""
    supports: Callable[[nn.Module], bool] = lambda module: True
    """Whether a module of the plain class is supported."""
    needs: str = ""
    """The entry without which this one does not work."""

    @property
    def classes(self) -> dict[type[nn.Module], type[nn.Module]]:
        """The fast class of each plain class."""
        return {each.plain: each for each in self.fast}  # type: ignore[attr-defined]


SWAPS = (
    Swap(
        "fused-attention",
        (FusedSelfAttention, FusedGroupedSelfAttention, FusedCrossAttention),
        "everywhere",
        lambda conditions: True,
        "tests/layers/test_attention.py",
        "train_cpu.py, decode_cpu.py, train_gpu.py",
    ),
    Swap(
        "no-padding",
        (UnpaddedTransformerEncoder, UnpaddedGPTDecoder, UnpaddedTransformerDecoder),
        "everywhere; rows are unpadded on a CPU",
        lambda conditions: True,
        "tests/models/test_transformer.py",
        "train_cpu.py",
        needs="fused-attention",
    ),
    Swap(
        "rotary-positions",
        (FusedRotaryPositions,),
        "everywhere",
        lambda conditions: True,
        "tests/layers/test_relative_positions.py",
        "gpt2_gpu.py",
    ),
    Swap(
        "dropout",
        (FastDropout, FastVariationalDropout, FastDropPath),
        "training",
        lambda conditions: conditions.training,
        "tests/layers/test_dropout.py",
        "train_cpu.py",
    ),
    Swap(
        "gated-feed-forward",
        (FusedGatedFeedForward,),
        "training",
        lambda conditions: conditions.training,
        "tests/layers/test_feed_forward.py",
        "gpt2_gpu.py",
    ),
    Swap(
        "native-ctc",
        (NativeCTCLoss,),
        "a CPU; on a GPU, the recursion is part of the CUDA graph",
        lambda conditions: conditions.device == "cpu",
        "tests/layers/test_ctc.py",
        "speech.py",
    ),
    Swap(
        "channels-last",
        (ChannelsLastConv2d,),
        "convolutions of a ResNet on a GPU",
        lambda conditions: conditions.device == "cuda",
        "tests/acceleration/test_swaps.py",
        "images.py",
    ),
    Swap(
        "no-word-count",
        (UnsynchronizedNgramEmbedding,),
        "a GPU",
        lambda conditions: conditions.device == "cuda",
        "tests/acceleration/test_swaps.py",
        "texts.py",
    ),
    Swap(
        "fused-feed-forward",
        (FusedFeedForward, FusedGeluFeedForward, FusedGeluTanhFeedForward),
        "training in bf16 on a GPU",
        lambda conditions: conditions.fused_training,
        "tests/acceleration/test_fused_feed_forward.py",
        "train_gpu.py",
    ),
    Swap(
        "fused-residual",
        (FusedPostNorm, FusedPreNorm),
        "training in bf16 on a GPU; layer norm or RMS norm",
        lambda conditions: conditions.fused_training,
        "tests/acceleration/test_add_norm.py",
        "train_gpu.py",
        has_kernel,
    ),
    Swap(
        "precomputed-norm",
        (PrecomputedLayerNorm, PrecomputedRMSNorm),
        "training in bf16 on a GPU; the norms of a pre-norm stack",
        lambda conditions: conditions.fused_training,
        "tests/acceleration/test_add_norm.py",
        "train_gpu.py",
        has_kernel,
    ),
)
"""Every swap of layers, in the order in which they are made."""

PARTS = (
    Part(
        "short-attention",
        "torch's attention",
        "attention whose scores stay on the chip",
        "training in bf16 on a GPU; at most 128 positions",
        lambda conditions: conditions.fused_training,
        "tests/acceleration/test_short_attention.py",
        "train_gpu.py",
        needs="fused-attention",
    ),
    Part(
        "chunked-cross-entropy",
        "CrossEntropy",
        "ChunkedCrossEntropy",
        "training",
        lambda conditions: conditions.training,
        "tests/acceleration/test_chunked_cross_entropy.py",
        "train_cpu.py, gpt2_gpu.py",
    ),
    Part(
        "fused-cross-entropy",
        "CrossEntropy",
        "loss and gradient in two passes over the logits",
        "training on a GPU; vocabularies of more than 1,024 tokens",
        lambda conditions: conditions.training and conditions.kernels and conditions.device == "cuda",
        "tests/acceleration/test_fused_cross_entropy.py",
        "train_gpu.py",
        needs="chunked-cross-entropy",
    ),
    Part(
        "onednn-linear",
        "Linear",
        "linear layers by oneDNN",
        "training in float32 on a CPU",
        lambda conditions: (
            conditions.training
            and conditions.kernels
            and (conditions.device, conditions.precision) == ("cpu", "float32")
        ),
        "tests/acceleration/test_onednn_linear.py",
        "train_cpu.py",
    ),
    Part(
        "bf16-weights",
        "autocast, which casts a weight at every use",
        "one flat bf16 copy of all weights",
        "training in bf16 on a GPU",
        lambda conditions: conditions.bf16_on_gpu,
        "tests/acceleration/test_bf16_weights.py",
        "train_gpu.py",
    ),
    Part(
        "asynchronous-gradients",
        "one gradient after another",
        "weight gradients on a second stream",
        "training in bf16 on a GPU, not compiled",
        lambda conditions: conditions.bf16_on_gpu and not conditions.compiled,
        "tests/acceleration/test_async_weight_grad.py",
        "train_gpu.py",
        needs="bf16-weights",
    ),
    Part(
        "flat-adam",
        "Adam, AdamW",
        "one kernel for all weights and their bf16 copies",
        "training in bf16 on a GPU; one learning rate for all layers",
        lambda conditions: conditions.fused_training,
        "tests/acceleration/test_adam.py",
        "train_gpu.py",
        needs="bf16-weights",
    ),
    Part(
        "bf16-muon",
        "Muon in float32",
        "its iterations in bf16",
        "training on a GPU",
        lambda conditions: conditions.training and conditions.device == "cuda",
        "tests/training/test_optimizers_by_hand.py",
        "texts.py",
    ),
    Part(
        "cuda-graph",
        "a launch for each kernel",
        "the whole step as one CUDA graph",
        "training on a GPU with teacher forcing",
        lambda conditions: conditions.training and conditions.device == "cuda",
        "tests/acceleration/test_cuda_graphs.py",
        "train_gpu.py",
        needs="chunked-cross-entropy",  # the definition selects rows with a label, and their number is known on the CPU
    ),
)
"""Every other fast part of a training step."""


def parts_for(conditions: Conditions, without: Iterable[str] = ()) -> frozenset[str]:
    """The names of the parts that apply, except those in `without` and what needs them."""
    return frozenset(part.name for part in PARTS if part.applies(conditions)) - with_dependents(without)


def with_dependents(names: Iterable[str]) -> frozenset[str]:
    """These entries, and the entries that do not work without them."""
    omitted = frozenset(names)
    unknown = omitted - {entry.name for entry in (*SWAPS, *PARTS)}
    assert not unknown, f"there are no entries {unknown}"
    return omitted | {entry.name for entry in (*SWAPS, *PARTS) if entry.needs in omitted}


def accelerate(
    model: nn.Module,
    conditions: Conditions,
    async_grads: AsyncWeightGrads | None = None,
    without: Iterable[str] = (),
) -> nn.Module:
    """Replace the classes of a model's modules by fast ones; `without` names swaps that are left out.

    Calling it again, with other conditions, replaces the swaps of the first call.
    """
    restore(model)
    omitted = with_dependents(without)
    for swap in SWAPS:
        if swap.name not in omitted and swap.applies(conditions):
            for module in _modules_of(model, swap):
                module.__class__ = swap.classes[type(module)]
    for module in model.modules():
        if hasattr(type(module), "async_grads"):
            module.async_grads = async_grads  # type: ignore[assignment]
        if hasattr(type(module), "short_kernels"):
            module.short_kernels = "short-attention" in parts_for(conditions, omitted)  # type: ignore
    link_residuals(model)
    return model


def _modules_of(model: nn.Module, swap: Swap) -> Iterator[nn.Module]:
    """The modules whose class a swap replaces."""
    convolutional = (ResNet, ResNetStem, ConvolutionalStem)
    parts = model.modules()
    if ChannelsLastConv2d in swap.fast:  # other convolutions, such as those of texts, keep their format
        parts = (part for each in model.modules() if isinstance(each, convolutional) for part in each.modules())
    return (each for each in parts if type(each) in swap.classes and swap.supports(each))


def restore(model: nn.Module) -> nn.Module:
    """Give every module its textbook class again."""
    for module in model.modules():
        plain = plain_class(module)
        if plain is not type(module):
            for name in ("async_grads", "short_kernels", "after", "norm_after", "duplicate", "precomputed"):
                module.__dict__.pop(name, None)
            module.__class__ = plain
    return model


@contextmanager
def accelerated(model: nn.Module, conditions: Conditions, without: Iterable[str] = ()) -> Iterator[nn.Module]:
    """The model with fast layers inside this context, and with the textbook's again after it."""
    try:
        yield accelerate(model, conditions, without=without)
    finally:
        restore(model)


@dataclass(frozen=True)
class DescriptionRow:
    """One kind of layer, or one part of a training step."""

    name: str
    """The name of the swap; empty for layers that have no faster form here."""
    plain: str
    """The definition, and how many modules have it."""
    fast: str
    """What computes it; empty if the definition runs itself."""
    where: str
    """The conditions under which a faster form applies."""
    test: str
    """The test that compares both."""


def describe(model: nn.Module, conditions: Conditions, unused: Collection[str] = ()) -> list[DescriptionRow]:
    """A row for each kind of layer with a faster form, and in training for each other part of a step.

    `unused` names parts that this training does not have.
    """
    accelerate(model, conditions)
    running = Counter((plain_class(each), type(each)) for each in model.modules())
    rows = []
    for swap in SWAPS:
        for plain, fast in swap.classes.items():
            counts = {runs: count for (definition, runs), count in running.items() if definition is plain}
            if not counts:
                continue
            label = f"{plain.__name__} × {sum(counts.values())}"
            rows.append(
                DescriptionRow(swap.name, label, fast.__name__ if fast in counts else "", swap.where, swap.test)
            )
    restore(model)
    for part in (each for each in PARTS if conditions.training and each.name not in unused):
        fast_form = part.fast if part.applies(conditions) else ""
        rows.append(DescriptionRow(part.name, part.plain, fast_form, part.where, part.test))
    return rows
