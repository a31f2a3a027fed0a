"""The memory of a recurrent network: the influence of one token on later states, and the source as one vector or many.

A state has the same width after one token as after a hundred. The influence of a token is measured in three ways, each
1 at the token itself:

* the distance of the state from the state without the token;
* the sensitivity of the state to a small change of the token's vector (the product of the Jacobians in between, which
  vanishes or explodes; Bengio et al. 1994);
* the cosine similarity of the state to the state at the token.
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
from seq2see.models.encoder_model import EncoderModel, EncoderOutput
from seq2see.models.language_model import LanguageModel
from seq2see.models.seq2seq import Seq2Seq

Inputs = TypeVar("Inputs", Sequences | Images | None, Sequences | None)

PERTURBATION = 1e-4
"""The relative change of a token's vector, up and down, for the numerical derivative of the states; in double precision
the derivative is exact to about eight digits."""
STATES: tuple[SignalKind, ...] = ("hidden",)
RETENTION_MEASURES = ("difference", "derivative", "cosine")


def to_double(model: LanguageModel | EncoderModel) -> LanguageModel | EncoderModel:
    """A copy of the model in double precision: single precision is too coarse for small derivatives."""
    return copy.deepcopy(model).double()


@torch.inference_mode()
def memory_retention(model: LanguageModel | EncoderModel, batch: Batch, cell: str, word: int) -> NDArray[np.float64]:
    """(measure, time): the influence of a token on the states of one cell, by the measures of `RETENTION_MEASURES`.

    `model` should come from `to_double`; `cell` is the name of its module, `word` an index into the tokens of its side.
    """
    is_encoder, module = cell.startswith("encoder"), cast("Any", model)
    batch = replace(batch, source=_to_model_dtype(batch.source, model), target=_to_model_dtype(batch.target, model))
    vectors = module.source(batch.source) if is_encoder else module.target(batch.target)
    rows = vectors.values.repeat(4, 1, 1)
    rows[1, word] = 0
    rows[2, word] *= 1 + PERTURBATION
    rows[3, word] *= 1 - PERTURBATION
    variants = replace(vectors, values=rows, lengths=vectors.lengths.repeat(4))
    with trace(model, STATES, module_names=(cell,)) as activations:
        if is_encoder:
            module.encoder(variants)
        else:
            module.decoder(variants, _repeat_memory(module, batch.source))
    hidden = next(each for each in activations.of("hidden") if not each.component)
    states = hidden.values.flip(1) if hidden.is_reversed else hidden.values
    return _retention(states, word)


def _to_model_dtype(inputs: Inputs, model: nn.Module) -> Inputs:
    """Convert pixels and series to the dtype of the model; token ids do not change."""
    if inputs is None or (isinstance(inputs, Sequences) and not inputs.values.is_floating_point()):
        return inputs
    return replace(inputs, values=inputs.values.to(next(model.parameters()).dtype))


def _repeat_memory(model: Any, source: Sequences | Images | None) -> EncoderOutput | None:
    """The encoder output, repeated for four rows."""
    if source is None:
        return None
    memory = model.encode(source)
    return EncoderOutput(memory.values.repeat(4, 1, 1), memory.lengths.repeat(4), memory.pooled.repeat(4, 1))


def _retention(states: Float[Tensor, "4 time width"], word: int) -> NDArray[np.float64]:
    original, ablated, increased, decreased = states
    distances = torch.stack([(original - ablated).norm(dim=-1), (increased - decreased).norm(dim=-1)])
    relative = distances / distances[:, word, None].clamp(min=torch.finfo(distances.dtype).tiny)
    cosines = torch.cosine_similarity(original, original[word, None], dim=-1)
    return torch.cat([relative, cosines[None]]).cpu().numpy()


class FixedContext(MemoryAttention):
    """A replacement of attention: every query gets the pooled vector of the source as its context vector."""

    def __init__(self, attention: MemoryAttention):
        super().__init__()
        self.attention = attention

    def project_keys(self, memory: Sequences) -> Float[Tensor, "row key size"]:
        """The keys of the replaced attention; they are not used."""
        return self.attention.project_keys(memory)

    def attend(
        self, query: Float[Tensor, "row query width"], keys: Float[Tensor, "row key size"], memory: Sequences
    ) -> tuple[Float[Tensor, "row query context"], Float[Tensor, "row query key"]]:
        """The pooled vector for each query, and uniform weights."""
        assert isinstance(memory, EncoderOutput)
        uniform = masked_softmax(query.new_zeros(len(keys), query.size(1), keys.size(1)), memory.valid)
        return memory.pooled[:, None].expand(-1, query.size(1), -1), uniform


def disable_attention(model: Seq2Seq) -> Seq2Seq:
    """A copy of the model with shared weights, whose decoder gets the pooled source vector instead of attention."""
    ablated = copy.deepcopy(model, {id(each): each for each in [*model.parameters(), *model.buffers()]})
    cross_attention = ablated.decoder.cross_attention
    assert isinstance(cross_attention, BahdanauAttention | LuongAttention), "this decoder has no attention"
    cross_attention.attention = FixedContext(cross_attention.attention)
    return ablated


@dataclass(frozen=True)
class ContextComparison:
    """The context vectors of a decoder, and its probabilities with attention and with one fixed context vector."""

    fixed_context: NDArray[np.float32]  # (width): the pooled vector of the source
    attention_contexts: NDArray[np.float32]  # (target, width): the context vector of attention at each step
    with_attention: NDArray[np.float32]  # (target): the probability of each target token
    without_attention: NDArray[np.float32]  # (target): these probabilities with the fixed context vector at each step


@torch.inference_mode()
def compare_contexts(model: Seq2Seq, batch: Batch) -> ContextComparison:
    """Compare the contexts of one example, with teacher forcing."""
    assert batch.source is not None
    with trace(model, ("attention", "value"), module_names=("decoder.cross_attention.attention",)) as activations:
        with_attention = _probabilities(model, batch)
    weights, values = (activations.of(kind)[0].values[0, 0] for kind in ("attention", "value"))
    fixed_context, attention_contexts = model.encode(batch.source).pooled[0], weights @ values
    arrays = (fixed_context, attention_contexts, with_attention, _probabilities(disable_attention(model), batch))
    return ContextComparison(*(each.float().cpu().numpy() for each in arrays))


def _probabilities(model: Seq2Seq, batch: Batch) -> Float[Tensor, "target"]:
    return model(batch).float().softmax(-1)[0].gather(-1, batch.labels[0][:, None])[:, 0]
