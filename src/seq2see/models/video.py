"""Video embedding: every frame is embedded as an image, and becomes one vector of a sequence.

Venugopalan et al. 2015, "Sequence to Sequence - Video to Text" (S2VT): a CNN encodes each frame, then an LSTM reads the
frames and generates the caption. After this embedding a video is a sequence like any other; encoder and decoder are
those of translation (`recurrent.py`). S2VT uses the same two LSTMs for both.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from seq2see.core.batch import DenseSequences, Images, Videos
from seq2see.layers.norms_and_dropout import LayerNorm
from seq2see.models.vit import ImageEmbedding


class VideoEmbedding(nn.Module):
    """v_t = norm(W [p_1; ...; p_N] + b), where p_i are the patches of frame t (section 3.2: a linear embedding).

    Every patch has its own weights, because motion is a change of position, which a mean would lose. The norm is not
    in the paper: frames are similar, and without it the decoder ignores the source for many steps of training.
    """

    def __init__(self, image: ImageEmbedding, patches: int, width: int):
        super().__init__()
        self.image = image
        self.project, self.norm = nn.Linear(patches * width, width), LayerNorm(width)

    def forward(self, videos: Videos) -> DenseSequences:
        """One vector for each frame, in temporal order."""
        rows, frames = videos.values.shape[:2]
        patches = self.image(Images(videos.values.flatten(0, 1))).values
        vectors = self.project(patches.flatten(1)).unflatten(0, (rows, frames))
        video = DenseSequences(vectors, torch.full((rows,), frames, device=vectors.device))
        return replace(video, values=self.norm(vectors, video.valid))
