"""A greedy step in one kernel equals the step of the search.

Without a GPU triton interprets the kernel, which is slow but the same arithmetic (conftest.py).
"""

from __future__ import annotations

import pytest
import torch

from seq2see.acceleration import graphed_decoding
from seq2see.acceleration.fast_search import GPUBeamSearch, GPUIndependentSearch
from seq2see.acceleration.graphed_decoding import GraphedHistory
from seq2see.data.tokenizers.tokenizer import EOS
from seq2see.decoding.beam import BeamSampler
from seq2see.decoding.engine import log_probabilities, suppress_special_tokens
from seq2see.decoding.samplers import GreedySampler, History, RandomSampler

needs_triton = pytest.mark.triton

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ROWS, MAX_LENGTH = 3, 6


def search_of(sampler):
    """A search whose time is a tensor."""
    zeros = torch.zeros(ROWS, dtype=torch.long, device=DEVICE)
    history, max_lengths = History.empty(zeros, MAX_LENGTH), zeros + MAX_LENGTH
    if isinstance(sampler, BeamSampler):
        search = GPUBeamSearch(sampler, history, max_lengths)
    else:
        search = GPUIndependentSearch(sampler, history, max_lengths, list(range(ROWS)))
    search.history = GraphedHistory.of(history, torch.zeros(1, dtype=torch.long, device=DEVICE))
    return search


def searches():
    """Two equal greedy searches."""
    return search_of(GreedySampler()), search_of(GreedySampler())


def torch_step(search, logits):
    return search.advance(suppress_special_tokens(log_probabilities(logits)))


def assert_same(plain, optimized, steps):
    one, other = steps
    assert torch.equal(one.tokens, other.tokens)
    torch.testing.assert_close(one.log_probabilities, other.log_probabilities)
    assert torch.equal(plain.done, optimized.done)
    assert plain.history.time.tolist() == optimized.history.time.tolist()
    assert torch.equal(plain.history.tokens, optimized.history.tokens)
    torch.testing.assert_close(plain.history.log_probabilities, optimized.history.log_probabilities)


@needs_triton
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bf16"])
@pytest.mark.parametrize("vocab, block", [(7, 8), (64, 64), (301, 64), (40_000, 32_768)])
def test_every_step_of_the_kernel_equals_the_step_of_the_search(vocab, block, dtype, monkeypatch):
    from seq2see.acceleration import search_kernels

    monkeypatch.setattr(search_kernels, "BLOCK", block)
    plain, optimized = searches()
    step = graphed_decoding.step_of(optimized)
    for time in range(MAX_LENGTH - 1):
        logits = (3 * torch.randn(ROWS, vocab, device=DEVICE)).to(dtype)
        logits[:, :2] += 20  # PAD and BOS have most of the probability, but are suppressed
        if time == 2:
            logits[1, EOS] = 30  # this row ends here
        assert_same(plain, optimized, (torch_step(plain, logits), step(logits)))
    assert optimized.done.tolist() == [False, True, False] or vocab == 7
    assert optimized.done[1]


@needs_triton
def test_among_equals_the_first_is_selected_within_and_across_blocks(monkeypatch):
    from seq2see.acceleration import search_kernels

    monkeypatch.setattr(search_kernels, "BLOCK", 8)
    plain, optimized = searches()
    logits = torch.zeros(ROWS, 40, device=DEVICE)
    logits[0, [12, 14]] = 1.0
    logits[1, [9, 30]] = 1.0
    logits[2, [3, 39]] = torch.tensor([1.0, torch.nextafter(torch.tensor(1.0), torch.tensor(2.0))], device=DEVICE)
    steps = torch_step(plain, logits), graphed_decoding.step_of(optimized)(logits)
    assert_same(plain, optimized, steps)
    assert steps[1].tokens.tolist()[:2] == [12, 9]


@needs_triton
def test_done_and_time_are_updated_in_place():
    optimized, _ = searches()
    done, time = optimized.done, optimized.history.time
    graphed_decoding.step_of(optimized)(torch.randn(ROWS, 9, device=DEVICE))
    assert optimized.done is done
    assert optimized.history.time is time
    assert time.tolist() == [1]


@needs_triton
def test_logits_far_apart_do_not_overflow():
    plain, optimized = searches()
    logits = torch.full((ROWS, 20), -1000.0, device=DEVICE)
    logits[:, 5], logits[:, 6] = 3000.0, 2999.0
    assert_same(plain, optimized, (torch_step(plain, logits), graphed_decoding.step_of(optimized)(logits)))


@pytest.mark.parametrize("sampler", [BeamSampler(1), RandomSampler(seed=1)], ids=["beam", "sample"])
def test_other_searches_use_their_own_step(sampler):
    search = search_of(sampler)
    inputs = []
    search.advance = lambda scores: inputs.append(scores) or "a step"
    logits = torch.randn(ROWS, 9, device=DEVICE)
    assert graphed_decoding.step_of(search)(logits) == "a step"
    torch.testing.assert_close(inputs[0], suppress_special_tokens(log_probabilities(logits)))
