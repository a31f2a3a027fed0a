"""What a recipe says of dropout reaches every part that has any, and every such part is used in training.

A dropout that was built and is never called, or is built with 0, shows nowhere else: a model without it learns too.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from seq2see.core.batch import Batch, Images, Sequences, Videos, WordSequences
from seq2see.layers.dropout import VariationalDropout
from seq2see.models.build import fresh_model
from seq2see.models.convolutional import TextCNNSettings
from seq2see.models.image_settings import ImageSource, VideoSource
from seq2see.models.mlp_lm import MLPDecoderSettings
from seq2see.models.recurrent import AWDSettings
from seq2see.models.settings import (
    BertEmbeddingSettings,
    ImageLabel,
    Label,
    MaskedTokensTarget,
    ModelSettings,
    NgramEmbeddingSettings,
    Tags,
    Text,
    TextTarget,
    TokenEmbeddingSettings,
)
from tiny_models import (
    FAMILIES,
    SOURCE_SIZE,
    TARGET_SIZE,
    WIDTH,
    gated_cnn,
    pairs,
    recurrent_decoder,
    recurrent_encoder,
    transformer,
)

IDS = pairs([3, 5, 2])
LOCKED = AWDSettings(embedding_dropout=0.1, input_dropout=0.1, weight_dropout=0.1, output_dropout=0.1)
UNPLACED = TokenEmbeddingSettings(positions="none")


def lone(decoder) -> ModelSettings:
    return ModelSettings(target=TextTarget(embedding=UNPLACED), decoder=decoder)


def label_mask(target, encoder, embedding=UNPLACED) -> ModelSettings:
    return ModelSettings(source=Text(embedding=embedding), target=target, encoder=encoder)


blocks = transformer(drop_path=0.1)
MODELS = FAMILIES | {
    "gpt": lone(blocks),
    "locked": lone(recurrent_decoder("lstm", "none").with_(awd=LOCKED)),
    "window": lone(MLPDecoderSettings(width=WIDTH, hidden=WIDTH, depth=2)),
    "bert": asked(MaskedTokensTarget(), blocks, BertEmbeddingSettings()),
    "label, blocks": asked(Label(pooling="cls"), blocks),
    "label, cells": asked(Label(), recurrent_encoder("gru")),
    "label, windows": asked(Label(), TextCNNSettings(width=WIDTH)),
    "label, convolutions": asked(Label(), gated_cnn()),
    "tags": asked(Tags(), recurrent_encoder("gru")),
    "tags of first pieces": asked(Tags(word_pooling="first"), recurrent_encoder("gru")),
    "tags of whole words": asked(
        Tags(), recurrent_encoder("gru"), NgramEmbeddingSettings(buckets=11, word_dropout=0.1)
    ),
    "image": ModelSettings(source=ImageSource(image_size=8), target=ImageLabel(), encoder=blocks),
    "video": ModelSettings(
        source=VideoSource(image_size=8), encoder=recurrent_encoder("gru"), decoder=recurrent_decoder("gru", "dot")
    ),
}


def batch_for(settings: ModelSettings) -> Batch:
    if isinstance(settings.source, ImageSource):
        videos = torch.randint(0, 256, (3, 8, 3, 8, 8), dtype=torch.uint8)
        source = Videos(videos) if isinstance(settings.source, VideoSource) else Images(videos[:, 0])
    else:
        words = Sequences.of([[1, 1, 2], [1, 2, 3, 3, 4], [1, 1]]).values
        source = WordSequences(IDS.source.values, IDS.source.lengths, words)
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
    shares = AWDSettings(embedding_dropout=0.1, input_dropout=0.2, weight_dropout=0.3, output_dropout=0.4)
    decoder = recurrent_decoder("lstm", "none").with_(awd=shares, dropout=0.5, embedding_width=5)
    model = fresh_model(lone(decoder), (SOURCE_SIZE, TARGET_SIZE), "xavier", 1)
    assert (model.target.words.rows.p, model.target.dropout.p) == (0.1, 0.2)
    assert [cell.weight_dropout.p for cell in model.decoder.stack.cells] == [0.3, 0.3]
    assert (model.decoder.output_projection[-1].p, model.decoder.stack.layer_dropout.p) == (0.4, 0.5)
    awd = (model.target.dropout, model.decoder.output_projection[-1], model.decoder.stack.layer_dropout)
    assert all(isinstance(part, VariationalDropout) for part in awd)
