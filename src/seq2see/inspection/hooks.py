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

Hook = Callable[[nn.Module, Any], None]
"""A watcher: told which part it was, and what the part showed."""

ACTIVE_HOOKS: ContextVar[tuple[Mapping[int, Hook], ...]] = ContextVar("watchers", default=())
"""Those of this thread (strictly, of this context), each with the parts it watches, by id."""
LOCK = threading.Lock()
HOOKED_PARTS: dict[int, tuple[int, Callable[[], None]]] = {}
"""How many watch a part, by its id, and what takes the watch off again."""


@contextlib.contextmanager
def attach_hooks(parts: Mapping[nn.Module, Hook]) -> Iterator[None]:
    """Call each part's watcher with what the part shows (if it has a place for a probe) or gives (if not)."""
    with LOCK:
        for part in parts:
            count, detach = HOOKED_PARTS.get(id(part)) or (0, _attach(part))
            HOOKED_PARTS[id(part)] = (count + 1, detach)
    token = ACTIVE_HOOKS.set((*ACTIVE_HOOKS.get(), {id(part): hook for part, hook in parts.items()}))
    try:
        yield
    finally:
        ACTIVE_HOOKS.reset(token)
        with LOCK:
            for part in parts:
                count, detach = HOOKED_PARTS.pop(id(part))
                if count > 1:
                    HOOKED_PARTS[id(part)] = (count - 1, detach)
                else:
                    detach()


def _attach(part: nn.Module) -> Callable[[], None]:
    if hasattr(part, "hook"):
        setattr(part, "hook", partial(_dispatch, part))  # noqa: B010 - to mypy a module's attributes are tensors
        return partial(delattr, part, "probe")  # the class says None
    return part.register_forward_hook(lambda part, given, gives: _dispatch(part, gives)).remove


def _dispatch(part: nn.Module, payload: Any) -> None:
    for hooks in ACTIVE_HOOKS.get():
        if id(part) in hooks:
            hooks[id(part)](part, payload)
