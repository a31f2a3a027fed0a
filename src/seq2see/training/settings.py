"""How a recipe is trained: every knob of the loop, in one place."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from seq2see.core.settings import Settings
from seq2see.training.averaging import Averaging, NoAverage
from seq2see.training.optimizer_settings import AdamW, OptimizerSettings
from seq2see.training.schedules import InverseSquareRoot, Schedule


class Training(Settings):
    """The budget (steps of tokens), the rate, and what is done every so often."""

    steps: int = Field(3000, ge=1)
    """Optimizer steps in all."""
    seed: int = Field(1, ge=0)
    """Decides initial weights, data order, dropout and samples; the same seed gives the same run."""
    learning_rate: float = Field(1e-3, gt=0)
    """Peak learning rate."""
    batch_tokens: int = Field(4096, ge=1)
    """Tokens in one step, padding included, on the longer of the two sides; of images, how many images."""
    batches: Literal["buckets", "packed", "streams"] = "buckets"
    """Texts of like length side by side, end to end (packed; Transformers), or read on (streams; recurrent writers)."""
    max_grad_norm: float = Field(1.0, ge=0)
    """Gradients longer than this are shortened to it; 0 never shortens."""
    evaluate_every: int = Field(500, ge=1)
    """Steps between two evaluations, samples and checkpoints."""
    accumulate: int = Field(1, ge=1)
    """Pieces in which a step's batch is computed one after another, to save memory; the gradient is the same."""
    patience: int = Field(0, ge=0)
    """Stop after this many evaluations without a better validation loss, and keep the best weights; 0 never stops."""
    optimizer: Annotated[OptimizerSettings, Field(discriminator="kind")] = AdamW()
    schedule: Annotated[Schedule, Field(discriminator="kind")] = InverseSquareRoot()
    average: Annotated[Averaging, Field(discriminator="kind")] = NoAverage()
    init: Literal["xavier", "he", "zero"] = "xavier"
    """How weight matrices start (zero is there to show that it cannot work)."""
    precision: Literal["float32", "bf16"] = "float32"
    """Number format of the large matrix products in training."""
    custom_kernels: bool = True
    """On a GPU in bf16 our own kernels (not worth compiling for a short run), on a CPU in float32 oneDNN's products."""
    compile: bool = False
    """On a GPU, let torch.compile fuse the operations of each block; pays where all batches have one shape (packed)."""
