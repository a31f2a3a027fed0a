"""Recipes for puzzles: synthetic tasks with exact solutions, which show the limits of a model."""

from __future__ import annotations

from typing import Literal

from seq2see.data.generated.puzzle_corpus import PuzzleCorpus
from seq2see.data.tokenizers.tokenizer import Characters, WordLevel
from seq2see.models.settings import Text, TextTarget
from seq2see.recipes.pocket import pocket_transformer
from seq2see.tasks.translate import TranslateRecipe


def puzzle_copy() -> TranslateRecipe:
    """Copy the source: the identity function, hardest for a model with a single context vector."""
    return _puzzle("copy")


def puzzle_reverse() -> TranslateRecipe:
    """Reverse the source."""
    return _puzzle("reverse")


def puzzle_sort() -> TranslateRecipe:
    """Sort the source."""
    return _puzzle("sort")


def puzzle_add() -> TranslateRecipe:
    """Add two numbers, digit by digit."""
    return _puzzle("add")


def _puzzle(name: Literal["copy", "reverse", "sort", "add"]) -> TranslateRecipe:
    tokenizer = Characters() if name == "add" else WordLevel()
    return pocket_transformer().model_copy(
        update={
            "name": f"puzzle-{name}",
            "corpus": PuzzleCorpus(puzzle=name),
            "source": Text(tokenizer=tokenizer),
            "target": TextTarget(tokenizer=tokenizer, vocabulary="shared"),
            "metrics": ("exact_match", "bleu"),
        }
    )
