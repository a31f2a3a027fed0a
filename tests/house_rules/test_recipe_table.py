"""Every built-in recipe loads, survives the journey through TOML, and explains itself."""

from __future__ import annotations

import tomllib

import pytest

from seq2see.core.settings import Settings, choices, descriptions, walk
from seq2see.recipes.registry import RECIPES, recipe
from seq2see.tasks.model_folder import Recipe
from seq2see.tasks.task import recipe_from_tree, task_named

# Settings that no built-in recipe changes, and yet are there. Paths are `Class.setting`.
EXCUSED = {
    "*.pretrained": "a run of the user, or pretrained weights; any task can begin with them",
    "*.adapter": "for any pretrained model; recipes of translate show the kinds",
    "SVF.matrices": "which matrices, as for the other kinds of adapters",
    "ChatRecipe.template": "what pretrained weights were trained with",
    "ChatRetrieveGenerateRecipe.template": "what pretrained weights were trained with",
    "RoleTemplate.system": "the words of the user: `chat --system TEXT`",
    "PlainTemplate.*": "what language models without tokens for roles are fine-tuned with",
    "ChatMLTemplate.*": "what pretrained weights were trained with",
    "Llama2Template.*": "what pretrained weights were trained with",
    "Llama3Template.*": "what pretrained weights were trained with",
    "UserDialogues.*": "about files of the user",
    "Candidates.*": "given at every call: `predict --set prediction.top_k=3`",
    "ForecastLength.*": "given at every call: `predict --set decoding.max_new_tokens=8`",
    "NgramText.max_tokens": "the windows of an evaluation",
    "Training.seed": "the same for all built-in recipes, so that they can be compared",
    "Training.compile": "pays or not by machine, not by task; it changes no result",
    "Decoding.*": "given at every call: `predict --set decoding.temperature=0.7`, `model(text, num_beams=5)`",
    "Average.*": "one of the settings of decoding",
    "GNMT.*": "one of the settings of decoding",
    "Pretrained.*": "the vocabulary of pretrained weights, which no recipe trains",
    "TextTarget.suppress_tokens": "special tokens that the vocabulary of pretrained weights lacks",
    "TransformerSettings.rope_theta": "what pretrained weights were trained with",
    "BertEmbeddingSettings.max_positions": "what pretrained weights were trained with",
    "Label.pooling": "what pretrained weights were trained with, and what stock transformers can open",
    "Tags.word_pooling": "what pretrained weights were trained with, and what stock transformers can open",
    "EmbeddingTarget.*": "pretrained weights without a head",
    "Augmentation.repeats": "for datasets that are slow to read; those of the recipes are in memory",
    "AdamW.layer_decay": "for weights that have learned before, as `pretrained` gives them",
    "UserPairs.*": "about files of the user",
    "UserLabeledTexts.*": "about files of the user",
    "CatalogueImages.*": "which set",
    "UserCaptionedImages.*": "about files of the user",
    "UserCaptionedVideos.*": "about files of the user",
    "UserImages.*": "about files of the user",
    "UserTaggedTexts.*": "about files of the user",
    "UserTexts.*": "about files of the user",
    "CatalogueCorpus.*": "which corpus, and which of its languages",
    "PocketCorpus.size": "how much is generated; the built-in recipes share one size, so that they can be compared",
    "PocketTense.size": "how much is generated; the built-in recipes share one size, so that they can be compared",
    "NoisySine.*": "how much is generated, and how noisy; the built-in recipes share one series",
    "UserSeries.*": "about files of the user",
    "VideoSource.*": "how large, how colored and how long your own videos are",
    "MovingShapesCorpus.size": "how much is generated",
    "ImageSource.*": "how large and how colored your own images are",
    "ShapesCorpus.size": "how much is generated; the built-in recipes share one size, so that they can be compared",
    "CTCTarget.tokenizer": "depends on your own texts",
    "TransducerTarget.tokenizer": "depends on your own texts",
    "CTCAttentionTarget.*": "as in a target text",
    "SpeechDecoding.*": "given at every call: `predict --set decoding.num_beams=8`",
    "MorseCorpus.*": "how much is generated, and how noisy; the built-in recipes share one set of recordings",
    "ToneCorpus.size": "how much is generated",
    "DigitStrings.size": "how much is joined",
    "DigitStrings.max_digits": "1 for single digits, which published figures are about",
    "DigitStrings.test_speakers": "which speaker is left out; a cross-validation changes it",
    "UserRecordings.*": "about files of the user",
    "Format.*": "about the answers to your own questions",
    "PuzzleCorpus.size": "how much is generated; the built-in recipes share one size, so that they can be compared",
    "BPE.vocab_size": "depends on your own data",
    "Unigram.vocab_size": "depends on your own data",
    "Whitespace.*": "for texts that are tokenized already",
}
ALL = pytest.mark.parametrize("name", RECIPES)


@ALL
def test_a_recipe_is_called_by_its_name(name):
    assert recipe(name).name == name


@ALL
def test_a_recipe_says_what_it_is_in_one_sentence(name):
    first = (RECIPES[name].__doc__ or "").split("\n")[0]
    assert first.endswith(".")


@ALL
def test_a_recipe_survives_the_journey_through_toml(name):
    original = recipe(name)
    assert recipe_from_tree(tomllib.loads(original.toml())) == original


@ALL
def test_every_setting_of_a_recipe_is_explained(name):
    silent = [path for path, _, explanation in walk(recipe(name)) if not explanation and not path.endswith("kind")]
    assert not silent


TASK_NAMES = sorted({make().task for make in RECIPES.values()})
RECIPE_TYPES: list[type[Recipe]] = [task_named(name).recipe for name in TASK_NAMES]


def settings_classes(*classes: type[Settings]) -> set[type[Settings]]:
    """Settings classes (by default the recipe types) and all that can stand in their slots."""
    found = set[type[Settings]](classes or RECIPE_TYPES)
    for cls in classes or RECIPE_TYPES:
        inside = [option for field in cls.model_fields.values() for option in choices(field.annotation)]
        found |= settings_classes(*inside) if inside else set()
    return found


def test_every_settings_class_explains_itself_and_its_fields():
    silent = []
    for cls in settings_classes():
        if not (cls.__doc__ or "").strip():
            silent.append(cls.__name__)
        for name, field in cls.model_fields.items():
            if name != "kind" and not descriptions(cls).get(name) and not choices(field.annotation):
                silent.append(f"{cls.__name__}.{name}")
    assert not silent, f"these need a docstring: {sorted(silent)}"


def used_values() -> dict[str, set[str]]:
    """For each `Class.setting` the values it has in built-in recipes; a slot's value is the class in it."""
    values: dict[str, set[str]] = {}

    def collect(node: Settings) -> None:
        for name in type(node).model_fields:
            value = getattr(node, name)
            shown = type(value).__name__ if isinstance(value, Settings) else repr(value)
            values.setdefault(f"{type(node).__name__}.{name}", set()).add(shown)
            if isinstance(value, Settings):
                collect(value)

    for make in RECIPES.values():
        collect(make())
    return values


def unchanged() -> set[str]:
    """Settings that have their default in every built-in recipe; a slot that takes one class only is no choice."""
    used, found = used_values(), set()
    for cls in settings_classes():
        for name, field in cls.model_fields.items():
            path, default = f"{cls.__name__}.{name}", field.get_default()
            shown = type(default).__name__ if isinstance(default, Settings) else repr(default)
            options = choices(field.annotation)
            if name not in ("kind", "task") and len(options) != 1 and used.get(path, {shown}) <= {shown}:
                found.add(path)
    return found


def excused(path: str) -> bool:
    cls, setting = path.split(".")
    return not EXCUSED.keys().isdisjoint((path, f"{cls}.*", f"*.{setting}"))


def test_a_setting_that_no_built_in_recipe_changes_does_not_exist():
    idle = sorted(path for path in unchanged() if not excused(path))
    assert not idle, f"use them in a recipe, or delete them: {idle}"


def test_every_kind_is_used_by_a_recipe_or_by_users():
    used = set().union(*used_values().values()) | {cls.__name__ for cls in RECIPE_TYPES}
    idle = {cls.__name__ for cls in settings_classes()} - used
    assert idle <= {path.split(".")[0] for path in EXCUSED}, f"no recipe uses {sorted(idle)}"
