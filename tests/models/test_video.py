"""A video's frontend: every frame as an image, its places side by side through one matrix, and a norm."""

from __future__ import annotations

import torch

from seq2see.core.batch import DenseSequences, Images, Videos
from seq2see.models.build import fresh_model
from seq2see.models.image_settings import PatchEmbeddingSettings, VideoSource
from seq2see.models.settings import ModelSettings
from tiny_models import WIDTH, recurrent_decoder, recurrent_encoder


@torch.no_grad()
def test_each_frame_is_a_vector_in_the_order_of_time():
    settings = ModelSettings(
        source=VideoSource(image_size=8, embedding=PatchEmbeddingSettings(size=4)),
        encoder=recurrent_encoder("gru"),
        decoder=recurrent_decoder("gru", "dot"),
    )
    embedding = fresh_model(settings, (1, 13), "xavier", 3).eval().source
    videos = torch.randint(0, 256, (2, 5, 3, 8, 8), dtype=torch.uint8)
    watched = embedding(Videos(videos))
    assert isinstance(watched, DenseSequences)
    assert watched.lengths.tolist() == [5, 5]
    for time in range(5):
        places = embedding.image(Images(videos[:, time])).values  # four patches, each with its own weights
        gathered = embedding.project(places.reshape(2, 4 * WIDTH))
        torch.testing.assert_close(watched.values[:, time], torch.nn.functional.layer_norm(gathered, (WIDTH,)))
