"""Mistakes, architecture and embeddings: the page shows the data of the model, its evaluation and its source code."""

from __future__ import annotations

import inspect
import json

import pytest
import torch
from page_data import link_state, view_data, wait_until

from seq2see.explorer.inputs import example_of
from seq2see.explorer.routes import ROUTES, to_response
from seq2see.inspection.module_summary import summarize_modules
from seq2see.layers.attention import CrossAttention
from seq2see.runs.load import read_model
from seq2see.runs.run_folder import read_scores
from seq2see.runs.word_embeddings import WordEmbeddings


def embeddings_of(runs, name: str) -> WordEmbeddings:
    return WordEmbeddings(read_model(runs.workspace.run(runs.id(name)).weights, torch.device("cpu")))


def flatten(module):
    return [module, *(each for child in module.children for each in flatten(child))]


class TestArchitecture:
    def test_modules_are_those_of_the_model_with_their_shapes(self, open_view, runs):
        page = open_view("architecture", run="recurrent", text="红猫")
        model = runs.model("recurrent")
        expected = flatten(summarize_modules(model.module, model.named_batch("红猫", None).batch))
        found = view_data(page, ".blocks")
        assert [each["name"] for each in found] == [
            name for name, _ in model.module.named_modules(remove_duplicate=False)
        ]
        for each, block in zip(found, expected, strict=True):
            assert (each["kind"], each["calls"]) == (block.kind, block.calls)
            assert (each["parameters"], each["macs"]) == (block.parameters, block.macs)
            assert [tuple(shape) for shape in each["output_shapes"]] == block.output_shapes

    def test_a_module_has_a_formula_a_paper_and_its_source(self, open_view):
        page = open_view("architecture", run="transformer")
        page.get_by_role("button", name="Open all").click()
        page.get_by_role("button", name="cross_attention CrossAttention").first.click()
        wait_until(page, "document.querySelector('.block-details .source') !== null")
        assert page.locator(".block-details .source").first.text_content() == inspect.getsource(CrossAttention)
        assert "Vaswani et al. 2017" in page.locator(".block-details").text_content()
        assert page.locator(".formula math mfrac msqrt").count() == 1
        assert link_state(page)["block"] == "decoder.blocks.0.cross_attention"

    def test_words_in_a_formula_are_separated_and_letters_are_not(self, open_view):
        page = open_view("architecture", run="transformer")
        page.get_by_role("button", name="Open all").click()
        gaps = (
            "[...document.querySelectorAll('.formula mspace')].map(({ previousSibling, nextSibling }) => "
            "`${previousSibling.textContent} ${nextSibling.textContent}`)"
        )
        for name, expected in {
            "dropout Dropout": ["0 with", "with probability", "probability p"],
            "encoder TransformerEncoder": [") if", "if the", "the norm", "norm is", "is first"],
            "cross_attention CrossAttention": [],
        }.items():
            page.get_by_role("button", name=name).first.click()
            wait_until(page, f"JSON.stringify({gaps}) === {json.dumps(json.dumps(expected, separators=(',', ':')))}")

    @pytest.mark.parametrize("name", ["gpt", "vit"])
    def test_every_family_has_modules(self, name, open_view, runs):
        page = open_view("architecture", run=name)
        run = runs.workspace.run(runs.id(name))
        example = run.test_examples.pixels[0] if name == "vit" else example_of(run)
        root = summarize_modules(run.model.module, run.model.named_batch(example, "").batch)
        assert view_data(page, ".blocks")[0]["macs"] == root.macs


class TestEmbeddings:
    def test_the_map_and_the_neighbors_are_those_of_the_embeddings(self, open_view, runs):
        page = open_view("embeddings", run="transformer", word="猫")
        embeddings = embeddings_of(runs, "transformer")
        word_map, found = embeddings.map(10_000), view_data(page, "canvas.scatter")
        assert found["rows"] == word_map.tokens
        assert found["values"] == pytest.approx(word_map.points.flatten().tolist(), abs=1e-6)
        neighbors = view_data(page, ".neighbors .bars")
        assert neighbors["labels"] == [each.token for each in embeddings.neighbors("猫", 10)]
        assert neighbors["values"] == pytest.approx([each.cosine for each in embeddings.neighbors("猫", 10)], abs=1e-5)

    def test_analogies_and_contexts(self, open_view, runs):
        page = open_view(
            "embeddings",
            run="transformer",
            first="红",
            second_word="黑",
            third="猫",
            common="猫",
            sentences="红猫\n大猫\n小猫",
        )
        wait_until(
            page,
            "document.querySelectorAll('.analogy .bars').length === 2 && !!document.querySelector('.contexts .chart')",
        )
        embeddings = embeddings_of(runs, "transformer")
        nearest, _ = embeddings.analogy(["红", "黑", "猫"], 8)
        assert view_data(page, ".analogy .bars")["labels"] == [each.token for each in nearest]
        lines = view_data(page, ".contexts .chart")["lines"]
        cosines_of_layers = embeddings.contexts("猫", ["红猫", "大猫", "小猫"]).cosines
        assert len(lines) == 3
        for pair, line in enumerate(lines):
            assert line["y"] == pytest.approx([cosines[pair] for cosines in cosines_of_layers.values()], abs=1e-5)

    def test_a_word_on_the_map_can_be_picked_with_the_keyboard(self, open_view, runs):
        page = open_view("embeddings", run="transformer")
        page.locator("canvas.scatter").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        wait_until(page, "document.querySelector('.neighbors .bars') !== null")
        assert link_state(page)["word"] in "".join(embeddings_of(runs, "transformer").map(10_000).tokens)


class TestMistakes:
    def test_a_run_without_evaluation_shows_the_command(self, open_view, page, runs):
        folder = runs.workspace.run(runs.id("gpt")).folder.evaluation
        renamed = folder.rename(folder.with_name("aside"))
        texts = {}
        for language in ("zh", "en"):
            open_view("mistakes", run="gpt", lang=language)
            texts[language] = page.locator("section.view").text_content()
        renamed.rename(folder)
        assert all("seq2see eval gpt" in each for each in texts.values())
        assert "还没有评测" in texts["zh"]

    def test_rows_are_those_of_the_file_and_link_to_attention(self, open_view, runs):
        run = runs.workspace.run(runs.id("transformer")).folder
        lines = (run.evaluation / "test.tsv").read_text(encoding="utf-8").split("\n")[1:-1]
        table = [line.split("\t") for line in lines]
        page = open_view("mistakes", run="transformer")
        rows = page.locator(".evaluated-rows tbody tr")
        found = [[cell.text_content() for cell in row.locator("td").all()] for row in rows.all()]
        assert sorted(each[1] for each in found) == sorted(each[0] for each in table)
        scores = [float(table[int(each[0]) - 1][3]) for each in found]
        assert scores == sorted(scores)
        first = table[int(found[0][0]) - 1]
        rows.first.locator("a").click()
        assert {"view": "attention", "text": first[0], "target": first[2]}.items() <= link_state(page).items()

    def test_a_cell_of_the_confusion_matrix_selects_its_rows(self, open_view, runs):
        run = runs.workspace.run(runs.id("vit")).folder
        counts = read_scores(run)["test"]["confusion"]
        page = open_view("mistakes", run="vit", lang="zh")
        found = view_data(page, ".heat-canvas")
        assert found["values"] == [count for row in counts for count in row]
        cells = [(row, column) for row in range(2) for column in range(2)]
        row, column = max(cells, key=lambda cell: counts[cell[0]][cell[1]])
        page.locator(".heat-canvas").focus()
        for key in ["ArrowLeft", *["ArrowDown"] * row, *["ArrowRight"] * column, "Enter"]:
            page.keyboard.press(key)
        wait_until(page, "document.querySelectorAll('.evaluated-rows tbody tr').length === " + str(counts[row][column]))
        labels = runs.model("vit").tokenizers.labels
        assert (link_state(page)["truth"], link_state(page)["answer"]) == (labels[row], labels[column])
        number = int(page.locator(".evaluated-rows tbody a").first.text_content()) - 1
        page.locator(".evaluated-rows tbody a").first.click()
        page.wait_for_selector(".image-canvas")
        assert (link_state(page)["view"], link_state(page).get("number", "0")) == ("vit", str(number))


def test_no_response_contains_the_path_of_images(runs):
    run = runs.workspace.run(runs.id("vit"))
    bodies = {
        "examples": {}, "vit/info": {}, "mistakes/rows": {"split": "test"}, "mistakes/splits": {}, "runs/metrics": {},
        "runs/samples": {"step": 60}, "attention/layers": {}, "compare/sides": {}, "architecture/blocks": {},
    }  # fmt: skip
    for name, body in bodies.items():
        route = ROUTES[name]
        response = to_response(
            route.handler(runs.workspace, route.request_model.model_validate({"run": run.id, **body}))
        )
        assert str(run.folder.path.parent).encode() not in bytes(response.body), name
