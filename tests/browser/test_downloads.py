"""What is taken home from a page is what it shows: numbers as a table, images as pixels and as a drawing."""

from __future__ import annotations

import csv
import io
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from page_data import view_data
from PIL import Image

SVG = "{http://www.w3.org/2000/svg}"


def taken(page: Any, button: str) -> bytes:
    """What a button gives."""
    with page.expect_download() as download:
        page.locator(f".downloads button[aria-label$='{button}']").first.click()
    return download.value.path().read_bytes()


def texts(content: bytes) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(content).iter(f"{SVG}text")]


def test_a_matrix(open_view):
    page = open_view("attention", run="transformer", text="红猫")
    told = view_data(page, ".attention-figure canvas")
    rows = list(csv.reader(io.StringIO(taken(page, "CSV").decode("utf-8-sig"))))
    assert rows[0][1:] == told["columns"]
    assert [row[0] for row in rows[1:]] == told["rows"]
    assert [float(each) for row in rows[1:] for each in row[1:]] == pytest.approx(told["values"])
    drawing = taken(page, "SVG")
    assert set(told["rows"]) | set(told["columns"]) <= set(texts(drawing))
    image = Image.open(io.BytesIO(taken(page, "PNG"))).convert("L")
    sides = ElementTree.fromstring(drawing).attrib
    assert image.size == (2 * int(sides["width"]), 2 * int(sides["height"]))
    assert np.asarray(image).std() > 5  # there is something on it


def test_a_curve(open_view):
    page = open_view("runs", run="gpt")
    drawing = taken(page, "SVG")
    assert list(ElementTree.fromstring(drawing).iter(f"{SVG}path"))
    _, _, width, height = map(float, ElementTree.fromstring(drawing).attrib["viewBox"].split())
    image = Image.open(io.BytesIO(taken(page, "PNG"))).convert("L")
    assert image.size == (2 * width, 2 * height)
    colors = np.asarray(image)
    assert colors[0, 0] > 240  # paper, and something on it
    assert (colors < 128).mean() > 0.001


def with_links(route: Any) -> None:
    """The answer of the server, and a true alignment: 红 is "the" for sure, and may be "red"."""
    answer = route.fetch()
    told = answer.json()
    written = [{"the": 0, "red": 1, "cat": 2}.get(piece.strip("▁ ")) for piece in told["tokens"]["target_tokens"]]
    words = [{"红": 0, "猫": 1}.get(piece) for piece in told["tokens"]["source"]]
    gold = {"links": [[0, 0]], "possible": [[0, 1]], "source_words": words, "target_words": written}
    route.fulfill(response=answer, json={**told, "gold": gold})


@pytest.mark.usefixtures("fresh")
def test_the_true_alignment_is_framed_and_what_may_be_is_dashed(open_view, page):
    page.route("**/api/attention/layers", with_links)
    open_view("attention", run="transformer", text="红猫", target="the red cat", heads="mean")
    told = view_data(page, ".attention-figure canvas")
    boxes = [box.attrib for box in ElementTree.fromstring(taken(page, "SVG")).iter(f"{SVG}rect")]
    to_iframe = [box for box in boxes if box.get("stroke-width") == "2"]
    side = float(to_iframe[0]["width"])
    left, top = (min(float(box[axis]) for box in boxes if box.get("fill") == "none") for axis in ("x", "y"))
    found = set()
    for box in to_iframe:
        row, column = (round((float(box[axis]) - from_) / side) for axis, from_ in (("y", top), ("x", left)))
        found.add((told["rows"][row].strip("▁ "), told["columns"][column], "stroke-dasharray" in box))
    assert found == {("the", "红", False), ("red", "红", True)}
