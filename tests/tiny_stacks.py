"""Tiny Transformer stacks in float64, and vectors as their inputs."""

from __future__ import annotations

import torch
from torch import nn

from seq2see.core.batch import Sequences
from seq2see.models.encoder_model import EncoderOutput
from seq2see.models.transformer import TransformerSettings

NORM_ORDERS = ["pre", "post"]
WIDTH, HEADS, DEPTH = 12, 3, 2


def settings(**changes) -> TransformerSettings:
    return TransformerSettings(**{"width": WIDTH, "depth": DEPTH, "heads": HEADS, "dropout": 0.3} | changes)


def perturb(module: nn.Module) -> nn.Module:
    """Change all weights and running statistics from their initial values; in float64, to be exact."""
    with torch.no_grad():
        for weight in module.parameters():
            weight += 0.3 * torch.randn_like(weight)
        for name, statistic in module.named_buffers():
            if "running" in name:
                statistic += torch.rand_like(statistic)
    return module.double().eval()


def padded_batch(lengths: list[int], width: int = WIDTH) -> Sequences:
    return Sequences(torch.randn(len(lengths), max(lengths), width).double(), torch.tensor(lengths))


def random_memory(lengths: list[int], width: int = WIDTH) -> EncoderOutput:
    sequences = padded_batch(lengths, width)
    return EncoderOutput(sequences.values, sequences.lengths, torch.randn(len(lengths), width).double())
