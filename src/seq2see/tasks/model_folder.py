"""The recipe of a run, and the folder of the finished model.

A recipe has all settings of a run, as one frozen tree. Each task has its own type, with the slots that it has.

The folder has everything for prediction, and nothing of the training state: `config.json` (model and decoding
settings), `model.safetensors`, the tokenizers, and `MANIFEST.json` with the SHA-256 of each file. It is written under a
temporary name and then renamed; a damaged folder is refused. The further members of an ensemble are
`member-2.safetensors` and so on.

The processors are the source and target tokenizers of a model, its labels or scales, and what they warn of: unknown
tokens.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, InstanceOf, SerializeAsAny, ValidationError, field_validator, model_validator
from safetensors.torch import save as to_bytes

from seq2see.adapters.expert import Expert
from seq2see.adapters.settings import AdapterSettings
from seq2see.core.documents import load_json, read_json
from seq2see.core.errors import UserError
from seq2see.core.files import (
    MANIFEST,
    file_entry,
    manifest_bytes,
    sha256,
    sync_folder,
    temporary_path,
    write_bytes,
    write_json,
)
from seq2see.core.settings import OpenKinds, Settings
from seq2see.data.image_dataset import ImageProcessor
from seq2see.data.series_dataset import StandardScaler
from seq2see.data.tokenizers.pretrained_tokenizer import PretrainedTokenizer, TokenIdMap, read_pretrained_tokenizer
from seq2see.data.tokenizers.tokenizer import UNK, Tokenizer
from seq2see.decoding.engine import Decoding
from seq2see.decoding.ensemble import Ensemble
from seq2see.interop.checkpoint_files import is_pretrained
from seq2see.models.bag_of_words import BagOfWordsSettings
from seq2see.models.build import named_tensors
from seq2see.models.convolutional import DilatedCNNSettings, GatedCNNSettings, TextCNNSettings
from seq2see.models.encoder_model import EncoderModel
from seq2see.models.language_model import LanguageModel
from seq2see.models.recurrent import RecurrentEncoderSettings
from seq2see.models.settings import OWN_ENCODERS, ModelSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.training.settings import Training

TextEncoder = Annotated[
    TransformerSettings
    | RecurrentEncoderSettings
    | GatedCNNSettings
    | DilatedCNNSettings
    | TextCNNSettings
    | BagOfWordsSettings,
    Field(discriminator="kind"),
    OpenKinds(OWN_ENCODERS),
]
"""The encoders of texts."""


MAX_NAME = 100
"""No recipe has a longer name."""


class Recipe(Settings):
    """All settings of a run: data, model, training and evaluation."""

    task: str
    """What the model is trained for; the task determines which other settings there are."""
    name: str
    """The name of the recipe, and of its run folders."""
    training: Training = Training()
    pretrained: str | None = None
    """The trained model that this training begins with: a run, or a model of another library."""
    adapter: AdapterSettings | None = None
    """What is trained instead of the weights of the pretrained model, which stay as they are."""

    model_settings: ClassVar[type[ModelSettings]] = ModelSettings
    """The type of the settings of the model."""

    @field_validator("name")
    @classmethod
    def check_name(cls, name: str) -> str:
        """The name of a recipe is that of its folder, and leads to no other folder."""
        is_plain = name.isprintable() and not set(name) & set("/\\")
        if not is_plain or not name.strip() or name.startswith(".") or len(name) > MAX_NAME:
            shown = repr(name[:MAX_NAME])
            raise ValueError(f"{shown} is no name of a folder: leave out / and \\ and a point at the beginning")
        return name

    @property
    def model(self) -> ModelSettings:
        """The settings of the model: those of the slots source, target, encoder and decoder that the recipe has."""
        slots = {slot: self.slot(slot) for slot in self.model_settings.model_fields if self.slot(slot)}
        return self.model_settings(**slots)

    def slot(self, name: str) -> Any:
        """The settings of a slot; None if recipes of this task have no such slot."""
        return getattr(self, name) if name in type(self).model_fields else None

    @property
    def steps(self) -> int:
        """The number of training steps."""
        return self.training.steps

    @model_validator(mode="after")
    def check_adapter(self) -> Recipe:
        """Refuse an adapter of an untrained model."""
        if self.slot("adapter") and not self.slot("pretrained"):
            raise ValueError("an adapter belongs to a trained model: set pretrained to a run")
        return self

    @model_validator(mode="after")
    def check_model(self) -> Recipe:
        """Refuse a model whose parts do not fit together."""
        try:
            _ = self.model
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(str(first["ctx"]["error"]) if "ctx" in first else str(error)) from None
        return self


@dataclass(frozen=True)
class Tokenizers:
    """The source and target tokenizers; the same object if the vocabulary is shared."""

    source: Tokenizer
    target: Tokenizer
    labels: tuple[str, ...] = ()
    """The labels of a classifier or tagger."""

    @property
    def sizes(self) -> tuple[int, int]:
        """The sizes of source and target vocabulary; labels count as the target vocabulary."""
        return len(self.source), len(self.labels or self.target)

    @property
    def fingerprint(self) -> str:
        """A hash of the mapping from texts and labels to ids."""
        labels = hashlib.sha256(json.dumps(self.labels).encode()).hexdigest() if self.labels else ""
        return self.source.fingerprint + self.target.fingerprint + labels

    @property
    def shared(self) -> bool:
        """Whether source and target share one vocabulary."""
        return self.source is self.target

    def save(self, folder: Path) -> None:
        """Write tokenizers and labels to a folder."""
        if self.labels:
            write_json(folder / LABELS, list(self.labels))
        if self.shared:
            self.source.save(folder / self.source.file)
            if isinstance(self.source, PretrainedTokenizer):
                write_json(folder / "token_ids.json", self.source.id_map.config)
        elif isinstance(self.source, ImageProcessor):
            self.source.save(folder / self.source.file)
            self.target.save(folder / self.target.file)
        else:
            self.source.save(folder / "source_tokenizer.json")
            self.target.save(folder / "target_tokenizer.json")

    def save_own(self, folder: Path) -> None:
        """Write what an expert does not have from its base: labels, and the preprocessing of images."""
        if self.labels:
            write_json(folder / LABELS, list(self.labels))
        if isinstance(self.source, ImageProcessor):
            self.source.save(folder / ImageProcessor.file)

    @staticmethod
    def load_own(folder: Path, base: Tokenizers) -> Tokenizers:
        """The tokenizers of an expert: those of its base, with its own labels and preprocessing of images."""
        labels = _labels(folder / LABELS)
        if not (folder / ImageProcessor.file).exists():
            return Tokenizers(base.source, base.target, labels)
        processor = ImageProcessor.load(folder / ImageProcessor.file)
        return Tokenizers(processor, processor if base.shared else base.target, labels)

    @staticmethod
    def load(folder: Path) -> Tokenizers:
        """Read tokenizers and labels from a folder."""
        if (folder / StandardScaler.file).exists():
            scale = StandardScaler.load(folder / StandardScaler.file)
            return Tokenizers(scale, scale)
        if (folder / ImageProcessor.file).exists():
            processor, path = ImageProcessor.load(folder / ImageProcessor.file), folder / Tokenizer.file
            target = Tokenizer.load(path) if path.exists() else processor
            return Tokenizers(processor, target, _labels(folder / LABELS))
        if (folder / "tokenizer.json").exists():
            has_id_map = (folder / "token_ids.json").exists()
            tokenizer = _read_pretrained(folder) if has_id_map else Tokenizer.load(folder / "tokenizer.json")
            return Tokenizers(tokenizer, tokenizer, _labels(folder / LABELS))
        return Tokenizers(
            Tokenizer.load(folder / "source_tokenizer.json"), Tokenizer.load(folder / "target_tokenizer.json")
        )


def _read_pretrained(folder: Path) -> PretrainedTokenizer:
    """The tokenizer that a run loaded from a pretrained model, with its id map."""
    try:
        id_map = TokenIdMap.of(**load_json(folder / "token_ids.json"))
    except (ValueError, TypeError) as error:
        raise UserError(f"This id map cannot be read: {error}.", location=str(folder / "token_ids.json")) from None
    return PretrainedTokenizer(read_pretrained_tokenizer(folder), id_map)


def _labels(path: Path) -> tuple[str, ...]:
    """The labels of a model; none without a labels file."""
    if not path.exists():
        return ()
    labels = read_json(path)
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels) or not labels:
        raise UserError("This is not a list of labels.", location=str(path), hint="Restore it from a backup.")
    return tuple(labels)


LABELS = "labels.json"
SHOWN = 5
"""The number of unknown tokens that are listed; the others are counted."""
LONG_WORD = 4
"""Chinese characters of a word; longer words are rare, and mostly sentences without spaces."""

_CHINESE = re.compile(f"[\u3400-\u9fff]{{{LONG_WORD + 1},}}|[\u3400-\u9fff][，。！？；：]")
_PUNCTUATION = re.compile(r"\w[,;!?]$")


def unknown_token_warnings(text: str, ids: Sequence[int], tokenizer: Tokenizer) -> tuple[str, ...]:
    """A warning that lists the parts of a text that are encoded as <unk>; `ids` are the token ids of the text."""
    if UNK not in ids:  # the common case, without tokenizing again
        return ()
    offsets = zip(tokenizer.encode(text), tokenizer.offsets(text), strict=True)
    spans = dict.fromkeys(text[start:end].strip() for token_id, (start, end) in offsets if token_id == UNK)
    unknown = [span for span in spans if span]
    more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
    return (f"unknown tokens {' '.join(unknown[:SHOWN])}{more}, replaced by <unk>",) if unknown else ()


def unspaced_word_warnings(words: Sequence[str]) -> tuple[str, ...]:
    """A warning about a word that is a sentence without spaces, or ends with a punctuation mark.

    >>> unspaced_word_warnings(["我有一支笔"])
    ("'我有一支笔' is treated as one word: put spaces between words and punctuation",)
    >>> unspaced_word_warnings("I saw Mr. Smith .".split()), unspaced_word_warnings(["笔", "。"])
    ((), ())
    """
    last = [words[-1]] if words and re.search(r"\w\.$", words[-1]) else []
    unspaced = [word for word in words if _CHINESE.search(word) or _PUNCTUATION.search(word)] + last
    return (
        (f"{unspaced[0][:40]!r} is treated as one word: put spaces between words and punctuation",) if unspaced else ()
    )


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
    model: SerializeAsAny[InstanceOf[ModelSettings]]
    decoding: Any = Decoding(max_new_tokens=1)
    """How a model generates: the settings in this slot of its recipe, `Decoding` for texts."""
    prediction: Any = Candidates()
    """How a model predicts in one forward pass: the settings in this slot of its recipe, mostly `Candidates`."""
    members: tuple[SerializeAsAny[InstanceOf[ModelSettings]], ...] = ()
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
    expert: Expert | None = None
    """The adapter that is merged into the weights; its folder has the adapter in place of the weights."""


def write_model(folder: Path, stored: StoredModel) -> None:
    """Write the folder atomically."""
    temporary = temporary_path(folder)
    if stored.expert is None:
        for number, member in enumerate(members_of(stored.module), 1):
            weights = {name: tensor.cpu().contiguous() for name, tensor in named_tensors(member).items()}
            write_bytes(temporary / weights_file(number), to_bytes(weights))
        stored.tokenizers.save(temporary)
    else:
        for name, content in stored.expert.files().items():
            write_bytes(temporary / name, content)
        stored.tokenizers.save_own(temporary)
    left_out = stored.config.unset_slots | ({"members"} if not stored.config.members else set())
    write_json(temporary / "config.json", stored.config.model_dump(mode="json", exclude_none=True, exclude=left_out))
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
