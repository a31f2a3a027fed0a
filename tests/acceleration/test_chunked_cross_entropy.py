"""The chunked loss: loss and gradients equal the plain definition's, for any size of chunk."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from seq2see.acceleration import chunked_cross_entropy
from seq2see.acceleration.chunked_cross_entropy import ChunkedCrossEntropy, cross_entropy_in_place
from seq2see.core.batch import IGNORE_INDEX
from seq2see.training.objectives import cross_entropy, r_drop_loss

VOCAB, WIDTH = 11, 5
CHUNKED = ChunkedCrossEntropy()
chunked_loss, run_backward = CHUNKED.loss, CHUNKED.run_backward
RULES = [(0.0, 0.0), (0.3, 0.0), (0.0, 2.5), (0.1, 1.3)]
every_rule = pytest.mark.parametrize("label_smoothing, r_drop", RULES)


def case(tokens: int, copies: int = 1, dtype: torch.dtype = torch.float64, seed: int = 0, bias: bool = True):
    """Hidden vectors, weights, bias and labels."""
    random = torch.Generator().manual_seed(seed)
    shapes = [(copies, tokens, WIDTH), (VOCAB, WIDTH), (VOCAB,)]
    parts = [torch.randn(shape, generator=random, dtype=dtype).requires_grad_() for shape in shapes]
    return *parts[: 2 + bias], *[None] * (not bias), torch.randint(0, VOCAB, (tokens,), generator=random)


def plain(hidden, weight, bias, labels, label_smoothing, r_drop):
    """The definition, on all logits at once."""
    logits = functional.linear(hidden, weight, bias)
    loss = sum(cross_entropy(each, labels, label_smoothing).sum() for each in logits) / len(logits)
    return loss + r_drop * r_drop_loss(*logits) if r_drop else loss


def gradients(loss, parts):
    return torch.autograd.grad(loss, [part for part in parts if part is not None])


@every_rule
@pytest.mark.parametrize("chunk", [2, 3, 6, 512])
@pytest.mark.parametrize("bias", [True, False])
def test_the_chunked_loss_and_its_gradients_are_the_plain_ones(monkeypatch, label_smoothing, r_drop, chunk, bias):
    monkeypatch.setitem(chunked_cross_entropy.CHUNK_SIZE, "cpu", chunk)
    *parts, labels = case(7, 1 + bool(r_drop), bias=bias)
    expected = plain(*parts, labels, label_smoothing, r_drop)
    found = chunked_loss(*parts, labels, label_smoothing, r_drop)
    assert_close(found, expected, rtol=1e-12, atol=0)
    for actual, theirs in zip(gradients(3 * found, parts), gradients(3 * expected, parts), strict=True):
        assert_close(actual, theirs, rtol=1e-10, atol=1e-12)


@every_rule
def test_gradients_are_those_of_finite_differences(label_smoothing, r_drop):
    *parts, labels = case(3, 1 + bool(r_drop))
    assert torch.autograd.gradcheck(lambda *tensors: chunked_loss(*tensors, labels, label_smoothing, r_drop), parts)
    assert torch.autograd.gradcheck(lambda *tensors: plain(*tensors, labels, label_smoothing, r_drop), parts)


@given(st.integers(1, 9), st.integers(1, 10), st.integers(0, 999), st.floats(0, 0.9), st.sampled_from([0.0, 0.7]))
def test_the_size_of_a_chunk_changes_nothing(tokens, chunk, seed, label_smoothing, r_drop):
    *parts, labels = case(tokens, 1 + bool(r_drop), seed=seed)
    whole = chunked_loss(*parts, labels, label_smoothing, r_drop)
    default_size = chunked_cross_entropy.CHUNK_SIZE["cpu"]
    chunked_cross_entropy.CHUNK_SIZE["cpu"] = 2 * chunk
    try:
        chunked = chunked_loss(*parts, labels, label_smoothing, r_drop)
    finally:
        chunked_cross_entropy.CHUNK_SIZE["cpu"] = default_size
    assert_close(chunked, whole, rtol=1e-12, atol=0)
    for actual, theirs in zip(gradients(chunked, parts), gradients(whole, parts), strict=True):
        assert_close(actual, theirs, rtol=1e-10, atol=1e-12)


def test_an_ignored_label_has_no_loss():
    hidden, weight, bias, labels = case(6)
    label_mask = torch.tensor([True, False, True, True, False, False])
    some = chunked_loss(hidden, weight, bias, labels.masked_fill(~label_mask, IGNORE_INDEX), 0.2)
    alone = chunked_loss(hidden[:, label_mask], weight, bias, labels[label_mask], 0.2)
    assert_close(some, alone)
    for actual, theirs in zip(
        gradients(some, [hidden, weight, bias]), gradients(alone, [hidden, weight, bias]), strict=True
    ):
        assert_close(actual, theirs)


def test_the_logits_of_all_tokens_never_exist_at_once(monkeypatch):
    monkeypatch.setitem(chunked_cross_entropy.CHUNK_SIZE, "cpu", 4)
    shapes = []
    monkeypatch.setattr(
        chunked_cross_entropy,
        "cross_entropy_in_place",
        lambda logits, *rest: shapes.append(logits.shape) or cross_entropy_in_place(logits, *rest),
    )
    *parts, labels = case(10)
    chunked_loss(*parts, labels)
    assert shapes == [(1, 4, VOCAB), (1, 4, VOCAB), (1, 2, VOCAB)]
    shapes.clear()
    *parts, labels = case(5, copies=2)
    chunked_loss(*parts, labels, 0.0, 1.0)
    assert shapes == [(2, 2, VOCAB), (2, 2, VOCAB), (2, 1, VOCAB)]


def test_logits_that_are_far_apart_do_not_overflow():
    logits = torch.tensor([[[1e4, -1e4, 0.0]], [[-1e4, 1e4, 0.0]]])
    loss = cross_entropy_in_place(logits, torch.tensor([1]), 0.1, 1.0)
    assert loss.isfinite()
    assert logits.isfinite().all()


@every_rule
def test_under_autocast_matmuls_are_bf16_and_everything_else_is_float32(monkeypatch, label_smoothing, r_drop):
    monkeypatch.setitem(chunked_cross_entropy.CHUNK_SIZE, "cpu", 64)
    *parts, labels = case(200, 1 + bool(r_drop), torch.float32)
    expected = plain(*parts, labels, label_smoothing, r_drop)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = chunked_loss(*parts, labels, label_smoothing, r_drop)
    assert found.dtype == torch.float32
    assert found.item() != expected.item()  # the matmuls round to 8 bits
    assert found.item() == pytest.approx(expected.item(), rel=5e-3)
    for actual, theirs in zip(gradients(found, parts), gradients(expected, parts), strict=True):
        assert actual.dtype == torch.float32
        assert_close(actual, theirs, rtol=0, atol=0.03 * float(theirs.abs().max()))


def test_hidden_states_in_bf16_get_gradients_in_bf16():
    hidden, weight, bias, labels = case(6, dtype=torch.float32)
    low = hidden.detach().bfloat16().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = chunked_loss(low, weight, bias, labels)
    grad_hidden, grad_weight = gradients(loss, [low, weight])
    assert (loss.dtype, grad_hidden.dtype, grad_weight.dtype) == (torch.float32, torch.bfloat16, torch.float32)


class CallRecorder(TorchDispatchMode):
    """Records the names of all operations that torch runs."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.calls.append(function.overloadpacket.__name__)
        return function(*args, **(kwargs or {}))


WAYS = {
    "alone": (lambda loss, hidden: loss, 1.0, False),
    "in a sum": (lambda loss, hidden: 0 * hidden.sum() + loss, 1.0, False),
    "twice": (lambda loss, hidden: 2 * loss, 2.0, True),
    "with itself": (lambda loss, hidden: loss + loss, 2.0, True),
    "less": (lambda loss, hidden: -loss, -1.0, True),
    "mean": (lambda loss, hidden: torch.stack([loss]).mean(), 1.0, True),
    "of a part": (lambda loss, hidden: loss / 4, 0.25, True),
}


@pytest.mark.parametrize("follow, times, multiplied", WAYS.values(), ids=WAYS)
def test_the_backward_pass_multiplies_only_by_the_operations_after_the_loss(follow, times, multiplied):
    *parts, labels = case(7)
    expected = gradients(plain(*parts, labels, 0.1, 0.0), parts)
    hidden = parts[0] * 1
    found = follow(chunked_loss(hidden, *parts[1:], labels, 0.1), hidden.detach())
    with CallRecorder() as recorder:
        run_backward(found)
    # One multiplication is that of `parts[0] * 1` above.
    assert (recorder.calls.count("mul") + recorder.calls.count("div") > 1) == multiplied
    for part, theirs in zip(parts, expected, strict=True):
        assert_close(part.grad, times * theirs)


def test_after_the_backward_pass_no_unit_gradient_is_left_even_after_an_error():
    *parts, labels = case(3)
    loss = chunked_loss(*parts, labels)
    run_backward(loss)
    with pytest.raises(RuntimeError, match="second time"):
        run_backward(loss)
    assert CHUNKED.unit_gradient is None


@pytest.mark.parametrize("copies, chunk", [(1, 512), (1, 3), (2, 512), (2, 6)])
@pytest.mark.parametrize("dtype, copied", [(torch.bfloat16, False), (torch.float32, True)])
def test_if_formats_agree_the_gradient_of_hidden_states_is_written_in_place(monkeypatch, copies, chunk, dtype, copied):
    monkeypatch.setitem(chunked_cross_entropy.CHUNK_SIZE, "cpu", chunk)
    hidden, weight, _, labels = case(7, copies, torch.float32, bias=False)
    low = weight.detach().bfloat16().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16), CallRecorder() as recorder:
        loss = chunked_loss(hidden.detach().to(dtype).requires_grad_(), low, None, labels)
    assert bool(recorder.calls.count("copy_")) == copied
    assert loss.isfinite()


def test_no_tokens_have_no_loss_and_zero_gradients():
    *parts, labels = case(0)
    loss = chunked_loss(*parts, labels)
    assert loss == 0
    assert all(not gradient.any() for gradient in gradients(loss, parts))


def test_without_gradients_the_loss_is_equal_and_no_gradient_is_computed(monkeypatch):
    *parts, labels = case(7)
    expected = chunked_loss(*parts, labels, 0.1)
    monkeypatch.setattr(chunked_cross_entropy, "accumulate_matmul", None)
    with torch.no_grad():
        found = chunked_loss(*parts, labels, 0.1)
    assert torch.equal(found, expected)
    assert not found.requires_grad


def test_a_weight_that_also_is_an_embedding_learns_from_both_uses():
    table, labels = nn.Embedding(VOCAB, WIDTH).double(), torch.tensor([3, 1, 4])
    (chunked_loss(table(labels)[None], table.weight, None, labels) + 0).backward()
    actual, table.weight.grad = table.weight.grad, None
    cross_entropy(table(labels) @ table.weight.mT, labels, 0.0).sum().backward()
    assert_close(actual, table.weight.grad)


@pytest.mark.parametrize(
    "vocab, dtype, expected",
    [
        (32_000, torch.bfloat16, True),
        (32_000, torch.float32, True),
        (32_000, torch.float64, False),
        (65, torch.bfloat16, False),
    ],
)
@pytest.mark.parametrize("kernels", [True, False])
def test_the_kernel_is_for_large_vocabularies_and_runs_only_if_it_may(monkeypatch, kernels, vocab, dtype, expected):
    calls = []
    fake = SimpleNamespace(fused_cross_entropy=lambda *inputs: calls.append(inputs) or (torch.zeros(()), inputs[0]))
    monkeypatch.setitem(sys.modules, "seq2see.acceleration.fused_cross_entropy", fake)
    hidden, weight = torch.ones(1, 2, 3, dtype=dtype), torch.ones(vocab, 3, dtype=dtype)
    ChunkedCrossEntropy(kernels).loss(hidden, weight, None, torch.tensor([1, 2]))
    assert bool(calls) == (expected and kernels)
