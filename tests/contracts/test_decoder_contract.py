"""Every decoder there is takes the decoder exam."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

import pytest
import torch
from decoder_exam import Candidate, DecoderExam
from torch import Tensor

from seq2see.core.batch import Batch, Sequences
from seq2see.decoding.ensemble import Ensemble
from seq2see.decoding.native import native_twin, why_not
from seq2see.models.recurrent import LockedSettings
from seq2see.models.settings import ModelSettings, TextTarget, Tokens
from seq2see.models.window import WindowDecoderSettings
from tiny_models import (
    FAMILIES,
    TARGET_SIZE,
    WIDTH,
    counted,
    pair,
    reads,
    sources,
    stirred,
    tiny,
    transformer,
    whole,
    writes,
)
from toy_decoders import VOCAB, HistoryModel, TableModel, some_source

# Cells, looks and positions that no family pairs already.
MORE_PAIRS = {
    "recurrent, lstm and additive": pair(reads("lstm"), writes("lstm", "additive"), "none"),
    "recurrent, elman and dot": pair(reads("elman"), writes("elman", "dot"), "none"),
    "transformer, rotary and grouped": pair(transformer(key_heads=1), transformer(key_heads=1), "rotary"),
    "transformer, alibi": pair(transformer(), transformer(), "alibi"),
    "recurrent, notes-gru and every step": pair(reads("notes-gru"), writes("notes-gru", "every-step"), "none"),
}


def window(**changes) -> ModelSettings:
    """A language model that sees the last few tokens."""
    settings = WindowDecoderSettings(width=WIDTH, hidden=7, dropout=0.2, **changes)
    return ModelSettings(target=TextTarget(frontend=Tokens(positions="none")), decoder=settings)


WRITERS = {
    "gpt": ModelSettings(decoder=transformer()),
    "gpt, post-norm and learned positions": ModelSettings(
        target=TextTarget(frontend=Tokens(positions="learned"), head="free"), decoder=transformer(order="post")
    ),
    "gpt, rotary, grouped and gated": ModelSettings(
        target=TextTarget(frontend=Tokens(positions="rotary")),
        decoder=transformer(norm="rms", think="swiglu", key_heads=1),
    ),
    "gpt, alibi and smooth": ModelSettings(
        target=TextTarget(frontend=Tokens(positions="alibi")), decoder=transformer(think="gelu-tanh")
    ),
    "gpt, as GPT-2": ModelSettings(
        target=TextTarget(frontend=Tokens(positions="learned", longest=3, vectors="plain"), missing=(0, 1)),
        decoder=transformer(think="gelu-tanh"),
    ),
    "gpt, as Llama": ModelSettings(
        target=TextTarget(frontend=Tokens(positions="rotary", vectors="plain"), head="plain"),
        decoder=transformer(
            norm="rms", think="swiglu", key_heads=1, matrices="plain", epsilon=1e-6, expansion=2.6, rotary_base=100.0
        ),
    ),
    "language model, lstm": ModelSettings(
        target=TextTarget(frontend=Tokens(positions="none")), decoder=writes("lstm", "first-state")
    ),
    "window, linear": window(tau=3, depth=0),
    "window, mlp": window(tau=4, depth=2),
    "window, the last token alone": window(tau=1, depth=1),
    "window, wider than the text": window(tau=12, depth=1),
    "language model, regularised": ModelSettings(
        target=TextTarget(frontend=Tokens(positions="none", vectors="plain")),
        decoder=writes("lstm", "first-state").with_(
            vectors=5, locked=LockedSettings(words=0.1, inputs=0.2, weights=0.3, outputs=0.4)
        ),
    ),
    "language model, narrow at last": ModelSettings(
        target=TextTarget(frontend=Tokens(positions="none")),
        decoder=writes("lstm", "first-state").with_(depth=2, vectors=5, narrowing="layer"),
    ),
}

# These differ from the others in nothing that the exam asks about.
OTHER_NORMS = ["transformer, rms norm", "transformer, batch norm", "transformer, power norm"]


@cache
def another(name: str):
    return stirred(MORE_PAIRS[name])


@cache
def writing(name: str):
    return stirred(WRITERS[name])


def seq2seq(name: str, build) -> Candidate:
    """A real model; its sources have three different lengths."""
    return Candidate(name, partial(build, name), TARGET_SIZE, lambda: sources([4, 2, 5], seed=3), whole, 2e-5)


COUNTERS = {
    "pairs, back-off": (2, "back-off"),
    "four in a row, back-off": (4, "back-off"),
    "three in a row, Kneser-Ney": (3, "kneser-ney"),
    "seven in a row, modified Kneser-Ney": (7, "modified-kneser-ney"),
}


@cache
def counting(name: str):
    return counted(*COUNTERS[name])


def writer(name: str, build=writing) -> Candidate:
    """A language model, which has no source."""

    def read(model, _, tokens: Tensor) -> Tensor:
        lengths = torch.full((len(tokens),), tokens.size(1))
        return model(Batch(None, Sequences(tokens, lengths), tokens, torch.arange(len(tokens))))

    return Candidate(name, partial(build, name), TARGET_SIZE, None, read, 2e-5)


def together(*names: str) -> Ensemble:
    """An ensemble of different families."""
    return Ensemble([tiny(name) for name in names])


ENSEMBLE = ("transformer, pre-norm", "recurrent, additive")


@cache
def twin(name: str):
    return native_twin(tiny(name), "float32", threads=2) or pytest.skip(str(why_not(tiny(name))))


def native(name: str) -> Candidate:
    """A native twin; the model it is made from reads the whole."""

    def read(_, source: Sequences, tokens: Tensor) -> Tensor:
        return whole(tiny(name), source, tokens)

    return Candidate(f"native {name}", partial(twin, name), TARGET_SIZE, lambda: sources([4, 2, 5], seed=3), read, 2e-5)


ALL_DECODERS = [
    Candidate("table", TableModel, VOCAB),
    Candidate("history", HistoryModel, VOCAB, lambda: some_source(3, seed=2)),
    Candidate("history without source", HistoryModel, VOCAB),
    *(seq2seq(name, tiny) for name in FAMILIES if name not in OTHER_NORMS),
    *(seq2seq(name, another) for name in MORE_PAIRS),
    *(native(name) for name in ("transformer, pre-norm", "transformer, post-norm", "transformer, rms norm")),
    *(writer(name) for name in WRITERS),
    *(writer(name, counting) for name in COUNTERS),
    seq2seq("ensemble", lambda _: together(*ENSEMBLE)),
]


@pytest.mark.parametrize("candidate", ALL_DECODERS, ids=str)
class TestDecoderContract(DecoderExam):
    """The exam, for all of them."""


def few_rows(name: str, candidate: Candidate) -> Candidate:
    """The twin that steps a few rows by kernels of its own; the model it is made from reads the whole."""

    def build():
        from seq2see.decoding.few_rows import few_rows_twin

        return few_rows_twin(candidate.build())

    def read(twin, source: Sequences | None, tokens: Tensor) -> Tensor:
        return candidate.whole(twin.model, source, tokens)

    return replace(candidate, name=name, build=build, whole=read)


FEW_ROWS = [
    few_rows("transformer, post-norm", seq2seq("transformer, post-norm", tiny)),
    few_rows("gpt, as GPT-2", writer("gpt, as GPT-2")),
]


@pytest.mark.long
@pytest.mark.triton
@pytest.mark.skipif(torch.cuda.is_available(), reason="the exam is on a CPU; beside a GPU nobody interprets kernels")
@pytest.mark.parametrize("candidate", FEW_ROWS, ids=str)
class TestFewRows(DecoderExam):
    """The exam, for those that only triton runs."""

    @pytest.fixture(autouse=True)
    def few_programs(self, monkeypatch):
        """An interpreter walks through one program after another."""
        from seq2see.kernels import few_rows

        monkeypatch.setattr(few_rows, "PROGRAMS", 4)
