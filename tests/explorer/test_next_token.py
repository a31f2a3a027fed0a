"""The responses of the view "Next token" are the probabilities of the model."""

import math

import pytest
import torch
from text_models import GENERATIVE, SOURCE, run_of, text_model, workspace

from seq2see.core.errors import UserError
from seq2see.explorer.schemas import MAX_SHOWN_TOKENS
from seq2see.explorer.views.next_token import (
    DetokenizeRequest,
    PrefixRequest,
    candidates_at,
    detokenize,
    logit_lens_at,
    token_context,
    token_surprisals,
)
from seq2see.tasks.token_context import generation_context

TARGET = "你有一支笔"


def context(name, text=SOURCE, target=TARGET, forced_ids=()):
    return token_context(
        workspace(), PrefixRequest(run=run_of(name), text=text, target=target, forced_ids=tuple(forced_ids))
    )


def log_probability(model, text):
    """The log-probability of a text, or of a target after the source, without its end."""
    if not model.has_source:
        return model.score("", text)
    batch = model._batch(SOURCE, text)
    scores = model.module(batch).detach().float().log_softmax(-1)[0]
    return float(scores.gather(1, batch.labels[0][:, None])[:-1].sum())


@pytest.mark.parametrize("name", GENERATIVE)
def test_the_scores_of_candidates_are_those_of_the_model_for_each_continuation(name):
    model, prefix = text_model(name), TARGET if text_model(name).has_source else SOURCE + TARGET
    result = candidates_at(context(name), -1, 200)
    assert result["position"] == len(prefix)
    assert (result["rest"]["count"], result["rest"]["max_score"]) == (0, None)
    assert result["scores"] == sorted(result["scores"], reverse=True)
    start = log_probability(model, prefix)
    for token, score in list(zip(result["tokens"], result["scores"], strict=True))[:8]:
        if not token.startswith("<"):
            text = prefix + token.replace("▁", " ")
            assert score == pytest.approx(log_probability(model, text) - start, abs=1e-4)


@pytest.mark.parametrize("name", GENERATIVE)
def test_the_candidates_at_a_position_depend_only_on_the_tokens_before_it(name):
    shorter = context(name, target=TARGET[:2])
    longer = context(name)
    position = shorter.position(-1)
    first, second = candidates_at(shorter, -1, 5), candidates_at(longer, position, 5)
    assert first["scores"] == pytest.approx(second["scores"], abs=1e-5)
    assert (first["ids"], first["position"]) == (second["ids"], second["position"])


@pytest.mark.parametrize("name", ["gpt", "bert"])
def test_unlisted_tokens_are_summed_at_every_temperature(name):
    full, few = candidates_at(context(name), -1, 1000), candidates_at(context(name), -1, 3)
    assert len(few["ids"]) >= 3
    listed = dict(zip(full["ids"], full["scores"], strict=True))
    others = torch.tensor([score for id, score in listed.items() if id not in few["ids"]]).double()
    assert few["rest"]["count"] == len(others) > 20
    assert few["rest"]["max_score"] == float(others.max())
    for temperature, total in zip(few["rest"]["temperatures"], few["rest"]["logsumexps"], strict=True):
        assert total == pytest.approx(float((others / temperature).logsumexp(0)), abs=1e-9)
    assert full["rest"]["logsumexps"] == [None] * 40


def test_all_previous_tokens_are_listed():
    result = candidates_at(context("gpt"), -1, 1)
    assert set(result["tokens"][1:]) >= set(SOURCE + TARGET) - {result["tokens"][0]}
    assert result["already_generated"] == [token in SOURCE + TARGET for token in result["tokens"]]


@pytest.mark.parametrize("name", GENERATIVE)
def test_the_surprisals_of_a_text_sum_to_its_log_probability(name):
    model, result = text_model(name), token_surprisals(context(name))
    prefix = TARGET if model.has_source else SOURCE + TARGET
    assert result["tokens"] == list(prefix)
    assert sum(result["surprisal"]) == pytest.approx(-log_probability(model, prefix) / math.log(2), abs=1e-4)
    assert len(result["entropy"]) == len(result["top_predictions"]) == len(prefix)


def test_entropy_and_top_predictions_are_those_of_the_candidates():
    result, candidates = token_surprisals(context("gpt")), candidates_at(context("gpt"), 3, 1000)
    probabilities = [math.exp(score) for score in candidates["scores"]]
    normalized = [each / sum(probabilities) for each in probabilities]  # without PAD and BOS
    assert candidates["entropy"] == pytest.approx(-sum(each * math.log2(each) for each in normalized), abs=1e-4)
    assert result["entropy"][3] == pytest.approx(candidates["entropy"], abs=1e-4)
    top = result["top_predictions"][3]
    assert [each["token"] for each in top] == candidates["tokens"][:5]
    assert [each["probability"] for each in top] == pytest.approx(probabilities[:5], abs=1e-6)


def test_forced_tokens_follow_the_text():
    model = text_model("gpt")
    forced_ids = model.tokenizers.target.encode("学")
    assert (
        token_surprisals(context("gpt", forced_ids=forced_ids))["surprisal"]
        == token_surprisals(context("gpt", target=TARGET + "学"))["surprisal"]
    )


def test_the_candidates_of_a_mask_are_those_of_predict():
    model = text_model("bert")
    (candidates,) = model("我有[MASK]支笔", top_k=4).candidates
    result = candidates_at(context("bert", "我有[MASK]支笔"), -1, 4)
    assert result["position"] == 2
    assert token_surprisals(context("bert", "我有[MASK]支笔"))["mask_positions"] == [2]
    assert result["tokens"] == [each.text.replace(" ", "▁") for each in candidates]
    assert [math.exp(score) for score in result["scores"]] == pytest.approx([each.probability for each in candidates])


def test_a_position_of_a_text_without_masks_is_masked_for_its_candidates():
    masked = candidates_at(context("bert", "我有[MASK]支笔"), -1, 9)
    assert candidates_at(context("bert", "我有一支笔"), 2, 9) == masked
    result = token_surprisals(context("bert", "我有一支笔"))
    score = dict(zip(masked["tokens"], masked["scores"], strict=True)).get("一")
    assert score is None or result["surprisal"][2] == pytest.approx(-score / math.log(2), abs=1e-5)
    assert result["top_predictions"][2][0]["token"] == masked["tokens"][0]


def test_long_texts_and_invalid_tokens_are_errors():
    model = text_model("lstm")
    with pytest.raises(UserError, match="1,200 tokens"):
        context("lstm", "我" * (MAX_SHOWN_TOKENS + 200), "")
    for token in (0, 1, 2, -1, 10_000):
        with pytest.raises(UserError, match="cannot be generated"):
            generation_context(model, "我", "", [token])


def test_a_long_text_is_truncated_to_its_end():
    long = context("gpt", "我有一支笔" * 10, "")
    assert long.truncated
    assert len(long.ids) == 32
    assert not context("gpt").truncated


@pytest.mark.parametrize("name", ["gpt", "bert"])
def test_tokens_are_detokenized(name):
    result = token_surprisals(context(name))
    assert detokenize(workspace(), DetokenizeRequest(run=run_of(name), ids=tuple(result["ids"]))) == {
        "text": result["text"]
    }
    with pytest.raises(UserError, match="cannot be generated"):
        detokenize(workspace(), DetokenizeRequest(run=run_of(name), ids=(2,)))


@pytest.mark.parametrize("name", ["transformer", "gpt", "bert"])
def test_the_last_layer_of_the_logit_lens_is_the_prediction_of_the_model(name):
    prefix = context(name)
    position = prefix.position(-1)
    result, full = logit_lens_at(prefix, position), candidates_at(prefix, position, 1000)
    assert (
        len(result["top_tokens"]) == len(result["probability"]) == len(result["entropy"]) == 3
    )  # the embedding, and two blocks
    scores = dict(zip(full["tokens"], full["scores"], strict=True))
    for top in result["top_tokens"][-1]:
        if top["token"] in scores:  # without PAD and BOS
            assert top["probability"] == pytest.approx(math.exp(scores[top["token"]]), abs=1e-5)
    assert result["probability"][-1] == pytest.approx(result["top_tokens"][-1][0]["probability"])
    assert result["top_tokens"][-1][0]["token"] == result["final_token"]
    assert abs(result["probability"][0] - result["probability"][-1]) > 1e-3


def test_a_recurrent_model_has_no_logit_lens():
    with pytest.raises(UserError, match="stack of blocks"):
        logit_lens_at(context("lstm"), 2)
