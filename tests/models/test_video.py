"""Video embedding: every frame as an image, its patches concatenated, projected and normalized."""

from __future__ import annotations

import torch

from seq2see.core.batch import DenseSequences, Images, Videos
from seq2see.models.build import fresh_model
from seq2see.models.image_settings import PatchEmbeddingSettings, VideoSource
from seq2see.models.settings import ModelSettings
from tiny_models import WIDTH, recurrent_decoder, recurrent_encoder


@torch.no_grad()
def test_each_frame_becomes_one_vector_in_temporal_order():
    settings = ModelSettings(
        source=VideoSource(image_size=8, embedding=PatchEmbeddingSettings(size=4)),
        encoder=recurrent_encoder("gru"),
        decoder=recurrent_decoder("gru", "dot"),
    )
    embedding = fresh_model(settings, (1, 13), "xavier", 3).eval().source
    videos = torch.randint(0, 256, (2, 5, 3, 8, 8), dtype=torch.uint8)
    encoded = embedding(Videos(videos))
    assert isinstance(encoded, DenseSequences)
    assert encoded.lengths.tolist() == [5, 5]
    for time in range(5):
        patches = embedding.image(Images(videos[:, time])).values  # four patches, each with its own weights
        projected = embedding.project(patches.reshape(2, 4 * WIDTH))
        torch.testing.assert_close(encoded.values[:, time], torch.nn.functional.layer_norm(projected, (WIDTH,)))
