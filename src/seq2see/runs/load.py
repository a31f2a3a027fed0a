"""Load a model: from its folder to the Python interface of its task, with the engine that decodes.

Decoding engines are our own loop over the model or its optimized copy (`torch`), or CTranslate2 (`ct2`). An engine
decodes token ids to hypotheses; it does not handle texts. Sources of similar length share a batch, so that little is
computed on padding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as from_bytes
from torch import nn

from seq2see.acceleration.compiler import load_native_library
from seq2see.acceleration.inference import Precision, optimize_for_inference, with_fast_search
from seq2see.acceleration.native import native_unsupported_reason
from seq2see.acceleration.swaps import Conditions, accelerate, plain_only
from seq2see.adapters.adapt import merge
from seq2see.adapters.expert import is_expert
from seq2see.core.batch import Images, Sequences
from seq2see.core.devices import device_of, pick_device
from seq2see.core.documents import load_json
from seq2see.core.errors import UserError, unknown_name
from seq2see.core.files import read_verified, verify_folder
from seq2see.core.settings import Settings, walk
from seq2see.core.worker_pool import WorkerPool
from seq2see.decoding.engine import (
    MAX_TOKENS,
    GenerativeModel,
    decode,
    make_limits,
    make_logits_processors,
    make_sampler,
)
from seq2see.decoding.ensemble import Ensemble
from seq2see.decoding.samplers import Hypothesis
from seq2see.interop.checkpoint_files import is_pretrained
from seq2see.interop.ctranslate2 import Ct2Engine
from seq2see.interop.pretrained import read_npz, read_pretrained
from seq2see.models.build import load_named_tensors
from seq2see.models.language_model import LanguageModel
from seq2see.models.seq2seq import Seq2Seq
from seq2see.runs.experts import read_expert_model
from seq2see.runs.run_folder import find_model
from seq2see.tasks.encoder_only import BATCH_SIZE as ENCODER_BATCH_SIZE
from seq2see.tasks.model import Engine, GenerationRequest, Model, ProgressCallback
from seq2see.tasks.model_folder import Candidates, ModelConfig, StoredModel, Tokenizers, members_of, weights_file
from seq2see.tasks.task import config_from_tree, pretrained_task, task_named

BATCH_SIZE = 64
"""Sources per batch, unless they need too much memory; a result does not depend on the other sources of its batch."""
MIN_SOURCES = 32
"""With fewer sources than this, no optimized copy of the model is built."""
MIN_MEASURED_SOURCES = 1000
"""With fewer sources than this, no thread layout other than the default is tried."""


class TorchEngine:
    """Our own decoding loop, on the model's device, with the fastest number of workers."""

    streams = True

    def __init__(self, module: LanguageModel | Ensemble):
        self.module = module
        self.members = [each for each in members_of(module) if isinstance(each, LanguageModel)]
        self.has_source = all(isinstance(each, Seq2Seq) for each in self.members)
        self.device = device_of(module)
        self.weight_count = sum(weight.numel() for weight in module.parameters())
        self.can_optimize = self.weight_count > 0  # an n-gram model has no weight matrices to optimize
        self.decoded_count = 0
        self._optimized: dict[tuple[str, int], GenerativeModel] = {}
        self.load = load  # a speech recognizer may be decoded with another run, a language model
        # Address and version of each weight when the optimized copies were made.
        self._weights: tuple[tuple[int, int], ...] = ()

    @cached_property
    def pool(self) -> WorkerPool:
        """The workers; a GPU is used by one, whatever the number of CPU cores."""
        return WorkerPool(self.weight_count, cores=1 if self.device.type == "cuda" else None)

    def generate(self, request: GenerationRequest, on_progress: ProgressCallback) -> list[list[Hypothesis]]:
        """The hypotheses of each source, best first."""
        by_length = sorted(range(len(request.sources)), key=lambda index: len(request.sources[index]))
        batch_size = min(BATCH_SIZE, MAX_TOKENS // (request.decoding.width * request.decoding.max_new_tokens))
        batches = [by_length[start : start + batch_size] for start in range(0, len(by_length), batch_size)]
        optimized = self.use_optimized(request)
        layout = self.pool.choose_layout(
            len(batches), exact=optimized and len(by_length) >= MIN_MEASURED_SOURCES and self._is_exact()
        )
        model = self.optimized_model(request.decoding.precision, layout.threads) if optimized else self.plain_model()
        results: dict[int, list[Hypothesis]] = {}
        decoded = self.pool.run(layout, partial(self._decode, model, request), batches, _count_tokens)
        for batch, hypotheses in zip(batches, decoded, strict=True):
            results |= zip(batch, hypotheses, strict=True)
            on_progress(len(batch))
        self.decoded_count += len(by_length)
        return [results[index] for index in range(len(by_length))]

    def use_optimized(self, request: GenerationRequest) -> bool:
        """Whether to decode with the optimized copy of the model.

        Building a copy takes a moment, and the first one on a machine also runs a compiler for some seconds. A few
        sentences are therefore decoded by the plain model, but only in float32, where both give the same outputs.
        """
        if plain_only() or not self.can_optimize:
            if request.decoding.precision != "float32":
                reason = "With SEQ2SEE_PLAIN=1 a model" if self.can_optimize else "An n-gram model"
                raise UserError(f"{reason} is decoded in float32.", hint="Leave out decoding.precision.")
            return False
        return (
            request.large_batch
            or request.decoding.precision != "float32"
            or self.decoded_count + len(request.sources) >= MIN_SOURCES
        )

    def plain_model(self) -> GenerativeModel:
        """The model itself, with the fastest search unless all acceleration is switched off."""
        return self.module if plain_only() else with_fast_search(self.module, self.device)

    def optimized_model(self, precision: Precision, threads: int) -> GenerativeModel:
        """The optimized copy, built on first use and cached; for an ensemble, copies of its members."""
        weights = tuple((weight.data_ptr(), weight._version) for weight in self.module.parameters())
        if weights != self._weights:  # the weights were changed by further training, so the copies are stale
            self._weights = weights
            self._optimized.clear()
        if (precision, threads) not in self._optimized:
            members = [optimize_for_inference(member, precision, threads) for member in self.members]
            self._optimized[precision, threads] = (
                members[0] if len(members) == 1 else with_fast_search(Ensemble(members), self.device)
            )
        return self._optimized[precision, threads]

    def model_for_steps(self, precision: Precision) -> Any:
        """The model for single steps, whose state outlives a search: on a CPU, the copy with packed weights."""
        if plain_only() or self.device.type != "cpu":
            if precision != "float32":
                reason = "On a GPU" if self.device.type != "cpu" else "With SEQ2SEE_PLAIN=1"
                raise UserError(f"{reason} a dialogue is decoded in float32.", hint="Leave out decoding.precision.")
            return self.module
        fast: Any = self.optimized_model(precision, torch.get_num_threads())
        return fast.model

    def _is_exact(self) -> bool:
        """Whether results are bit-identical for any number of threads, as with native copies of all members."""
        return self.pool.cores > 1 and all(
            isinstance(each, Seq2Seq) and not native_unsupported_reason(each) for each in self.members
        )

    def _decode(self, model: GenerativeModel, request: GenerationRequest, batch: list[int]) -> list[list[Hypothesis]]:
        sources, prefixes = [request.sources[index] for index in batch], [request.prefix_ids] * len(batch)
        if not self.has_source:
            prefixes = [prompt + request.prefix_ids for prompt in sources]
        return decode(
            model,
            _to_batch(sources).to(self.device) if self.has_source else None,
            make_sampler(request.decoding, request.seed),
            make_limits(request.decoding),
            make_logits_processors(request.decoding),
            prefix=Sequences.of(prefixes).to(self.device),
            indices=torch.tensor([request.indices[index] for index in batch]),
        )


class TorchEncoderEngine:
    """The forward passes of an encoder-only model: many inputs get a copy that is fast for large batches."""

    def module_for(self, module: nn.Module, count: int, precision: str) -> nn.Module:
        """The module for this number of inputs. Packing weights pays off from one full batch on.

        Packed weights change predictions by rounding errors. A bf16 copy must be called under `autocast`.
        """
        if plain_only() or count <= ENCODER_BATCH_SIZE:
            return module
        return optimize_for_inference(module, precision)  # type: ignore[arg-type]


class CTranslate2Engine:
    """CTranslate2, for Transformers that it can represent; it distributes the work over threads itself."""

    streams = False

    def __init__(self, stored: Any):
        if find_spec("ctranslate2") is None:
            raise UserError(
                "The engine ct2 needs the package ctranslate2, which is not installed.",
                hint='Install it with `pip install "seq2see[ct2]"`, or leave out --engine.',
            )
        if stored.config.members:
            raise UserError(
                "The engine ct2 supports no ensembles.", hint="Name one of its runs, or leave out --engine."
            )
        self.stored = stored
        self._engines: dict[str, Any] = {}

    def generate(self, request: GenerationRequest, on_progress: ProgressCallback) -> list[list[Hypothesis]]:
        """The hypotheses of each source, best first."""
        if request.prefix_ids:
            raise UserError("The engine ct2 supports no prefix.", hint="Leave out --prefix or --engine.")
        engine = self._engine(request.decoding.precision)
        hypotheses = engine.translate(list(request.sources), request.decoding)
        on_progress(len(hypotheses))
        return hypotheses

    def _engine(self, precision: str) -> Any:
        if precision not in self._engines:
            self._engines[precision] = Ct2Engine(self.stored, precision, torch.get_num_threads())
        return self._engines[precision]


ENGINES: dict[str, Callable[[Any], Engine]] = {
    "torch": lambda stored: TorchEngine(stored.module),
    "ct2": CTranslate2Engine,
}


def engine_of(name: str, stored: Any) -> Engine:
    """Create the engine with this name for a stored model."""
    if name not in ENGINES:
        raise unknown_name("engine", name, ENGINES)
    return ENGINES[name](stored)


def native_code_status() -> str:
    """Whether the C++ code is ready on this machine."""
    reason = load_native_library().reason
    return "ready" if reason is None else f"none, so decoding on a CPU is slower: {reason}"


def _to_batch(sources: list[Any]) -> Sequences | Images:
    """Collate token ids or pixels."""
    if isinstance(sources[0], np.ndarray):
        return Images.of(torch.from_numpy(np.stack(sources)))
    return Sequences.of(sources)


def _count_tokens(decoded: list[list[Hypothesis]]) -> int:
    return sum(len(each.tokens) + 1 for hypotheses in decoded for each in hypotheses)


def load(name: str | Path, engine: str = "torch") -> Model:
    """Load the model of a finished run (a folder, a name under `runs/`, or "latest") or of a Hugging Face folder."""
    model = open_folder(find_model(str(name)), engine)
    model.name = str(name)
    return model


def open_folder(folder: Path, engine: str = "torch") -> Model:
    """The Python interface of the model in a folder, on the GPU if there is one, with fast layers for prediction."""
    return open_for_prediction(read_model(folder, pick_device()), engine)


def open_for_prediction(stored: StoredModel, engine: str = "torch") -> Model:
    """The Python interface of a stored model, with fast layers for prediction."""
    if not plain_only():
        accelerate(stored.module, Conditions(device_of(stored.module).type))
    return open_model(stored, engine)


def open_model(stored: StoredModel, engine: str = "torch") -> Model:
    """The Python interface of a stored model, or of a model in training."""
    task = task_named(stored.config.task)
    if not task.generates and engine != "torch":
        raise UserError(f"The engine {engine} is for generative models only.", hint="Leave out --engine.")
    return task.open(stored, engine_of(engine, stored) if task.generates else TorchEncoderEngine())


def read_model(folder: Path, device: torch.device) -> StoredModel:
    """Read and verify a model folder, or read a Hugging Face folder."""
    if is_pretrained(folder):
        return _read_pretrained(folder, device)
    if is_expert(folder):
        stored = read_adapted_model(folder)
        merge(stored.module)
        stored.module.to(device).eval()
        return stored
    config, files = _read_config(folder)
    tokenizers = Tokenizers.load(folder)
    members = []
    for number, settings in enumerate((config.model, *config.members), 1):
        content = read_verified(folder, weights_file(number), files)
        try:
            tensors = from_bytes(content)
        except (SafetensorError, KeyError, ValueError) as error:
            raise _damaged(folder, f"{weights_file(number)} holds no tensors: {error}.") from None
        _check_sizes(folder, settings, tensors)
        members.append(task_named(config.task).build(settings, tokenizers))
        load_named_tensors(members[-1], tensors)
    module = Ensemble(members) if config.members else members[0]
    return StoredModel(config, module.to(device).eval(), tokenizers)  # type: ignore[arg-type]


def _read_config(folder: Path) -> tuple[ModelConfig, dict[str, Any]]:
    """The configuration of a model folder, and the entries of its manifest, with which all files agree."""
    try:
        tree = load_json(folder / "config.json")
    except (OSError, ValueError) as error:
        raise _damaged(folder, f"This model cannot be read: {error}.") from None
    config = config_from_tree(tree, str(folder / "config.json"))
    files, faults = verify_folder(folder, config.step)
    if faults:
        raise _damaged(folder, f"This model is damaged: {'; '.join(faults)}.")
    return config, files


def _check_sizes(folder: Path, settings: Settings, tensors: Mapping[str, torch.Tensor]) -> None:
    """Raise an error if the sizes in the config cannot be those of the weights, before a model of that size is built.

    A model has at least as many tensors as blocks, and no matrix is wider than its largest weight.
    """
    largest = max((max(tensor.shape, default=1) for tensor in tensors.values()), default=1)
    limits = {"depth": len(tensors), "width": largest}
    for path, value, _ in walk(settings):
        name = path.rpartition(".")[2]
        if name in limits and isinstance(value, int) and value > limits[name]:
            message = f"By its config {path} is {str(value)[:40]}, more than its weights allow."
            raise _damaged(folder, message)


def read_adapted_model(folder: Path) -> StoredModel:
    """The model of an expert with its adapter, which `read_model` merges into the weights."""
    if not is_expert(folder):
        raise UserError("This model has no adapter.", location=str(folder))
    config, files = _read_config(folder)
    return read_expert_model(folder, files, config, lambda base: read_model(base, torch.device("cpu")))


def _damaged(folder: Path, message: str) -> UserError:
    """The error for a damaged folder; a run with checkpoints can write its model again."""
    run, hint = folder.parent, "Copy it again, or create it again."
    if (run / "checkpoints").is_dir():
        hint = f"Delete this folder, and write it again with `seq2see train {run}/recipe.toml --out {run}`."
    return UserError(message, location=str(folder), hint=hint)


def _read_pretrained(folder: Path, device: torch.device) -> StoredModel:
    if folder.suffix == ".gguf":
        from seq2see.interop.gguf_file import read_gguf  # imported here, because it is rarely used

        pretrained = read_gguf(folder)
    elif folder.suffix == ".npz":
        pretrained = read_npz(folder)
    else:
        pretrained = read_pretrained(folder)
    config = ModelConfig(
        task=pretrained_task(pretrained.settings),
        name=folder.stem,
        step=0,
        model=pretrained.settings,
        decoding=pretrained.decoding,
        prediction=Candidates(top_k=pretrained.decoding.top_k),
    )
    tokenizers = Tokenizers(pretrained.tokenizer, pretrained.tokenizer, pretrained.labels)
    return StoredModel(config, pretrained.module.to(device).eval(), tokenizers)
