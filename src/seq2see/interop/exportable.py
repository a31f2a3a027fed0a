"""A finished model as exporters see it, and what they may ask of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from seq2see.core.errors import UserError
from seq2see.decoding.settings import Decoding
from seq2see.layers.norms import EPSILON
from seq2see.models.encoder_model import EncoderModel
from seq2see.models.image_settings import ImageSource
from seq2see.models.language_model import LanguageModel
from seq2see.models.seq2seq import Seq2Seq
from seq2see.models.settings import ModelSettings, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.sequences.tokenizers import Tokenizer


class ExportConfig(Protocol):
    """The settings an exporter reads."""

    @property
    def model(self) -> ModelSettings:
        """What decides the model's shape."""

    @property
    def decoding(self) -> Decoding:
        """How its answers are made."""


class TokenizerPair(Protocol):
    """The tokenizers of the two sides."""

    @property
    def source(self) -> Tokenizer:
        """How text that is read is cut."""

    @property
    def target(self) -> Tokenizer:
        """How text that is written is cut."""

    @property
    def shared(self) -> bool:
        """Whether they are one."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The answers, where they are no texts."""

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json`, or one for each side."""


class ExportableModel(Protocol):
    """A model with its tokenizers and settings, as a model folder holds them."""

    @property
    def config(self) -> ExportConfig:
        """Its settings."""

    @property
    def module(self) -> nn.Module:
        """Its weights: one model, or several that decode together."""

    @property
    def tokenizers(self) -> TokenizerPair:
        """Its tokenizers."""


def require_seq2seq(stored: ExportableModel, engine: str) -> Seq2Seq:
    """The model itself, if it has an encoder."""
    module = require_language_model(stored, engine)
    if not isinstance(module, Seq2Seq):
        raise unsupported(engine, "no encoder", "language models cannot go there yet")
    return module


def require_language_model(stored: ExportableModel, engine: str) -> LanguageModel:
    """The model itself; several that decode together are refused."""
    if isinstance(stored.module, LanguageModel):
        return stored.module
    if isinstance(stored.module, EncoderModel):
        raise unsupported(engine, "no decoder", "models that only read cannot go there yet")
    raise UserError(f"{engine} cannot hold several models that decode as one.", hint="Export each by itself.")


def require_transformers(settings: ModelSettings, engine: str) -> tuple[TransformerSettings, TransformerSettings]:
    """The two halves of a Transformer; another model is refused by the setting that makes it another."""
    if isinstance(settings.source, ImageSource):
        raise unsupported(engine, "source.kind=image", "only texts are read there by a model that writes")
    for side, part in (("encoder", settings.encoder), ("decoder", settings.decoder)):
        if part is None or part.kind != "transformer":
            kind = "none" if part is None else part.kind
            raise unsupported(engine, f"{side}.kind={kind}", "only Transformers with both halves can go there")
    assert isinstance(settings.encoder, TransformerSettings)
    assert isinstance(settings.decoder, TransformerSettings)
    for side, part in (("encoder", settings.encoder), ("decoder", settings.decoder)):
        for name, paper in (("activation", "relu"), ("bias", True), ("kv_heads", 0), ("norm_eps", EPSILON)):
            if getattr(part, name) != paper:
                raise unsupported(
                    engine, f"{side}.{name}={setting_text(getattr(part, name))}", "only the paper's parts can go there yet"
                )
    for side, text in (("source", settings.source), ("target", settings.target_text)):
        if text is not None and text.embedding.positions in ("rotary", "alibi"):
            setting = f"{side}.embedding.positions={text.embedding.positions}"
            raise unsupported(engine, setting, "positions must be added to the vectors there")
        if text is not None and isinstance(text.embedding, TokenEmbeddingSettings) and not text.embedding.scale:
            setting = f"{side}.embedding.scale=false"
            raise unsupported(engine, setting, "vectors are taken times √width there")
    if settings.target_text.head == "untied-no-bias":
        raise unsupported(engine, "target.head=untied-no-bias", "the head is tied or has a bias there")
    return settings.encoder, settings.decoder


def setting_text(value: Any) -> str:
    """A value as a recipe spells it: booleans in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def unsupported(engine: str, setting: str, reason: str, hint: str = "") -> UserError:
    """The error for a model that an engine has no form for."""
    return UserError(f"{engine} cannot hold a model with {setting}: {reason}.", hint=hint)


def save_tokenizers(tokenizers: TokenizerPair, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write the tokenizers into a folder; gives what the source's and the target's file say."""
    tokenizers.save(folder)
    names = ["tokenizer.json"] * 2 if tokenizers.shared else ["source_tokenizer.json", "target_tokenizer.json"]
    source, target = (json.loads((folder / name).read_text(encoding="utf-8")) for name in names)
    return source, target


def vocabulary(document: dict[str, Any]) -> list[str]:
    """The pieces of a `tokenizer.json` in the order of their numbers."""
    tokens = document["model"]["vocab"]
    if isinstance(tokens, list):  # unigram: each with its score
        return [piece for piece, _ in tokens]
    return sorted(tokens, key=tokens.__getitem__)
