"""Watching a video: every frame is looked at as an image is, and becomes one vector of a sequence.

Venugopalan et al. 2015, "Sequence to Sequence - Video to Text" (S2VT): a CNN looks at each frame, an LSTM reads what it
saw, and then writes. Behind this frontend a video is a sequence like any other, and the encoder and the decoder are
those that translate (`recurrent.py`); S2VT lets one pair of LSTMs do both, one after the other.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from seq2see.core.batch import DenseSequences, Images, Videos
from seq2see.layers.norms import LayerNorm
from seq2see.models.vit import ImageEmbedding


class VideoEmbedding(nn.Module):
    """v_t = norm(W [p_1; ...; p_N] + b), where p_i are the places of frame t (section 3.2: a learned linear embedding).

    Their sum or mean would not do: every place has weights of its own, because what moves is known by where it is. The
    norm is ours. Frames are much alike, and without it cells learn for long to write without looking.
    """

    def __init__(self, image: ImageEmbedding, patches: int, width: int):
        super().__init__()
        self.image = image
        self.project, self.norm = nn.Linear(patches * width, width), LayerNorm(width)

    def forward(self, videos: Videos) -> DenseSequences:
        """A vector for each frame, in the order of time."""
        rows, frames = videos.values.shape[:2]
        patches = self.image(Images(videos.values.flatten(0, 1))).values
        vectors = self.project(patches.flatten(1)).unflatten(0, (rows, frames))
        video = DenseSequences(vectors, torch.full((rows,), frames, device=vectors.device))
        return replace(video, values=self.norm(vectors, video.valid))
