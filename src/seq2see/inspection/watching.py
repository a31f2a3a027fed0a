"""Who is watching: probes and hooks that serve several watchers of one model at once.

A model is shared: while one request traces it, another may use it, or trace it too. So what a layer calls is not a
watcher but a post office: it hands what it was shown to the watchers of the thread that computes, and to no other. A
layer has its probe as long as anybody watches it anywhere, and none before and after.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any

from torch import nn

Notice = Callable[[nn.Module, Any], None]
"""A watcher: told which part it was, and what the part showed."""

WATCHERS: ContextVar[tuple[Mapping[int, Notice], ...]] = ContextVar("watchers", default=())
"""Those of this thread (strictly, of this context), each with the parts it watches, by id."""
LOCK = threading.Lock()
WATCHED: dict[int, tuple[int, Callable[[], None]]] = {}
"""How many watch a part, by its id, and what takes the watch off again."""


@contextlib.contextmanager
def watching(parts: Mapping[nn.Module, Notice]) -> Iterator[None]:
    """Call each part's watcher with what the part shows (if it has a place for a probe) or gives (if not)."""
    with LOCK:
        for part in parts:
            count, off = WATCHED.get(id(part)) or (0, _put_on(part))
            WATCHED[id(part)] = (count + 1, off)
    token = WATCHERS.set((*WATCHERS.get(), {id(part): notice for part, notice in parts.items()}))
    try:
        yield
    finally:
        WATCHERS.reset(token)
        with LOCK:
            for part in parts:
                count, off = WATCHED.pop(id(part))
                if count > 1:
                    WATCHED[id(part)] = (count - 1, off)
                else:
                    off()


def _put_on(part: nn.Module) -> Callable[[], None]:
    if hasattr(part, "probe"):
        setattr(part, "probe", partial(_deliver, part))  # noqa: B010 - to mypy a module's attributes are tensors
        return partial(delattr, part, "probe")  # the class says None
    return part.register_forward_hook(lambda part, given, gives: _deliver(part, gives)).remove


def _deliver(part: nn.Module, shown: Any) -> None:
    for watched in WATCHERS.get():
        if id(part) in watched:
            watched[id(part)](part, shown)
