"""What a model would say if it ended earlier: every layer's vectors through the norm and the head of the last."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from seq2see.core.errors import UserError
from seq2see.inspection.record import ActivationRecord, Side
from seq2see.models.classifier import Classifier


@torch.inference_mode()
def logit_lens(module: nn.Module, record: ActivationRecord) -> NDArray[np.float32]:
    """(layer, time, answer): log-probabilities if the model ended after each layer, from a record with its stream.

    Each layer's vectors go through what the last one's go through: the norm that ends the stack, and the head ("logit
    lens", nostalgebraist 2020). The first layer is what enters, the last gives what the model says.
    """
    model: Any = module
    side: Side = "target" if hasattr(model, "decoder") else "source"
    body = model.decoder if side == "target" else model.encoder
    layers = [*record.of("embedding", side), *record.of("stream", side)]
    if isinstance(model, Classifier) or not hasattr(body, "blocks") or len(layers) < 2:
        raise UserError(
            "Only a stack of blocks that answers at every place can be read layer by layer.",
            hint="Take a Transformer, a GPT or a BERT.",
        )
    stream = torch.from_numpy(np.stack([each.values for each in layers])).to(next(model.parameters()).device)
    mask = torch.ones(stream.shape[:2], dtype=torch.bool, device=stream.device)
    vectors = stream if body.final_norm is None else body.final_norm(stream, mask)
    if hasattr(model, "transform"):  # BERT thinks over what it has read once more
        vectors = model.transform(vectors)
    return model.head(vectors).float().log_softmax(-1).cpu().numpy()
