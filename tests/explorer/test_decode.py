"""The search tree of the page is the search of `predict`."""

import pytest
from text_models import GENERATIVE, SOURCE, run_of, text_model, workspace

from seq2see.core.errors import UserError
from seq2see.decoding.samplers import GNMT, Average, NoPenalty
from seq2see.explorer.views.next_token import ExposureBiasRequest, SearchTreeRequest, exposure_bias, search_tree

SEARCHES = [
    {"strategy": "greedy"},
    {"strategy": "beam", "num_beams": 4},
    {"strategy": "beam", "num_beams": 8, "length_penalty": "average", "alpha": 1.0},
    {"strategy": "beam", "num_beams": 2, "length_penalty": "gnmt", "alpha": -0.5},
    {"strategy": "sample", "seed": 5},
    {"strategy": "sample", "temperature": 1.5, "top_k": 20, "top_p": 0.9},
]


def tree_of(name, **fields):
    return search_tree(
        workspace(), SearchTreeRequest(**{"run": run_of(name), "text": SOURCE, "max_new_tokens": 8} | fields)
    )


def predict_settings(fields):
    """The settings of `predict` for the fields of a request."""
    settings = {
        name: value for name, value in fields.items() if name not in ("strategy", "length_penalty", "alpha", "seed")
    }
    if "length_penalty" in fields:
        settings["length_penalty"] = {"average": Average, "gnmt": GNMT, "none": NoPenalty}[fields["length_penalty"]](
            **{name: fields[name] for name in ("alpha",) if name in fields}
        )
    return settings | {"do_sample": fields["strategy"] == "sample", "seed": fields.get("seed", 0)}


@pytest.mark.parametrize("fields", SEARCHES, ids=repr)
@pytest.mark.parametrize("name", GENERATIVE)
def test_the_best_path_is_the_output_of_predict(name, fields):
    model, tree = text_model(name), tree_of(name, **fields)
    expected = model(SOURCE, **predict_settings(fields)).outputs[0]
    assert tree["answer"]["text"] == expected.text
    assert tree["answer"]["score"] == pytest.approx(expected.score, abs=1e-4)
    tokens = [tree["branches"]["token"][number] for number in tree["best_path"]]
    prefix = [] if model.has_source else list(SOURCE)
    assert [*prefix, *tokens] == [each.text for each in expected.tokens]


@pytest.mark.parametrize("name", GENERATIVE)
def test_a_forced_prefix_is_continued(name):
    model = text_model(name)
    forced_ids = tuple(model.tokenizers.target.encode("书"))
    tree = tree_of(name, target="学", forced_ids=forced_ids, strategy="beam", num_beams=3)
    expected = model.predict([SOURCE], prefix="学书", num_beams=3)[0].outputs[0]
    assert tree["answer"]["text"] == expected.text
    assert tree["prefix_tokens"][-2:] == ["学", "书"]
    assert tree["branches"]["parent"][0] == -1


def test_a_language_model_generates_at_most_half_of_its_context_length():
    assert tree_of("gpt", max_new_tokens=33)["max_new_tokens"] == 32
    assert tree_of("lstm", max_new_tokens=33)["max_new_tokens"] == 33
    with pytest.raises(UserError, match="the maximum is 32"):
        exposure_of("gpt", "我" * 33)


def exposure_of(name, target):
    return exposure_bias(workspace(), ExposureBiasRequest(run=run_of(name), text=SOURCE, target=target))


@pytest.mark.parametrize("name", GENERATIVE)
def test_teacher_forcing_and_free_running_agree_until_they_diverge(name):
    model = text_model(name)
    free = model(SOURCE, max_new_tokens=6).text[0 if model.has_source else len(SOURCE) :]
    target = free[:2] + next(letter for letter in "学笔书" if letter != free[2]) + free[3:]
    exposure = exposure_of(name, target)
    assert exposure["divergence"] == 2
    assert exposure["text"].startswith(free[:3])
    assert exposure["teacher_forced"][:3] == exposure["free_running"][:3]
    # Up to the divergence both prefixes are equal; after it they differ.
    assert exposure["forced_loss"][:3] == pytest.approx(exposure["truth_after_free_loss"][:3], abs=1e-5)
    assert exposure["forced_loss"][:2] == pytest.approx(exposure["free_loss"][:2], abs=1e-5)
    assert abs(exposure["forced_loss"][3] - exposure["truth_after_free_loss"][3]) > 1e-4
    assert sum(exposure["forced_loss"]) == pytest.approx(-model.score(SOURCE, target), abs=1e-4)


def test_a_target_that_is_the_output_of_the_model_has_no_divergence():
    exposure = exposure_of("gpt", text_model("gpt")(SOURCE, max_new_tokens=6).text[len(SOURCE) :])
    assert exposure["divergence"] is None
    assert exposure["free_loss"] == pytest.approx(exposure["forced_loss"], abs=1e-5)


def test_a_model_without_generation_and_a_missing_target_are_errors():
    with pytest.raises(UserError, match="target is empty"):
        exposure_of("rnn", "")
    with pytest.raises(UserError, match="does not generate texts token by token"):
        tree_of("bert")
