"""A model's blocks with their shapes and sizes, and the source code of each."""

from __future__ import annotations

import inspect
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from torch import nn

import seq2see
from seq2see.core.errors import UserError
from seq2see.explorer.default_inputs import example_of
from seq2see.explorer.schemas import InputText, RunRequest
from seq2see.explorer.traces import TraceRequest, reading
from seq2see.explorer.workspace import Workspace
from seq2see.inspection.module_summary import summarize_modules

PACKAGE_FOLDER = Path(inspect.getfile(seq2see)).parent
"""Where our own modules lie; only these are shown."""


class BlocksRequest(RunRequest):
    """The blocks of a model, and what one text does in them."""

    text: InputText = ""
    """Without one, an example of the run's own is read."""


class SourceCodeRequest(RunRequest):
    """The source code of one block."""

    block: Annotated[str, Field(max_length=300)]
    """Its name, as `architecture/blocks` tells it; that of the whole model is empty."""


def blocks(workspace: Workspace, request: BlocksRequest) -> dict[str, Any]:
    """A model as nested blocks, with shapes, parameters and multiply-adds for one example."""
    run = workspace.run(request.run)
    usual = example_of(run)
    read = reading(workspace, TraceRequest(run=run.id, text=request.text or (usual if isinstance(usual, str) else "")))
    return {"root": asdict(summarize_modules(run.model.module, read.batch)), "tokens": read.tokens}


def source(workspace: Workspace, request: SourceCodeRequest) -> dict[str, Any]:
    """The source code of one block's class, and of those it builds on."""
    return code_of(workspace.run(request.run).model.module, request.block)


def is_own_class(kind: type) -> bool:
    """Whether a class is one of this package."""
    return kind.__module__.split(".")[0] == "seq2see"


def code_of(model: nn.Module, name: str) -> dict[str, Any]:
    """The source of a block's class, and behind it that of the classes it builds on, as far as they are ours."""
    parts = dict(model.named_modules(remove_duplicate=False))
    if name not in parts:
        raise UserError(f"The model has no block '{name}'.", hint="Choose one of those that are drawn.")
    kind = type(parts[name])
    return {"kind": kind.__name__, "sources": [_source(each) for each in kind.__mro__ if is_own_class(each)]}


def _source(kind: type) -> dict[str, Any]:
    lines, first = inspect.getsourcelines(kind)
    file = Path(inspect.getfile(kind)).relative_to(PACKAGE_FOLDER.parent)
    return {"name": kind.__name__, "file": file.as_posix(), "line": first, "text": "".join(lines)}
