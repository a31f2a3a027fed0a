"""The tree that the page shows is the search that `predict` runs."""

import pytest
from text_models import GENERATIVE, SOURCE, run_of, text_model, workspace

from seq2see.core.errors import UserError
from seq2see.decoding.length_penalties import GNMT, Average, NoPenalty
from seq2see.explorer.views.decode import SearchTreeRequest, search_tree
from seq2see.explorer.views.exposure_bias import ExposureBiasRequest, exposure_bias

WAYS = [
    {"way": "greedy"},
    {"way": "beam", "num_beams": 4},
    {"way": "beam", "num_beams": 8, "penalty": "average", "alpha": 1.0},
    {"way": "beam", "num_beams": 2, "penalty": "gnmt", "alpha": -0.5},
    {"way": "sample", "seed": 5},
    {"way": "sample", "temperature": 1.5, "top_k": 20, "top_p": 0.9},
]


def shown(name, **asked):
    return search_tree(
        workspace(), SearchTreeRequest(**{"run": run_of(name), "text": SOURCE, "max_new_tokens": 8} | asked)
    )


def as_predict_says_it(way):
    """The settings of `predict` for what the page asks."""
    settings = {name: value for name, value in way.items() if name not in ("way", "penalty", "alpha", "seed")}
    if "penalty" in way:
        settings["length_penalty"] = {"average": Average, "gnmt": GNMT, "none": NoPenalty}[way["penalty"]](
            **{name: way[name] for name in ("alpha",) if name in way}
        )
    return settings | {"do_sample": way["way"] == "sample", "seed": way.get("seed", 0)}


@pytest.mark.parametrize("way", WAYS, ids=repr)
@pytest.mark.parametrize("name", GENERATIVE)
def test_the_winner_is_what_predict_answers(name, way):
    model, told = text_model(name), shown(name, **way)
    expected = model(SOURCE, **as_predict_says_it(way)).answers[0]
    assert told["answer"]["text"] == expected.text
    assert told["answer"]["score"] == pytest.approx(expected.score, abs=1e-4)
    pieces = [told["branches"]["token"][number] for number in told["best_path"]]
    given = [] if model.has_source else list(SOURCE)
    assert [*given, *pieces] == [each.text for each in expected.tokens]


@pytest.mark.parametrize("name", GENERATIVE)
def test_a_forced_beginning_is_gone_on_from(name):
    model = text_model(name)
    forced_ids = tuple(model.tokenizers.target.encode("书"))
    told = shown(name, target="学", forced_ids=forced_ids, strategy="beam", num_beams=3)
    expected = model.predict([SOURCE], prefix="学书", num_beams=3)[0].answers[0]
    assert told["answer"]["text"] == expected.text
    assert told["prefix_tokens"][-2:] == ["学", "书"]
    assert told["branches"]["parent"][0] == -1


def test_a_language_model_with_a_window_is_shown_going_on_for_half_of_it():
    assert shown("gpt", max_new_tokens=33)["max_new_tokens"] == 32
    assert shown("lstm", max_new_tokens=33)["max_new_tokens"] == 33
    with pytest.raises(UserError, match="up to 32 are compared"):
        compared("gpt", "我" * 33)


def compared(name, target):
    return exposure_bias(workspace(), ExposureBiasRequest(run=run_of(name), text=SOURCE, target=target))


@pytest.mark.parametrize("name", GENERATIVE)
def test_teacher_forcing_and_free_running_agree_until_they_diverge(name):
    model = text_model(name)
    free = model(SOURCE, max_new_tokens=6).text[0 if model.has_source else len(SOURCE) :]
    target = free[:2] + next(letter for letter in "学笔书" if letter != free[2]) + free[3:]
    told = compared(name, target)
    assert told["divergence"] == 2
    assert told["text"].startswith(free[:3])
    assert told["guess"][:3] == told["free"][:3]
    # Up to the divergence both read the same; from the next step on the truth stands behind other words.
    assert told["forced_loss"][:3] == pytest.approx(told["truth_after_own_loss"][:3], abs=1e-5)
    assert told["forced_loss"][:2] == pytest.approx(told["free_loss"][:2], abs=1e-5)
    assert abs(told["forced_loss"][3] - told["truth_after_own_loss"][3]) > 1e-4
    assert sum(told["forced_loss"]) == pytest.approx(-model.score(SOURCE, target), abs=1e-4)


def test_a_target_that_is_the_own_answer_never_diverges():
    told = compared("gpt", text_model("gpt")(SOURCE, max_new_tokens=6).text[len(SOURCE) :])
    assert told["divergence"] is None
    assert told["free_loss"] == pytest.approx(told["forced_loss"], abs=1e-5)


def test_what_writes_nothing_and_what_has_no_target_is_refused():
    with pytest.raises(UserError, match="no target"):
        compared("rnn", "")
    with pytest.raises(UserError, match="writes no texts"):
        shown("bert")
