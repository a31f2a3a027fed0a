"""Cooperative cancellation: long computations regularly check whether their result is still needed.

A thread cannot be stopped from outside. So the caller of a long computation registers a check, and the computation (for
example decoding, token by token) calls it between two steps. Without a registered check, nothing happens.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

_CHECK: ContextVar[Callable[[], None] | None] = ContextVar("cancellation", default=None)


@contextlib.contextmanager
def cancellable(check: Callable[[], None]) -> Iterator[None]:
    """Register a check for this context: `check_cancelled` calls it, and an exception of it ends the computation."""
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)


def check_cancelled() -> None:
    """Call the registered check, which raises an exception if the result is no longer needed."""
    check = _CHECK.get()
    if check is not None:
        check()
