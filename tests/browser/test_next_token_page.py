"""Next token: the numbers are those of the model, and the arithmetic is that of the samplers."""

from __future__ import annotations

import itertools
import math
from urllib.parse import urlencode

import pytest
import torch
from page_data import RESPONSE_TIME, delayed_response, link_state, view_data, wait_until

from seq2see.data.tokenizers.tokenizer import EOS
from seq2see.decoding.engine import suppress_special_tokens
from seq2see.decoding.samplers import History, RandomSampler, RepetitionPenalty
from seq2see.explorer.offline import saved_page
from seq2see.explorer.views.next_token import PrefixRequest, candidates_at, entropies, token_context
from seq2see.explorer.workspace import Workspace

BARS, STRIP = "svg.bars", ".strip"
TEXTS = {"recurrent": "红猫", "transformer": "老马", "gpt": "the cat sat", "bert": "the [MASK] sat on"}

CUTS = [(0, 1.0), (1, 1.0), (10, 0.9), (200, 1.0), (200, 0.5), (0, 0.9), (0, 0.3)]
SETTINGS = [(*each[:1], *each[1], each[2]) for each in itertools.product([0.05, 1.0, 1.75], CUTS, [1.0, 1.35])]
"""Temperature, top-k, top-p, and repetition penalty."""
COMPUTE = """async ([candidates, cases]) => {
  const { tokenProbabilities } = await import("/page/parts/token_probabilities.js");
  return cases.map((settings) => tokenProbabilities(candidates, settings));
}"""


class FakeScorer:
    """A context with given scores and previous tokens."""

    def __init__(self, scores, ids):
        self.scores, self.ids, self.truncated = scores, ids, False
        self.tokenizer = type("Tokenizer", (), {"tokens": staticmethod(lambda ids: list(map(str, ids)))})

    def position(self, index):
        return len(self.ids)

    def scores_at(self, position):
        return self.scores

    def previous_tokens(self, position):
        return set(self.ids)


def sampler_probabilities(scorer, temperature, top_k, top_p, repetition_penalty):
    """The probabilities of the logits processor and the sampler."""
    ids = torch.tensor([scorer.ids])
    history = History(ids, torch.zeros(ids.shape), torch.zeros(1, dtype=torch.long), ids.size(1))
    return RandomSampler(0, temperature, top_k, top_p).probabilities(
        RepetitionPenalty(repetition_penalty)(history, scorer.scores[None])
    )[0]


def test_sliders_compute_what_the_samplers_do(open_view, page):
    open_view("next-token", run="gpt", text="the")
    names = ("temperature", "top_k", "top_p", "repetition_penalty")
    for size, spread, max_candidates in [(60, 1.0, 200), (500, 3.0, 200), (500, 0.3, 200), (500, 0.3, 500)]:
        scores = (spread * torch.randn(size, generator=torch.Generator().manual_seed(size))).log_softmax(0)
        scores[:2] = -torch.inf
        scorer = FakeScorer(scores, [5, 9, int(scores.argmax()), 5, int(scores[2:].argmin()) + 2])
        listed = candidates_at(scorer, -1, max_candidates)
        results = page.evaluate(COMPUTE, [listed, [dict(zip(names, each, strict=True)) for each in SETTINGS]])
        for settings, result in zip(SETTINGS, results, strict=True):
            expected = sampler_probabilities(scorer, *settings)
            listed_probabilities = expected[listed["ids"]]
            if result["complete"]:
                assert result["probabilities"] == pytest.approx(listed_probabilities.tolist(), abs=1e-5)
                assert result["restProbability"] == pytest.approx(1 - float(listed_probabilities.sum()), abs=1e-5)
            else:  # some remaining tokens (before the penalty) are not listed
                assert max_candidates < size
                assert float(listed_probabilities.sum()) < 1 - 1e-9 or settings[3] > 1


@pytest.mark.parametrize("name", TEXTS)
def test_bars_and_strip_show_the_numbers_of_the_model(open_view, page, runs, name):
    open_view("next-token", run=name, text=TEXTS[name], target="the", count=5)
    model = runs.model(name)
    chart, strip = view_data(page, BARS), view_data(page, STRIP)
    if name == "bert":
        (candidates,) = model(TEXTS[name], top_k=0).candidates
        total = sum(each.probability for each in candidates)
        expected = [each.probability / total for each in candidates]
        assert chart["labels"][0] == candidates[0].text.replace(" ", "▁")
    else:
        prefix = "the" if model.has_source else ""
        ids = model.tokenizers.target.encode(prefix if model.has_source else TEXTS[name])
        context = token_context(runs.workspace, PrefixRequest(run=runs.id(name), text=TEXTS[name], target=prefix))
        assert strip["tokens"] == [*model.tokenizers.target.tokens(ids), "…"]
        scores = context.scores()[-1]
        probabilities = RandomSampler(0).probabilities(suppress_special_tokens(scores[None].clone()))[0]
        expected, best = (part.tolist() for part in probabilities.sort(descending=True, stable=True))
        assert chart["labels"][:-1] == model.tokenizers.target.tokens(best[:5])
        total = model.score(TEXTS[name], prefix) if model.has_source else model.score("", TEXTS[name])
        if name != "recurrent":
            assert view_data(page, ".lens")["probability"][-1] == pytest.approx(float(scores.exp().max()), abs=1e-5)
        eos_score = float(scores[EOS]) if model.has_source else 0.0
        bits = page.locator(f"{STRIP} small").all_inner_texts()[:-1]
        assert sum(map(float, bits)) == pytest.approx((eos_score - total) / math.log(2), rel=0.03)  # of rounded numbers
    assert chart["values"] == pytest.approx([*expected[:5], sum(expected[5:])], abs=1e-5)


def test_a_clicked_bar_is_appended_and_undone(open_view, page, runs):
    open_view("next-token", run="gpt", text="the cat")
    most_probable = view_data(page, BARS)["labels"][0]
    before = view_data(page, STRIP)["tokens"]
    page.locator(f"{BARS} g").first.press("Enter")
    wait_until(page, "count => document.querySelector('.strip').viewData.tokens.length === count", len(before) + 1)
    assert view_data(page, STRIP)["tokens"] == [*before[:-1], most_probable, "…"]
    token_id = int(link_state(page)["forced"])
    assert runs.model("gpt").tokenizers.target.tokens([token_id]) == [most_probable]
    assert runs.model("gpt")("the cat", max_new_tokens=1, do_sample=False).outputs[0].tokens[-1].text == most_probable
    page.locator(f"{BARS} g").first.press("Enter")
    wait_until(page, "count => document.querySelector('.strip').viewData.tokens.length === count", len(before) + 2)
    assert view_data(page, STRIP)["tokens"][:-2] == [*before[:-1], most_probable]
    page.get_by_role("button", name="undo the last token").click()
    wait_until(page, "count => document.querySelector('.strip').viewData.tokens.length === count", len(before) + 1)
    assert link_state(page)["forced"] == str(token_id)
    page.get_by_role("button", name="reset to the text").click()
    wait_until(page, "count => document.querySelector('.strip').viewData.tokens.length === count", len(before))
    assert "forced" not in link_state(page)


def test_a_mask_is_filled_by_a_click_and_every_position_can_be_selected(open_view, page, runs):
    open_view("next-token", run="bert", text="the [MASK] sat")
    token = view_data(page, BARS)["labels"][0]
    page.locator(f"{BARS} g").first.click()
    text = f"the{token} sat".replace("▁", " ")
    wait_until(page, "text => document.querySelector('#control-text').value === text", text)
    assert link_state(page)["text"] == text
    page.locator(f"{STRIP} .token").first.click()
    wait_until(page, "document.querySelector('.strip .token').getAttribute('aria-selected') === 'true'")
    assert link_state(page)["position"] == "0"


def test_a_late_response_is_not_drawn_over_a_newer_one(open_view, page):
    open_view("next-token", run="gpt", text="the cat", position=0)
    expected = view_data(page, BARS)
    open_view("next-token", run="gpt", text="the cat")
    tokens = page.locator(f"{STRIP} .token")
    release = delayed_response(page, "next-token/analysis")
    tokens.nth(1).click()
    tokens.nth(0).click()
    page.wait_for_timeout(RESPONSE_TIME)
    release()
    wait_until(page, "document.querySelector('.strip .token').getAttribute('aria-selected') === 'true'")
    page.wait_for_timeout(RESPONSE_TIME)
    assert tokens.nth(0).get_attribute("aria-selected") == "true"
    assert view_data(page, BARS) == expected


def requested_parts(page):
    """The parts of each request."""
    return [each.post_data_json["parts"] for each in page.monitor.requests if "/next-token/" in each.url]


def test_one_text_is_one_request(open_view, page):
    open_view("next-token", run="gpt", text="the cat")
    assert requested_parts(page) == [["surprisal", "candidates", "lens"]]
    page.locator(f"{STRIP} .token").first.click()
    wait_until(page, "document.querySelector('.strip .token').getAttribute('aria-selected') === 'true'")
    assert requested_parts(page)[1:] == [["candidates", "lens"]]
    page.locator("input[name=temperature]").fill("0.5")
    assert len(requested_parts(page)) == 2


def test_pointing_shows_the_top_predictions(open_view, page, runs):
    open_view("next-token", run="gpt", text="the cat")
    page.locator(f"{STRIP} .token").nth(1).hover()
    context = token_context(runs.workspace, PrefixRequest(run=runs.id("gpt"), text="the cat"))
    best = int(context.position_scores()[1].argmax())
    readout = page.locator(".readout").inner_text()
    page.locator("select[name=color_by]").select_option("entropy")
    entropy = [float(entropies(row[None])[0]) for row in context.position_scores()]
    assert list(map(float, page.locator(f"{STRIP} small").all_inner_texts()[:-1])) == pytest.approx(entropy, rel=0.06)
    assert view_data(page, STRIP)["values"][:-1] == pytest.approx([min(bits / 12, 1) for bits in entropy], abs=1e-5)
    assert f"Top predictions: {context.tokenizer.tokens([best])[0]} " in readout
    assert f"{-float(context.position_scores()[1][context.ids[1]]) / math.log(2):.2g}"[:3] in readout


@pytest.mark.parametrize(("view", "mark", "name"), [("next-token", BARS, "gpt"), ("decode", ".answer", "transformer")])
def test_a_saved_page_shows_the_same(open_view, page, runs, tmp_path, view, mark, name):
    text = "红猫"
    expected = view_data(open_view(view, run=name, text=text), mark)
    path = tmp_path / "page.html"
    alone = Workspace({runs.id(name): runs.workspace.run(runs.id(name))})
    path.write_text(saved_page(alone, text, views=[view]), encoding="utf-8")
    page.goto(f"{path.as_uri()}#{urlencode({'view': view, 'run': runs.id(name), 'text': text})}")
    page.wait_for_selector("section.view:not([aria-busy])")
    assert view_data(page, mark) == expected
    if view == "next-token":  # the saved page has the scores of the whole vocabulary
        page.locator("input[name=top_p]").fill("0.99")
        assert sum(view_data(page, mark)["values"]) == pytest.approx(1)
