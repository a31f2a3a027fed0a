"""C36 and C78: is attention faster than an RNN because it is parallel, and is a convolution?

The same block is timed with three layers that mix positions: self-attention, a GRU, and a convolution of width 3.
Width, batch and feed-forward layer are equal. Each round times all of them one after another, so that other load on the
machine affects all; the quantities are differences of logarithms within a round. All use the fused kernels of torch.

Training is a forward and a backward pass over n positions. Generation computes n positions one after another: attention
with a key-value cache, the GRU with its state.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache, partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2see.core.seeds import seed_torch
from seq2see.labs.experiment import Axes, Experiment, Measurement
from seq2see.labs.verdicts import Effect, Verdict
from seq2see.layers.attention import SelfAttention, merge_heads
from seq2see.layers.feed_forward import FeedForward

LENGTHS = (16, 64, 256, 1024)
HEADS = 4


class AttentionMixer(SelfAttention):
    """Causal self-attention with torch's fused kernel."""

    def mix(self, vectors: Tensor) -> Tensor:
        """All positions at once."""
        queries, keys, values = self.project(vectors)
        mixed = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        return self.out_proj(merge_heads(mixed))

    def generate(self, vectors: Tensor) -> None:
        """One position after another; the keys and values of the past are stored."""
        length = vectors.size(1)
        cache = vectors.new_zeros(2, len(vectors), HEADS, length, self.width // HEADS)
        for step in range(length):
            queries, keys, values = self.project(vectors[:, step : step + 1])
            cache[:, :, :, step] = torch.stack([keys[:, :, 0], values[:, :, 0]])
            past_keys, past_values = cache[:, :, :, : step + 1]
            mixed = functional.scaled_dot_product_attention(queries, past_keys, past_values)
            self.out_proj(merge_heads(mixed))


class GRUMixer(nn.GRU):
    """A GRU layer with torch's fused kernel."""

    def mix(self, vectors: Tensor) -> Tensor:
        """All positions, one after another inside of the kernel."""
        return self(vectors)[0]

    def generate(self, vectors: Tensor) -> None:
        """One position after another; the state is the past."""
        state = None
        for step in range(vectors.size(1)):
            _, state = self(vectors[:, step : step + 1], state)


class ConvolutionMixer(nn.Conv1d):
    """A convolution over the position and its two predecessors."""

    def mix(self, vectors: Tensor) -> Tensor:
        """All positions at once."""
        return self(functional.pad(vectors.mT, (2, 0))).mT


Mixer = AttentionMixer | GRUMixer | ConvolutionMixer


def train_step(mixer: Mixer, feed_forward: nn.Module, vectors: Tensor) -> None:
    """A forward and a backward pass."""
    feed_forward(mixer.mix(vectors)).sum().backward()


def seconds_of(action: Callable[[], object]) -> float:
    """The shortest time of three calls, after one call to warm up: other programs only ever make a call longer."""
    action()
    times = []
    for _ in range(3):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


@lru_cache(maxsize=64)  # two claims share the measurement
def measure(seed: int, width: int, tokens: int, max_length: int) -> Measurement:
    """One round: the seconds of every layer at every length."""
    seed_torch(seed, "speed")
    mixers: dict[str, Mixer] = {
        "attention": AttentionMixer(width, HEADS),
        "GRU": GRUMixer(width, width, batch_first=True),
        "CNN": ConvolutionMixer(width, width, 3),
    }
    feed_forward = FeedForward(width, 4 * width)
    seconds: dict[str, list[float]] = {}
    lengths = [length for length in LENGTHS if length <= max_length]
    for length in lengths:
        vectors = torch.randn(max(1, tokens // length), length, width)
        for name, mixer in mixers.items():
            train = seconds_of(partial(train_step, mixer, feed_forward, vectors))
            seconds.setdefault(f"{name}, training", []).append(train)
            if not isinstance(mixer, ConvolutionMixer):
                with torch.no_grad():
                    one = seconds_of(partial(mixer.generate, vectors[:1]))
                seconds.setdefault(f"{name}, generation", []).append(one)
    values: dict[str, float] = {}
    for kind, other in (("training", "GRU"), ("training", "CNN"), ("generation", "GRU")):
        pairs = zip(lengths, seconds[f"attention, {kind}"], seconds[f"{other}, {kind}"], strict=True)
        values |= {f"{kind}, {other}, {n}": _log2(theirs / ours) for n, ours, theirs in pairs}
    pairs = zip(lengths, seconds["GRU, training"], seconds["CNN, training"], strict=True)
    values |= {f"CNN, {length}": _log2(gru / cnn) for length, gru, cnn in pairs}
    return Measurement(values, {name: (lengths, times) for name, times in seconds.items()})


def _log2(ratio: float) -> float:
    return float(torch.tensor(ratio).log2())


def _faster(name: str, length: int, english: str, chinese: str) -> Effect:
    title = (
        f"{english}, {length} positions: log₂ of the ratio of times",
        f"{chinese}，{length} 个位置：耗时之比的 log₂",
    )
    return Effect(name, title, 0.15)  # a tenth less time


SIZE = {"width": 128, "tokens": 2048, "max_length": 1024}
TINY = {"width": 8, "tokens": 1024, "max_length": 1024}
AXES = Axes(("positions n", "位置数 n"), ("seconds", "秒"), log_x=True, log_y=True)
LABS = {
    "C36": Experiment(
        claim="C36",
        prediction=(
            "At short lengths attention is faster in training. At 1,024 positions its n² term and the lack of parallel "
            "hardware cost more than a GRU. In generation both are sequential, so parallelism gains nothing.",
            "短序列训练时注意力更快；到 1024 个位置时 n² 项占了上风，加上 CPU 并行能力有限，注意力不如 GRU；"
            "生成时两者都是逐步计算，并行没有好处。",
        ),
        expected=Verdict.DOES_NOT_HOLD,
        decisive=tuple(
            _faster(f"training, GRU, {length}", length, "training, GRU over attention", "训练，GRU 比注意力")
            for length in (16, 64, 256)
        )
        + tuple(
            _faster(f"generation, GRU, {length}", length, "generation, GRU over attention", "生成，GRU 比注意力")
            for length in (16, 256)
        ),
        additional=(
            _faster("training, GRU, 1024", 1024, "training, GRU over attention", "训练，GRU 比注意力"),
            _faster("generation, GRU, 1024", 1024, "generation, GRU over attention", "生成，GRU 比注意力"),
        ),
        measure=measure,
        seeds=12,
        size=SIZE,
        tiny=TINY,
        would_change=(
            "a GPU, on which thousands of positions are computed at once; another width, or a batch of one text",
            "换成 GPU（成千上万个位置同时计算）、改变宽度，或者一批只有一个文本",
        ),
        axes=AXES,
    ),
    "C78": Experiment(
        claim="C78",
        prediction=(
            "A convolution is faster than a GRU at every length, because its positions are one matrix product.",
            "任何长度下卷积都比 GRU 快，因为所有位置合成一次矩阵乘法。",
        ),
        expected=Verdict.HOLDS,
        decisive=tuple(
            _faster(f"CNN, {length}", length, "training, GRU over CNN", "训练，GRU 比 CNN")
            for length in (16, 256, 1024)
        ),
        additional=(_faster("training, CNN, 64", 64, "training, CNN over attention", "训练，CNN 比注意力"),),
        measure=measure,
        seeds=12,
        size=SIZE,
        tiny=TINY,
        would_change=("another width of the kernel, or a GPU", "改变卷积核的宽度，或者换成 GPU"),
        axes=AXES,
    ),
}
