"""What becomes of a token's vector on its way through a stack: its value before the first block, and after each.

Nothing is computed otherwise than without a watcher: hooks look at what passes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from seq2see.core.batch import Sequences


@contextlib.contextmanager
def watch_stream(frontend: nn.Module, body: Any) -> Iterator[list[tuple[str, Tensor]]]:
    """Collect (where, vectors) from a frontend and from each block of a body; one without blocks counts as one."""
    blocks = list(getattr(body, "blocks", [])) or [body]
    names = {id(frontend): "entering"} | {id(block): f"block {number}" for number, block in enumerate(blocks, 1)}
    seen: list[tuple[str, Tensor]] = []

    def look(part: nn.Module, given: Any, gives: Any) -> None:
        values = gives.values if isinstance(gives, Sequences) else gives
        seen.append((names[id(part)], values.detach().float().cpu()))

    hooks = [part.register_forward_hook(look) for part in (frontend, *blocks)]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()
