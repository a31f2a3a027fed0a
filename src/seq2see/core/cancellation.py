"""How long somebody waits for what is being computed: long work asks now and then whether it is still wanted.

A thread cannot be stopped from outside, so whoever starts work says when it is no longer wanted, and what works in
many steps (a search, token by token) asks between two of them. Nobody who has nothing to say is asked anything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

_CHECK: ContextVar[Callable[[], None] | None] = ContextVar("patience", default=None)


@contextlib.contextmanager
def cancellable(check: Callable[[], None]) -> Iterator[None]:
    """Within, `check_cancelled` calls this; what it raises ends the work."""
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)


def check_cancelled() -> None:
    """Between two steps of long work: raises, if whoever waited for it in this thread no longer does."""
    check = _CHECK.get()
    if check is not None:
        check()
