"""Every task by name, and the door for tasks from outside."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError, unknown_name
from seq2see.core.settings import choices, read_tree
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
from seq2see.tasks.model_folder import PREDICTION_SLOTS, ModelConfig
from seq2see.tasks.recipe import Recipe
from seq2see.tasks.task import Task

TASKS: dict[str, str] = {
    "translate": "seq2see.tasks.translate.Translate",
    "write": "seq2see.tasks.write.Write",
    "chat": "seq2see.tasks.chat.Chat",
    "chat-seq2seq": "seq2see.tasks.chat.ChatSeq2seq",
    "chat-retrieve": "seq2see.tasks.chat_retrieval.ChatRetrieve",
    "chat-retrieve-generate": "seq2see.tasks.chat_retrieval.ChatRetrieveGenerate",
    "ngram": "seq2see.tasks.ngram.Ngram",
    "fill": "seq2see.tasks.fill.Fill",
    "classify-text": "seq2see.tasks.classify_text.ClassifyText",
    "tag": "seq2see.tasks.tag.Tag",
    "classify-image": "seq2see.tasks.classify_image.ClassifyImage",
    "caption": "seq2see.tasks.caption.Caption",
    "caption-video": "seq2see.tasks.caption.CaptionVideo",
    "forecast": "seq2see.tasks.forecast.Forecast",
    "embed": "seq2see.tasks.embed.Embed",
    "embed-image": "seq2see.tasks.embed.EmbedImage",
}
"""The class of each built-in task. It is imported on first use, so that a prediction imports one task, not all."""
_tasks: dict[str, Task] = {}
"""The tasks that are imported or registered."""


def register_task(task: Task) -> None:
    """Add a task from outside: its recipes, runs and models are then used as those of the built-in tasks."""
    if task.name in TASKS or type(_tasks.get(task.name, task)) is not type(task):
        raise UserError(f"There is already a task '{task.name}'.", hint="Give your task another name.")
    _tasks[task.name] = task


def task_names() -> list[str]:
    """The names of all tasks, the built-in ones first."""
    return list(dict.fromkeys([*TASKS, *_tasks]))


def own_tasks() -> list[str]:
    """The names of the tasks of `register_task`."""
    return [name for name in _tasks if name not in TASKS]


def task_named(name: str, location: str = "") -> Task:
    """The task with this name."""
    if name not in _tasks:
        if name not in TASKS:
            error = unknown_name("task", name, task_names(), location=location)
            own = "Or import the module that registers it with `seq2see.register_task`."
            raise UserError(error.message, location=location, hint=f"{error.hint} {own}")
        module, _, cls = TASKS[name].rpartition(".")
        _tasks[name] = getattr(importlib.import_module(module), cls)()
    return _tasks[name]


def task_of(recipe: Recipe) -> Task:
    """The task of a recipe."""
    return task_named(recipe.task)


def default_recipe(name: str) -> Recipe:
    """The recipe of a task with the defaults of its settings, such as for a task of `register_task`."""
    return read_tree(task_named(name).recipe, {"task": name, "name": name})


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
        names = ", ".join(task_names())
        raise UserError("This recipe has no task.", location=location, hint=f'Add a line task = "...": {names}.')
    return read_tree(task_named(str(tree["task"]), location).recipe, tree, location=location)


def config_from_tree(tree: dict[str, Any], location: str = "") -> ModelConfig:
    """Read the content of `config.json`; the task determines the types of the settings in it."""
    task = task_named(str(tree.get("task")), location)
    model_settings = task.recipe.model_settings
    parts: dict[str, Any] = {
        "model": read_tree(model_settings, tree.get("model", {}), location=location),
        "members": tuple(read_tree(model_settings, each, location=location) for each in tree.get("members", ())),
    }
    for slot in set(PREDICTION_SLOTS) & tree.keys() & task.recipe.model_fields.keys():
        (settings_class,) = choices(task.recipe.model_fields[slot])
        parts[slot] = read_tree(settings_class, tree[slot], location=location)
    return read_tree(ModelConfig, tree | parts, location=location)


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
