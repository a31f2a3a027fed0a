"""Every view of every family: the downloads of all figures, and the legibility of the page."""

from __future__ import annotations

from typing import Any

import pytest
from legibility import readability
from page_data import PLAIN, views_of
from page_downloads import SVG, PageDownload, page_downloads

FAMILIES = ("recurrent", "transformer", "vit")
"""Together they have every view."""
VIEW_DATA = f"""() => [...document.querySelectorAll(".view *")].filter((each) => each.viewData).map({PLAIN})"""
WITHOUT_TEXT = {"Images", "attention weights on the image"}
"""Images without text."""
PROJECTORS = {"1024 × 768 at 150 %": (683, 512)}


def numbers(cells: Any) -> set[float]:
    """Numbers, rounded to the precision of float32."""
    found = set()
    for each in cells:
        try:
            found.add(float(f"{float(each):.6g}"))
        except (TypeError, ValueError):
            continue
    return found


def drawn_numbers(view_data: dict[str, Any]) -> set[float]:
    """The numbers of a heat map, a bar chart or a line chart; the last bar may stand for all other tokens."""
    if "labels" in view_data:
        return numbers(view_data["values"][:-1])
    if "columns" in view_data and isinstance(view_data["rows"], list):
        return numbers(view_data["values"])
    if "lines" in view_data and "left" not in view_data:
        return numbers(value for line in view_data["lines"] for value in line["y"])
    return set()


def check_download(download: PageDownload) -> None:
    """All three files have contents, on a white background."""
    assert download.files.keys() == {"PNG", "SVG", "CSV"}
    assert len({len(row) for row in download.table}) == 1
    assert not [cell for row in download.table for cell in row if cell[:1] in {"=", "+", "@"}]
    assert not list(download.drawing.iter(f"{SVG}image"))  # few cells are drawn as squares
    assert download.image.std() > 3
    if download.name not in WITHOUT_TEXT:
        assert [text for text in download.texts if text.strip()]
        assert download.image[0, 0] > 250


@pytest.mark.parametrize("run", FAMILIES)
def test_figures_can_be_downloaded_in_three_formats_and_are_legible(open_view, page, run):
    open_view("", run=run)
    for view in views_of(page):
        open_view(view, run=run, theme="dark")
        assert readability(page) == {"small": [], "pale": [], "over": [], "wide": []}, view
        downloads = page_downloads(page)
        assert downloads, view
        for download in downloads.values():
            check_download(download)
        exported = numbers(cell for download in downloads.values() for row in download.table for cell in row)
        for view_data in page.evaluate(VIEW_DATA):
            assert drawn_numbers(view_data) <= exported, f"{view}: {view_data.keys()}"


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("size", PROJECTORS)
def test_on_a_projector_texts_are_large_have_contrast_and_do_not_overlap(open_view, page, size):
    width, height = PROJECTORS[size]
    page.set_viewport_size({"width": width, "height": height})
    for run in ("transformer", "vit"):
        open_view("", run=run)
        for view in views_of(page):
            open_view(view, run=run, lang="zh", theme="light")
            assert readability(page) == {"small": [], "pale": [], "over": [], "wide": []}, view


def test_downloads_of_lines_and_a_strip_equal_the_view(open_view, page):
    open_view("attention", text="红猫", target="the red cat", display="lines", threshold=0.01)
    lines = page.locator(".attention-lines").evaluate(PLAIN)
    download = page_downloads(page, "CSV", "SVG")["Attention"]
    assert {text.strip() for text in download.texts} >= {"红", "猫"}
    links = {(int(row[1]) - 1, int(row[3]) - 1): float(row[5]) for row in download.table[1:]}
    assert links == pytest.approx({(line["from"], line["to"]): line["value"] for line in lines["lines"]})
    assert all(row[4] == lines["right"][int(row[3]) - 1] for row in download.table[1:])
    open_view("next-token", run="gpt", text="=cat", theme="dark")
    strip = page.locator(".strip").first.evaluate(PLAIN)
    download = page_downloads(page)["surprisal"]
    assert [row[0].removeprefix("'") for row in download.table[1:]] == strip["tokens"][:-1]
    assert download.table[1][0] == "'="  # a spreadsheet would evaluate it
    assert {each for each in strip["tokens"] if each.strip()} <= set(download.texts)


def test_a_map_of_words_has_points_and_labels(open_view, page):
    open_view("embeddings", run="bert", theme="dark")
    download = page_downloads(page)["Embeddings"]
    points = list(download.drawing.iter(f"{SVG}path"))
    assert len(points) == len(download.table) - 1
    assert {row[0] for row in download.table} >= {text for text in download.texts if not text.startswith("<")} - {"="}
    assert download.image[0, 0] == 255
