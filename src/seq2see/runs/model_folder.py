"""The folder that holds a finished model: what it takes to use it, and nothing of its training.

`config.json` (its shape and how it decodes), `model.safetensors`, the tokenizers, `MANIFEST.json` with
the SHA-256 of each. It is written whole under another name and then renamed; a damaged one is refused.
The further members of an ensemble lie beside the first as `member-2.safetensors` and so on.
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
    """What `config.json` says."""

    format: int = 1
    """The number of this format."""
    name: str
    """The recipe the model was made by."""
    step: int
    """The training step its weights were taken at."""
    model: ModelSettings
    decoding: Decoding
    members: tuple[ModelSettings, ...] = ()
    """The shapes of an ensemble's members after the first; a single model has none."""

    @staticmethod
    def of(recipe: Recipe, step: int) -> ModelConfig:
        """What is to be said of a recipe's model."""
        return ModelConfig(name=recipe.name, step=step, model=recipe.model, decoding=recipe.decoding)

    @property
    def max_prompt_tokens(self) -> int:
        """Tokens that it goes on from, at most: an ensemble sees as far as all of its members do."""
        return min(each.max_prompt_tokens for each in (self.model, *self.members))


@dataclass(frozen=True)
class StoredModel:
    """A model with its tokenizers, as a folder holds them."""

    config: ModelConfig
    module: LanguageModel | EncoderModel | Ensemble
    tokenizers: Tokenizers


def write_model(folder: Path, stored: StoredModel) -> None:
    """Write the folder, all at once."""
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
    """Read the folder, if it is whole; one of Hugging Face's will do as well."""
    if is_pretrained(folder):
        return _read_real(folder, device)
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
    for number, shape in enumerate((config.model, *config.members), 1):
        members.append(build_model(shape, *tokenizers.sizes))
        load_named_tensors(members[-1], from_bytes(read_verified(folder, _weights_file(number), files)))
    module = Ensemble(members) if config.members else members[0]
    return StoredModel(config, module.to(device).eval(), tokenizers)


def _damaged(folder: Path, what: str) -> UserError:
    """The error for a folder that is not whole; a run can write its model anew, as long as it has checkpoints."""
    run, hint = folder.parent, "Copy it here again, or make it anew."
    if (run / "checkpoints").is_dir():
        hint = f"Delete this folder: `seq2see train {run}/recipe.toml --out {run}` then writes it anew."
    return UserError(what, location=str(folder), hint=hint)


def _read_real(folder: Path, device: torch.device) -> StoredModel:
    if folder.suffix == ".gguf":
        from seq2see.interop.gguf_file import read_gguf  # here, because only few need it

        real = read_gguf(folder)
    elif folder.suffix == ".npz":
        real = read_npz(folder)
    else:
        real = read_pretrained(folder)
    config = ModelConfig(name=folder.stem, step=0, model=real.settings, decoding=real.decoding)
    tokenizers = Tokenizers(real.tokenizer, real.tokenizer, real.labels)
    return StoredModel(config, real.module.to(device).eval(), tokenizers)


def fingerprint_of(folder: Path) -> str:
    """What changes whenever anything in a model folder does."""
    if not is_pretrained(folder):
        return sha256(folder / MANIFEST)
    if folder.is_file():
        return sha256(folder)
    files = [path for pattern in ("*.json", "*.txt", "*.safetensors") for path in sorted(folder.glob(pattern))]
    return hashlib.sha256(" ".join(f"{path.name} {sha256(path)}" for path in files).encode()).hexdigest()


def members_of(module: LanguageModel | EncoderModel | Ensemble) -> list[LanguageModel | EncoderModel]:
    """The models in an ensemble, or the one model there is."""
    return [each for each in getattr(module, "learned", [module]) if isinstance(each, LanguageModel | EncoderModel)]


def _weights_file(number: int) -> str:
    return "model.safetensors" if number == 1 else f"member-{number}.safetensors"
