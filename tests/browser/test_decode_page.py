"""Decode step by step: the tree is the search of `predict`, and continues from forced tokens."""

from __future__ import annotations

import re

import pytest
from page_data import link_state, view_data, wait_until

from seq2see.explorer.views.next_token import SearchTreeRequest, search_tree

TREE, ANSWER = ".search-tree", ".answer"
TEXTS = {"recurrent": "红猫", "transformer": "老马", "gpt": "the cat"}


def output_of(model, name, **settings):
    return model.predict([TEXTS[name]], **{"max_new_tokens": 10, "do_sample": False} | settings)[0].outputs[0]


def node_text(token):
    """The text of a token in a node: two digits for a byte; a long token is shortened."""
    token = re.sub(r"^<0x(..)>$", r"\1", token)
    return token if len(token) <= 9 else f"{token[:8]}…"


@pytest.mark.parametrize("name", TEXTS)
def test_the_orange_path_is_the_output_of_predict(open_view, page, runs, name):
    model = runs.model(name)
    open_view("decode", run=name, text=TEXTS[name], num_beams=4, max_new_tokens=10, length_penalty="average", alpha=0.6)
    expected = output_of(model, name, num_beams=4, length_penalty={"kind": "average", "alpha": 0.6})
    assert view_data(page, ANSWER)["text"] == expected.text
    assert view_data(page, ANSWER)["score"] == pytest.approx(expected.score, abs=1e-5)
    best_path = view_data(page, TREE)["best_path"]
    tokens = [page.locator(f"{TREE} [data-number='{number}'] text").first.text_content() for number in best_path]
    assert tokens == [node_text(each.text) for each in expected.tokens][-len(tokens) :]


@pytest.mark.parametrize("name", ["transformer", "gpt"])
def test_samples_are_those_of_predict_with_the_same_seed(open_view, page, runs, name):
    state = {"strategy": "sample", "seed": 3, "temperature": 1.5, "top_k": 20, "top_p": 0.9, "max_new_tokens": 8}
    open_view("decode", run=name, text=TEXTS[name], **state)
    sampling = {key: state[key] for key in ("seed", "temperature", "top_k", "top_p")}
    expected = output_of(runs.model(name), name, do_sample=True, max_new_tokens=8, **sampling)
    assert view_data(page, ANSWER)["text"] == expected.text


def test_steps_go_forward_and_back_and_pruned_nodes_can_be_hidden(open_view, page, runs):
    open_view("decode", text="老马", num_beams=2, max_new_tokens=6)
    search = search_tree(
        runs.workspace,
        SearchTreeRequest(run=runs.id("transformer"), text="老马", strategy="beam", num_beams=2, max_new_tokens=6),
    )
    times, outcomes = search["branches"]["time"], search["branches"]["outcome"]
    assert view_data(page, TREE)["numbers"] == list(range(len(times)))
    page.get_by_role("button", name="« first").click()
    assert view_data(page, TREE)["numbers"] == []
    page.get_by_role("button", name="step ▶").click()
    page.get_by_role("button", name="step ▶").click()
    assert link_state(page)["step"] == "2"
    assert view_data(page, TREE)["numbers"] == [number for number, time in enumerate(times) if time < 2]
    rows = page.locator("table.step-candidates tr").all_inner_texts()
    assert len(rows) - 1 == times.count(1)
    page.get_by_role("checkbox", name="show pruned nodes").uncheck()
    shown = [number for number, time in enumerate(times) if time < 2 and outcomes[number] != "pruned"]
    assert view_data(page, TREE)["numbers"] == shown
    page.get_by_role("button", name="◀ back").click()
    assert link_state(page)["step"] == "1"
    page.get_by_role("button", name="▶ play").click()
    wait_until(page, "count => document.querySelector('.search-tree').viewData.numbers.length > count", len(shown))


def test_a_clicked_token_is_forced_and_the_search_continues(open_view, page, runs):
    open_view("decode", run="gpt", text="the cat", num_beams=2, max_new_tokens=6)
    search = search_tree(
        runs.workspace,
        SearchTreeRequest(run=runs.id("gpt"), text="the cat", strategy="beam", num_beams=2, max_new_tokens=6),
    )
    branches = search["branches"]
    pruned = next(
        number for number, time in enumerate(branches["time"]) if time == 1 and branches["outcome"][number] == "pruned"
    )
    tokens = [branches["token_id"][branches["parent"][pruned]], branches["token_id"][pruned]]
    before = view_data(page, ANSWER)["text"]
    page.locator(f"{TREE} [data-number='{pruned}']").focus()
    page.keyboard.press("Enter")
    wait_until(page, "before => document.querySelector('.answer').viewData.text !== before", before)
    assert link_state(page)["forced"] == ".".join(map(str, tokens))
    request = SearchTreeRequest(
        run=runs.id("gpt"), text="the cat", forced_ids=tuple(tokens), strategy="beam", num_beams=2, max_new_tokens=6
    )
    assert view_data(page, ANSWER) == search_tree(runs.workspace, request)["answer"]
    page.get_by_role("button", name="clear").click()
    wait_until(page, "before => document.querySelector('.answer').viewData.text === before", before)


@pytest.mark.parametrize("name", TEXTS)
def test_teacher_forcing_is_compared_with_free_running(open_view, page, runs, name):
    model = runs.model(name)
    open_view("decode", run=name, text=TEXTS[name], target=" the bird", max_new_tokens=4)
    found = view_data(page, ".exposure-bias > div:last-child")
    assert -sum(found["forced_loss"]) == pytest.approx(model.score(TEXTS[name], " the bird"), abs=1e-4)
    count = len(found["free_running"])
    free = output_of(model, name, max_new_tokens=count)
    assert found["free_running"] == [each.text for each in free.tokens][-count:]
    marked = page.locator("tr.divergence td").first
    assert int(marked.inner_text()) == 1 + next(
        step
        for step, (one, other) in enumerate(zip(found["truth"], found["free_running"], strict=False))
        if one != other
    )
