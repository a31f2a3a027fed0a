"""Next token: the page's numbers are the model's, and its arithmetic is that of our own choosers."""

from __future__ import annotations

import itertools
import math
from urllib.parse import urlencode

import pytest
import torch
from page_data import RESPONSE_TIME, delayed_response, link_state, view_data, wait_until

from seq2see.decoding.engine import suppress_special_tokens
from seq2see.decoding.hypotheses import History
from seq2see.decoding.logits_processors import RepetitionPenalty
from seq2see.decoding.samplers import RandomSampler
from seq2see.explorer.offline import saved_page
from seq2see.explorer.views.next_token import PrefixRequest, candidates_at, entropies, token_scorer
from seq2see.explorer.workspace import Workspace
from seq2see.sequences.tokenizers import EOS

BARS, STRIP = "svg.bars", ".surprisal"
TEXTS = {"recurrent": "红猫", "transformer": "老马", "gpt": "the cat sat", "bert": "the [MASK] sat on"}

CUTS = [(0, 1.0), (1, 1.0), (10, 0.9), (200, 1.0), (200, 0.5), (0, 0.9), (0, 0.3)]
SETTINGS = [(*each[:1], *each[1], each[2]) for each in itertools.product([0.05, 1.0, 1.75], CUTS, [1.0, 1.35])]
"""Temperature, top-k, top-p, and the penalty for repeating."""
COMPUTED = """async ([told, cases]) => {
  const { chancesOf } = await import("/page/parts/chances.js");
  return cases.map((settings) => chancesOf(told, settings));
}"""


class FakeScorer:
    """Scores of a whole vocabulary, and tokens said, where a model would stand."""

    def __init__(self, scores, ids):
        self.scores, self.ids, self.truncated = scores, ids, False
        self.tokenizer = type("Named", (), {"pieces": staticmethod(lambda ids: list(map(str, ids)))})

    def place(self, wanted):
        return len(self.ids)

    def at(self, place):
        return self.scores

    def said(self, place):
        return set(self.ids)


def drawn_by_python(told, temperature, top_k, top_p, repetition):
    """What our own rule and chooser make of the scores."""
    ids = torch.tensor([told.ids])
    said = History(ids, torch.zeros(ids.shape), torch.zeros(1, dtype=torch.long), ids.size(1))
    return RandomSampler(0, temperature, top_k, top_p).probabilities(
        RepetitionPenalty(repetition)(said, told.scores[None])
    )[0]


def test_sliders_compute_what_the_choosers_do(open_view, page):
    open_view("next-token", run="gpt", text="the")
    names = ("temperature", "top_k", "top_p", "repetition")
    for size, spread, most in [(60, 1.0, 200), (500, 3.0, 200), (500, 0.3, 200), (500, 0.3, 500)]:
        scores = (spread * torch.randn(size, generator=torch.Generator().manual_seed(size))).log_softmax(0)
        scores[:2] = -torch.inf
        told = FakeScorer(scores, [5, 9, int(scores.argmax()), 5, int(scores[2:].argmin()) + 2])
        listed = candidates_at(told, -1, most)
        answers = page.evaluate(COMPUTED, [listed, [dict(zip(names, each, strict=True)) for each in SETTINGS]])
        for settings, answer in zip(SETTINGS, answers, strict=True):
            expected = drawn_by_python(told, *settings)
            known = expected[listed["ids"]]
            if answer["complete"]:
                assert answer["chances"] == pytest.approx(known.tolist(), abs=1e-5)
                assert answer["others"] == pytest.approx(1 - float(known.sum()), abs=1e-5)
            else:  # something is kept, or would be but for the penalty, that is not in the list
                assert most < size
                assert float(known.sum()) < 1 - 1e-9 or settings[3] > 1


@pytest.mark.parametrize("name", TEXTS)
def test_bars_and_strip_show_the_models_own_numbers(open_view, page, runs, name):
    open_view("next-token", run=name, text=TEXTS[name], target="the", count=5)
    model = runs.model(name)
    chart, strip = view_data(page, BARS), view_data(page, STRIP)
    if name == "bert":
        (candidates,) = model(TEXTS[name], top_k=0).candidates
        whole = sum(each.probability for each in candidates)
        expected = [each.probability / whole for each in candidates]
        assert chart["labels"][0] == candidates[0].text.replace(" ", "▁")
    else:
        begun = "the" if model.has_source else ""
        ids = model.tokenizers.target.encode(begun if model.has_source else TEXTS[name])
        before = token_scorer(runs.workspace, PrefixRequest(run=runs.id(name), text=TEXTS[name], target=begun))
        assert strip["tokens"] == [*model.tokenizers.target.pieces(ids), "…"]
        scores = before.scores()[-1]
        chances = RandomSampler(0).probabilities(suppress_special_tokens(scores[None].clone()))[0]
        expected, best = (part.tolist() for part in chances.sort(descending=True, stable=True))
        assert chart["labels"][:-1] == model.tokenizers.target.pieces(best[:5])
        total = model.score(TEXTS[name], begun) if model.has_source else model.score("", TEXTS[name])
        if name != "recurrent":
            assert view_data(page, ".lens")["probability"][-1] == pytest.approx(float(scores.exp().max()), abs=1e-5)
        ending = float(scores[EOS]) if model.has_source else 0.0
        bits = page.locator(f"{STRIP} small").all_inner_texts()[:-1]
        assert sum(map(float, bits)) == pytest.approx((ending - total) / math.log(2), rel=0.03)  # as rounded
    assert chart["values"] == pytest.approx([*expected[:5], sum(expected[5:])], abs=1e-5)


def test_a_bar_that_is_pressed_is_written_and_taken_back(open_view, page, runs):
    open_view("next-token", run="gpt", text="the cat")
    likeliest = view_data(page, BARS)["labels"][0]
    before = view_data(page, STRIP)["tokens"]
    page.locator(f"{BARS} g").first.press("Enter")
    wait_until(page, "count => document.querySelector('.strip').viewData.tokens.length === count", len(before) + 1)
    assert view_data(page, STRIP)["tokens"] == [*before[:-1], likeliest, "…"]
    taken = int(link_state(page)["forced"])
    assert runs.model("gpt").tokenizers.target.pieces([taken]) == [likeliest]
    assert runs.model("gpt")("the cat", max_new_tokens=1, do_sample=False).outputs[0].tokens[-1].text == likeliest
    page.locator(f"{BARS} g").first.press("Enter")
    wait_until(page, "count => document.querySelector('.strip').viewData.tokens.length === count", len(before) + 2)
    assert view_data(page, STRIP)["tokens"][:-2] == [*before[:-1], likeliest]
    page.get_by_role("button", name="take the last one back").click()
    wait_until(page, "count => document.querySelector('.strip').viewData.tokens.length === count", len(before) + 1)
    assert link_state(page)["forced"] == str(taken)
    page.get_by_role("button", name="back to the text").click()
    wait_until(page, "count => document.querySelector('.strip').viewData.tokens.length === count", len(before))
    assert "forced" not in link_state(page)


def test_a_blank_is_filled_by_pressing_and_any_place_can_be_hidden(open_view, page, runs):
    open_view("next-token", run="bert", text="the [MASK] sat")
    guess = view_data(page, BARS)["labels"][0]
    page.locator(f"{BARS} g").first.click()
    text = f"the{guess} sat".replace("▁", " ")
    wait_until(page, "text => document.querySelector('#control-text').value === text", text)
    assert link_state(page)["text"] == text
    page.locator(f"{STRIP} .token").first.click()
    wait_until(page, "document.querySelector('.strip .token').getAttribute('aria-selected') === 'true'")
    assert link_state(page)["position"] == "0"


def test_a_late_answer_never_covers_a_newer_one(open_view, page):
    open_view("next-token", run="gpt", text="the cat", place=0)
    right = view_data(page, BARS)
    open_view("next-token", run="gpt", text="the cat")
    tokens = page.locator(f"{STRIP} .token")
    let_go = delayed_response(page, "next-token/analysis")
    tokens.nth(1).click()
    tokens.nth(0).click()
    page.wait_for_timeout(RESPONSE_TIME)
    let_go()
    wait_until(page, "document.querySelector('.strip .token').getAttribute('aria-selected') === 'true'")
    page.wait_for_timeout(RESPONSE_TIME)
    assert tokens.nth(0).get_attribute("aria-selected") == "true"
    assert view_data(page, BARS) == right


def parts_asked(page):
    """What of a text was asked for, question by question."""
    return [each.post_data_json["parts"] for each in page.monitor.requests if "/next-token/" in each.url]


def test_one_text_is_one_question(open_view, page):
    open_view("next-token", run="gpt", text="the cat")
    assert parts_asked(page) == [["surprisal", "candidates", "lens"]]
    page.locator(f"{STRIP} .token").first.click()
    wait_until(page, "document.querySelector('.strip .token').getAttribute('aria-selected') === 'true'")
    assert parts_asked(page)[1:] == [["candidates", "lens"]]
    page.locator("input[name=temperature]").fill("0.5")
    assert len(parts_asked(page)) == 2


def test_pointing_tells_what_was_expected(open_view, page, runs):
    open_view("next-token", run="gpt", text="the cat")
    page.locator(f"{STRIP} .token").nth(1).hover()
    before = token_scorer(runs.workspace, PrefixRequest(run=runs.id("gpt"), text="the cat"))
    best = int(before.position_scores()[1].argmax())
    told = page.locator(".readout").inner_text()
    page.locator("select[name=color_by]").select_option("entropy")
    openness = [float(entropies(row[None])[0]) for row in before.position_scores()]
    assert list(map(float, page.locator(f"{STRIP} small").all_inner_texts()[:-1])) == pytest.approx(openness, rel=0.06)
    assert view_data(page, STRIP)["values"][:-1] == pytest.approx([min(bits / 12, 1) for bits in openness], abs=1e-5)
    assert f"Expected: {before.tokenizer.pieces([best])[0]} " in told
    assert f"{-float(before.position_scores()[1][before.ids[1]]) / math.log(2):.2g}"[:3] in told


@pytest.mark.parametrize(("view", "mark", "name"), [("next-token", BARS, "gpt"), ("decode", ".answer", "transformer")])
def test_a_saved_page_shows_the_same(open_view, page, runs, tmp_path, view, mark, name):
    text = "红猫"
    expected = shown(open_view(view, run=name, text=text), mark)
    path = tmp_path / "theme.html"
    alone = Workspace({runs.id(name): runs.workspace.run(runs.id(name))})
    path.write_text(saved_page(alone, text, views=[view]), encoding="utf-8")
    page.goto(f"{path.as_uri()}#{urlencode({'view': view, 'run': runs.id(name), 'text': text})}")
    page.wait_for_selector("section.view:not([aria-busy])")
    assert view_data(page, mark) == expected
    if view == "next-token":  # a slider that reaches beyond the list still finds what it needs
        page.locator("input[name=top_p]").fill("0.99")
        assert sum(view_data(page, mark)["values"]) == pytest.approx(1)
