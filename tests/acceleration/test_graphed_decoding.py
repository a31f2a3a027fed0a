"""Decoding with CUDA graphs gives the results of the model (on a GPU only)."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from seq2see.acceleration.graphed_decoding import GraphedModel
from seq2see.acceleration.inference import optimize_for_inference
from seq2see.core.batch import Sequences
from seq2see.decoding.beam import BeamSampler, stop_when_full
from seq2see.decoding.engine import Limits, decode, stream
from seq2see.decoding.samplers import GNMT, Average, GreedySampler, RandomSampler
from seq2see.models.build import fresh_model
from seq2see.models.recurrent import RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.settings import ModelSettings, Text, TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

STACK = TransformerSettings(width=64, depth=2, heads=2)
KINDS = {
    "transformer": ModelSettings(source=Text(), encoder=STACK, decoder=STACK),
    "gru": ModelSettings(
        source=Text(),
        encoder=RecurrentEncoderSettings(width=64),
        decoder=RecurrentDecoderSettings(width=64, attention="additive"),
    ),
}


def sources(rows: int, seed: int) -> Sequences:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, 20, (rows,), generator=generator)
    values = torch.randint(4, 50, (rows, int(lengths.max())), generator=generator)
    return Sequences(values, lengths).to("cuda")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "sampler",
    [
        GreedySampler(),
        BeamSampler(4, Average()),
        BeamSampler(3, GNMT(), stop_when_full, 2),
        RandomSampler(seed=3, width=2),
    ],
    ids=["greedy", "beam", "until full", "sample"],
)
def test_graphed_steps_give_the_same_hypotheses(kind, sampler):
    model = fresh_model(KINDS[kind], (50, 40), "xavier", seed=1).eval().cuda()
    graphed = GraphedModel(model)
    for rows, seed in ((5, 1), (5, 2), (3, 3), (5, 4)):
        plain = decode(model, sources(rows, seed), sampler, Limits(24))
        optimized = decode(graphed, sources(rows, seed), sampler, Limits(24))
        assert [[each.tokens for each in answers] for answers in optimized] == [
            [each.tokens for each in answers] for answers in plain
        ]


@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize(
    "rows, sampler", [(1, GreedySampler()), (4, GreedySampler()), (1, BeamSampler(4, Average())), (2, BeamSampler(3))]
)
def test_fused_kernels_for_small_batches_give_the_same_hypotheses(order, rows, sampler):
    stack = TransformerSettings(width=72, depth=3, heads=3, norm_order=order)  # no power of two
    settings = ModelSettings(source=Text(), encoder=stack, decoder=stack)
    model = fresh_model(settings, (50, 40), "xavier", seed=1).eval().cuda()
    optimized_model = optimize_for_inference(model)
    assert optimized_model.model is not model
    for seed in range(4):
        plain = decode(model, sources(rows, seed), sampler, Limits(40))
        optimized = decode(optimized_model, sources(rows, seed), sampler, Limits(40))
        assert [[each.tokens for each in answers] for answers in optimized] == [
            [each.tokens for each in answers] for answers in plain
        ]


def test_a_prefix_is_read_first():
    model = fresh_model(KINDS["transformer"], (50, 40), "xavier", seed=1).eval().cuda()
    prefix = Sequences.of([[7, 8, 9], [5], [6, 6]]).to("cuda")
    answers = [
        decode(each, sources(3, 5), GreedySampler(), Limits(9), prefix=prefix) for each in (model, GraphedModel(model))
    ]
    assert [each[0].tokens for each in answers[0]] == [each[0].tokens for each in answers[1]]


@pytest.mark.parametrize("sampler", [GreedySampler(), BeamSampler(3)], ids=["greedy", "beam"])
def test_graphed_steps_can_be_streamed(sampler):
    model = fresh_model(KINDS["transformer"], (50, 40), "xavier", seed=1).eval().cuda()
    plain, optimized = (list(stream(each, sources(4, 6), sampler, Limits(20))) for each in (model, GraphedModel(model)))
    for one, other in zip(
        plain, optimized, strict=False
    ):  # on a GPU the loop continues for a few steps after all rows are done
        assert one.tokens.tolist() == other.tokens.tolist()
        assert_close(one.log_probabilities, other.log_probabilities, atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_in_bf16_gives_nearly_the_same_log_probabilities(kind):
    model = fresh_model(KINDS[kind], (50, 40), "xavier", seed=1).eval().cuda()
    exact, rounded = (
        decode(optimize_for_inference(model, precision), sources(8, 7), GreedySampler(), Limits(24))
        for precision in ("float32", "bf16")
    )
    for (one,), (other,) in zip(exact, rounded, strict=True):
        assert abs(one.token_log_probabilities[0] - other.token_log_probabilities[0]) < 0.1


def test_a_language_model_continues_a_prefix():
    settings = ModelSettings(decoder=STACK, target=TextTarget(embedding=TokenEmbeddingSettings(positions="rotary")))
    model = fresh_model(settings, (40, 40), "xavier", seed=1).eval().cuda()
    prefix = Sequences.of([[7, 8, 9], [5], [6, 6]]).to("cuda")
    answers = [decode(each, None, GreedySampler(), Limits(30), prefix=prefix) for each in (model, GraphedModel(model))]
    assert [each[0].tokens for each in answers[0]] == [each[0].tokens for each in answers[1]]


def test_a_state_of_an_earlier_search_is_an_error():
    graphed = GraphedModel(fresh_model(KINDS["transformer"], (50, 40), "xavier", seed=1).eval().cuda())
    begin = torch.ones(3, 1, dtype=torch.long, device="cuda")
    with torch.inference_mode():
        _, first = graphed.step(begin, graphed.start(sources(3, 1), 3, 9))
        _, second = graphed.step(begin, graphed.start(sources(3, 1), 3, 9))
        graphed.step(begin, second)
        with pytest.raises(RuntimeError, match="another search"):
            graphed.step(begin, first)
