"""Greedy decoding in fifteen lines: read the tokens so far, append the most probable next one, until <eos>.

This is the definition. The loop in `engine.py` does the same with a `GreedySampler`, and also forces prefixes, applies
logits processors, returns scores, and serves every other sampler; a test checks that both give the same tokens.
"""

from __future__ import annotations

import torch

from seq2see.core.batch import Images, Sequences
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD
from seq2see.decoding.engine import GenerativeModel, log_probabilities, suppress_special_tokens


@torch.inference_mode()
def decode_greedily(model: GenerativeModel, source: Sequences | Images, max_new_tokens: int) -> list[list[int]]:
    """The tokens of each output, including its <eos> if it has one."""
    rows, device = source.values.size(0), source.values.device
    state = model.start(source, rows, max_new_tokens)
    tokens, done = torch.full((rows,), BOS, device=device), torch.zeros(rows, dtype=torch.bool, device=device)
    outputs: list[torch.Tensor] = []
    while len(outputs) < max_new_tokens and not done.all():
        logits, state = model.step(tokens[:, None], state)
        scores = suppress_special_tokens(log_probabilities(logits[:, -1]))
        tokens = scores.argmax(dim=1).masked_fill(done, PAD)
        done = done | (tokens == EOS)
        outputs.append(tokens)
    return [[token for token in row if token != PAD] for row in torch.stack(outputs, dim=1).tolist()]
