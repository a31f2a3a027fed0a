"""The logit lens: the predictions of every layer, by the final norm and the head of the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from seq2see.core.errors import UserError
from seq2see.inspection.record import ActivationRecord, Side
from seq2see.models.encoder_model import Classifier


@torch.inference_mode()
def logit_lens(module: nn.Module, record: ActivationRecord) -> NDArray[np.float32]:
    """(layer, time, class): log-probabilities of each layer's residual stream, from a record with kind "stream".

    The vectors of each layer pass through the final norm of the stack and the head, as those of the last layer do
    ("logit lens", nostalgebraist 2020). The first layer is the embedding; the last is the prediction of the model.
    """
    model: Any = module
    side: Side = "target" if hasattr(model, "decoder") else "source"
    body = model.decoder if side == "target" else model.encoder
    layers = [*record.of("embedding", side), *record.of("stream", side)]
    if isinstance(model, Classifier) or not hasattr(body, "blocks") or len(layers) < 2:
        raise UserError(
            "The logit lens needs a stack of blocks with a prediction at every position.",
            hint="Use a Transformer, a GPT or a BERT.",
        )
    stream = torch.from_numpy(np.stack([each.values for each in layers])).to(next(model.parameters()).device)
    mask = torch.ones(stream.shape[:2], dtype=torch.bool, device=stream.device)
    vectors = stream if body.final_norm is None else body.final_norm(stream, mask)
    if hasattr(model, "transform"):  # BERT's transform of the prediction head
        vectors = model.transform(vectors)
    return model.head(vectors).float().log_softmax(-1).cpu().numpy()
