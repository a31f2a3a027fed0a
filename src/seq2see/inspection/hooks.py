"""Hooks for several concurrent traces of one model.

A model is shared: while one thread traces it, another thread may use it, or trace it too. So a layer does not call a
trace directly. It calls a dispatcher, which passes the payload to the hooks of the current thread only. The dispatcher
is attached to a layer as long as at least one trace in any thread uses it.
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
"""A function of a module and its payload: a record of its inputs (see `Attention.hook`), or its output."""

ACTIVE_HOOKS: ContextVar[tuple[Mapping[int, Hook], ...]] = ContextVar("active_hooks", default=())
"""The hooks of this thread (strictly, of this context): one mapping for each trace, from the id of a module."""
LOCK = threading.Lock()
HOOKED_MODULES: dict[int, tuple[int, Callable[[], None]]] = {}
"""By the id of a module: the number of traces that use it, and the function that detaches the dispatcher."""


@contextlib.contextmanager
def attach_hooks(modules: Mapping[nn.Module, Hook]) -> Iterator[None]:
    """Call each hook with the record of its module (if the module has a `hook` attribute), else with its output."""
    with LOCK:
        for module in modules:
            count, detach = HOOKED_MODULES.get(id(module)) or (0, _attach(module))
            HOOKED_MODULES[id(module)] = (count + 1, detach)
    token = ACTIVE_HOOKS.set((*ACTIVE_HOOKS.get(), {id(module): hook for module, hook in modules.items()}))
    try:
        yield
    finally:
        ACTIVE_HOOKS.reset(token)
        with LOCK:
            for module in modules:
                count, detach = HOOKED_MODULES.pop(id(module))
                if count > 1:
                    HOOKED_MODULES[id(module)] = (count - 1, detach)
                else:
                    detach()


def _attach(module: nn.Module) -> Callable[[], None]:
    if hasattr(module, "hook"):
        setattr(module, "hook", partial(_dispatch, module))  # noqa: B010 - to mypy a module's attributes are tensors
        return partial(delattr, module, "hook")  # the class attribute is None
    return module.register_forward_hook(lambda module, inputs, output: _dispatch(module, output)).remove


def _dispatch(module: nn.Module, payload: Any) -> None:
    for hooks in ACTIVE_HOOKS.get():
        if id(module) in hooks:
            hooks[id(module)](module, payload)
