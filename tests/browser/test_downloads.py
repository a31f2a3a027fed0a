"""The downloads of a page equal its figures: numbers as a table, images as pixels and as a drawing."""

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


def downloaded(page: Any, button: str) -> bytes:
    """The file of a button."""
    with page.expect_download() as download:
        page.locator(f".downloads button[aria-label$='{button}']").first.click()
    return download.value.path().read_bytes()


def texts(content: bytes) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(content).iter(f"{SVG}text")]


def test_a_matrix(open_view):
    page = open_view("attention", run="transformer", text="红猫")
    data = view_data(page, ".attention-figure canvas")
    rows = list(csv.reader(io.StringIO(downloaded(page, "CSV").decode("utf-8-sig"))))
    assert rows[0][1:] == data["columns"]
    assert [row[0] for row in rows[1:]] == data["rows"]
    assert [float(each) for row in rows[1:] for each in row[1:]] == pytest.approx(data["values"])
    drawing = downloaded(page, "SVG")
    assert set(data["rows"]) | set(data["columns"]) <= set(texts(drawing))
    image = Image.open(io.BytesIO(downloaded(page, "PNG"))).convert("L")
    attributes = ElementTree.fromstring(drawing).attrib
    assert image.size == (2 * int(attributes["width"]), 2 * int(attributes["height"]))
    assert np.asarray(image).std() > 5  # it is not empty


def test_a_curve(open_view):
    page = open_view("runs", run="gpt")
    drawing = downloaded(page, "SVG")
    assert list(ElementTree.fromstring(drawing).iter(f"{SVG}path"))
    _, _, width, height = map(float, ElementTree.fromstring(drawing).attrib["viewBox"].split())
    image = Image.open(io.BytesIO(downloaded(page, "PNG"))).convert("L")
    assert image.size == (2 * width, 2 * height)
    colors = np.asarray(image)
    assert colors[0, 0] > 240  # a white background, and not empty
    assert (colors < 128).mean() > 0.001


def add_gold_alignment(route: Any) -> None:
    """Add a gold alignment to the response: a sure link of 红 and "the", a possible link of 红 and "red"."""
    response = route.fetch()
    fields = response.json()
    target_words = [{"the": 0, "red": 1, "cat": 2}.get(token.strip("▁ ")) for token in fields["tokens"]["labels"]]
    source_words = [{"红": 0, "猫": 1}.get(token) for token in fields["tokens"]["source"]]
    gold = {"links": [[0, 0]], "possible": [[0, 1]], "source_words": source_words, "target_words": target_words}
    route.fulfill(response=response, json={**fields, "gold": gold})


@pytest.mark.usefixtures("fresh")
def test_the_gold_alignment_is_framed_and_possible_links_are_dashed(open_view, page):
    page.route("**/api/attention/layers", add_gold_alignment)
    open_view("attention", run="transformer", text="红猫", target="the red cat", heads="mean")
    data = view_data(page, ".attention-figure canvas")
    boxes = [box.attrib for box in ElementTree.fromstring(downloaded(page, "SVG")).iter(f"{SVG}rect")]
    frames = [box for box in boxes if box.get("stroke-width") == "2"]
    cell_size = float(frames[0]["width"])
    left, top = (min(float(box[axis]) for box in boxes if box.get("fill") == "none") for axis in ("x", "y"))
    found = set()
    for box in frames:
        row, column = (round((float(box[axis]) - start) / cell_size) for axis, start in (("y", top), ("x", left)))
        found.add((data["rows"][row].strip("▁ "), data["columns"][column], "stroke-dasharray" in box))
    assert found == {("the", "红", False), ("red", "红", True)}
