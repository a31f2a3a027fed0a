"""A turn of greedy decoding where every kernel counts: for rounds that a GPU has recorded (`graphs.py`)."""

from __future__ import annotations

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from seq2see.decoding.engine import SUPPRESSED_TOKENS
from seq2see.decoding.samplers import DecodingStep, IndependentSearch
from seq2see.kernels.argmax import GreedyState, greedy_step_kernel
from seq2see.sequences.tokenizers import EOS, PAD


def greedy_step(search: IndependentSearch, logits: Float[Tensor, "row vocab"]) -> DecodingStep:
    """What a greedy search does with `suppress_special_tokens(log_probabilities(logits))`; its time must be a tensor.

    Who is done and what time it is are written in place: a recorded round has them where it will read them again.
    """
    history = search.history
    state = GreedyState(history.tokens, history.log_probabilities, history.time, search.done)
    step = DecodingStep(*greedy_step_kernel(logits, state, PAD, EOS, SUPPRESSED_TOKENS.stop))
    search.history = replace(history, time=history.time.add_(1))
    return step
