"""Tiny models with random weights that generate texts or fill masks, for the tests of the views about tokens."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch

from seq2see.data.tokenizers.tokenizer import Characters, add_mask_token, train_tokenizer
from seq2see.decoding.engine import Decoding
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.models.build import fresh_model
from seq2see.models.recurrent import RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.settings import MaskedTokensTarget, ModelSettings, Text, TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.runs.load import open_model
from seq2see.tasks.model import Model
from seq2see.tasks.model_folder import ModelConfig, StoredModel, Tokenizers
from seq2see.tasks.task import pretrained_task

LETTERS = "我有一支笔你两本书他们的了不是这那就也还说到在人个大中上来和国地为时会可以学 abcdefg。，"
SOURCE = "我有两本书"
STACK = TransformerSettings(width=16, depth=2, heads=2, dropout=0.0)
WITH_POSITIONS, WITHOUT_POSITIONS = TokenEmbeddingSettings(), TokenEmbeddingSettings(positions="none")

SHAPES = {
    "transformer": ModelSettings(
        source=Text(embedding=WITH_POSITIONS), target=TextTarget(embedding=WITH_POSITIONS), encoder=STACK, decoder=STACK
    ),
    "rnn": ModelSettings(
        source=Text(embedding=WITHOUT_POSITIONS),
        target=TextTarget(embedding=WITHOUT_POSITIONS),
        encoder=RecurrentEncoderSettings(width=16, cell="gru", dropout=0.0),
        decoder=RecurrentDecoderSettings(width=16, cell="gru", attention="additive", dropout=0.0),
    ),
    "gpt": ModelSettings(target=TextTarget(embedding=WITH_POSITIONS, max_tokens=64), decoder=STACK),
    "lstm": ModelSettings(
        target=TextTarget(embedding=WITHOUT_POSITIONS),
        decoder=RecurrentDecoderSettings(width=16, cell="lstm", attention="none"),
    ),
    "bert": ModelSettings(source=Text(embedding=WITH_POSITIONS), encoder=STACK, target=MaskedTokensTarget()),
}
GENERATIVE = ("transformer", "rnn", "gpt", "lstm")


@cache
def text_model(name: str) -> Model:
    """The model of this name. All tests of a process share it, so they must not change it."""
    tokenizer = train_tokenizer(Characters(), [LETTERS])
    if name == "bert":
        tokenizer = add_mask_token(tokenizer)
    module = fresh_model(SHAPES[name], (len(tokenizer), len(tokenizer)), "xavier", seed=3).eval()
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in module.parameters():
            weight += 0.2 * torch.randn(weight.shape, generator=random)
    config = ModelConfig(
        task=pretrained_task(SHAPES[name]), name=name, step=1, model=SHAPES[name], decoding=Decoding(max_new_tokens=8)
    )
    return open_model(StoredModel(config, module, Tokenizers(tokenizer, tokenizer)))


@cache
def workspace() -> Workspace:
    """A workspace with all models; `run_of` returns their ids."""
    runs = {run_of(name): OpenRun(run_of(name), name, None, Path(name)) for name in SHAPES}
    for run in runs.values():
        run.model = text_model(run.name)
    return Workspace(runs)


def run_of(name: str) -> str:
    """The id of the run of a model."""
    return f"r{1 + list(SHAPES).index(name)}"
