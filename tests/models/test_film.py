"""A film's frontend: every frame as a picture, its places side by side through one matrix, and a norm."""

from __future__ import annotations

import torch

from seq2see.core.batch import Films, Pictures, Whole
from seq2see.models.build import fresh_model
from seq2see.models.picture_settings import Film, Patches
from seq2see.models.settings import ModelSettings
from tiny_models import WIDTH, reads, writes


@torch.no_grad()
def test_each_frame_is_a_vector_in_the_order_of_time():
    settings = ModelSettings(
        source=Film(side=8, frontend=Patches(size=4)), encoder=reads("gru"), decoder=writes("gru", "dot")
    )
    frontend = fresh_model(settings, (1, 13), "xavier", 3).eval().source
    films = torch.randint(0, 256, (2, 5, 3, 8, 8), dtype=torch.uint8)
    watched = frontend(Films(films))
    assert isinstance(watched, Whole)
    assert watched.lengths.tolist() == [5, 5]
    for time in range(5):
        places = frontend.picture(Pictures(films[:, time])).values  # four patches, each with its own weights
        gathered = frontend.gather(places.reshape(2, 4 * WIDTH))
        torch.testing.assert_close(watched.values[:, time], torch.nn.functional.layer_norm(gathered, (WIDTH,)))
