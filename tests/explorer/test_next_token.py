"""What the page is told about the next token is what the model itself says."""

import math

import pytest
import torch
from text_models import GENERATIVE, SOURCE, run_of, text_model, workspace

from seq2see.core.errors import UserError
from seq2see.explorer.schemas import MAX_SHOWN_TOKENS
from seq2see.explorer.views.logit_lens import logit_lens_at
from seq2see.explorer.views.next_token import (
    DetokenizeRequest,
    PrefixRequest,
    candidates_at,
    detokenize,
    token_scorer,
    token_surprisals,
)
from seq2see.runs.generation_context import generation_context

TARGET = "你有一支笔"


def before(name, text=SOURCE, target=TARGET, forced_ids=()):
    return token_scorer(
        workspace(), PrefixRequest(run=run_of(name), text=text, target=target, forced_ids=tuple(forced_ids))
    )


def log_probability(model, text):
    """By the model's own word: of a text, or of a target after the source, without its end."""
    if not model.has_source:
        return model.score("", text)
    batch = model._batch(SOURCE, text)
    scores = model.module(batch).detach().float().log_softmax(-1)[0]
    return float(scores.gather(1, batch.labels[0][:, None])[:-1].sum())


@pytest.mark.parametrize("name", GENERATIVE)
def test_candidates_are_what_the_model_gives_when_asked_for_each(name):
    model, said = text_model(name), TARGET if text_model(name).has_source else SOURCE + TARGET
    told = candidates_at(before(name), -1, 200)
    assert told["place"] == len(said)
    assert (told["rest"]["count"], told["rest"]["highest"]) == (0, None)
    assert told["scores"] == sorted(told["scores"], reverse=True)
    start = log_probability(model, said)
    for piece, score in list(zip(told["pieces"], told["scores"], strict=True))[:8]:
        if not piece.startswith("<"):
            text = said + piece.replace("▁", " ")
            assert score == pytest.approx(log_probability(model, text) - start, abs=1e-4)


@pytest.mark.parametrize("name", GENERATIVE)
def test_a_place_in_the_text_knows_only_what_stands_before_it(name):
    shorter = before(name, target=TARGET[:2])
    longer = before(name)
    here = shorter.place(-1)
    one, other = candidates_at(shorter, -1, 5), candidates_at(longer, here, 5)
    assert one["scores"] == pytest.approx(other["scores"], abs=1e-5)
    assert (one["ids"], one["place"]) == (other["ids"], other["place"])


@pytest.mark.parametrize("name", ["gpt", "bert"])
def test_what_is_not_listed_is_told_as_a_sum_at_every_temperature(name):
    whole, few = candidates_at(before(name), -1, 1000), candidates_at(before(name), -1, 3)
    assert len(few["ids"]) >= 3
    listed = dict(zip(whole["ids"], whole["scores"], strict=True))
    others = torch.tensor([score for token, score in listed.items() if token not in few["ids"]]).double()
    assert few["rest"]["count"] == len(others) > 20
    assert few["rest"]["highest"] == float(others.max())
    for temperature, total in zip(few["rest"]["temperatures"], few["rest"]["sums"], strict=True):
        assert total == pytest.approx(float((others / temperature).logsumexp(0)), abs=1e-9)
    assert whole["rest"]["sums"] == [None] * 40


def test_all_that_was_said_is_listed_however_improbable():
    told = candidates_at(before("gpt"), -1, 1)
    assert set(told["pieces"][1:]) >= set(SOURCE + TARGET) - {told["pieces"][0]}
    assert told["already_generated"] == [piece in SOURCE + TARGET for piece in told["pieces"]]


@pytest.mark.parametrize("name", GENERATIVE)
def test_the_surprise_of_a_text_adds_up_to_its_probability(name):
    model, told = text_model(name), token_surprisals(before(name))
    said = TARGET if model.has_source else SOURCE + TARGET
    assert told["pieces"] == list(said)
    assert sum(told["surprisal"]) == pytest.approx(-log_probability(model, said) / math.log(2), abs=1e-4)
    assert len(told["entropy"]) == len(told["top_predictions"]) == len(said)


def test_entropy_and_what_was_expected_are_those_of_the_candidates_at():
    told, here = token_surprisals(before("gpt")), candidates_at(before("gpt"), 3, 1000)
    chances = [math.exp(score) for score in here["scores"]]
    known = [chance / sum(chances) for chance in chances]  # PAD and BOS are never said
    assert here["entropy"] == pytest.approx(-sum(chance * math.log2(chance) for chance in known), abs=1e-4)
    assert told["entropy"][3] == pytest.approx(here["entropy"], abs=1e-4)
    named = told["top_predictions"][3]
    assert [each["token"] for each in named] == here["pieces"][:5]
    assert [each["probability"] for each in named] == pytest.approx(chances[:5], abs=1e-6)


def test_tokens_taken_one_by_one_stand_behind_the_text():
    model = text_model("gpt")
    forced_ids = model.tokenizers.target.encode("学")
    assert (
        token_surprisals(before("gpt", forced_ids=forced_ids))["surprisal"]
        == token_surprisals(before("gpt", target=TARGET + "学"))["surprisal"]
    )


def test_a_blank_gets_what_predict_guesses():
    model = text_model("bert")
    (candidates,) = model("我有[MASK]支笔", top_k=4).candidates
    told = candidates_at(before("bert", "我有[MASK]支笔"), -1, 4)
    assert told["place"] == 2
    assert token_surprisals(before("bert", "我有[MASK]支笔"))["mask_positions"] == [2]
    assert told["pieces"] == [each.text.replace(" ", "▁") for each in candidates]
    assert [math.exp(score) for score in told["scores"]] == pytest.approx([each.probability for each in candidates])


def test_a_place_of_a_text_without_blanks_is_hidden_when_it_is_asked_for():
    hidden = candidates_at(before("bert", "我有[MASK]支笔"), -1, 9)
    assert candidates_at(before("bert", "我有一支笔"), 2, 9) == hidden
    told = token_surprisals(before("bert", "我有一支笔"))
    chance = dict(zip(hidden["pieces"], hidden["scores"], strict=True)).get("一")
    assert chance is None or told["surprisal"][2] == pytest.approx(-chance / math.log(2), abs=1e-5)
    assert told["top_predictions"][2][0]["token"] == hidden["pieces"][0]


def test_what_cannot_be_looked_at_is_refused():
    model = text_model("lstm")
    with pytest.raises(UserError, match="1,200 tokens"):
        before("lstm", "我" * (MAX_SHOWN_TOKENS + 200), "")
    for token in (0, 1, 2, -1, 10_000):
        with pytest.raises(UserError, match="no token"):
            generation_context(model, "我", "", [token])


def test_a_language_model_with_a_window_sees_the_end_of_a_long_text_and_that_is_told():
    long = before("gpt", "我有一支笔" * 10, "")
    assert long.truncated
    assert len(long.ids) == 32
    assert not before("gpt").truncated


@pytest.mark.parametrize("name", ["gpt", "bert"])
def test_tokens_become_the_text_they_stand_for(name):
    told = token_surprisals(before(name))
    assert detokenize(workspace(), DetokenizeRequest(run=run_of(name), ids=tuple(told["ids"]))) == {
        "text": told["text"]
    }
    with pytest.raises(UserError, match="no token"):
        detokenize(workspace(), DetokenizeRequest(run=run_of(name), ids=(2,)))


@pytest.mark.parametrize("name", ["transformer", "gpt", "bert"])
def test_the_last_layer_says_what_the_model_says(name):
    here = before(name)
    place = here.place(-1)
    told, whole = logit_lens_at(here, place), candidates_at(here, place, 1000)
    assert (
        len(told["top_tokens"]) == len(told["probability"]) == len(told["entropy"]) == 3
    )  # what enters, and two blocks
    known = dict(zip(whole["pieces"], whole["scores"], strict=True))
    for named in told["top_tokens"][-1]:
        if named["token"] in known:  # PAD and BOS are never said
            assert named["probability"] == pytest.approx(math.exp(known[named["token"]]), abs=1e-5)
    assert told["probability"][-1] == pytest.approx(told["top_tokens"][-1][0]["probability"])
    assert told["top_tokens"][-1][0]["token"] == told["final"]
    assert abs(told["probability"][0] - told["probability"][-1]) > 1e-3


def test_a_recurrent_model_has_no_layers_to_read():
    with pytest.raises(UserError, match="stack of blocks"):
        logit_lens_at(before("lstm"), 2)
