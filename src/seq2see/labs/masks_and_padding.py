"""C29, C45 and C46: what do masks do?

The models are random Transformers. C29 and C46 append padding to a text and compare the outputs at the text's own
positions, with the padding mask and without it; C46 is about an encoder, C29 about encoder and decoder. C45 compares a
forward pass over a whole text with generation, token by token with a key-value cache. Differences are relative.
"""

from __future__ import annotations

import torch
from torch import Tensor

from seq2see.core.seeds import derive_seed, seed_torch
from seq2see.labs.experiment import Axes, Experiment, Measurement
from seq2see.labs.order_of_tokens import Stack, relative_difference
from seq2see.labs.verdicts import AtLeast, AtMost, Verdict
from seq2see.layers.masks import AttentionMask, causal_mask, full_mask
from seq2see.models.gpt import GPTDecoder
from seq2see.models.transformer import TransformerSettings

PADDING = (1, 4, 16)


def with_padding(vectors: Tensor, count: int, padding: Tensor) -> Tensor:
    """A text and, after it, the same padding vector several times."""
    return torch.cat([vectors, padding.expand(1, count, -1)], 1)


@torch.no_grad()
def measure_padding(seed: int, length: int, width: int) -> Measurement:
    """Changes of an encoder's outputs by 1 to 16 positions of padding."""
    seed_torch(seed, "stack")
    stack, rng = Stack(width, 2), torch.Generator().manual_seed(derive_seed(seed, "vectors"))
    vectors, padding = torch.randn(1, length, width, generator=rng), torch.randn(1, 1, width, generator=rng)
    expected, masked, unmasked = stack(vectors, full_mask()), [], []
    for count in PADDING:
        inputs = with_padding(vectors, count, padding)
        visible = AttentionMask((torch.arange(length + count) < length)[None, None, None])
        masked.append(relative_difference(expected, stack(inputs, visible)[:, :length]))
        unmasked.append(relative_difference(expected, stack(inputs, full_mask())[:, :length]))
    causal = stack(with_padding(vectors, PADDING[-1], padding), causal_mask())[:, :length]
    values = {"masked": max(masked), "unmasked": min(unmasked)}
    values["causal"] = relative_difference(stack(vectors, causal_mask()), causal)
    lines = {"with mask": (PADDING, masked), "without mask": (PADDING, unmasked)}
    return Measurement(values, lines)


@torch.no_grad()
def measure_generation(seed: int, length: int, width: int) -> Measurement:
    """The difference of a forward pass, with and without the causal mask, from generation."""
    seed_torch(seed, "gpt")
    decoder = GPTDecoder(TransformerSettings(width=width, depth=2, heads=2, dropout=0.0))
    vectors = torch.randn(1, length, width, generator=torch.Generator().manual_seed(derive_seed(seed, "vectors")))
    state, outputs = decoder.start(None, 1, length), []
    for step in range(length):
        output, state = decoder.step(vectors[:, step : step + 1], state)
        outputs.append(output)
    generated, valid = torch.cat(outputs, 1), torch.ones(1, length, dtype=torch.bool)

    def forward(attention_mask: AttentionMask) -> Tensor:
        hidden = vectors
        for block in decoder.blocks:
            hidden = block(hidden, valid, attention_mask)
        assert decoder.final_norm is not None
        return decoder.final_norm(hidden, valid)

    return Measurement(
        {
            "with mask": relative_difference(generated, forward(causal_mask())),
            "without mask": relative_difference(generated, forward(full_mask())),
        }
    )


SIZE, TINY = {"length": 12, "width": 32}, {"length": 3, "width": 4}
AXES = Axes(("positions of padding", "填充的个数"), ("relative change of the outputs", "输出的相对变化"), log_x=True)
LABS = {
    "C29": Experiment(
        claim="C29",
        prediction=(
            "Without a mask, one position of padding changes the outputs by more than 1 %; with the mask only rounding "
            "is left. A causal decoder does not depend on padding after the text even without a padding mask.",
            "不加掩码时，一个填充就使输出改变 1 % 以上；加掩码后只剩舍入误差。因果解码器即使没有填充掩码，"
            "也看不到后面的填充。",
        ),
        expected=Verdict.HOLDS,
        decisive=(
            AtLeast(
                "unmasked",
                ("without mask: smallest change by 1 to 16 positions", "不加掩码：1 到 16 个填充引起的最小变化"),
                0.01,
            ),
            AtMost("masked", ("with mask: largest change", "加掩码：最大变化"), 1e-5),
        ),
        additional=(AtMost("causal", ("causal mask alone: change", "只有因果掩码：变化"), 1e-5),),
        measure=measure_padding,
        seeds=50,
        size=SIZE,
        tiny=TINY,
        would_change=(
            "padding after the text of a causal decoder, which no earlier position attends to",
            "因果解码器里文本之后的填充：前面的位置本来就看不到它",
        ),
        axes=AXES,
    ),
    "C45": Experiment(
        claim="C45",
        prediction=(
            "With the causal mask both compute the same sums; without it every position but the last one also uses the "
            "future, and the outputs differ by far more than 1 %.",
            "有因果掩码时两者算的是同样的和；没有掩码时，除最后一个位置外都用到了未来，输出相差远超 1 %。",
        ),
        expected=Verdict.HOLDS,
        decisive=(
            AtMost("with mask", ("with mask: difference of training from generation", "有掩码：训练与生成的差"), 1e-5),
            AtLeast("without mask", ("without mask: the same difference", "没有掩码：同样的差"), 0.01),
        ),
        measure=measure_generation,
        seeds=50,
        size=SIZE,
        tiny=TINY,
        would_change=(
            "dropout in training, or batch norm, which are different in both modes",
            "训练时的 dropout 或批归一化：它们在两种模式下不同",
        ),
    ),
    "C46": Experiment(
        claim="C46",
        prediction=(
            "Without a mask in the encoder, its outputs depend on the padding, so masks are needed there as well.",
            "编码器不加掩码时，输出会随填充改变，所以编码器也需要掩码。",
        ),
        expected=Verdict.DOES_NOT_HOLD,
        decisive=(
            AtMost("unmasked", ("encoder without mask: change by padding", "编码器不加掩码：填充引起的变化"), 1e-5),
        ),
        additional=(AtMost("masked", ("encoder with mask: largest change", "编码器加掩码：最大变化"), 1e-5),),
        measure=measure_padding,
        seeds=50,
        size=SIZE,
        tiny=TINY,
        would_change=(
            "batches of texts of equal length, which have no padding; or the causal mask alone",
            "一批文本长度都相同（没有填充）；或者只谈因果掩码",
        ),
        axes=AXES,
    ),
}
