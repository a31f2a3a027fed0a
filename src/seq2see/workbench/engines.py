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

from seq2see.core.batch import Pictures, Sequences
from seq2see.core.devices import device_of
from seq2see.core.errors import UserError, unknown
from seq2see.core.threads import Crew
from seq2see.decoding.engine import Decodes, decode
from seq2see.decoding.ensemble import Ensemble
from seq2see.decoding.hypotheses import Hypothesis
from seq2see.decoding.settings import MOST_TOKENS, Decoding, chooser_of, limits_of, rules_of
from seq2see.models.language_model import LanguageModel
from seq2see.models.seq2seq import Seq2Seq
from seq2see.workbench.model_folder import members_of

if TYPE_CHECKING:
    from seq2see.decoding.quick import Precision

ROWS = 64
"""Sources decoded side by side, unless they would need too much memory; a result never depends on its neighbours."""
FEW = 32
"""For fewer sources than this, nothing is built that only pays with use."""
MEASURED = 1000
"""For fewer sources than this, no other arrangement of workers is tried than the usual one."""


@dataclass(frozen=True)
class Asked:
    """What is to be decoded, and how."""

    sources: Sequence[Any]
    """Ids, each with its <eos>; of a language model, what it goes on from; or pixels, all of one shape."""
    numbers: Sequence[int]
    """The sources' own numbers, on which samples depend."""
    decoding: Decoding
    beginning: list[int] = field(default_factory=list)
    """What every answer begins with."""
    seed: int = 0
    many: bool = False
    """Whether these are a few of very many, so that what only pays with use is worth preparing."""


Watch = Callable[[int], Any]
"""Told how many sources have been answered, again and again."""


class Engine(Protocol):
    """What answers."""

    def answer(self, asked: Asked, watch: Watch) -> list[list[Hypothesis]]:
        """For each source its hypotheses, best first."""


class OwnEngine:
    """Our own loop, on the model's device, with as many workers as are quickest."""

    def __init__(self, module: LanguageModel | Ensemble):
        self.module = module
        self.members = [each for each in members_of(module) if isinstance(each, LanguageModel)]
        self.reads = all(isinstance(each, Seq2Seq) for each in self.members)  # whether there is a source
        self.device = device_of(module)
        weights = sum(weight.numel() for weight in module.parameters())
        self.has_twins = weights > 0  # what only counts has no matrices that could be made quicker
        # A GPU is one worker, whatever the processor has.
        self.crew = Crew(weights, cores=1 if self.device.type == "cuda" else None)
        self.answered = 0
        self._twins: dict[tuple[str, int], Decodes] = {}
        self._weights: tuple[tuple[int, int], ...] = ()  # those the twins were made from

    def answer(self, asked: Asked, watch: Watch) -> list[list[Hypothesis]]:
        """For each source its hypotheses, best first."""
        by_length = sorted(range(len(asked.sources)), key=lambda place: len(asked.sources[place]))
        rows = min(ROWS, MOST_TOKENS // (asked.decoding.width * asked.decoding.max_new_tokens))
        batches = [by_length[start : start + rows] for start in range(0, len(by_length), rows)]
        quick = self.is_worth_it(asked)
        way = self.crew.arrangement(len(batches), exact=quick and len(by_length) >= MEASURED and self._is_exact())
        model: Decodes = self.twin(asked.decoding.precision, way.threads) if quick else self.module
        results: dict[int, list[Hypothesis]] = {}
        answered = self.crew.run(way, partial(self._decode, model, asked), batches, _tokens)
        for batch, found in zip(batches, answered, strict=True):
            results |= zip(batch, found, strict=True)
            watch(len(batch))
        self.answered += len(by_length)
        return [results[place] for place in range(len(by_length))]

    def is_worth_it(self, asked: Asked) -> bool:
        """Whether the model's quick twin is used, or the plain model.

        To make a twin takes a moment, and the very first one on a machine a compiler and some seconds more. So a few
        sentences are answered by the plain model; but only in float32, where both give the same answers.
        """
        if not self.has_twins:
            if asked.decoding.precision != "float32":
                raise UserError("A model that counts is decoded in float32.", remedy="Leave out decoding.precision.")
            return False
        return asked.many or asked.decoding.precision != "float32" or self.answered + len(asked.sources) >= FEW

    def twin(self, precision: Precision, threads: int) -> Decodes:
        """The quick twin, made when it is first needed and kept; of an ensemble, the twins of its members."""
        from seq2see.decoding.quick import quicken

        weights = tuple((weight.data_ptr(), weight._version) for weight in self.module.parameters())
        if weights != self._weights:  # somebody has trained the model on, and its twins are no longer like it
            self._weights = weights
            self._twins.clear()
        if (precision, threads) not in self._twins:
            members = [quicken(member, precision, threads) for member in self.members]
            self._twins[precision, threads] = members[0] if len(members) == 1 else Ensemble(members)
        return self._twins[precision, threads]

    def _is_exact(self) -> bool:
        """Whether not even the last bit depends on the number of threads: so it is with native twins."""
        from seq2see.decoding.native import why_not

        return self.crew.cores > 1 and all(isinstance(each, Seq2Seq) and not why_not(each) for each in self.members)

    def _decode(self, model: Decodes, asked: Asked, batch: list[int]) -> list[list[Hypothesis]]:
        rows, beginnings = [asked.sources[place] for place in batch], [asked.beginning] * len(batch)
        if not self.reads:
            beginnings = [row + asked.beginning for row in rows]
        return decode(
            model,
            _read(rows).to(self.device) if self.reads else None,
            chooser_of(asked.decoding, asked.seed),
            limits_of(asked.decoding),
            rules_of(asked.decoding),
            prefix=Sequences.of(beginnings).to(self.device),
            indices=torch.tensor([asked.numbers[place] for place in batch]),
        )


class Ct2:
    """CTranslate2, for Transformers that it has a form for; it shares out the work by itself."""

    def __init__(self, stored: Any):
        if find_spec("ctranslate2") is None:
            raise UserError(
                "The engine ct2 needs the package ctranslate2, which is not installed.",
                remedy='Install it with `pip install "seq2see[ct2]"`, or leave out --engine.',
            )
        if stored.config.members:
            raise UserError("The engine ct2 takes no ensemble.", remedy="Name one of its runs, or leave out --engine.")
        self.stored = stored
        self._engines: dict[str, Any] = {}

    def answer(self, asked: Asked, watch: Watch) -> list[list[Hypothesis]]:
        """For each source its hypotheses, best first."""
        if asked.beginning:
            raise UserError("The engine ct2 takes no prefix.", remedy="Leave out --prefix or --engine.")
        engine = self._engine(asked.decoding.precision)
        found = engine.translate(list(asked.sources), asked.decoding)
        watch(len(found))
        return found

    def _engine(self, precision: str) -> Any:
        if precision not in self._engines:
            from seq2see.interop.ct2_engine import Ct2Engine

            self._engines[precision] = Ct2Engine(self.stored, precision, torch.get_num_threads())
        return self._engines[precision]


ENGINES: dict[str, Callable[[Any], Engine]] = {"own": lambda stored: OwnEngine(stored.module), "ct2": Ct2}


def engine_of(name: str, stored: Any) -> Engine:
    """The engine of this name, for this model."""
    if name not in ENGINES:
        raise unknown("engine", name, ENGINES)
    return ENGINES[name](stored)


def _read(rows: list[Any]) -> Sequences | Pictures:
    """What is read, as a batch: texts as numbers, or pictures."""
    if isinstance(rows[0], np.ndarray):
        return Pictures.of(torch.from_numpy(np.stack(rows)))
    return Sequences.of(rows)


def _tokens(found: list[list[Hypothesis]]) -> int:
    return sum(len(each.tokens) + 1 for answers in found for each in answers)
