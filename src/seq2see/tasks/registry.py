"""Every task by name, and the door for tasks from outside."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError, unknown_name
from seq2see.core.settings import read_tree
from seq2see.models.image_settings import ImageSource, VideoSource
from seq2see.models.ngram_lm import NgramSettings
from seq2see.models.settings import (
    EmbeddingTarget,
    ImageLabel,
    Label,
    MaskedTokensNSPTarget,
    MaskedTokensTarget,
    ModelSettings,
    Series,
    Tags,
)
from seq2see.tasks.caption import Caption, CaptionVideo
from seq2see.tasks.classify_image import ClassifyImage
from seq2see.tasks.classify_text import ClassifyText
from seq2see.tasks.embed import Embed, EmbedImage
from seq2see.tasks.fill import Fill
from seq2see.tasks.forecast import Forecast
from seq2see.tasks.ngram import Ngram
from seq2see.tasks.recipe import Recipe
from seq2see.tasks.tag import Tag
from seq2see.tasks.task import Task
from seq2see.tasks.translate import Translate
from seq2see.tasks.write import Write

TASKS: dict[str, Task] = {
    "translate": Translate(),
    "write": Write(),
    "ngram": Ngram(),
    "fill": Fill(),
    "classify-text": ClassifyText(),
    "tag": Tag(),
    "classify-image": ClassifyImage(),
    "caption": Caption(),
    "caption-video": CaptionVideo(),
    "forecast": Forecast(),
    "embed": Embed(),
    "embed-image": EmbedImage(),
}


def register_task(task: Task) -> None:
    """Add a task from outside: its recipes, runs and models are then used as those of the built-in tasks."""
    if type(TASKS.get(task.name, task)) is not type(task):
        raise UserError(f"There is already a task '{task.name}'.", hint="Give your task another name.")
    TASKS[task.name] = task


def task_named(name: str, location: str = "") -> Task:
    """The task with this name."""
    if name not in TASKS:
        raise unknown_name("task", name, TASKS, location=location)
    return TASKS[name]


def task_of(recipe: Recipe) -> Task:
    """The task of a recipe."""
    return task_named(recipe.task)


def read_recipe(path: Path) -> Recipe:
    """Read a recipe from a TOML file; its `task` determines its type."""
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"This is not valid TOML: {error}.", location=str(path)) from None
    return recipe_from_tree(tree, str(path))


def recipe_from_tree(tree: dict[str, Any], location: str = "") -> Recipe:
    """Read a recipe from nested dictionaries."""
    if "task" not in tree:
        names = ", ".join(TASKS)
        raise UserError("This recipe has no task.", location=location, hint=f'Add a line task = "...": {names}.')
    return read_tree(task_named(str(tree["task"]), location).recipe, tree, location=location)


def pretrained_task(settings: ModelSettings) -> str:
    """The name of the task of pretrained weights, which have no recipe."""
    is_image = isinstance(settings.source, ImageSource)
    if isinstance(settings.target, EmbeddingTarget):
        return "embed-image" if is_image else "embed"
    by_target = {
        MaskedTokensTarget: "fill",
        MaskedTokensNSPTarget: "fill",
        Label: "classify-text",
        ImageLabel: "classify-image",
        Tags: "tag",
        Series: "forecast",
    }
    if type(settings.target) in by_target:
        return by_target[type(settings.target)]
    if is_image:
        return "caption-video" if isinstance(settings.source, VideoSource) else "caption"
    if settings.source is None:
        return "ngram" if isinstance(settings.decoder, NgramSettings) else "write"
    return "translate"
