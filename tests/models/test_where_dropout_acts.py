"""What a recipe says of dropout reaches every part that has any, and every such part is used in training.

A dropout that was built and is never called, or is built with 0, shows nowhere else: a model without it learns too.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from seq2see.core.batch import Batch, Films, Pictures, Sequences, Worded
from seq2see.layers.dropout import LockedDropout
from seq2see.models.build import fresh_model
from seq2see.models.convolutional import WindowEncoderSettings
from seq2see.models.picture_settings import Film, Picture
from seq2see.models.recurrent import LockedSettings
from seq2see.models.settings import (
    Blanks,
    Label,
    ModelSettings,
    Ngrams,
    PictureLabel,
    Sentences,
    Tags,
    Text,
    TextTarget,
    Tokens,
)
from seq2see.models.window import WindowDecoderSettings
from tiny_models import FAMILIES, SOURCE_SIZE, TARGET_SIZE, WIDTH, convolves, pairs, reads, transformer, writes

IDS = pairs([3, 5, 2])
LOCKED = LockedSettings(words=0.1, inputs=0.1, weights=0.1, outputs=0.1)
UNPLACED = Tokens(positions="none")


def lone(decoder) -> ModelSettings:
    return ModelSettings(target=TextTarget(frontend=UNPLACED), decoder=decoder)


def asked(target, encoder, frontend=UNPLACED) -> ModelSettings:
    return ModelSettings(source=Text(frontend=frontend), target=target, encoder=encoder)


blocks = transformer(skip=0.1)
MODELS = FAMILIES | {
    "gpt": lone(blocks),
    "locked": lone(writes("lstm", "first-state").with_(locked=LOCKED)),
    "window": lone(WindowDecoderSettings(width=WIDTH, hidden=WIDTH, depth=2)),
    "bert": asked(Blanks(), blocks, Sentences()),
    "label, blocks": asked(Label(summary="first"), blocks),
    "label, cells": asked(Label(), reads("gru")),
    "label, windows": asked(Label(), WindowEncoderSettings(width=WIDTH)),
    "label, convolutions": asked(Label(), convolves()),
    "tags": asked(Tags(), reads("gru")),
    "tags of first pieces": asked(Tags(word="first"), reads("gru")),
    "tags of whole words": asked(Tags(), reads("gru"), Ngrams(rows=11, left_out=0.1)),
    "picture": ModelSettings(source=Picture(side=8), target=PictureLabel(), encoder=blocks),
    "film": ModelSettings(source=Film(side=8), encoder=reads("gru"), decoder=writes("gru", "dot")),
}


def batch_for(settings: ModelSettings) -> Batch:
    if isinstance(settings.source, Picture):
        films = torch.randint(0, 256, (3, 8, 3, 8, 8), dtype=torch.uint8)
        source = Films(films) if isinstance(settings.source, Film) else Pictures(films[:, 0])
    else:
        words = Sequences.of([[1, 1, 2], [1, 2, 3, 3, 4], [1, 1]]).values
        source = Worded(IDS.source.values, IDS.source.lengths, words)
    return Batch(source, IDS.target, IDS.labels, IDS.indices)


def unasked(path: str, name: str) -> bool:
    """Only a locked language model drops words and the weights of cells, and only some blocks are skipped."""
    ends = ("skip",) if name in FAMILIES else ()
    return path.endswith(ends if name == "locked" else (*ends, "words.rows", "connect"))


@pytest.mark.parametrize("name", MODELS)
def test_every_dropout_has_its_share_and_falls_on_something(name):
    model = fresh_model(MODELS[name], (SOURCE_SIZE, TARGET_SIZE), "xavier", 1).train()
    parts = {path: part for path, part in model.named_modules() if isinstance(part, nn.Dropout)}
    parts = {path: part for path, part in parts.items() if not unasked(path, name)}
    assert [path for path, part in parts.items() if part.p == 0] == []
    used = set()
    for path, part in parts.items():
        part.register_forward_hook(lambda *_, path=path: used.add(path))
    model.hidden(batch_for(MODELS[name]))
    assert used == parts.keys()


def test_each_share_of_a_locked_model_falls_where_it_belongs():
    shares = LockedSettings(words=0.1, inputs=0.2, weights=0.3, outputs=0.4)
    decoder = writes("lstm", "first-state").with_(locked=shares, dropout=0.5, vectors=5)
    model = fresh_model(lone(decoder), (SOURCE_SIZE, TARGET_SIZE), "xavier", 1)
    assert (model.target.words.rows.p, model.target.dropout.p) == (0.1, 0.2)
    assert [cell.connect.p for cell in model.decoder.stack.cells] == [0.3, 0.3]
    assert (model.decoder.give[-1].p, model.decoder.stack.between.p) == (0.4, 0.5)
    locked = (model.target.dropout, model.decoder.give[-1], model.decoder.stack.between)
    assert all(isinstance(part, LockedDropout) for part in locked)
