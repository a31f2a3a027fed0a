"""The folder of a finished model: everything for prediction, and nothing of the training state.

It has `config.json` (model and decoding settings), `model.safetensors`, the tokenizers, and `MANIFEST.json` with the
SHA-256 of each file. It is written under a temporary name and then renamed; a damaged folder is refused. The further
members of an ensemble are `member-2.safetensors` and so on.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SerializeAsAny
from safetensors.torch import save as to_bytes

from seq2see.core.files import MANIFEST, file_entry, manifest_bytes, sha256, sync_folder, write_bytes, write_json
from seq2see.core.settings import Settings
from seq2see.decoding.ensemble import Ensemble
from seq2see.decoding.settings import Decoding
from seq2see.interop.checkpoint_files import is_pretrained
from seq2see.models.encoder_model import EncoderModel
from seq2see.models.language_model import LanguageModel
from seq2see.models.named_tensors import named_tensors
from seq2see.models.settings import ModelSettings
from seq2see.tasks.processors import Tokenizers
from seq2see.tasks.recipe import Recipe

PREDICTION_SLOTS = ("decoding", "prediction")
"""The slots of a recipe with the settings of a prediction; each task has one of them (see `Task.settings_slot`)."""


class Candidates(Settings):
    """How an encoder-only model predicts."""

    top_k: int = Field(0, ge=0)
    """The number of candidates that are returned at each position; 0 is all classes."""
    precision: Literal["float32", "bf16"] = "float32"
    """Precision of the weights: bf16 halves their bytes; probabilities may differ slightly."""


class ModelConfig(Settings):
    """The content of `config.json`."""

    format: int = 1
    """The version of this format."""
    task: str
    """What the model was trained for."""
    name: str
    """The recipe that trained the model."""
    step: int
    """The training step of the weights."""
    model: SerializeAsAny[ModelSettings]
    decoding: Any = Decoding(max_new_tokens=1)
    """How a model generates: the settings in this slot of its recipe, `Decoding` for texts."""
    prediction: Any = Candidates()
    """How a model predicts in one forward pass: the settings in this slot of its recipe, mostly `Candidates`."""
    members: tuple[SerializeAsAny[ModelSettings], ...] = ()
    """The settings of an ensemble's members after the first; empty for a single model."""

    @staticmethod
    def of(recipe: Recipe, step: int) -> ModelConfig:
        """The configuration of a recipe's model at a training step."""
        slots = {slot: recipe.slot(slot) for slot in PREDICTION_SLOTS if recipe.slot(slot) is not None}
        return ModelConfig(task=recipe.task, name=recipe.name, step=step, model=recipe.model, **slots)

    @property
    def unset_slots(self) -> set[str]:
        """The slots that the recipe does not have."""
        return set(PREDICTION_SLOTS) - self.model_fields_set

    @property
    def max_prompt_tokens(self) -> int:
        """The maximum prompt length of a language model; of an ensemble, the smallest of its members."""
        return min(each.max_prompt_tokens for each in (self.model, *self.members))


@dataclass(frozen=True)
class StoredModel:
    """A model with its configuration and tokenizers, as stored in a folder."""

    config: ModelConfig
    module: LanguageModel | EncoderModel | Ensemble
    tokenizers: Tokenizers


def write_model(folder: Path, stored: StoredModel) -> None:
    """Write the folder atomically."""
    temporary = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    for number, member in enumerate(members_of(stored.module), 1):
        weights = {name: tensor.cpu().contiguous() for name, tensor in named_tensors(member).items()}
        write_bytes(temporary / weights_file(number), to_bytes(weights))
    left_out = stored.config.unset_slots | ({"members"} if not stored.config.members else set())
    write_json(temporary / "config.json", stored.config.model_dump(mode="json", exclude_none=True, exclude=left_out))
    stored.tokenizers.save(temporary)
    entries = {path.name: file_entry(path.read_bytes()) for path in sorted(temporary.iterdir())}
    write_bytes(temporary / MANIFEST, manifest_bytes(stored.config.step, entries))
    temporary.rename(folder)
    sync_folder(folder.parent)


def fingerprint_of(folder: Path) -> str:
    """A hash of everything in a model folder."""
    if not is_pretrained(folder):
        return sha256(folder / MANIFEST)
    if folder.is_file():
        return sha256(folder)
    files = [path for pattern in ("*.json", "*.txt", "*.safetensors") for path in sorted(folder.glob(pattern))]
    return hashlib.sha256(" ".join(f"{path.name} {sha256(path)}" for path in files).encode()).hexdigest()


def members_of(module: LanguageModel | EncoderModel | Ensemble) -> list[LanguageModel | EncoderModel]:
    """The members of an ensemble, or the single model."""
    return [
        each for each in getattr(module, "trained_members", [module]) if isinstance(each, LanguageModel | EncoderModel)
    ]


def weights_file(number: int) -> str:
    """The name of the file of an ensemble's member, the first of which is 1."""
    return "model.safetensors" if number == 1 else f"member-{number}.safetensors"
