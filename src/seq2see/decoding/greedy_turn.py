"""A turn of greedy decoding where every kernel counts: for rounds that a GPU has recorded (`graphs.py`)."""

from __future__ import annotations

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from seq2see.decoding.choosers import Step, Walks
from seq2see.decoding.engine import UNSAID
from seq2see.kernels.most_probable import Written, take_most_probable
from seq2see.sequences.tokenisers import EOS, PAD


def take_turn(search: Walks, logits: Float[Tensor, "row vocab"]) -> Step:
    """What a greedy search does with `sayable(log_probabilities(logits))`; its time must be a tensor.

    Who is done and what time it is are written in place: a recorded round has them where it will read them again.
    """
    history = search.history
    written = Written(history.tokens, history.log_probabilities, history.time, search.done)
    step = Step(*take_most_probable(logits, written, PAD, EOS, UNSAID.stop))
    search.history = replace(history, time=history.time.add_(1))
    return step
