"""The transducer (Graves 2012): CTC whose outputs depend on the labels before them, through a prediction network.

The prediction network is a recurrent decoder whose input is the labels alone, not the sound; so it is a language model
within the model. With attention, it attends to the sound as well (Prabhavalkar et al. 2017, section 2.3: "RNN
transducer with attention"). A joint network combines the hidden state of a frame with that of the labels so far.
Compare `seq2seq.py`: there the decoder has one distribution for each token, here there is one for each pair of a frame
and a number of labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped  # noqa: F401 - annotations of inherited fields are evaluated here
from torch import Tensor, nn

from seq2see.core.batch import Batch, Sequences
from seq2see.layers.transducer import TransducerLoss
from seq2see.models.encoder_model import EncoderModel, EncoderOutput


@dataclass(frozen=True)
class TransducerHidden(Sequences):
    """The hidden states of the frames, and those of the prediction network: after <bos> and after each label."""

    predictions: Float[Tensor, "row position width"]


class JointNetwork(nn.Module):
    """logits(t, u) = W tanh(A f_t + B g_u), of frame f_t and prediction g_u (Graves et al. 2013, section 3.2)."""

    def __init__(self, frame_width: int, prediction_width: int, width: int, tokens: int):
        super().__init__()
        self.frames, self.predictions = nn.Linear(frame_width, width), nn.Linear(prediction_width, width, bias=False)
        self.project, self.loss = nn.Linear(width, tokens), TransducerLoss()

    def forward(
        self, frames: Float[Tensor, "row frame width"], predictions: Float[Tensor, "row position width2"]
    ) -> Float[Tensor, "row frame position token"]:
        """The logits of every frame after any number of labels; the index of the blank is `BLANK`."""
        joint = self.frames(frames)[:, :, None] + self.predictions(predictions)[:, None]
        return self.project(joint.tanh())


class Transducer(EncoderModel):
    """An encoder of a sound, a prediction network of the text, and the joint network."""

    def __init__(
        self, source: nn.Module, encoder: nn.Module, target: nn.Module, decoder: nn.Module, head: JointNetwork
    ):
        super().__init__(source, encoder, head)
        self.target: Any = target
        self.decoder: Any = decoder

    def forward(self, batch: Batch) -> Float[Tensor, "row frame position token"]:
        """The logits of the whole lattice."""
        hidden = self.hidden(batch)
        return self.head(hidden.values, hidden.predictions)

    def hidden(self, batch: Batch) -> TransducerHidden:
        """The inputs of the joint network; the input of the prediction network is the target (teacher forcing)."""
        assert isinstance(batch.source, Sequences), "speech recognition needs a sound"
        assert batch.target is not None, "and a target"
        encoded = self.encode(batch.source)
        predictions = self.decoder(self.target(batch.target), self.memory(encoded))
        return TransducerHidden(encoded.values, encoded.lengths, predictions)

    def memory(self, encoded: EncoderOutput) -> EncoderOutput | None:
        """The encoder output to which the prediction network attends: None without attention."""
        return None

    def start_prediction(self, encoded: EncoderOutput) -> Any:
        """The state of the prediction network before <bos>."""
        return self.decoder.start(self.memory(encoded), encoded.values.size(0), 0)

    def step_prediction(self, tokens: Int[Tensor, "row"], state: Any) -> tuple[Float[Tensor, "row 1 width"], Any]:
        """The prediction after one more token, and the new state."""
        position = torch.zeros(1, 1, dtype=torch.long, device=tokens.device)  # recurrent: positions have no encoding
        return self.decoder.step(self.target.embed_at(tokens[:, None], position), state)


class AttentionTransducer(Transducer):
    """A transducer whose prediction network attends to the whole sound."""

    def memory(self, encoded: EncoderOutput) -> EncoderOutput | None:
        """The hidden states of all frames."""
        return encoded
