"""seq2see: sequence models you can read, train with one command, and look inside.

>>> import seq2see
>>> run = seq2see.train("pocket-transformer")            # doctest: +SKIP
>>> model = seq2see.load("runs/pocket-transformer")      # doctest: +SKIP
>>> model("我有一支笔").text                               # doctest: +SKIP
'I have a pen'
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

# The public names and their modules. They are imported on first use, so that `seq2see --help` does not import torch.
_PUBLIC = {
    "train": "seq2see.api",
    "load": "seq2see.explorer.notebook",
    "recipe": "seq2see.recipes.registry",
    "Recipe": "seq2see.tasks.task",
    "UserError": "seq2see.core.errors",
    "register_encoder": "seq2see.models.build",
    "register_metric": "seq2see.tasks.text_scores",
    "register_task": "seq2see.tasks.task",
    "register_tokenizer": "seq2see.data.tokenizers.tokenizer",
}
__all__ = [
    "Recipe", "UserError", "__version__", "load", "recipe", "register_encoder", "register_metric", "register_task",
    "register_tokenizer", "train",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'seq2see' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_PUBLIC[name]), name)
