"""Runs one command of a package under `sys.setprofile`, and writes which functions of the package called which.

    python benchmarks/called_functions.py CALLS.json PACKAGE ARGUMENT ...

runs `PACKAGE.cli.main` with the arguments. The process must be fresh: a function that is called once, and whose result
is cached, would be missed.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

STEP_FUNCTION = "Trainer.enqueue"
"""The function that a training calls once for each optimizer step."""
STEP = 3
"""The optimizer step that is recorded by itself: some earlier ones have filled the caches."""

Function = tuple[str, str]
"""The file of a function, relative to the package, and its name with its class."""


class Calls:
    """The functions that were called, and the jumps: calls of a function in one file by a function in another."""

    def __init__(self) -> None:
        self.functions: set[Function] = set()
        self.jumps: set[tuple[Function, Function]] = set()

    def add(self, caller: Function | None, function: Function) -> None:
        """Add one call; `caller` is None if no function of the package is on the stack, as in a new thread."""
        self.functions.add(function)
        if caller is not None and caller[0] != function[0]:
            self.jumps.add((caller, function))

    def document(self) -> dict[str, Any]:
        """The calls in the form of JSON."""
        return {"functions": sorted(self.functions), "jumps": sorted(self.jumps)}


class CallRecorder:
    """A profile function for `sys.setprofile` that records the calls of a package's functions, in all threads.

    The caller of a function is the innermost function of the package below it on the stack: `layer(x)` runs code of
    torch that calls `forward`, and a reader goes from the one to the other directly. A lambda or a comprehension
    belongs to the function around it. Not counted are the bodies of modules and classes, whatever they call while they
    are imported, and generated functions (of a dataclass, for example), which are in no file.
    """

    def __init__(self, package: Path):
        self.prefix = f"{package.resolve()}/"
        self.all, self.step = Calls(), Calls()
        self.steps = 0
        self._importing: Counter[int] = Counter()  # the number of bodies that run now, by thread

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Receive an event: a call or a return."""
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(self.prefix):
            return
        thread = threading.get_ident()
        if not code.co_flags & inspect.CO_OPTIMIZED:  # the body of a module or class
            self._importing[thread] += 1 if event == "call" else -1
        elif event == "call" and not self._importing[thread]:
            self._record(frame)

    def _record(self, frame: FrameType) -> None:
        function = self._function(frame.f_code)
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(self.prefix):
            caller = caller.f_back
        self.steps += frame.f_code.co_qualname == STEP_FUNCTION
        for calls in (self.all, self.step) if self.steps == STEP else (self.all,):
            calls.add(self._function(caller.f_code) if caller else None, function)

    def _function(self, code: CodeType) -> Function:
        return code.co_filename.removeprefix(self.prefix), code.co_qualname.partition(".<locals>.<")[0]


def main(path: Path, package: str, arguments: list[str]) -> None:
    """Run the command, and write its calls and those of one optimizer step."""
    command = importlib.import_module(f"{package}.cli").main
    recorder = CallRecorder(Path(str(sys.modules[package].__file__)).parent)
    sys.argv = [package, *arguments]
    threading.setprofile(recorder)
    sys.setprofile(recorder)
    try:
        command()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    path.write_text(json.dumps({"all": recorder.all.document(), "step": recorder.step.document()}), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
