"""Engines that translate on a CPU, with a common interface: token ids of the sources in, token ids of the outputs out.

An engine is built in the process that uses it. Its `WorkerLayout` is the use of the cores: one worker whose matmuls are
split over threads, or several workers with one thread each, which are threads or processes.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from seq2see.core.batch import Sequences
from seq2see.data.tokenizers.tokenizer import EOS

MAX_NEW_TOKENS = 64
"""The maximum length of an output."""

TokenIds = list[list[int]]
Engine = Callable[[TokenIds, int], TokenIds]
"""(sources, each with its <eos>; beams) -> outputs without <eos>. The sources are one batch."""


@dataclass(frozen=True)
class WorkerLayout:
    """The number of workers, the number of threads of each, and whether the workers are processes."""

    workers: int
    threads: int
    processes: bool = False

    def __str__(self) -> str:
        kind = "processes" if self.processes else "workers"
        return f"{self.threads} threads" if self.workers == 1 else f"{self.workers} {kind}"


@dataclass(frozen=True)
class Competitor:
    """An engine with a precision and a worker layout."""

    engine: str
    precision: str
    layout: WorkerLayout

    @property
    def name(self) -> str:
        """The name of its column."""
        return f"{self.engine}_{self.precision}"


def competitors(cores: int) -> list[Competitor]:
    """Every engine in every worker layout that may be its fastest.

    CTranslate2 has its own workers, Hugging Face runs in processes, and seq2see has the layouts of `seq2see predict`.
    """
    all_threads, single = WorkerLayout(1, cores), WorkerLayout(1, 1)
    workers, processes = WorkerLayout(cores, 1), WorkerLayout(cores, 1, processes=True)
    competing = [Competitor("hf", "float32", layout) for layout in (all_threads, processes)]
    competing += [Competitor("ct2", kind, layout) for kind in ("float32", "int8") for layout in (all_threads, workers)]
    for kind in ("float32", "bf16", "int8"):
        competing += [Competitor("seq2see", kind, layout) for layout in (all_threads, single, workers)]
    return list(dict.fromkeys(competing))


def hugging_face(folder: Path, precision: str, layout: WorkerLayout) -> Engine:
    """Hugging Face's `generate`."""
    from transformers import AutoModelForSeq2SeqLM

    model = AutoModelForSeq2SeqLM.from_pretrained(folder / "hf").eval()

    def run(sources: TokenIds, beams: int) -> TokenIds:
        batch = Sequences.of(sources)
        options = {"num_beams": beams, "length_penalty": 1.0, "early_stopping": True} if beams > 1 else {"num_beams": 1}
        with torch.inference_mode():
            tokens = model.generate(
                input_ids=batch.values, attention_mask=batch.valid.long(), do_sample=False,
                max_new_tokens=MAX_NEW_TOKENS, **options,
            )  # fmt: skip
        return [_until_eos(row[1:]) for row in tokens.tolist()]

    return run


def seq2see(folder: Path, precision: str, layout: WorkerLayout) -> Engine:
    """seq2see's decoding loop with the fastest optimized copy of the model."""
    from seq2see.acceleration.inference import optimize_for_inference
    from seq2see.decoding.engine import Decoding, decode, make_limits, make_sampler
    from seq2see.runs.load import read_model

    optimized = optimize_for_inference(
        read_model(folder / "ours", torch.device("cpu")).module, precision, layout.threads
    )  # type: ignore[arg-type]
    settings = {"max_new_tokens": MAX_NEW_TOKENS, "early_stopping": True, "length_penalty": {"kind": "average"}}

    def run(sources: TokenIds, beams: int) -> TokenIds:
        decoding = Decoding(**settings, num_beams=beams)  # type: ignore[arg-type]
        hypotheses = decode(optimized, Sequences.of(sources), make_sampler(decoding), make_limits(decoding))
        return [list(row[0].tokens) for row in hypotheses]

    return run


class CTranslate2:
    """CTranslate2, which splits all sources into batches and distributes them over its workers."""

    def __init__(self, folder: Path, precision: str, layout: WorkerLayout):
        import ctranslate2

        from seq2see.interop.ctranslate2 import COMPUTE_TYPES

        self.translator = ctranslate2.Translator(
            str(folder / "ct2"), device="cpu", compute_type=COMPUTE_TYPES[precision],
            inter_threads=layout.workers, intra_threads=layout.threads,
        )  # fmt: skip
        self.words = json.loads((folder / "ct2" / "shared_vocabulary.json").read_text(encoding="utf-8"))
        self.token_ids = {word: number for number, word in enumerate(self.words)}

    def __call__(self, batches: Sequence[TokenIds], beams: int) -> TokenIds:
        """The outputs of all sources, in order."""
        sources = [[self.words[number] for number in source[:-1]] for batch in batches for source in batch]
        results = self.translator.translate_batch(
            sources, beam_size=beams, max_batch_size=len(batches[0]), length_penalty=1 if beams > 1 else 0,
            max_decoding_length=MAX_NEW_TOKENS, max_input_length=0,
        )  # fmt: skip
        return [[self.token_ids[word] for word in each.hypotheses[0]] for each in results]


ENGINES: dict[str, Callable[[Path, str, WorkerLayout], Engine]] = {"hf": hugging_face, "seq2see": seq2see}
_worker_engines: list[Engine] = []  # a worker process builds its engine once


def _start_worker(folder: Path, competitor: Competitor) -> None:
    torch.set_num_threads(competitor.layout.threads)
    _worker_engines.append(ENGINES[competitor.engine](folder, competitor.precision, competitor.layout))


def _run_batch(batch: TokenIds, beams: int) -> TokenIds:
    return _worker_engines[0](batch, beams)


@contextmanager
def running(folder: Path, competitor: Competitor) -> Iterator[Callable[[Sequence[TokenIds], int], TokenIds]]:
    """A competitor whose engine is built and whose workers are running."""
    layout = competitor.layout
    if competitor.engine == "ct2":
        yield CTranslate2(folder, competitor.precision, layout)
        return
    if layout.processes:
        os.environ["OMP_NUM_THREADS"] = str(layout.threads)
        pool: Any = ProcessPoolExecutor(layout.workers, get_context("spawn"), _start_worker, (folder, competitor))
    else:
        _start_worker(folder, competitor)
        # The number of threads in torch is per calling thread, so every worker sets it.
        pool = ThreadPoolExecutor(layout.workers, initializer=torch.set_num_threads, initargs=(layout.threads,))
    with pool:
        yield lambda batches, beams: list(
            itertools.chain.from_iterable(pool.map(_run_batch, batches, itertools.repeat(beams)))
        )


def _until_eos(tokens: list[int]) -> list[int]:
    return tokens[: tokens.index(EOS)] if EOS in tokens else tokens
