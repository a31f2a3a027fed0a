"""Every decoder fulfills the decoder contract."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

import pytest
import torch
from decoder_contract import DecoderCase, DecoderContract
from torch import Tensor

from seq2see.acceleration.native import make_native_model, native_unsupported_reason
from seq2see.core.batch import Batch, Sequences
from seq2see.decoding.ensemble import Ensemble
from seq2see.models.mlp_lm import MLPDecoderSettings
from seq2see.models.recurrent import AWDSettings
from seq2see.models.settings import ModelSettings, TextTarget, TokenEmbeddingSettings
from tiny_models import (
    FAMILIES,
    TARGET_SIZE,
    WIDTH,
    full_logits,
    ngram_model,
    perturbed_model,
    recurrent_decoder,
    recurrent_encoder,
    seq2seq_settings,
    sources,
    tiny_model,
    transformer,
)
from toy_decoders import VOCAB, HistoryModel, TableModel, random_source

# Combinations of cells, attentions and positions that no family has.
MORE_FAMILIES = {
    "recurrent, lstm and additive": seq2seq_settings(
        recurrent_encoder("lstm"), recurrent_decoder("lstm", "additive"), "none"
    ),
    "recurrent, rnn and dot": seq2seq_settings(recurrent_encoder("rnn"), recurrent_decoder("rnn", "dot"), "none"),
    "transformer, rotary and grouped": seq2seq_settings(transformer(kv_heads=1), transformer(kv_heads=1), "rotary"),
    "transformer, alibi": seq2seq_settings(transformer(), transformer(), "alibi"),
    "recurrent, reset-before GRU and context vector": seq2seq_settings(
        recurrent_encoder("gru-reset-before"), recurrent_decoder("gru-reset-before", "context-vector"), "none"
    ),
}


def mlp(**changes) -> ModelSettings:
    """A language model whose context is the last few tokens."""
    settings = MLPDecoderSettings(width=WIDTH, hidden=7, dropout=0.2, **changes)
    return ModelSettings(target=TextTarget(embedding=TokenEmbeddingSettings(positions="none")), decoder=settings)


LANGUAGE_MODELS = {
    "gpt": ModelSettings(decoder=transformer()),
    "gpt, post-norm and learned positions": ModelSettings(
        target=TextTarget(embedding=TokenEmbeddingSettings(positions="learned"), head="untied"),
        decoder=transformer(norm_order="post"),
    ),
    "gpt, rotary, grouped and gated": ModelSettings(
        target=TextTarget(embedding=TokenEmbeddingSettings(positions="rotary")),
        decoder=transformer(norm="rms", activation="swiglu", kv_heads=1),
    ),
    "gpt, alibi and gelu": ModelSettings(
        target=TextTarget(embedding=TokenEmbeddingSettings(positions="alibi")),
        decoder=transformer(activation="gelu-tanh"),
    ),
    "gpt, as GPT-2": ModelSettings(
        target=TextTarget(
            embedding=TokenEmbeddingSettings(positions="learned", max_positions=3, scale=False), suppress_tokens=(0, 1)
        ),
        decoder=transformer(activation="gelu-tanh"),
    ),
    "gpt, as Llama": ModelSettings(
        target=TextTarget(embedding=TokenEmbeddingSettings(positions="rotary", scale=False), head="untied-no-bias"),
        decoder=transformer(
            norm="rms",
            activation="swiglu",
            kv_heads=1,
            bias=False,
            norm_eps=1e-6,
            mlp_ratio=2.6,
            rope_theta=100.0,
        ),
    ),
    "language model, lstm": ModelSettings(
        target=TextTarget(embedding=TokenEmbeddingSettings(positions="none")),
        decoder=recurrent_decoder("lstm", "none"),
    ),
    "mlp, linear": mlp(context=3, depth=0),
    "mlp, two layers": mlp(context=4, depth=2),
    "mlp, context of one token": mlp(context=1, depth=1),
    "mlp, context longer than the text": mlp(context=12, depth=1),
    "language model, regularized": ModelSettings(
        target=TextTarget(embedding=TokenEmbeddingSettings(positions="none", scale=False)),
        decoder=recurrent_decoder("lstm", "none").with_(
            embedding_width=5,
            awd=AWDSettings(embedding_dropout=0.1, input_dropout=0.2, weight_dropout=0.3, output_dropout=0.4),
        ),
    ),
    "language model, narrow last layer": ModelSettings(
        target=TextTarget(embedding=TokenEmbeddingSettings(positions="none")),
        decoder=recurrent_decoder("lstm", "none").with_(depth=2, embedding_width=5, projection="last-layer"),
    ),
}

# These differ from the others in nothing that the contract tests.
OTHER_NORMS = ["transformer, rms norm", "transformer, batch norm", "transformer, power norm"]


@cache
def more_families_model(name: str):
    return perturbed_model(MORE_FAMILIES[name])


@cache
def language_model(name: str):
    return perturbed_model(LANGUAGE_MODELS[name])


def seq2seq_case(name: str, build) -> DecoderCase:
    """A sequence-to-sequence model; its sources have three different lengths."""
    return DecoderCase(name, partial(build, name), TARGET_SIZE, lambda: sources([4, 2, 5], seed=3), full_logits, 2e-5)


NGRAM_MODELS = {
    "bigrams, back-off": (2, "back-off"),
    "4-grams, back-off": (4, "back-off"),
    "trigrams, Kneser-Ney": (3, "kneser-ney"),
    "7-grams, modified Kneser-Ney": (7, "modified-kneser-ney"),
}


@cache
def ngram_decoder(name: str):
    return ngram_model(*NGRAM_MODELS[name])


def language_model_case(name: str, build=language_model) -> DecoderCase:
    """A language model, which has no source."""

    def forward(model, _, tokens: Tensor) -> Tensor:
        lengths = torch.full((len(tokens),), tokens.size(1))
        return model(Batch(None, Sequences(tokens, lengths), tokens, torch.arange(len(tokens))))

    return DecoderCase(name, partial(build, name), TARGET_SIZE, None, forward, 2e-5)


def make_ensemble(*names: str) -> Ensemble:
    """An ensemble of different families."""
    return Ensemble([tiny_model(name) for name in names])


ENSEMBLE = ("transformer, pre-norm", "recurrent, additive")


@cache
def optimized_model(name: str):
    return make_native_model(tiny_model(name), "float32", threads=2) or pytest.skip(
        str(native_unsupported_reason(tiny_model(name)))
    )


def native_case(name: str) -> DecoderCase:
    """A native model; the full logits are those of the model it is made from."""

    def forward(_, source: Sequences, tokens: Tensor) -> Tensor:
        return full_logits(tiny_model(name), source, tokens)

    return DecoderCase(
        f"native {name}", partial(optimized_model, name), TARGET_SIZE, lambda: sources([4, 2, 5], seed=3), forward, 2e-5
    )


ALL_DECODERS = [
    DecoderCase("table", TableModel, VOCAB),
    DecoderCase("history", HistoryModel, VOCAB, lambda: random_source(3, seed=2)),
    DecoderCase("history without source", HistoryModel, VOCAB),
    *(seq2seq_case(name, tiny_model) for name in FAMILIES if name not in OTHER_NORMS),
    *(seq2seq_case(name, more_families_model) for name in MORE_FAMILIES),
    *(native_case(name) for name in ("transformer, pre-norm", "transformer, post-norm", "transformer, rms norm")),
    *(language_model_case(name) for name in LANGUAGE_MODELS),
    *(language_model_case(name, ngram_decoder) for name in NGRAM_MODELS),
    seq2seq_case("ensemble", lambda _: make_ensemble(*ENSEMBLE)),
]


@pytest.mark.parametrize("case", ALL_DECODERS, ids=str)
class TestDecoderContract(DecoderContract):
    """The contract, for all decoders."""


def small_batch_case(name: str, case: DecoderCase) -> DecoderCase:
    """The copy with fused kernels for small batches; the full logits are those of the model it is made from."""

    def build():
        from seq2see.acceleration.small_batch import make_small_batch_model

        return make_small_batch_model(case.build())

    def forward(optimized_model, source: Sequences | None, tokens: Tensor) -> Tensor:
        return case.full_logits(optimized_model.model, source, tokens)

    return replace(case, name=name, build=build, full_logits=forward)


SMALL_BATCH_CASES = [
    small_batch_case("transformer, post-norm", seq2seq_case("transformer, post-norm", tiny_model)),
    small_batch_case("gpt, as GPT-2", language_model_case("gpt, as GPT-2")),
]


@pytest.mark.long
@pytest.mark.triton
@pytest.mark.skipif(torch.cuda.is_available(), reason="on a machine with a GPU triton does not interpret kernels")
@pytest.mark.parametrize("case", SMALL_BATCH_CASES, ids=str)
class TestSmallBatchModels(DecoderContract):
    """The contract, for models whose kernels only triton runs."""

    @pytest.fixture(autouse=True)
    def few_programs(self, monkeypatch):
        """The interpreter runs one program after the other."""
        from seq2see.acceleration import small_batch_kernels

        monkeypatch.setattr(small_batch_kernels, "MIN_PROGRAMS", 4)
