"""Every view of every family: what is drawn can be taken home in three ways, and read from the last row."""

from __future__ import annotations

from typing import Any

import pytest
from legibility import readability
from page_data import PLAIN, views_of
from page_downloads import SVG, PageDownload, page_downloads

FAMILIES = ("recurrent", "transformer", "vit")
"""These have every view between them."""
SHOWN = f"""() => [...document.querySelectorAll(".view *")].filter((each) => each.shown).map({PLAIN})"""
BARE = {"Images", "where it looks on the image"}
"""Photographs, on which nothing is written."""
PROJECTORS = {"1024 × 768 at 150 %": (683, 512)}


def numbers(cells: Any) -> set[float]:
    """Numbers, as far as a CSV of float32 tells them apart."""
    found = set()
    for each in cells:
        try:
            found.add(float(f"{float(each):.6g}"))
        except (TypeError, ValueError):
            continue
    return found


def drawn_numbers(thing: dict[str, Any]) -> set[float]:
    """The numbers of a map, of bars or of curves; of bars the last may stand for all others."""
    if "labels" in thing:
        return numbers(thing["values"][:-1])
    if "columns" in thing and isinstance(thing["rows"], list):
        return numbers(thing["values"])
    if "lines" in thing and "left" not in thing:
        return numbers(value for line in thing["lines"] for value in line["y"])
    return set()


def is_right(offer: PageDownload) -> None:
    """All three files hold something, on white, and what is written in one is written in the others."""
    assert offer.files.keys() == {"PNG", "SVG", "CSV"}
    assert len({len(row) for row in offer.table}) == 1
    assert not [cell for row in offer.table for cell in row if cell[:1] in {"=", "+", "@"}]
    assert not list(offer.drawing.iter(f"{SVG}image"))  # so few cells are squares
    assert offer.image.std() > 3
    if offer.name not in BARE:
        assert [text for text in offer.texts if text.strip()]
        assert offer.image[0, 0] > 250


@pytest.mark.parametrize("run", FAMILIES)
def test_what_is_drawn_can_be_taken_home_in_three_ways_and_read(open_view, page, run):
    open_view("", run=run)
    for view in views_of(page):
        open_view(view, run=run, look="dark")
        assert readability(page) == {"small": [], "pale": [], "over": [], "wide": []}, view
        taken = page_downloads(page)
        assert taken, view
        for offer in taken.values():
            is_right(offer)
        told = numbers(cell for offer in taken.values() for row in offer.table for cell in row)
        for thing in page.evaluate(SHOWN):
            assert drawn_numbers(thing) <= told, f"{view}: {thing.keys()}"


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("size", PROJECTORS)
def test_on_a_projector_nothing_is_small_pale_or_over_something_else(open_view, page, size):
    width, height = PROJECTORS[size]
    page.set_viewport_size({"width": width, "height": height})
    for run in ("transformer", "vit"):
        open_view("", run=run)
        for view in views_of(page):
            open_view(view, run=run, lang="zh", look="light")
            assert readability(page) == {"small": [], "pale": [], "over": [], "wide": []}, view


def test_a_matrix_a_drawing_of_lines_and_a_strip_are_what_is_shown(open_view, page):
    open_view("attention", text="红猫", target="the red cat", shows="lines", least=0.01)
    lines = page.locator(".attention-lines").evaluate(PLAIN)
    offer = page_downloads(page, "CSV", "SVG")["Attention"]
    assert {text.strip() for text in offer.texts} >= {"红", "猫"}
    told = {(int(row[1]) - 1, int(row[3]) - 1): float(row[5]) for row in offer.table[1:]}
    assert told == pytest.approx({(line["start"], line["to"]): line["value"] for line in lines["lines"]})
    assert all(row[4] == lines["correct"][int(row[3]) - 1] for row in offer.table[1:])
    open_view("next-token", run="gpt", text="=cat", look="dark")
    strip = page.locator(".surprisal").first.evaluate(PLAIN)
    offer = page_downloads(page)["Surprise"]
    assert [row[0].removeprefix("'") for row in offer.table[1:]] == strip["tokens"][:-1]
    assert offer.table[1][0] == "'="  # a spreadsheet would compute it
    assert {each for each in strip["tokens"] if each.strip()} <= set(offer.texts)


def test_a_map_of_words_is_points_and_names(open_view, page):
    open_view("embeddings", run="bert", look="dark")
    offer = page_downloads(page)["Embeddings"]
    points = list(offer.drawing.iter(f"{SVG}path"))
    assert len(points) == len(offer.table) - 1
    assert {row[0] for row in offer.table} >= {text for text in offer.texts if not text.startswith("<")} - {"="}
    assert offer.image[0, 0] == 255
