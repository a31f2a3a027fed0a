"""Several traces of one model: nested, concurrent, and in threads."""

from __future__ import annotations

import threading

import torch
from torch import nn

from seq2see.core.batch import Batch, Sequences
from seq2see.inspection.trace import ALL_KINDS, trace
from tiny_models import FAMILIES, pairs, perturbed_model


def has_hooks(model: nn.Module) -> bool:
    """Whether any module has a hook."""
    return any("hook" in vars(part) or part._forward_hooks for part in model.modules())


@torch.no_grad()
def test_an_inner_trace_does_not_change_the_outer_trace():
    model = perturbed_model(FAMILIES["transformer, pre-norm"])
    with trace(model) as outer:
        with trace(model) as inner:
            model(pairs([3]))
        assert has_hooks(model)
        model(pairs([3]))
    assert all(len(each.values_by_step) == 1 for each in inner.of("attention"))
    assert all(len(each.values_by_step) == 2 for each in outer.of("attention"))


@torch.no_grad()
def test_a_trace_records_only_its_own_modules():
    model = perturbed_model(FAMILIES["transformer, pre-norm"])
    names = ["encoder.blocks.0", "decoder.blocks.1"]
    with (
        trace(model, ("stream",), module_names=names[:1]) as first,
        trace(model, ("stream",), module_names=names[1:]) as second,
    ):
        model(pairs([3]))
    assert [[each.name for each in activations.of("stream")] for activations in (first, second)] == [
        names[:1],
        names[1:],
    ]


def test_two_threads_that_trace_one_model_and_a_third_that_only_uses_it_do_not_mix():
    """Each thread runs the model on its own text many times, concurrently; no trace records another thread."""
    model = perturbed_model(FAMILIES["recurrent to transformer"])
    rows = {length: Sequences.of([[3 + number % 8 for number in range(length)]]) for length in (2, 5, 9)}
    ready, errors = threading.Barrier(3), list[str]()

    def run(length: int, times: int = 12) -> None:
        batch = Batch(rows[length], Sequences.of([[1] * length]), torch.zeros(1, length), torch.arange(1))
        ready.wait()
        for _ in range(times):
            with torch.inference_mode():
                if length == 9:
                    model(batch)
                    continue
                with trace(model, ALL_KINDS) as activations:
                    model(batch)
            shapes = {each.values.shape[-1] for each in activations.of("attention") if each.is_cross_attention}
            if shapes != {length} or any(len(each.values_by_step) != 1 for each in activations.signals.values()):
                errors.append(f"{length}: {shapes}")

    threads = [threading.Thread(target=run, args=(length,)) for length in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert not has_hooks(model)
