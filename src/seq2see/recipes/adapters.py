"""Recipes of adapters: a model that copies learns to reverse, while its weights stay as they are.

The base is the run of `puzzle-copy`. Training takes a minute or two.
"""

from __future__ import annotations

from seq2see.adapters.settings import SVF, AdapterSettings, LoRA, NormalizedSVF
from seq2see.recipes.pocket import puzzle_reverse
from seq2see.tasks.translate import TranslateRecipe
from seq2see.training.optimizers import Cosine

BASE = "runs/puzzle-copy"


def adapt_lora() -> TranslateRecipe:
    """LoRA: a model that copies learns to reverse; only queries and values are adapted, as in the paper."""
    return _reverse("adapt-lora", LoRA(rank=4, alpha=16, matrices=("*.q_proj", "*.v_proj")), 5e-3)


def adapt_svf() -> TranslateRecipe:
    """SVF: a model that copies learns to reverse, with one trained number for each singular value."""
    return _reverse("adapt-svf", SVF(), 0.05)


def adapt_svf_normalized() -> TranslateRecipe:
    """SVF as in the program of its authors: only feed-forward layers, and a constant sum of the singular values."""
    return _reverse("adapt-svf-normalized", NormalizedSVF(matrices=("*.feed_forward.*",)), 0.1)


def _reverse(name: str, adapter: AdapterSettings, learning_rate: float) -> TranslateRecipe:
    recipe = puzzle_reverse()
    changes = {"steps": 500, "evaluate_every": 100, "learning_rate": learning_rate, "schedule": Cosine(warmup=20)}
    return recipe.model_copy(
        update={
            "name": name,
            "pretrained": BASE,
            "adapter": adapter,
            "training": recipe.training.model_copy(update=changes),
        }
    )
