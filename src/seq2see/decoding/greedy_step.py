"""One step of greedy decoding in a single kernel, for steps in a CUDA graph (`graphed_decoding.py`)."""

from __future__ import annotations

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from seq2see.acceleration.argmax import GreedyState, greedy_step_kernel
from seq2see.data.tokenizers.tokenizer import EOS, PAD
from seq2see.decoding.engine import SUPPRESSED_TOKENS
from seq2see.decoding.samplers import DecodingStep, IndependentSearch


def greedy_step(search: IndependentSearch, logits: Float[Tensor, "row vocab"]) -> DecodingStep:
    """`search.advance(suppress_special_tokens(log_probabilities(logits)))`; the time of the search must be a tensor.

    The time and `search.done` are updated in place: a captured graph reads them from the same memory at the next step.
    """
    history = search.history
    state = GreedyState(history.tokens, history.log_probabilities, history.time, search.done)
    step = DecodingStep(*greedy_step_kernel(logits, state, PAD, EOS, SUPPRESSED_TOKENS.stop))
    search.history = replace(history, time=history.time.add_(1))
    return step
