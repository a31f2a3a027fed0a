"""Every dropout module has the rate of its settings, and every such module is called in training.

No other test fails for a dropout that is never called or is built with rate 0: a model without it learns too.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from seq2see.core.batch import Batch, Images, Sequences, Videos, WordSequences
from seq2see.layers.norms_and_dropout import VariationalDropout
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
AWD = AWDSettings(embedding_dropout=0.1, input_dropout=0.1, weight_dropout=0.1, output_dropout=0.1)
WITHOUT_POSITIONS = TokenEmbeddingSettings(positions="none")


def language_model(decoder) -> ModelSettings:
    return ModelSettings(target=TextTarget(embedding=WITHOUT_POSITIONS), decoder=decoder)


def encoder_model(target, encoder, embedding=WITHOUT_POSITIONS) -> ModelSettings:
    return ModelSettings(source=Text(embedding=embedding), target=target, encoder=encoder)


blocks = transformer(drop_path=0.1)
MODELS = FAMILIES | {
    "gpt": language_model(blocks),
    "awd-lstm": language_model(recurrent_decoder("lstm", "none").with_(awd=AWD)),
    "mlp": language_model(MLPDecoderSettings(width=WIDTH, hidden=WIDTH, depth=2)),
    "bert": encoder_model(MaskedTokensTarget(), blocks, BertEmbeddingSettings()),
    "label, blocks": encoder_model(Label(pooling="cls"), blocks),
    "label, gru": encoder_model(Label(), recurrent_encoder("gru")),
    "label, text-cnn": encoder_model(Label(), TextCNNSettings(width=WIDTH)),
    "label, convolutions": encoder_model(Label(), gated_cnn()),
    "tags": encoder_model(Tags(), recurrent_encoder("gru")),
    "tags of first subwords": encoder_model(Tags(word_pooling="first"), recurrent_encoder("gru")),
    "tags of whole words": encoder_model(
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


def is_unused(path: str, name: str) -> bool:
    """Only AWD-LSTM has embedding dropout and weight dropout, and only some blocks have drop path."""
    ends = ("drop_path",) if name in FAMILIES else ()
    return path.endswith(ends if name == "awd-lstm" else (*ends, "embedding_dropout.dropout", "weight_dropout"))


@pytest.mark.parametrize("name", MODELS)
def test_every_dropout_has_a_rate_and_is_called(name):
    model = fresh_model(MODELS[name], (SOURCE_SIZE, TARGET_SIZE), "xavier", 1).train()
    parts = {path: part for path, part in model.named_modules() if isinstance(part, nn.Dropout)}
    parts = {path: part for path, part in parts.items() if not is_unused(path, name)}
    assert [path for path, part in parts.items() if part.p == 0] == []
    used = set()
    for path, part in parts.items():
        part.register_forward_hook(lambda *_, path=path: used.add(path))
    model.hidden(batch_for(MODELS[name]))
    assert used == parts.keys()


def test_each_rate_of_awd_lstm_reaches_its_module():
    awd = AWDSettings(embedding_dropout=0.1, input_dropout=0.2, weight_dropout=0.3, output_dropout=0.4)
    decoder = recurrent_decoder("lstm", "none").with_(awd=awd, dropout=0.5, embedding_width=5)
    model = fresh_model(language_model(decoder), (SOURCE_SIZE, TARGET_SIZE), "xavier", 1)
    assert (model.target.embedding_dropout.dropout.p, model.target.dropout.p) == (0.1, 0.2)
    assert [cell.weight_dropout.p for cell in model.decoder.stack.cells] == [0.3, 0.3]
    assert (model.decoder.output_projection[-1].p, model.decoder.stack.layer_dropout.p) == (0.4, 0.5)
    modules = (model.target.dropout, model.decoder.output_projection[-1], model.decoder.stack.layer_dropout)
    assert all(isinstance(module, VariationalDropout) for module in modules)
