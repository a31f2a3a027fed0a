"""Decode step by step: the tree is the search of `predict`, and what is forced is gone on from."""

from __future__ import annotations

import re

import pytest
from page_data import link_state, view_data, wait_until

from seq2see.explorer.views.decode import SearchTreeRequest, search_tree

TREE, ANSWER = ".search-tree", ".answer"
TEXTS = {"recurrent": "红猫", "transformer": "老马", "gpt": "the cat"}


def answered(model, name, **settings):
    return model.predict([TEXTS[name]], **{"max_new_tokens": 10, "do_sample": False} | settings)[0].outputs[0]


def as_shown(token):
    """A token in its box: a byte as two digits, and of a long one the beginning."""
    token = re.sub(r"^<0x(..)>$", r"\1", token)
    return token if len(token) <= 9 else f"{token[:8]}…"


@pytest.mark.parametrize("name", TEXTS)
def test_the_orange_path_is_what_predict_answers(open_view, page, runs, name):
    model = runs.model(name)
    open_view("decode", run=name, text=TEXTS[name], num_beams=4, most=10, penalty="average", alpha=0.6)
    expected = answered(model, name, num_beams=4, length_penalty={"kind": "average", "alpha": 0.6})
    assert view_data(page, ANSWER)["text"] == expected.text
    assert view_data(page, ANSWER)["score"] == pytest.approx(expected.score, abs=1e-5)
    winner = view_data(page, TREE)["best_path"]
    pieces = [page.locator(f"{TREE} [data-number='{number}'] text").first.text_content() for number in winner]
    assert pieces == [as_shown(each.text) for each in expected.tokens][-len(pieces) :]


@pytest.mark.parametrize("name", ["transformer", "gpt"])
def test_samples_are_those_of_predict_with_the_same_seed(open_view, page, runs, name):
    state = {"strategy": "sample", "seed": 3, "temperature": 1.5, "top_k": 20, "top_p": 0.9, "max_new_tokens": 8}
    open_view("decode", run=name, text=TEXTS[name], **state)
    told = {key: state[key] for key in ("seed", "temperature", "top_k", "top_p")}
    expected = answered(runs.model(name), name, do_sample=True, max_new_tokens=8, **told)
    assert view_data(page, ANSWER)["text"] == expected.text


def test_steps_go_forward_and_back_and_what_was_left_can_be_hidden(open_view, page, runs):
    open_view("decode", text="老马", num_beams=2, most=6)
    search = search_tree(
        runs.workspace,
        SearchTreeRequest(run=runs.id("transformer"), text="老马", way="beam", num_beams=2, max_new_tokens=6),
    )
    times, fates = search["branches"]["time"], search["branches"]["outcome"]
    assert view_data(page, TREE)["numbers"] == list(range(len(times)))
    page.get_by_role("button", name="« first").click()
    assert view_data(page, TREE)["numbers"] == []
    page.get_by_role("button", name="step ▶").click()
    page.get_by_role("button", name="step ▶").click()
    assert link_state(page)["step"] == "2"
    assert view_data(page, TREE)["numbers"] == [number for number, time in enumerate(times) if time < 2]
    rows = page.locator("table.turn tr").all_inner_texts()
    assert len(rows) - 1 == times.count(1)
    page.get_by_role("checkbox", name="what was left behind").uncheck()
    kept = [number for number, time in enumerate(times) if time < 2 and fates[number] != "left"]
    assert view_data(page, TREE)["numbers"] == kept
    page.get_by_role("button", name="◀ back").click()
    assert link_state(page)["step"] == "1"
    page.get_by_role("button", name="▶ play").click()
    wait_until(page, "count => document.querySelector('.search-tree').viewData.numbers.length > count", len(kept))


def test_a_token_that_is_pressed_is_forced_and_the_search_goes_on(open_view, page, runs):
    open_view("decode", run="gpt", text="the cat", num_beams=2, most=6)
    search = search_tree(
        runs.workspace, SearchTreeRequest(run=runs.id("gpt"), text="the cat", way="beam", num_beams=2, max_new_tokens=6)
    )
    branches = search["branches"]
    left = next(
        number for number, time in enumerate(branches["time"]) if time == 1 and branches["outcome"][number] == "left"
    )
    tokens = [branches["token"][branches["parent"][left]], branches["token"][left]]
    before = view_data(page, ANSWER)["text"]
    page.locator(f"{TREE} [data-number='{left}']").focus()
    page.keyboard.press("Enter")
    wait_until(page, "before => document.querySelector('.answer').viewData.text !== before", before)
    assert link_state(page)["forced"] == ".".join(map(str, tokens))
    asked = SearchTreeRequest(
        run=runs.id("gpt"), text="the cat", taken=tuple(tokens), way="beam", num_beams=2, max_new_tokens=6
    )
    assert view_data(page, ANSWER) == search_tree(runs.workspace, asked)["answer"]
    page.get_by_role("button", name="force nothing").click()
    wait_until(page, "before => document.querySelector('.answer').viewData.text === before", before)


@pytest.mark.parametrize("name", TEXTS)
def test_teacher_forcing_is_compared_with_free_running(open_view, page, runs, name):
    model = runs.model(name)
    open_view("decode", run=name, text=TEXTS[name], target=" the bird", most=4)
    found = view_data(page, ".exposure-bias > div:last-child")
    assert -sum(found["forced_loss"]) == pytest.approx(model.score(TEXTS[name], " the bird"), abs=1e-4)
    most = len(found["free"])
    free = answered(model, name, max_new_tokens=most)
    assert found["free"] == [each.text for each in free.tokens][-most:]
    marked = page.locator("tr.divergence td").first
    assert int(marked.inner_text()) == 1 + next(
        step for step, (one, other) in enumerate(zip(found["truth"], found["free"], strict=False)) if one != other
    )
