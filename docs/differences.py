"""Where two parts of the source differ, line by line, as a page shows it: computed from the source itself.

Docstrings and comments are left out, the code is written in one style, and what is read is called `text` everywhere, be
it a source or a target: so that only what is done differently shows.
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
    "gpt-to-decoder": (GPTDecoder.forward, TransformerDecoder.forward),
    "encoder-block-to-decoder-block": (EncoderBlock.__init__, DecoderBlock.__init__),
    "language-model-to-bert": (LanguageModel.hidden, BERT.hidden),
}


def difference_block(translate: Translate, name: str) -> str:
    """What the second of a pair does in other words than the first."""
    first, second = PAIRS[name]
    lines = list(difflib.ndiff(_code(first), _code(second)))
    shown = [line.rstrip() for line in lines if not line.startswith("?")]
    return "\n".join([f"`{first.__qualname__}` → `{second.__qualname__}`:", "", "```diff", *shown, "```"])


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
