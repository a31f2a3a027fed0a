"""What a command does while it imports large modules."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Disable garbage collection during imports, and exclude the imported objects from later collections.

    Collections during the import of torch take a third of a second. If torch is already imported, nothing is done,
    because freezing would also keep the garbage of the caller.
    """
    if "torch" in sys.modules:
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
