"""The interface of a trained model that the exporters use, and checks of what an export format supports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from seq2see.core.errors import UserError
from seq2see.data.tokenizers.tokenizer import Tokenizer
from seq2see.decoding.engine import Decoding
from seq2see.layers.norms_and_dropout import EPSILON
from seq2see.models.embeddings_and_heads import TokenEmbedding
from seq2see.models.encoder_model import EncoderModel
from seq2see.models.image_settings import ImageSource
from seq2see.models.language_model import LanguageModel
from seq2see.models.seq2seq import Seq2Seq
from seq2see.models.settings import ModelSettings, Text, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings


class ExportConfig(Protocol):
    """The settings that an exporter reads."""

    @property
    def model(self) -> ModelSettings:
        """The architecture of the model."""

    @property
    def decoding(self) -> Decoding:
        """The decoding settings."""


class TokenizerPair(Protocol):
    """The tokenizers of source and target."""

    @property
    def source(self) -> Tokenizer:
        """The tokenizer of the source."""

    @property
    def target(self) -> Tokenizer:
        """The tokenizer of the target."""

    @property
    def shared(self) -> bool:
        """Whether source and target share one tokenizer."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, if the outputs are no texts."""

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json`, or one file for each side."""


class ExportableModel(Protocol):
    """A model with its tokenizers and settings, as a model folder holds them."""

    @property
    def config(self) -> ExportConfig:
        """Its settings."""

    @property
    def module(self) -> nn.Module:
        """Its weights: one model, or an ensemble."""

    @property
    def tokenizers(self) -> TokenizerPair:
        """Its tokenizers."""


def require_seq2seq(stored: ExportableModel, engine: str) -> Seq2Seq:
    """The model, which must be an encoder-decoder."""
    module = require_language_model(stored, engine)
    if not isinstance(module, Seq2Seq):
        raise unsupported(engine, "no encoder", "language models are not supported there yet")
    return module


def require_language_model(stored: ExportableModel, engine: str) -> LanguageModel:
    """The model, which must generate text; an ensemble raises an error."""
    if isinstance(stored.module, LanguageModel):
        return stored.module
    if isinstance(stored.module, EncoderModel):
        raise unsupported(engine, "no decoder", "encoder-only models are not supported there yet")
    raise UserError(f"{engine} does not support ensembles.", hint="Export each model by itself.")


def require_transformers(settings: ModelSettings, engine: str) -> tuple[TransformerSettings, TransformerSettings]:
    """The settings of encoder and decoder of a Transformer; another model raises an error that names its setting."""
    if isinstance(settings.source, ImageSource):
        raise unsupported(engine, "source.kind=image", "the source of a model that generates must be text there")
    for side, part in (("encoder", settings.encoder), ("decoder", settings.decoder)):
        if part is None or part.kind != "transformer":
            kind = "none" if part is None else part.kind
            raise unsupported(engine, f"{side}.kind={kind}", "only encoder-decoder Transformers are supported there")
    assert isinstance(settings.encoder, TransformerSettings)
    assert isinstance(settings.decoder, TransformerSettings)
    for side, part in (("encoder", settings.encoder), ("decoder", settings.decoder)):
        for name, expected in (("activation", "relu"), ("bias", True), ("kv_heads", 0), ("norm_eps", EPSILON)):
            if getattr(part, name) != expected:
                setting = f"{side}.{name}={setting_text(getattr(part, name))}"
                raise unsupported(engine, setting, "only the layers of Vaswani et al. 2017 are supported there yet")
    for side, text in (("source", settings.source), ("target", settings.target_text)):
        if text is not None and text.embedding.positions in ("rotary", "alibi"):
            setting = f"{side}.embedding.positions={text.embedding.positions}"
            raise unsupported(engine, setting, "positions must be added to the embeddings there")
        if text is not None and isinstance(text.embedding, TokenEmbeddingSettings) and not text.embedding.scale:
            setting = f"{side}.embedding.scale=false"
            raise unsupported(engine, setting, "embeddings are scaled by √width there")
    if settings.target_text.head == "untied-no-bias":
        raise unsupported(engine, "target.head=untied-no-bias", "the head is tied or has a bias there")
    return settings.encoder, settings.decoder


def setting_text(value: Any) -> str:
    """A value as in a recipe: booleans in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def unsupported(engine: str, setting: str, reason: str, hint: str = "") -> UserError:
    """The error for a model that an engine does not support."""
    return UserError(f"{engine} cannot hold a model with {setting}: {reason}.", hint=hint)


def save_tokenizers(tokenizers: TokenizerPair, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write the tokenizers into a folder; returns the JSON documents of source and target."""
    tokenizers.save(folder)
    names = ["tokenizer.json"] * 2 if tokenizers.shared else ["source_tokenizer.json", "target_tokenizer.json"]
    source, target = (json.loads((folder / name).read_text(encoding="utf-8")) for name in names)
    return source, target


def vocabulary(document: dict[str, Any]) -> list[str]:
    """The tokens of a `tokenizer.json` in the order of their ids."""
    tokens = document["model"]["vocab"]
    if isinstance(tokens, list):  # unigram: each with its score
        return [token for token, _ in tokens]
    return sorted(tokens, key=tokens.__getitem__)


MIN_POSITIONS = 1024
"""The smallest number of rows of a table."""


def positions_needed(stored: ExportableModel) -> int:
    """The number of rows of a table: the longest text of source or target with its <bos> or <eos>."""
    model, decoding = stored.config.model, stored.config.decoding
    texts = [text.max_tokens + 1 for text in (model.source, model.target_text) if isinstance(text, Text)]
    return max(MIN_POSITIONS, *texts, decoding.max_new_tokens + 1)


@torch.no_grad()
def position_table(embedding: TokenEmbedding, rows: int) -> Tensor:
    """(time, width): the vectors that are added to the token embeddings at each position.

    Beyond the last learned position its vector is repeated, as in the model itself.
    """
    positions = torch.arange(rows, device=embedding.table.weight.device)[None]
    table = embedding.positions(positions)[0]
    return table.expand(rows, -1).float().cpu().contiguous()
