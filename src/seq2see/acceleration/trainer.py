"""The training step, accelerated: fast layers and loss, bf16 copies of weights, asynchronous gradients, CUDA graphs.

The definition is `Trainer` of training/loop.py, whose step is read from top to bottom. `AcceleratedTrainer` overrides
the parts that have a faster form; on a CPU in float32 both have equal losses up to rounding
(tests/acceleration/test_accelerated_trainer.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.acceleration.bf16_weights import Bf16Weights, attach
from seq2see.acceleration.chunked_cross_entropy import ChunkedCrossEntropy
from seq2see.acceleration.cuda_graphs import GraphedCallable, compile_blocks
from seq2see.acceleration.layers import linear_layers, use_onednn
from seq2see.acceleration.support import TRITON
from seq2see.acceleration.swaps import Conditions, accelerate, parts_for
from seq2see.core.batch import Batch
from seq2see.training.loop import Trainer
from seq2see.training.objectives import (
    Classification,
    MaskedToken,
    MaskedTokenNextSentence,
    NextToken,
    NextValue,
    Objective,
)
from seq2see.training.optimizers import MuonOptimizer, gradients_of
from seq2see.training.scheduled_sampling import TeacherForcing
from seq2see.training.settings import Training

MAX_PENDING_STEPS = 50
"""On a GPU, the maximum number of enqueued steps whose metrics have not been fetched."""

CAPTURABLE = (NextToken, MaskedToken, MaskedTokenNextSentence, Classification, NextValue)
"""The objectives whose loss reads no number of a tensor, which a CUDA graph cannot capture; others may read some."""


def can_be_captured(objective: Objective) -> bool:
    """Whether a CUDA graph can capture a step; scheduled sampling decodes token by token before the pass."""
    return type(objective) in CAPTURABLE and isinstance(objective.feeding, TeacherForcing)


def training_conditions(settings: Training, device: torch.device) -> Conditions:
    """What decides which faster forms apply to a training."""
    on_gpu = device.type == "cuda"
    kernels = settings.custom_kernels and (TRITON or not on_gpu)
    return Conditions(device.type, True, settings.precision, kernels, settings.compile and on_gpu)


class AcceleratedTrainer(Trainer):
    """`Trainer`, as fast as device, precision and settings allow; `without` names parts that stay plain."""

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        settings: Training,
        device: torch.device,
        without: Iterable[str] = (),
    ):
        super().__init__(model, objective, settings, device)
        conditions = training_conditions(settings, device)
        self.parts, self.compiled = parts_for(conditions, without), conditions.compiled
        self.bf16_weights = None
        if "bf16-weights" in self.parts:
            is_asynchronous = "asynchronous-gradients" in self.parts
            self.bf16_weights = Bf16Weights(model, not is_asynchronous, conditions.kernels)
        async_grads = self.bf16_weights.async_grads if self.bf16_weights else None
        if self.bf16_weights and "flat-adam" in self.parts:
            attach(self.optimizer, self.bf16_weights)
        if isinstance(self.optimizer, MuonOptimizer) and "bf16-muon" in self.parts:
            self.optimizer.dtype = torch.bfloat16
        if "chunked-cross-entropy" in self.parts:
            self.cross_entropy = ChunkedCrossEntropy("fused-cross-entropy" in self.parts, async_grads)
        accelerate(model, conditions, async_grads, without)
        self.cpu_linears = linear_layers(model) if "onednn-linear" in self.parts else []
        if self.compiled:
            compile_blocks(self.model)
        if device.type == "cuda":
            self.max_pending_steps = MAX_PENDING_STEPS
        use_graph = "cuda-graph" in self.parts and can_be_captured(objective)
        self._run_step = GraphedCallable(self.uncaptured_step, self._warmup) if use_graph else self.uncaptured_step

    def run_step(self, batch: Batch) -> Float[Tensor, "metrics"]:
        """The step, on a GPU as one CUDA graph."""
        if self.bf16_weights:
            self.bf16_weights.refresh_if_modified()
        return self._run_step(batch)

    def uncaptured_step(self, batch: Batch) -> Float[Tensor, "metrics"]:
        """The step as it is captured, or as it runs without a CUDA graph."""
        return super().run_step(batch)

    def forward_backward(self, micro_batch: Batch) -> Float[Tensor, ""]:
        """Accumulate the gradient of the summed loss of a micro-batch, and return this loss."""
        with self.bf16_weights.activate() if self.bf16_weights else use_onednn(self.cpu_linears):
            with self.autocast:
                loss = self.loss(micro_batch)
            if isinstance(self.cross_entropy, ChunkedCrossEntropy):
                self.cross_entropy.run_backward(loss)
            else:
                loss.backward()
        return loss.detach()

    def total_grad_norm(self) -> Float[Tensor, ""]:
        """‖g‖ over the gradients of all weights together; the norm of a bf16 gradient is computed in float32."""
        flat = self.bf16_weights.gradient if self.bf16_weights else None
        gradients = gradients_of(self.weights) + ([] if flat is None else [flat])
        full_precision = [each for each in gradients if each.dtype != torch.bfloat16]
        norms = [nn.utils.get_total_norm(full_precision, foreach=True)] if full_precision else []
        if len(full_precision) == len(gradients):
            return norms[0]
        bf16 = [each for each in gradients if each.dtype == torch.bfloat16]
        norms += [torch.linalg.vector_norm(each, dtype=torch.float32) for each in bf16]
        return torch.linalg.vector_norm(torch.stack(norms))

    @contextlib.contextmanager
    def _warmup(self) -> Iterator[None]:
        """The context of warm-up runs of a CUDA graph: weights, averages, buffers and carried states do not change."""
        buffers = [(buffer, buffer.clone()) for buffer in self.model.buffers()]
        lerp_weight = self.lerp_weight.clone()
        self.found_inf.fill_(1)
        self.lerp_weight.zero_()
        try:
            with self.carried_state.preserve():
                yield
        finally:
            self.found_inf.zero_()
            self.lerp_weight.copy_(lerp_weight)
            for buffer, before in buffers:
                buffer.copy_(before)
            self.optimizer.zero_grad()

    @contextlib.contextmanager
    def evaluation_model(self) -> Iterator[nn.Module]:
        """The model in eval mode, with the averaged weights if there are any."""
        # Compiled code serves the few shapes of training batches; other shapes would be compiled again.
        # Without compilation, `set_stance` would only import torch's compiler.
        stance = torch.compiler.set_stance("force_eager") if self.compiled else contextlib.nullcontext()
        with super().evaluation_model() as model, stance:
            yield model
