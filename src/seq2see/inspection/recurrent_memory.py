"""What a recurrent network still knows: of one word, later on; and of the source, in one vector or in many.

A state is as wide after one word as after a hundred. What is left of a word is asked in three ways, each 1 at the
word itself: how far the state would be elsewhere without the word, how strongly the state still answers to a small
change of it (the product of all derivatives in between, which vanishes or explodes; Bengio et al. 1994), and how alike
the state is to what it was then.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from seq2see.core.batch import Batch, Images, Sequences
from seq2see.inspection.record import SignalKind
from seq2see.inspection.trace import trace
from seq2see.layers.recurrent_attention import MemoryAttention, masked_softmax
from seq2see.models.decoder_attention import BahdanauAttention, LuongAttention
from seq2see.models.encoder_model import EncoderModel
from seq2see.models.encoder_output import EncoderOutput
from seq2see.models.language_model import LanguageModel
from seq2see.models.seq2seq import Seq2Seq

Inputs = TypeVar("Given", Sequences | Images | None, Sequences | None)

PERTURBATION = 1e-4
"""By which share of itself a word's vector is changed, up and down, to see how the states follow; in double precision
what is left of it is exact to about eight digits."""
STATES: tuple[SignalKind, ...] = ("hidden",)
RETENTION_MEASURES = ("difference", "derivative", "cosine")


def to_double(model: LanguageModel | EncoderModel) -> LanguageModel | EncoderModel:
    """The same model in double precision: small derivatives drown in the rounding of single precision."""
    return copy.deepcopy(model).double()


@torch.inference_mode()
def memory_retention(model: LanguageModel | EncoderModel, batch: Batch, cell: str, word: int) -> NDArray[np.float64]:
    """(way, time): what is left of a word in the states of one cell at each time, by the three ways of `RETENTION_MEASURES`.

    `model` should be `to_double`; `cell` is its name in the model, `word` counts the tokens of the side it reads.
    """
    reads, module = cell.startswith("encoder"), cast("Any", model)
    batch = replace(batch, source=_to_model_dtype(batch.source, model), target=_to_model_dtype(batch.target, model))
    vectors = module.source(batch.source) if reads else module.target(batch.target)
    rows = vectors.values.repeat(4, 1, 1)
    rows[1, word] = 0
    rows[2, word] *= 1 + PERTURBATION
    rows[3, word] *= 1 - PERTURBATION
    four = replace(vectors, values=rows, lengths=vectors.lengths.repeat(4))
    with trace(model, STATES, part_names=(cell,)) as seen:
        if reads:
            module.encoder(four)
        else:
            module.decoder(four, _repeat_memory(module, batch.source))
    found = next(each for each in seen.of("hidden") if not each.part)
    states = found.values.flip(1) if found.is_reversed else found.values
    return _retention(states, word)


def _to_model_dtype(inputs: Inputs, model: nn.Module) -> Inputs:
    """Pixels and numbers as exactly as the model computes; the numbers of tokens are no quantities."""
    if inputs is None or (isinstance(inputs, Sequences) and not inputs.values.is_floating_point()):
        return inputs
    return replace(inputs, values=inputs.values.to(next(model.parameters()).dtype))


def _repeat_memory(model: Any, source: Sequences | Images | None) -> EncoderOutput | None:
    """What the decoder looks at, beside each of four rows."""
    if source is None:
        return None
    memory = model.encode(source)
    return EncoderOutput(memory.values.repeat(4, 1, 1), memory.lengths.repeat(4), memory.pooled.repeat(4, 1))


def _retention(states: Float[Tensor, "4 time width"], word: int) -> NDArray[np.float64]:
    own, without, more, less = states
    distances = torch.stack([(own - without).norm(dim=-1), (more - less).norm(dim=-1)])
    shares = distances / distances[:, word, None].clamp(min=torch.finfo(distances.dtype).tiny)
    alike = torch.cosine_similarity(own, own[word, None], dim=-1)
    return torch.cat([shares, alike[None]]).cpu().numpy()


class FixedContext(MemoryAttention):
    """No attention: whoever asks gets the one vector that sums the whole source up."""

    def __init__(self, attention: MemoryAttention):
        super().__init__()
        self.attention = attention

    def project_keys(self, memory: Sequences) -> Float[Tensor, "row key size"]:
        """The keys that nobody will look at."""
        return self.attention.project_keys(memory)

    def attend(
        self, query: Float[Tensor, "row query width"], keys: Float[Tensor, "row key size"], memory: Sequences
    ) -> tuple[Float[Tensor, "row query context"], Float[Tensor, "row query key"]]:
        """The summary, and even weights."""
        assert isinstance(memory, EncoderOutput)
        even = masked_softmax(query.new_zeros(len(keys), query.size(1), keys.size(1)), memory.valid)
        return memory.pooled[:, None].expand(-1, query.size(1), -1), even


def disable_attention(model: Seq2Seq) -> Seq2Seq:
    """The same model, weights shared, whose decoder is given the context vector in place of what attention finds."""
    ablated = copy.deepcopy(model, {id(each): each for each in [*model.parameters(), *model.buffers()]})
    look = ablated.decoder.cross_attention
    assert isinstance(look, BahdanauAttention | LuongAttention), "this decoder has no attention"
    look.attention = FixedContext(look.attention)
    return ablated


@dataclass(frozen=True)
class ContextComparison:
    """What a decoder was given of the source at each step, and what it would say with the context vector instead."""

    fixed_context: NDArray[np.float32]  # (width): the one context vector
    attention_contexts: NDArray[np.float32]  # (target, width): what attention found at each step
    with_attention: NDArray[np.float32]  # (target): the probability of each right token
    without_attention: NDArray[np.float32]  # (target): the same if every step is given the context vector


@torch.inference_mode()
def compare_contexts(model: Seq2Seq, batch: Batch) -> ContextComparison:
    """The contexts of one example, read with its target."""
    assert batch.source is not None
    with trace(model, ("attention", "value"), part_names=("decoder.attention.attention",)) as seen:
        with_attention = _probabilities(model, batch)
    weights, values = (seen.of(kind)[0].values[0, 0] for kind in ("attention", "value"))
    summary, attention_contexts = model.encode(batch.source).pooled[0], weights @ values
    arrays = (summary, attention_contexts, with_attention, _probabilities(disable_attention(model), batch))
    return ContextComparison(*(each.float().cpu().numpy() for each in arrays))


def _probabilities(model: Seq2Seq, batch: Batch) -> Float[Tensor, "target"]:
    return model(batch).float().softmax(-1)[0].gather(-1, batch.labels[0][:, None])[:, 0]
