"""The settings of training, all in one class."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from seq2see.core.settings import Settings
from seq2see.training.optimizers import AdamW, Averaging, InverseSquareRoot, NoAverage, OptimizerSettings, Schedule


class Training(Settings):
    """Training: its length, batches and learning rate, the optimizer, and how often to evaluate."""

    steps: int = Field(3000, ge=1)
    """Number of optimizer steps."""
    seed: int = Field(1, ge=0)
    """Random seed of initial weights, data order, dropout and samples; the same seed repeats the run."""
    learning_rate: float = Field(1e-3, gt=0)
    """Peak learning rate."""
    batch_tokens: int = Field(4096, ge=1)
    """Tokens per batch, padding included, counted on the longer of source and target; for images see `batch_size`."""
    batch_size: int = Field(64, ge=1)
    """Images or videos per batch; for texts and series see `batch_tokens`."""
    batches: Literal["bucketed", "packed", "contiguous"] = "bucketed"
    """Bucketed (by length), packed (texts end to end; Transformers), or contiguous (recurrent language models)."""
    max_grad_norm: float = Field(1.0, ge=0)
    """Gradient clipping: the maximum norm of the gradient; 0 does not clip."""
    evaluate_every: int = Field(500, ge=1)
    """Steps between two evaluations, samples and checkpoints."""
    accumulate: int = Field(1, ge=1)
    """Gradient accumulation: each batch is computed in this many micro-batches, to save memory."""
    patience: int = Field(0, ge=0)
    """Early stopping after this many evaluations without a lower validation loss; the best weights are kept; 0: off."""
    optimizer: Annotated[OptimizerSettings, Field(discriminator="kind")] = AdamW()
    schedule: Annotated[Schedule, Field(discriminator="kind")] = InverseSquareRoot()
    average: Annotated[Averaging, Field(discriminator="kind")] = NoAverage()
    init: Literal["xavier", "he", "zero"] = "xavier"
    """Initialization of weight matrices (zero is a demonstration that zeros cannot work)."""
    precision: Literal["float32", "bf16"] = "float32"
    """Number format of matrix multiplications in training (mixed precision)."""
    custom_kernels: bool = True
    """On a GPU in bf16, custom kernels (compiling them takes a while); on a CPU in float32, oneDNN's linear layers."""
    compile: bool = False
    """On a GPU, compile each block with torch.compile; worth it if all batches have one shape (packed)."""
