"""Kernels of a search on a GPU: the step of greedy decoding, and the reordered rows of a beam search.

A step of greedy decoding selects the most probable token of each row and stores it. Each program processes one row. It
reads the logits twice: first for the sum of exponentials, then for the highest log probability. Torch needs a dozen
kernels for the same, whose launches take longer than their work. The definition is
`IndependentSearch.advance(suppress_special_tokens(log_probabilities(logits)))` (decoding/samplers.py,
decoding/engine.py); tests/acceleration/test_greedy_step.py compares them.

In a beam search, a hypothesis replaces another one of the same input.
`tensor.copy_(tensor.index_select(0, parents))` writes and reads the whole key-value cache a second time. The parents of
a row are rows of the same input, so a program can load a piece of all rows of one input, wait, and store the pieces
where they belong. The definition is `reorder_rows` (core/batch.py); tests/acceleration/test_reorder_in_place.py
compares them.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from seq2see.data.tokenizers.tokenizer import EOS, PAD
from seq2see.decoding.engine import SUPPRESSED_TOKENS
from seq2see.decoding.samplers import DecodingStep

BLOCK = 32_768
"""The maximum number of logits that a program loads at once."""


@dataclass(frozen=True)
class GreedyState:
    """The state that a step changes: tokens and log probabilities (row, max_length), and which rows are done.

    `time` is the number of tokens so far.
    """

    tokens: Tensor
    log_probabilities: Tensor
    time: Tensor
    done: Tensor


@triton.jit
def _argmax_step(
    selected, selected_scores, logits, tokens, scores, time, done, row_stride, vocab, max_length, padding, end, first,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Tokens before `first` are never selected, but they count in the softmax."""
    row = tl.program_id(0).to(tl.int64)
    row_logits, was_done = logits + row * row_stride, tl.load(done + row) != 0
    maximum, total = float("-inf"), 0.0
    for start in range(0, vocab, BLOCK):
        index = start + tl.arange(0, BLOCK)
        numbers = tl.load(row_logits + index, index < vocab, float("-inf")).to(tl.float32)
        new_maximum = tl.maximum(maximum, tl.max(numbers, 0))
        total = total * tl.exp(maximum - new_maximum) + tl.sum(tl.exp(numbers - new_maximum), 0)
        maximum = new_maximum
    best, token, log_total = float("-inf"), 0, tl.log(total)
    for start in range(0, vocab, BLOCK):
        index = start + tl.arange(0, BLOCK)
        numbers = tl.load(row_logits + index, index < vocab, float("-inf")).to(tl.float32)
        # The same order of operations as in torch's softmax, so that equal log probabilities are equal here too.
        numbers = tl.where(index < first, float("-inf"), numbers - maximum - log_total)
        highest, offset = tl.max(numbers, 0), tl.argmax(numbers, 0)  # the first of equal numbers
        token = tl.where(highest > best, start + offset, token)
        best = tl.maximum(highest, best)
    token, best = tl.where(was_done, padding, token).to(tl.int64), tl.where(was_done, 0.0, best)
    position = row * max_length + tl.load(time)
    tl.store(tokens + position, token)
    tl.store(scores + position, best)
    tl.store(selected + row, token)
    tl.store(selected_scores + row, best)
    tl.store(done + row, (was_done | (token == end)).to(tl.uint8))


def greedy_step_kernel(logits: Tensor, state: GreedyState, padding: int, end: int, first: int) -> tuple[Tensor, Tensor]:
    """The most probable token of each row (row, vocab) from `first` on, and its log probability.

    Both are stored in the state, and a row whose token is `end` is done. Rows that were done before get `padding` with
    log probability 0. `time` is not changed.
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


def greedy_step(search: Any, logits: Tensor) -> DecodingStep:
    """`search.advance(suppress_special_tokens(log_probabilities(logits)))`; the time of the search must be a tensor.

    The time and `search.done` are updated in place: a captured graph reads them from the same memory at the next step.
    """
    history = search.history
    state = GreedyState(history.tokens, history.log_probabilities, history.time, search.done)
    step = DecodingStep(*greedy_step_kernel(logits, state, PAD, EOS, SUPPRESSED_TOKENS.stop))
    search.history = replace(history, time=history.time.add_(1))
    return step


REORDER_BLOCK = 8192
"""The number of values that a program moves."""


@triton.jit
def _reorder(tensor, parents, width, row_size, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * width
    beam, column = tl.arange(0, WIDTH), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row, inside = first + beam, (beam < width)[:, None] & (column < row_size)[None, :]
    parent = tl.load(parents + row, beam < width, 0)
    values = tl.load(tensor + parent[:, None] * row_size + column[None, :], inside)
    tl.debug_barrier()  # every thread has its values before any thread writes
    tl.store(tensor + row[:, None] * row_size + column[None, :], values, inside)


def reorder_in_place(tensor: Tensor, parents: Tensor, width: int) -> None:
    """Row i of a contiguous tensor becomes its row `parents[i]`, which belongs to the same group of `width` rows."""
    rows, row_size = tensor.size(0), tensor[0].numel()
    padded_width = triton.next_power_of_2(width)
    block = min(max(REORDER_BLOCK // padded_width, 1), triton.next_power_of_2(row_size))
    values = tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor
    _reorder[(rows // width, triton.cdiv(row_size, block))](
        values, parents, width, row_size, WIDTH=padded_width, BLOCK=block, num_warps=4
    )
