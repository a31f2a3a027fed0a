"""The folder of a finished model: everything for prediction, and nothing of the training state.

It has `config.json` (model and decoding settings), `model.safetensors`, the tokenizers, and `MANIFEST.json` with the
SHA-256 of each file. It is written under a temporary name and then renamed; a damaged folder is refused. The further
members of an ensemble are `member-2.safetensors` and so on.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes

from seq2see.core.errors import UserError
from seq2see.core.files import sha256, sync_folder, write_bytes, write_json
from seq2see.core.manifests import MANIFEST, file_entry, manifest_bytes, read_verified, verify_folder
from seq2see.core.settings import Settings, read_tree
from seq2see.decoding.ensemble import Ensemble
from seq2see.decoding.settings import Decoding
from seq2see.interop.folders import is_pretrained
from seq2see.interop.pretrained import read_npz, read_pretrained
from seq2see.models.build import build_model
from seq2see.models.encoder_model import EncoderModel
from seq2see.models.language_model import LanguageModel
from seq2see.models.named_tensors import load_named_tensors, named_tensors
from seq2see.models.settings import ModelSettings
from seq2see.runs.model_tokenizers import Tokenizers

if TYPE_CHECKING:
    from seq2see.runs.recipe import Recipe


class ModelConfig(Settings):
    """The content of `config.json`."""

    format: int = 1
    """The version of this format."""
    name: str
    """The recipe that trained the model."""
    step: int
    """The training step of the weights."""
    model: ModelSettings
    decoding: Decoding
    members: tuple[ModelSettings, ...] = ()
    """The settings of an ensemble's members after the first; empty for a single model."""

    @staticmethod
    def of(recipe: Recipe, step: int) -> ModelConfig:
        """The configuration of a recipe's model at a training step."""
        return ModelConfig(name=recipe.name, step=step, model=recipe.model, decoding=recipe.decoding)

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
        write_bytes(temporary / _weights_file(number), to_bytes(weights))
    single = {"members"} if not stored.config.members else set()
    write_json(temporary / "config.json", stored.config.model_dump(mode="json", exclude_none=True, exclude=single))
    stored.tokenizers.save(temporary)
    entries = {path.name: file_entry(path.read_bytes()) for path in sorted(temporary.iterdir())}
    write_bytes(temporary / MANIFEST, manifest_bytes(stored.config.step, entries))
    temporary.rename(folder)
    sync_folder(folder.parent)


def read_model(folder: Path, device: torch.device) -> StoredModel:
    """Read and verify a model folder, or read a Hugging Face folder."""
    if is_pretrained(folder):
        return _read_pretrained(folder, device)
    try:
        tree = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError) as error:
        raise _damaged(folder, f"This model cannot be read: {error}.") from None
    config = read_tree(ModelConfig, tree, location=str(folder / "config.json"))
    files, faults = verify_folder(folder, config.step)
    if faults:
        raise _damaged(folder, f"This model is damaged: {'; '.join(faults)}.")
    tokenizers = Tokenizers.load(folder)
    members = []
    for number, settings in enumerate((config.model, *config.members), 1):
        members.append(build_model(settings, *tokenizers.sizes))
        load_named_tensors(members[-1], from_bytes(read_verified(folder, _weights_file(number), files)))
    module = Ensemble(members) if config.members else members[0]
    return StoredModel(config, module.to(device).eval(), tokenizers)


def _damaged(folder: Path, message: str) -> UserError:
    """The error for a damaged folder; a run with checkpoints can write its model again."""
    run, hint = folder.parent, "Copy it again, or create it again."
    if (run / "checkpoints").is_dir():
        hint = f"Delete this folder, and write it again with `seq2see train {run}/recipe.toml --out {run}`."
    return UserError(message, location=str(folder), hint=hint)


def _read_pretrained(folder: Path, device: torch.device) -> StoredModel:
    if folder.suffix == ".gguf":
        from seq2see.interop.gguf_file import read_gguf  # imported here, because it is rarely used

        pretrained = read_gguf(folder)
    elif folder.suffix == ".npz":
        pretrained = read_npz(folder)
    else:
        pretrained = read_pretrained(folder)
    config = ModelConfig(name=folder.stem, step=0, model=pretrained.settings, decoding=pretrained.decoding)
    tokenizers = Tokenizers(pretrained.tokenizer, pretrained.tokenizer, pretrained.labels)
    return StoredModel(config, pretrained.module.to(device).eval(), tokenizers)


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


def _weights_file(number: int) -> str:
    return "model.safetensors" if number == 1 else f"member-{number}.safetensors"
