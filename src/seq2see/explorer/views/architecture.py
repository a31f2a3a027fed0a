"""The view "Architecture": the modules of a model with their shapes and sizes, and the source code of each."""

from __future__ import annotations

import inspect
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from torch import nn

import seq2see
from seq2see.core.devices import plain_class
from seq2see.core.errors import UserError
from seq2see.explorer.inputs import TraceRequest, example_of, named_batch
from seq2see.explorer.schemas import InputText, RunRequest
from seq2see.explorer.workspace import Workspace
from seq2see.inspection.module_summary import summarize_modules

PACKAGE_FOLDER = Path(inspect.getfile(seq2see)).parent
"""The folder of this package, whose source code is shown, and that of tasks of `register_task`."""


class BlocksRequest(RunRequest):
    """The modules of a model, and their shapes for one text."""

    text: InputText = ""
    """The input, by default an example of the run."""


class SourceCodeRequest(RunRequest):
    """The source code of one module."""

    block: Annotated[str, Field(max_length=300)]
    """The name of the module, as in `architecture/blocks`; that of the whole model is empty."""


def blocks(workspace: Workspace, request: BlocksRequest) -> dict[str, Any]:
    """A model as a tree of modules, with shapes, parameters and multiply-adds for one example."""
    run = workspace.run(request.run)
    example = example_of(run)
    text = request.text or (example if isinstance(example, str) else "")
    batch = named_batch(workspace, TraceRequest(run=run.id, text=text))
    return {"root": asdict(summarize_modules(run.model.module, batch.batch)), "tokens": batch.tokens}


def source(workspace: Workspace, request: SourceCodeRequest) -> dict[str, Any]:
    """The source code of the class of one module, and of its base classes."""
    run = workspace.run(request.run)
    return code_of(run.model.module, request.block, type(run.task).__module__)


def is_own_class(module_class: type, task_module: str = "") -> bool:
    """Whether a class belongs to this package, or to the module of a task of `register_task`."""
    return module_class.__module__.split(".")[0] == "seq2see" or module_class.__module__ == task_module


def code_of(model: nn.Module, name: str, task_module: str = "") -> dict[str, Any]:
    """The source code of a module's class, followed by that of its base classes in this package."""
    modules = dict(model.named_modules(remove_duplicate=False))
    if name not in modules:
        raise UserError(f"The model has no module '{name}'.", hint="Choose one from the tree of modules.")
    module_class = plain_class(modules[name])
    sources = [_source(each) for each in module_class.__mro__ if is_own_class(each, task_module)]
    return {"kind": module_class.__name__, "sources": sources}


def _source(module_class: type) -> dict[str, Any]:
    lines, first = inspect.getsourcelines(module_class)
    path = Path(inspect.getfile(module_class))
    is_inside = path.is_relative_to(PACKAGE_FOLDER.parent)
    file = path.relative_to(PACKAGE_FOLDER.parent).as_posix() if is_inside else path.name
    return {"name": module_class.__name__, "file": file, "line": first, "text": "".join(lines)}
