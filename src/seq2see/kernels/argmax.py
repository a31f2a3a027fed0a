"""A turn of greedy decoding on a GPU, in one kernel: which token is the most probable, and writing it down.

One program takes a row. It walks over the scores twice: for the sum of exponentials, and, knowing it, for the highest
logarithm of a probability. Torch needs a dozen kernels for the same, each longer in the launching than in the running.

The plain twin is `IndependentSearch.take_turn(suppress_special_tokens(log_probabilities(logits)))` (decoding/samplers.py, decoding/engine.py); a
test compares them.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 32_768
"""Scores that a program looks at side by side, at most."""


@dataclass(frozen=True)
class GreedyState:
    """What a turn changes: what each row has said (row, room), the time of that (one number), and who is done."""

    tokens: Tensor
    log_probabilities: Tensor
    time: Tensor
    done: Tensor


@triton.jit
def _argmax_step(
    chosen, chosen_scores, logits, tokens, scores, time, done, row_step, vocab, max_length, padding, end, first,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Tokens before `first` are never said, but have their share of the probability."""
    row = tl.program_id(0).to(tl.int64)
    mine, was_done = logits + row * row_step, tl.load(done + row) != 0
    peak, total = float("-inf"), 0.0
    for start in range(0, vocab, BLOCK):
        at = start + tl.arange(0, BLOCK)
        numbers = tl.load(mine + at, at < vocab, float("-inf")).to(tl.float32)
        higher = tl.maximum(peak, tl.max(numbers, 0))
        total = total * tl.exp(peak - higher) + tl.sum(tl.exp(numbers - higher), 0)
        peak = higher
    best, token, spread = float("-inf"), 0, tl.log(total)
    for start in range(0, vocab, BLOCK):
        at = start + tl.arange(0, BLOCK)
        numbers = tl.load(mine + at, at < vocab, float("-inf")).to(tl.float32)
        # Rounded as the softmax rounds it, so that what is equal there is equal here.
        numbers = tl.where(at < first, float("-inf"), numbers - peak - spread)
        highest, place = tl.max(numbers, 0), tl.argmax(numbers, 0)  # of equals the earlier
        token = tl.where(highest > best, start + place, token)
        best = tl.maximum(highest, best)
    token, best = tl.where(was_done, padding, token).to(tl.int64), tl.where(was_done, 0.0, best)
    place = row * max_length + tl.load(time)
    tl.store(tokens + place, token)
    tl.store(scores + place, best)
    tl.store(chosen + row, token)
    tl.store(chosen_scores + row, best)
    tl.store(done + row, (was_done | (token == end)).to(tl.uint8))


def greedy_step_kernel(logits: Tensor, state: GreedyState, padding: int, end: int, first: int) -> tuple[Tensor, Tensor]:
    """The most probable token of each row (row, vocab) from `first` on, and the logarithm of its probability.

    Both are written down, and a row that says `end` is done. Rows that were done before say `padding`, for sure. The
    time is left as it is.
    """
    rows, vocab = logits.shape
    tokens = torch.empty(rows, dtype=torch.long, device=logits.device)
    scores = torch.empty(rows, dtype=torch.float32, device=logits.device)
    _argmax_step[(rows,)](
        tokens, scores, logits, state.tokens, state.log_probabilities, state.time,
        state.done.view(torch.uint8), logits.stride(0), vocab, state.tokens.size(1), padding, end, first,
        BLOCK=min(BLOCK, triton.next_power_of_2(vocab)), num_warps=16,
    )  # fmt: skip
    return tokens, scores
