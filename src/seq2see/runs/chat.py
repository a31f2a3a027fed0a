"""Opening a model for a conversation, and the training reply that is most similar to a reply."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from torch import nn

from seq2see.acceleration.packed_weights import has_four_bit_weights
from seq2see.acceleration.swaps import plain_only
from seq2see.core.devices import device_of, pick_device
from seq2see.core.errors import UserError
from seq2see.data.chat_templates import BaseTemplate, PlainTemplate
from seq2see.interop.chat_template_files import find_template
from seq2see.interop.checkpoint_files import is_pretrained
from seq2see.runs.load import load, open_for_prediction, read_model
from seq2see.runs.run_folder import find_model, find_run
from seq2see.tasks.conversation import NearestReply
from seq2see.tasks.model_folder import ModelConfig, StoredModel
from seq2see.tasks.task import task_named, task_of

MAX_NEW_TOKENS = 256
"""The default length of a reply of pretrained weights, which have no recipe."""


def open_chat(name: str) -> Any:
    """A model that can hold a conversation: a run of chat, or pretrained weights with a known chat template."""
    folder = find_model(name)
    if is_pretrained(folder):
        template = find_template(folder)
        if template is None:
            hint = f"Train it on dialogues first: `seq2see train chat my.jsonl --set pretrained={name}`."
            raise UserError(
                "This model has no chat template: it was not trained on dialogues.", location=name, hint=hint
            )
        model: Any = open_for_prediction(as_chat(read_model(folder, pick_device()), template))
        model.name = name
        return model
    model = load(name)
    if not hasattr(model, "conversation"):
        message = f"This is a model of the task {model.task.name}, which has no conversation."
        raise UserError(message, location=name, hint="Train one with `seq2see train chat`.")
    return model


def as_chat(stored: StoredModel, template: BaseTemplate) -> StoredModel:
    """The language model as a model of the task chat, with this template."""
    settings: Any = task_named("chat").recipe.model_settings
    fields = {name: getattr(stored.config.model, name) for name in ("target", "decoder")}
    config = ModelConfig(
        task="chat",
        name=stored.config.name,
        step=stored.config.step,
        model=settings(**fields, template=template),
        decoding=stored.config.decoding.with_(max_new_tokens=MAX_NEW_TOKENS, precision=usual_precision(stored.module)),
    )
    return StoredModel(config, stored.module, stored.tokenizers)


def usual_precision(module: nn.Module) -> Literal["bf16", "float32"]:
    """bf16 for weights of four bits on a CPU, where they are read as four bits; otherwise float32."""
    on_cpu = device_of(module).type == "cpu" and not plain_only()
    return "bf16" if on_cpu and has_four_bit_weights(module) else "float32"


def template_for_training(stored: StoredModel, path: Path) -> BaseTemplate:
    """The template for training a language model on dialogues: its own, or one with roles as text."""
    own = getattr(stored.config.model, "template", None)
    if own is not None:
        template: BaseTemplate = own
        return template
    return (find_template(path) if is_pretrained(path) else None) or PlainTemplate()


def training_replies(name: str) -> list[str]:
    """All replies of the training dialogues of a run."""
    recipe = find_run(name).recipe()
    splits, _ = task_of(recipe).read(recipe)
    dialogues: Sequence[Any] = splits["train"]
    return list(dict.fromkeys(each.messages[index].content for each in dialogues for index in each.replies))


def nearest_reply(text: str, replies: Sequence[str]) -> NearestReply:
    """The most similar of these replies by edit distance; a distance of 0 shows that a reply was memorized."""
    from rapidfuzz.distance import Levenshtein  # only where it is used

    distances = [Levenshtein.normalized_distance(text, each) for each in replies]
    best = min(range(len(replies)), key=distances.__getitem__, default=None)
    return NearestReply("", 1.0) if best is None else NearestReply(replies[best], distances[best])
