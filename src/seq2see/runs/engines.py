"""Who does the decoding: our own loop over the model or its quick twin, or CTranslate2 if the user asks for it.

An engine takes sources as numbers and gives hypotheses; it knows nothing of texts. Sources of like length
are decoded side by side, so that little is computed on padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from seq2see.core.batch import Images, Sequences
from seq2see.core.devices import device_of
from seq2see.core.errors import UserError, unknown_name
from seq2see.core.worker_pool import WorkerPool
from seq2see.decoding.engine import GenerativeModel, decode
from seq2see.decoding.ensemble import Ensemble
from seq2see.decoding.hypotheses import Hypothesis
from seq2see.decoding.settings import MAX_TOKENS, Decoding, make_limits, make_logits_processors, make_sampler
from seq2see.models.language_model import LanguageModel
from seq2see.models.seq2seq import Seq2Seq
from seq2see.runs.model_folder import members_of

if TYPE_CHECKING:
    from seq2see.decoding.optimize import Precision

BATCH_SIZE = 64
"""Sources decoded side by side, unless they would need too much memory; a result never depends on its neighbors."""
MIN_SOURCES = 32
"""For fewer sources than this, nothing is built that only pays with use."""
MIN_MEASURED_SOURCES = 1000
"""For fewer sources than this, no other arrangement of workers is tried than the usual one."""


@dataclass(frozen=True)
class GenerationRequest:
    """What is to be decoded, and how."""

    sources: Sequence[Any]
    """Ids, each with its <eos>; of a language model, what it goes on from; or pixels, all of one shape."""
    indices: Sequence[int]
    """The sources' own numbers, on which samples depend."""
    decoding: Decoding
    prefix_ids: list[int] = field(default_factory=list)
    """What every answer begins with."""
    seed: int = 0
    large_batch: bool = False
    """Whether these are a few of very many, so that what only pays with use is worth preparing."""


ProgressCallback = Callable[[int], Any]
"""Told how many sources have been answered, again and again."""


class Engine(Protocol):
    """What answers."""

    def generate(self, asked: GenerationRequest, on_progress: ProgressCallback) -> list[list[Hypothesis]]:
        """For each source its hypotheses, best first."""


class TorchEngine:
    """Our own loop, on the model's device, with as many workers as are quickest."""

    def __init__(self, module: LanguageModel | Ensemble):
        self.module = module
        self.members = [each for each in members_of(module) if isinstance(each, LanguageModel)]
        self.has_source = all(isinstance(each, Seq2Seq) for each in self.members)  # whether there is a source
        self.device = device_of(module)
        weights = sum(weight.numel() for weight in module.parameters())
        self.can_optimize = weights > 0  # what only counts has no matrices that could be made quicker
        # A GPU is one worker, whatever the processor has.
        self.pool = WorkerPool(weights, cores=1 if self.device.type == "cuda" else None)
        self.decoded_count = 0
        self._optimized: dict[tuple[str, int], GenerativeModel] = {}
        self._weights: tuple[tuple[int, int], ...] = ()  # those the twins were made from

    def generate(self, asked: GenerationRequest, on_progress: ProgressCallback) -> list[list[Hypothesis]]:
        """For each source its hypotheses, best first."""
        by_length = sorted(range(len(asked.sources)), key=lambda place: len(asked.sources[place]))
        rows = min(BATCH_SIZE, MAX_TOKENS // (asked.decoding.width * asked.decoding.max_new_tokens))
        batches = [by_length[start : start + rows] for start in range(0, len(by_length), rows)]
        optimized = self.use_optimized(asked)
        layout = self.pool.choose_layout(
            len(batches), exact=optimized and len(by_length) >= MIN_MEASURED_SOURCES and self._is_exact()
        )
        model: GenerativeModel = (
            self.optimized_model(asked.decoding.precision, layout.threads) if optimized else self.module
        )
        results: dict[int, list[Hypothesis]] = {}
        answered = self.pool.run(layout, partial(self._decode, model, asked), batches, _tokens)
        for batch, found in zip(batches, answered, strict=True):
            results |= zip(batch, found, strict=True)
            on_progress(len(batch))
        self.decoded_count += len(by_length)
        return [results[place] for place in range(len(by_length))]

    def use_optimized(self, asked: GenerationRequest) -> bool:
        """Whether the model's quick twin is used, or the plain model.

        To make a twin takes a moment, and the very first one on a machine a compiler and some seconds more. So a few
        sentences are answered by the plain model; but only in float32, where both give the same answers.
        """
        if not self.can_optimize:
            if asked.decoding.precision != "float32":
                raise UserError("A model that counts is decoded in float32.", hint="Leave out decoding.precision.")
            return False
        return (
            asked.large_batch
            or asked.decoding.precision != "float32"
            or self.decoded_count + len(asked.sources) >= MIN_SOURCES
        )

    def optimized_model(self, precision: Precision, threads: int) -> GenerativeModel:
        """The quick twin, made when it is first needed and kept; of an ensemble, the twins of its members."""
        from seq2see.decoding.optimize import optimize_for_inference

        weights = tuple((weight.data_ptr(), weight._version) for weight in self.module.parameters())
        if weights != self._weights:  # somebody has trained the model on, and its twins are no longer like it
            self._weights = weights
            self._optimized.clear()
        if (precision, threads) not in self._optimized:
            members = [optimize_for_inference(member, precision, threads) for member in self.members]
            self._optimized[precision, threads] = members[0] if len(members) == 1 else Ensemble(members)
        return self._optimized[precision, threads]

    def _is_exact(self) -> bool:
        """Whether not even the last bit depends on the number of threads: so it is with native twins."""
        from seq2see.decoding.native import native_unsupported_reason

        return self.pool.cores > 1 and all(
            isinstance(each, Seq2Seq) and not native_unsupported_reason(each) for each in self.members
        )

    def _decode(self, model: GenerativeModel, asked: GenerationRequest, batch: list[int]) -> list[list[Hypothesis]]:
        rows, beginnings = [asked.sources[place] for place in batch], [asked.prefix_ids] * len(batch)
        if not self.has_source:
            beginnings = [row + asked.prefix_ids for row in rows]
        return decode(
            model,
            _to_batch(rows).to(self.device) if self.has_source else None,
            make_sampler(asked.decoding, asked.seed),
            make_limits(asked.decoding),
            make_logits_processors(asked.decoding),
            prefix=Sequences.of(beginnings).to(self.device),
            indices=torch.tensor([asked.indices[place] for place in batch]),
        )


class CTranslate2Engine:
    """CTranslate2, for Transformers that it has a form for; it shares out the work by itself."""

    def __init__(self, stored: Any):
        if find_spec("ctranslate2") is None:
            raise UserError(
                "The engine ct2 needs the package ctranslate2, which is not installed.",
                hint='Install it with `pip install "seq2see[ct2]"`, or leave out --engine.',
            )
        if stored.config.members:
            raise UserError("The engine ct2 takes no ensemble.", hint="Name one of its runs, or leave out --engine.")
        self.stored = stored
        self._engines: dict[str, Any] = {}

    def generate(self, asked: GenerationRequest, on_progress: ProgressCallback) -> list[list[Hypothesis]]:
        """For each source its hypotheses, best first."""
        if asked.prefix_ids:
            raise UserError("The engine ct2 takes no prefix.", hint="Leave out --prefix or --engine.")
        engine = self._engine(asked.decoding.precision)
        found = engine.translate(list(asked.sources), asked.decoding)
        on_progress(len(found))
        return found

    def _engine(self, precision: str) -> Any:
        if precision not in self._engines:
            from seq2see.interop.ct2_engine import Ct2Engine

            self._engines[precision] = Ct2Engine(self.stored, precision, torch.get_num_threads())
        return self._engines[precision]


ENGINES: dict[str, Callable[[Any], Engine]] = {
    "own": lambda stored: TorchEngine(stored.module),
    "ct2": CTranslate2Engine,
}


def engine_of(name: str, stored: Any) -> Engine:
    """The engine of this name, for this model."""
    if name not in ENGINES:
        raise unknown_name("engine", name, ENGINES)
    return ENGINES[name](stored)


def _to_batch(rows: list[Any]) -> Sequences | Images:
    """What is read, as a batch: texts as numbers, or images."""
    if isinstance(rows[0], np.ndarray):
        return Images.of(torch.from_numpy(np.stack(rows)))
    return Sequences.of(rows)


def _tokens(found: list[list[Hypothesis]]) -> int:
    return sum(len(each.tokens) + 1 for answers in found for each in answers)
