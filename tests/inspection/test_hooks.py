"""Several watchers of one model: within each other, beside each other, and in threads."""

from __future__ import annotations

import threading

import torch
from torch import nn

from seq2see.core.batch import Batch, Sequences
from seq2see.inspection.trace import ALL_KINDS, trace
from tiny_models import FAMILIES, pairs, perturbed_model


def is_watched(model: nn.Module) -> bool:
    """Whether a probe or a hook is on any part, or has left anything there."""
    return any("probe" in vars(part) or part._forward_hooks for part in model.modules())


@torch.no_grad()
def test_a_trace_within_a_trace_hides_nothing_from_the_outer_one():
    model = perturbed_model(FAMILIES["transformer, pre-norm"])
    with trace(model) as outer:
        with trace(model) as inner:
            model(pairs([3]))
        assert is_watched(model)
        model(pairs([3]))
    assert all(len(each.parts) == 1 for each in inner.of("attention"))
    assert all(len(each.parts) == 2 for each in outer.of("attention"))


@torch.no_grad()
def test_who_watches_one_part_hears_nothing_of_what_another_watches():
    model = perturbed_model(FAMILIES["transformer, pre-norm"])
    one, other = "encoder.blocks.0", "decoder.blocks.1"
    with (
        trace(model, ("stream",), part_names=(one,)) as first,
        trace(model, ("stream",), part_names=(other,)) as second,
    ):
        model(pairs([3]))
    assert [[each.name for each in seen.of("stream")] for seen in (first, second)] == [[one], [other]]


def test_two_threads_that_trace_one_model_and_a_third_that_only_uses_it_do_not_mix():
    """Each reads its own text many times, all at once; nobody sees anything of the others."""
    model = perturbed_model(FAMILIES["recurrent to transformer"])
    rows = {length: Sequences.of([[3 + number % 8 for number in range(length)]]) for length in (2, 5, 9)}
    ready, wrong = threading.Barrier(3), list[str]()

    def read(length: int, times: int = 12) -> None:
        one = Batch(rows[length], Sequences.of([[1] * length]), torch.zeros(1, length), torch.arange(1))
        ready.wait()
        for _ in range(times):
            with torch.inference_mode():
                if length == 9:
                    model(one)
                    continue
                with trace(model, ALL_KINDS) as seen:
                    model(one)
            shapes = {each.values.shape[-1] for each in seen.of("attention") if each.is_cross_attention}
            if shapes != {length} or any(len(each.parts) != 1 for each in seen.signals.values()):
                wrong.append(f"{length}: {shapes}")

    threads = [threading.Thread(target=read, args=(length,)) for length in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert not is_watched(model)
