"""A finished model as exporters see it, and what they may ask of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from seq2see.core.errors import UserError
from seq2see.decoding.settings import Decoding
from seq2see.layers.norms import EPSILON
from seq2see.models.language_model import LanguageModel
from seq2see.models.picture_settings import Picture
from seq2see.models.reader import Reader
from seq2see.models.seq2seq import Seq2Seq
from seq2see.models.settings import ModelSettings, Tokens
from seq2see.models.transformer import TransformerSettings
from seq2see.sequences.tokenisers import Tokeniser


class Config(Protocol):
    """The settings an exporter reads."""

    @property
    def model(self) -> ModelSettings:
        """What decides the model's shape."""

    @property
    def decoding(self) -> Decoding:
        """How its answers are made."""


class BothTokenisers(Protocol):
    """The tokenisers of the two sides."""

    @property
    def source(self) -> Tokeniser:
        """How text that is read is cut."""

    @property
    def target(self) -> Tokeniser:
        """How text that is written is cut."""

    @property
    def shared(self) -> bool:
        """Whether they are one."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The answers, where they are no texts."""

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json`, or one for each side."""


class Stored(Protocol):
    """A model with its tokenisers and settings, as a model folder holds them."""

    @property
    def config(self) -> Config:
        """Its settings."""

    @property
    def module(self) -> nn.Module:
        """Its weights: one model, or several that decode together."""

    @property
    def tokenisers(self) -> BothTokenisers:
        """Its tokenisers."""


def one_translator(stored: Stored, engine: str) -> Seq2Seq:
    """The model itself, if it has an encoder."""
    module = one_model(stored, engine)
    if not isinstance(module, Seq2Seq):
        raise cannot(engine, "no encoder", "language models cannot go there yet")
    return module


def one_model(stored: Stored, engine: str) -> LanguageModel:
    """The model itself; several that decode together are refused."""
    if isinstance(stored.module, LanguageModel):
        return stored.module
    if isinstance(stored.module, Reader):
        raise cannot(engine, "no decoder", "models that only read cannot go there yet")
    raise UserError(f"{engine} cannot hold several models that decode as one.", remedy="Export each by itself.")


def transformer_pair(settings: ModelSettings, engine: str) -> tuple[TransformerSettings, TransformerSettings]:
    """The two halves of a Transformer; another model is refused by the setting that makes it another."""
    if isinstance(settings.source, Picture):
        raise cannot(engine, "source.kind=picture", "only texts are read there by a model that writes")
    for side, part in (("encoder", settings.encoder), ("decoder", settings.decoder)):
        if part is None or part.kind != "transformer":
            kind = "none" if part is None else part.kind
            raise cannot(engine, f"{side}.kind={kind}", "only Transformers with both halves can go there")
    assert isinstance(settings.encoder, TransformerSettings)
    assert isinstance(settings.decoder, TransformerSettings)
    for side, part in (("encoder", settings.encoder), ("decoder", settings.decoder)):
        for name, paper in (("think", "relu"), ("matrices", "biased"), ("key_heads", 0), ("epsilon", EPSILON)):
            if getattr(part, name) != paper:
                raise cannot(engine, f"{side}.{name}={getattr(part, name)}", "only the paper's parts can go there yet")
    for side, text in (("source", settings.source), ("target", settings.written)):
        if text is not None and text.frontend.positions in ("rotary", "alibi"):
            setting = f"{side}.frontend.positions={text.frontend.positions}"
            raise cannot(engine, setting, "positions must be added to the vectors there")
        if text is not None and isinstance(text.frontend, Tokens) and text.frontend.vectors != "scaled":
            setting = f"{side}.frontend.vectors={text.frontend.vectors}"
            raise cannot(engine, setting, "vectors are taken times √width there")
    if settings.written.head == "plain":
        raise cannot(engine, "target.head=plain", "the head is tied or has a bias there")
    return settings.encoder, settings.decoder


def cannot(engine: str, setting: str, why: str, remedy: str = "") -> UserError:
    """The error for a model that an engine has no form for."""
    return UserError(f"{engine} cannot hold a model with {setting}: {why}.", remedy=remedy)


def tokeniser_files(tokenisers: BothTokenisers, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write the tokenisers into a folder; gives what the source's and the target's file say."""
    tokenisers.save(folder)
    names = ["tokenizer.json"] * 2 if tokenisers.shared else ["source_tokenizer.json", "target_tokenizer.json"]
    source, target = (json.loads((folder / name).read_text(encoding="utf-8")) for name in names)
    return source, target


def vocabulary(document: dict[str, Any]) -> list[str]:
    """The pieces of a `tokenizer.json` in the order of their numbers."""
    pieces = document["model"]["vocab"]
    if isinstance(pieces, list):  # unigram: each with its score
        return [piece for piece, _ in pieces]
    return sorted(pieces, key=pieces.__getitem__)
