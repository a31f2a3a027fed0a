"""Line-by-line differences of two parts of the source, for the pages; they are computed from the source itself.

Docstrings, comments and type annotations are removed, the code is formatted by `ast.unparse`, and `source` and `target`
are both renamed to `text`, so that only differences in behavior remain.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any

from languages import Translate

from seq2see.models.bert import BERT
from seq2see.models.gpt import GPTDecoder
from seq2see.models.language_model import LanguageModel
from seq2see.models.transformer import DecoderBlock, EncoderBlock, TransformerDecoder, TransformerEncoder

PAIRS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "encoder-to-gpt": (TransformerEncoder.forward, GPTDecoder.forward),
    "gpt-to-decoder": (GPTDecoder.run_blocks, TransformerDecoder.run_blocks),
    "encoder-block-to-decoder-block": (EncoderBlock.__init__, DecoderBlock.__init__),
    "language-model-to-bert": (LanguageModel.hidden, BERT.hidden),
}


def difference_block(translate: Translate, name: str) -> str:
    """The difference of a pair of functions as a diff block."""
    first, second = PAIRS[name]
    lines = list(difflib.ndiff(_code(first), _code(second)))
    diff = [line.rstrip() for line in lines if not line.startswith("?")]
    return "\n".join([f"`{first.__qualname__}` → `{second.__qualname__}`:", "", "```diff", *diff, "```"])


def _code(function: Callable[..., Any]) -> list[str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    body = tree.body[0]
    assert isinstance(body, ast.FunctionDef)
    if ast.get_docstring(body):
        body.body = body.body[1:]
    body.returns = None
    for argument in body.args.args:
        argument.annotation = None
    lines = [line for line in ast.unparse(tree).split("\n") if not line.strip().startswith("assert ")]
    return [re.sub(r"\b(source|target)\b", "text", line) for line in lines]
