"""Tiny models with random weights that write texts or fill blanks: what the views about the next token are tried on."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch

from seq2see.decoding.settings import Decoding
from seq2see.explorer.bench import Bench, OpenRun
from seq2see.models.build import fresh_model
from seq2see.models.recurrent import RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.settings import Blanks, ModelSettings, Text, TextTarget, Tokens
from seq2see.models.transformer import TransformerSettings
from seq2see.sequences.tokenisers import Characters, with_mask
from seq2see.sequences.vocabularies import train_tokeniser
from seq2see.workbench.model_folder import ModelConfig, StoredModel
from seq2see.workbench.predict import Model, opened
from seq2see.workbench.tokenisers import Tokenisers

LETTERS = "我有一支笔你两本书他们的了不是这那就也还说到在人个大中上来和国地为时会可以学 abcdefg。，"
SOURCE = "我有两本书"
STACK = TransformerSettings(width=16, depth=2, heads=2, dropout=0.0)
PLACED, UNPLACED = Tokens(), Tokens(positions="none")

SHAPES = {
    "transformer": ModelSettings(
        source=Text(frontend=PLACED), target=TextTarget(frontend=PLACED), encoder=STACK, decoder=STACK
    ),
    "rnn": ModelSettings(
        source=Text(frontend=UNPLACED),
        target=TextTarget(frontend=UNPLACED),
        encoder=RecurrentEncoderSettings(width=16, cell="gru", dropout=0.0),
        decoder=RecurrentDecoderSettings(width=16, cell="gru", look="additive", dropout=0.0),
    ),
    "gpt": ModelSettings(target=TextTarget(frontend=PLACED, longest=64), decoder=STACK),
    "lstm": ModelSettings(
        target=TextTarget(frontend=UNPLACED),
        decoder=RecurrentDecoderSettings(width=16, cell="lstm", look="first-state"),
    ),
    "bert": ModelSettings(source=Text(frontend=PLACED), encoder=STACK, target=Blanks()),
}
WRITE = ("transformer", "rnn", "gpt", "lstm")


@cache
def writer(name: str) -> Model:
    """The model of this name, as it is used; shared by all tests of a process, so they must not change it."""
    both = train_tokeniser(Characters(), [LETTERS])
    if name == "bert":
        both = with_mask(both)
    module = fresh_model(SHAPES[name], (len(both), len(both)), "xavier", seed=3).eval()
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in module.parameters():
            weight += 0.2 * torch.randn(weight.shape, generator=random)
    config = ModelConfig(name=name, step=1, model=SHAPES[name], decoding=Decoding(max_new_tokens=8))
    return opened(StoredModel(config, module, Tokenisers(both, both)))


@cache
def bench() -> Bench:
    """All of them, opened; a run's id is found by `run_of`."""
    runs = {run_of(name): OpenRun(run_of(name), name, None, Path(name)) for name in SHAPES}
    for run in runs.values():
        run.model = writer(run.name)
    return Bench(runs)


def run_of(name: str) -> str:
    """The id that a model is opened under."""
    return f"r{1 + list(SHAPES).index(name)}"
