"""Models with CTC: an encoder whose frames have a token or a blank, alone or together with a decoder with attention.

Compare `encoder_model.py`: a tagger, too, has one output for each position of the source. But the times of the labels
of a recording are unknown, so the probability is a sum over all possible times (`layers/ctc.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int, Shaped  # noqa: F401 - annotations of inherited fields are evaluated here
from torch import Tensor, nn

from seq2see.core.batch import Batch, Sequences
from seq2see.layers.ctc import CTCHead
from seq2see.models.encoder_model import EncoderModel, EncoderOutput
from seq2see.models.seq2seq import Seq2Seq


class CTCModel(EncoderModel):
    """An encoder of a sound, and for each frame the logits of the tokens and of the blank (Graves et al. 2006)."""


@dataclass(frozen=True)
class CTCAttentionHidden(Sequences):
    """The hidden states of the decoder, and those of the encoder."""

    memory: EncoderOutput


class CTCAttentionHead(nn.Module):
    """Two heads: `tokens` for the decoder, `ctc` for the encoder, whose loss has the weight `ctc_weight`."""

    def __init__(self, tokens: nn.Module, ctc: CTCHead, ctc_weight: float):
        super().__init__()
        self.tokens, self.ctc, self.ctc_weight = tokens, ctc, ctc_weight

    def forward(self, hidden: Float[Tensor, "*any width"]) -> Float[Tensor, "*any token"]:
        """The logits of the decoder's next token."""
        return self.tokens(hidden)


class CTCAttentionModel(Seq2Seq):
    """An encoder-decoder whose encoder has a CTC head, too (Watanabe et al. 2017, "Hybrid CTC/attention").

    The alignment by attention may jump; that by CTC is monotonic. CTC trains the shared encoder such that the decoder
    finds a monotonic alignment sooner.
    """

    head: CTCAttentionHead

    def hidden(self, batch: Batch) -> CTCAttentionHidden:
        """The hidden states of the decoder with teacher forcing, and those of the encoder."""
        assert isinstance(batch.source, Sequences), "speech recognition needs a sound"
        assert batch.target is not None, "and a target"
        memory = self.encode(batch.source)
        return CTCAttentionHidden(self.decoder(self.target(batch.target), memory), batch.target.lengths, memory)
