"""Recurrent networks, images and positions: the page shows the numbers that the model computes in Python."""

from __future__ import annotations

import io

import numpy as np
import pytest
from page_data import link_state, view_data, wait_until
from PIL import Image

from seq2see.explorer.inputs import TraceRequest
from seq2see.explorer.offline import saved_page
from seq2see.explorer.views import positions, recurrent
from seq2see.inspection.attention_measures import rollout
from seq2see.inspection.trace import ALL_KINDS
from seq2see.runs.reordering import without_position_embeddings

TEXT, TARGET = "红猫", "the red cat"


def matrix(data) -> np.ndarray:
    return np.array(data["values"]).reshape(len(data["rows"]), len(data["columns"]))


def test_states_gates_and_contexts_are_those_of_the_cells(open_view, page, runs):
    model = runs.model("recurrent")
    record = model.trace(TEXT, TARGET, ALL_KINDS)
    cell = "encoder.stack.backward_cells.0"
    open_view("recurrent", run="recurrent", text=TEXT, target=TARGET, cell=cell)
    states = view_data(page, "[data-plot=states]")
    assert states["columns"] == record.tokens["source"]
    np.testing.assert_allclose(matrix(states), record.find(cell, "hidden").values.T, atol=1e-5)
    page.locator("select[name=signal]").select_option("update")
    wait_until(page, "document.querySelector('[data-plot=states]').ariaLabel.includes('update')")
    page.locator("select[name=sort]").select_option("mean")
    gate = record.find(cell, "gate", "update").values
    order = [str(unit + 1) for unit in np.argsort(-gate.sum(0), kind="stable")]
    wait_until(
        page, "order => String(document.querySelector('[data-plot=states]').viewData.rows) === order", ",".join(order)
    )
    np.testing.assert_allclose(matrix(view_data(page, "[data-plot=states]")).sum(1), -np.sort(-gate.sum(0)), atol=1e-4)
    contexts = view_data(page, "[data-plot=contexts]")
    assert contexts["rows"][1:] == record.tokens["labels"]
    weights, values = (
        record.find("decoder.cross_attention.attention", kind).values[0] for kind in ("attention", "value")
    )
    np.testing.assert_allclose(matrix(contexts)[1:], weights @ values, atol=1e-5)
    request = TraceRequest(run=runs.id("recurrent"), text=TEXT, target=TARGET)
    ablation = recurrent.attention_ablation(runs.workspace, request).array
    lines = page.locator("svg.chart").nth(1).evaluate("chart => chart.viewData.lines.map((line) => Array.from(line.y))")
    np.testing.assert_allclose(lines[:2], ablation, atol=1e-6)


def test_the_influence_of_a_clicked_token(open_view, page, runs):
    fields = {"run": runs.id("recurrent"), "text": TEXT, "target": TARGET, "cell": "encoder.stack.forward_cells.0"}
    open_view("recurrent", **{**fields, "run": "recurrent"})
    page.locator("[aria-label='Influence of a token'] .token").nth(1).click()
    wait_until(page, "document.querySelector('svg.chart').influence[0].y[0] === 0")
    values = page.locator("svg.chart").first.evaluate("chart => chart.influence.map((line) => line.y)")
    expected = recurrent.influence(runs.workspace, recurrent.InfluenceRequest(**fields, word=1)).array
    np.testing.assert_allclose(values, expected, atol=1e-6)
    assert link_state(page)["word"] == "1"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    wait_until(page, "new URLSearchParams(location.hash.slice(1)).get('word') === '2'")


def test_attention_maps_and_rollout_are_those_of_the_model(open_view, page, runs):
    model = runs.model("vit")
    pixels = runs.workspace.run(runs.id("vit")).test_examples.pixels[1]
    layers = [each.values for each in model.trace(pixels).of("attention")]
    open_view("vit", run="vit", number=1, layer=1, head=0)
    data = view_data(page, ".image-canvas")
    np.testing.assert_array_equal(data["pixels"], pixels.flatten())
    np.testing.assert_allclose(matrix(data).flatten(), layers[1][0][0, 1:], atol=1e-5)  # the class token
    page.locator(".image-canvas").hover(position={"x": 448 / 4 * 2.5, "y": 448 / 4 * 1.5})
    wait_until(page, "document.querySelector('.image-readout').textContent.includes('2,3')")
    np.testing.assert_allclose(view_data(page, ".image-canvas")["values"], layers[1][0][1 + 6, 1:], atol=1e-5)
    assert float(page.locator(".image output").inner_text().split(": ")[1]) == pytest.approx(
        layers[1][0][7, 7], rel=0.01
    )
    page.mouse.move(0, 0)
    page.locator("select[name=overlay]").select_option("rollout")
    page.locator("select[name=fusion]").select_option("max")
    page.locator("input[name=discard]").fill("0.5")
    expected = rollout(layers, "max", 0.5)[0, 1:]
    wait_until(
        page,
        "first => Math.abs(document.querySelector('.image-canvas').viewData.values[0] - first) < 1e-5",
        float(expected[0]),
    )
    np.testing.assert_allclose(view_data(page, ".image-canvas")["values"], expected, atol=1e-5)
    page.locator("select[name=overlay]").select_option("position")
    table = model.module.source.positions.embedding.weight.detach().numpy()
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    page.locator(".image-canvas").focus()
    page.keyboard.press("ArrowDown")
    wait_until(page, "document.querySelector('.image-readout').textContent.includes('1,1')")
    np.testing.assert_allclose(view_data(page, ".image-canvas")["values"], unit[0] @ unit.T, atol=1e-4)
    open_view("vit", run="vit", number=1, layer=1, head=0, off="yes")
    without_positions = without_position_embeddings(model).trace(pixels).of("attention")[1].values
    np.testing.assert_allclose(view_data(page, ".image-canvas")["values"], without_positions[0][0, 1:], atol=1e-5)
    fits = "[...document.querySelectorAll('.bars-box')].map((box) => box.scrollWidth <= box.clientWidth)"
    assert page.evaluate(fits) == [True, True]  # the bars fit beside the image
    left = "document.querySelector('.image-candidates').getBoundingClientRect().left"
    assert page.evaluate(left) > page.evaluate("document.querySelector('.image-canvas').getBoundingClientRect().right")


def bar_values(page, name: str) -> dict[str, float]:
    bars = view_data(page, f"svg.bars[aria-label='{name}']")
    return dict(zip(bars["labels"], bars["values"], strict=True))


def probabilities(model, pixels) -> dict[str, float]:
    return {each.text: pytest.approx(each.probability, abs=1e-5) for each in model(pixels, top_k=0).candidates[0]}


def test_covered_and_moved_patches_change_the_prediction(open_view, page, runs):
    model = runs.model("vit")
    pixels = runs.workspace.run(runs.id("vit")).test_examples.pixels[0].copy()
    open_view("vit", run="vit")
    assert bar_values(page, "original") == probabilities(model, pixels)
    canvas = page.locator(".image-canvas")
    canvas.click(position={"x": 20, "y": 20})
    page.wait_for_selector("[data-prediction=changed]")
    pixels[:4, :4] = 128
    assert bar_values(page, "changed") == probabilities(model, pixels)
    assert link_state(page)["cover"] == "0"
    canvas.focus()
    page.keyboard.press("ArrowRight")  # from the patch under the pointer
    page.keyboard.press("Shift+ArrowDown")
    wait_until(page, "new URLSearchParams(location.hash.slice(1)).get('order')?.startsWith('0.5.2.3.4.1')")
    pixels[:4, 4:8], pixels[4:8, 4:8] = pixels[4:8, 4:8].copy(), pixels[:4, 4:8].copy()
    wait_until(
        page, "first => document.querySelector('.image-canvas').viewData.pixels[12] === first", int(pixels[0, 4, 0])
    )
    wait_until(page, "document.querySelector('section.view').querySelectorAll('svg.bars').length === 2")
    expected = probabilities(model, pixels)
    wait_until(page, "value => Math.abs(document.querySelectorAll('svg.bars')[1].viewData.values[0] - value) < 1e-5",
          max(each.expected for each in expected.values()))  # fmt: skip
    assert bar_values(page, "changed") == expected


def test_images_are_uploaded_or_drawn_and_bad_files_are_errors(open_view, page, runs):
    model = runs.model("vit")
    open_view("vit", run="vit")
    upload = np.random.default_rng(3).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    content = io.BytesIO()
    Image.fromarray(upload).save(content, "PNG")
    page.locator("input[type=file]").set_input_files(
        {"name": "upload.png", "mimeType": "image/png", "buffer": content.getvalue()}
    )
    wait_until(
        page, "first => document.querySelector('.image-canvas').viewData.pixels[0] === first", int(upload[0, 0, 0])
    )
    wait_until(page, "document.querySelector('.view .note:last-child')?.textContent.length > 0")
    assert view_data(page, ".image-canvas")["pixels"] == upload.flatten().tolist()
    assert bar_values(page, "original") == probabilities(model, upload)
    page.get_by_role("button", name="draw").click()
    page.locator("[data-shape=square]").click()
    wait_until(page, "document.querySelector('.image-canvas').viewData.pixels[0] === 255")
    drawn = np.array(view_data(page, ".image-canvas")["pixels"], np.uint8).reshape(16, 16, 3)
    assert tuple(drawn[8, 8]) == (214, 39, 40)
    wait_until(page, "value => Math.abs(document.querySelector('svg.bars').viewData.values[0] - value) < 1e-5",
          max(each.expected for each in probabilities(model, drawn).values()))  # fmt: skip
    page.monitor.allowed.add(422)
    page.locator("input[type=file]").set_input_files(
        {"name": "x.png", "mimeType": "image/png", "buffer": b"<svg></svg>"}
    )
    page.wait_for_selector(".error")
    assert "SVG drawing" in page.locator(".error").inner_text()


def test_tokens_are_dragged_and_moved_into_another_order(open_view, page, runs):
    run = runs.id("transformer")
    open_view("positions", run="transformer", text="红猫大")
    first, last = (page.locator(".reorder .token").nth(index).bounding_box() for index in (0, 2))
    page.mouse.move(first["x"] + 5, first["y"] + 5)
    page.mouse.down()
    page.mouse.move(last["x"] + 5, last["y"] + 5, steps=4)
    page.mouse.up()
    wait_until(page, "new URLSearchParams(location.hash.slice(1)).get('order') === '1.2.0'")
    page.wait_for_selector("[data-prediction=reordered]")
    assert page.locator("[data-prediction=reordered]").inner_text() == runs.model("transformer")("猫大红").text
    assert view_data(page, ".reorder")["tokens"] == ["猫", "大", "红"]
    request = positions.ReorderRequest(run=run, text="红猫大", order=(1, 2, 0))
    np.testing.assert_allclose(
        matrix(view_data(page, "[data-plot=distances]")), positions.distances(runs.workspace, request).array, atol=1e-6
    )
    page.keyboard.press("Shift+ArrowLeft")
    wait_until(page, "new URLSearchParams(location.hash.slice(1)).get('order') === '1.0.2'")
    page.locator("input[name=off]").check()
    wait_until(page, "Math.max(...document.querySelector('[data-plot=distances]').viewData.values) < 1e-5")


def test_position_tables_are_those_of_the_model(open_view, page, runs):
    open_view("positions", run="gpt", length=20)
    request = positions.PositionTableRequest(run=runs.id("gpt"), side="target", length=20)
    np.testing.assert_allclose(
        matrix(view_data(page, "[data-plot=table]")), positions.table(runs.workspace, request).array, atol=1e-6
    )
    np.testing.assert_allclose(
        matrix(view_data(page, "[data-plot=similarity]")),
        positions.similarity(runs.workspace, request).array,
        atol=1e-6,
    )
    open_view("positions", run="vit", position=5, lang="zh")
    table = runs.model("vit").module.source.positions.embedding.weight.detach().numpy()
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    np.testing.assert_allclose(view_data(page, "[data-plot=grid]")["values"], unit[5] @ unit.T, atol=1e-4)
    assert page.get_by_role("heading", name="位置", exact=True).count() == 1


def test_a_saved_page_shows_the_same(open_view, page, runs, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(saved_page(runs.workspace, TEXT, views=("recurrent", "vit", "positions")), encoding="utf-8")
    for view, run, selector in (
        ("recurrent", "recurrent", "[data-plot=states]"),
        ("vit", "vit", ".image-canvas"),
        ("positions", "transformer", "[data-plot=table]"),
    ):
        open_view(view, run=run, text=TEXT)
        live = view_data(page, selector)
        page.goto("about:blank")
        page.goto(f"{path.as_uri()}#view={view}&run={runs.id(run)}&text={TEXT}")
        page.wait_for_selector("section.view:not([aria-busy]), .error")
        assert page.locator(".error").count() == 0
        assert view_data(page, selector) == live
    page.get_by_role("button", name="reverse").click()
    page.wait_for_selector("[data-plot=distances]")
    assert page.locator("[data-prediction=reordered]").inner_text() == runs.model("transformer")(TEXT[::-1]).text
