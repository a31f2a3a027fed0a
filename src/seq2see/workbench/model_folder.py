"""The folder that holds a finished model: what it takes to use it, and nothing of its training.

`config.json` (its shape and how it decodes), `model.safetensors`, the tokenisers, `MANIFEST.json` with
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
from seq2see.core.manifests import MANIFEST, checked_bytes, entry, inspect, manifest_bytes
from seq2see.core.settings import Settings, read_tree
from seq2see.decoding.ensemble import Ensemble
from seq2see.decoding.settings import Decoding
from seq2see.interop.folders import is_real
from seq2see.interop.real_weights import read_npz, read_real
from seq2see.models.build import build_model
from seq2see.models.language_model import LanguageModel
from seq2see.models.packing import pack_model, unpack_model
from seq2see.models.reader import Reader
from seq2see.models.settings import ModelSettings
from seq2see.workbench.tokenisers import Tokenisers

if TYPE_CHECKING:
    from seq2see.workbench.recipe import Recipe


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
    def sight(self) -> int:
        """Tokens that it goes on from, at most: an ensemble sees as far as all of its members do."""
        return min(each.sight for each in (self.model, *self.members))


@dataclass(frozen=True)
class StoredModel:
    """A model with its tokenisers, as a folder holds them."""

    config: ModelConfig
    module: LanguageModel | Reader | Ensemble
    tokenisers: Tokenisers


def write_model(folder: Path, stored: StoredModel) -> None:
    """Write the folder, all at once."""
    temporary = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    for number, member in enumerate(members_of(stored.module), 1):
        weights = {name: tensor.cpu().contiguous() for name, tensor in pack_model(member).items()}
        write_bytes(temporary / _weights_file(number), to_bytes(weights))
    single = {"members"} if not stored.config.members else set()
    write_json(temporary / "config.json", stored.config.model_dump(mode="json", exclude_none=True, exclude=single))
    stored.tokenisers.save(temporary)
    entries = {path.name: entry(path.read_bytes()) for path in sorted(temporary.iterdir())}
    write_bytes(temporary / MANIFEST, manifest_bytes(stored.config.step, entries))
    temporary.rename(folder)
    sync_folder(folder.parent)


def read_model(folder: Path, device: torch.device) -> StoredModel:
    """Read the folder, if it is whole; one of Hugging Face's will do as well."""
    if is_real(folder):
        return _read_real(folder, device)
    try:
        tree = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError) as error:
        raise _damaged(folder, f"This model cannot be read: {error}.") from None
    config = read_tree(ModelConfig, tree, where=str(folder / "config.json"))
    files, faults = inspect(folder, config.step)
    if faults:
        raise _damaged(folder, f"This model is damaged: {'; '.join(faults)}.")
    tokenisers = Tokenisers.load(folder)
    members = []
    for number, shape in enumerate((config.model, *config.members), 1):
        members.append(build_model(shape, *tokenisers.sizes))
        unpack_model(members[-1], from_bytes(checked_bytes(folder, _weights_file(number), files)))
    module = Ensemble(members) if config.members else members[0]
    return StoredModel(config, module.to(device).eval(), tokenisers)


def _damaged(folder: Path, what: str) -> UserError:
    """The error for a folder that is not whole; a run can write its model anew, as long as it has checkpoints."""
    run, remedy = folder.parent, "Copy it here again, or make it anew."
    if (run / "checkpoints").is_dir():
        remedy = f"Delete this folder: `seq2see train {run}/recipe.toml --out {run}` then writes it anew."
    return UserError(what, where=str(folder), remedy=remedy)


def _read_real(folder: Path, device: torch.device) -> StoredModel:
    if folder.suffix == ".gguf":
        from seq2see.interop.gguf_file import read_gguf  # here, because only few need it

        real = read_gguf(folder)
    elif folder.suffix == ".npz":
        real = read_npz(folder)
    else:
        real = read_real(folder)
    config = ModelConfig(name=folder.stem, step=0, model=real.settings, decoding=real.decoding)
    tokenisers = Tokenisers(real.tokeniser, real.tokeniser, real.labels)
    return StoredModel(config, real.module.to(device).eval(), tokenisers)


def fingerprint_of(folder: Path) -> str:
    """What changes whenever anything in a model folder does."""
    if not is_real(folder):
        return sha256(folder / MANIFEST)
    if folder.is_file():
        return sha256(folder)
    files = [path for pattern in ("*.json", "*.txt", "*.safetensors") for path in sorted(folder.glob(pattern))]
    return hashlib.sha256(" ".join(f"{path.name} {sha256(path)}" for path in files).encode()).hexdigest()


def members_of(module: LanguageModel | Reader | Ensemble) -> list[LanguageModel | Reader]:
    """The models in an ensemble, or the one model there is."""
    return [each for each in getattr(module, "learnt", [module]) if isinstance(each, LanguageModel | Reader)]


def _weights_file(number: int) -> str:
    return "model.safetensors" if number == 1 else f"member-{number}.safetensors"
