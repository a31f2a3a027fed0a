"""The report page: self-contained, in two languages, with the values of the files of the run."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import safetensors.torch
import torch

from seq2see.runs.report import marked, write_report
from seq2see.runs.run_folder import RunFolder
from seq2see.tasks.report_parts import TEXTS

EVIL = "<script>alert(1)</script>"
BLEU = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.5.1"
CHRF = "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.5.1"

RECIPE = f"""
name = "tiny & small"
task = "translate"
[corpus]
kind = "pairs"
paths = ["{EVIL}.tsv"]
[source.tokenizer]
kind = "characters"
[target.tokenizer]
kind = "words"
[encoder]
kind = "transformer"
width = 24
depth = 3
[decoder]
kind = "transformer"
width = 24
depth = 5
[training]
steps = 2000
compile = false
schedule = {{kind = "cosine", warmup = 100}}
"""
METRICS = [
    {"step": 1000, "loss": 2.0, "learning_rate": 0.1, "grad_norm": 1.0, "tokens": 7},
    {"step": 1000, "valid_loss": 1.23456, "valid_accuracy": 0.5},
    {"step": 2000, "loss": 1.0, "learning_rate": 0.1, "grad_norm": 1.0, "tokens": 7},
    {"step": 2000, "valid_loss": 1.5, "valid_accuracy": 0.625},
]
SCORES = {
    "test": {
        "pairs": 1013, "bleu": {"name": "BLEU", "value": 37.26, "signature": BLEU},
        "chrf": {"name": "chrF2", "value": 61.04, "signature": CHRF}, "exact_match": 12.5, "d2l-bleu": 0.4567,
    },
    "roles": {"pairs": 17, "bleu": {"name": "BLEU", "value": 5.0, "signature": BLEU}},
    "perplexity": {"per_token": 3.14159, "bits_per_character": 0.777, "token_accuracy": 88.88},
    "alignment": {"error_rate": 0.125, "selected_on_valid": {"layer": 1, "heads": [0, 2], "error_rate": 0.1}},
}  # fmt: skip


def write_lines(path: Path, rows: list) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["\t".join(row) if isinstance(row, tuple) else json.dumps(row) for row in rows]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


@pytest.fixture
def run(tmp_path):
    """A run after training."""
    run = RunFolder(tmp_path / "my run")
    run.path.mkdir()
    run.recipe_file.write_text(RECIPE, encoding="utf-8")
    write_lines(run.metrics, METRICS)
    timing = [{"step": 1000, "seconds": 3600.0, "tokens_per_second": 7}, {"step": 2000, "seconds": 65.2}]
    write_lines(run.path / "timing.jsonl", timing)
    environment = {"torch": "2.13.0", "cores": 1234, "command": ["/opt/bin/seq2see", "train", "a b.tsv"]}
    write_lines(run.path / "env.json", [environment])
    for step in range(100, 2001, 100):
        output = "I have a pen" if step == 2000 else f"a pen {step}"
        rows = [("source", "reference", "output"), ("我有笔", "I have a pen", output), (EVIL, EVIL, EVIL)]
        write_lines(run.samples / f"step-{step:06d}.tsv", rows)
    return run


@pytest.fixture
def evaluated(run):
    """The run after evaluation."""
    run.model.mkdir()
    weights = {"a": torch.zeros(7, 11), "b": torch.zeros(1000)}
    (run.model / "model.safetensors").write_bytes(safetensors.torch.save(weights))
    write_lines(run.evaluation / "scores.json", [SCORES])
    rows = [(f"句{number}", "one two", "one three", f"{number}.00", "-0.1250") for number in range(13)]
    rows += [("句12", "one two", "one three", "12.00", "-0.1250"), (EVIL, EVIL, EVIL, "50.00", "-1.0000")]
    write_lines(run.evaluation / "test.tsv", [("source", "reference", "output", "chrf", "score"), *rows])
    return run


class Page(HTMLParser):
    """A parsed page: its tags, and its text in one language."""

    EMPTY = ("meta", "img", "br")

    def __init__(self, path: Path, language: str = "en"):
        super().__init__()
        self.language, self.tags, self.open = language, [], []
        self.rows: list[list[str]] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))
        assert not self.open, "a tag is not closed"

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in self.EMPTY:
            self.open.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        tag, attributes = self.open[-1] if self.open else ("", {})
        hidden = attributes.get("class") == "t" and attributes["lang"] != self.language
        if hidden or tag in ("style", "script"):
            return
        self.text += data
        if any(name in ("td", "th") for name, _ in self.open):
            self.rows[-1][-1] += data

    def row(self, name):
        return next(row for row in self.rows if row[0] == name)


@pytest.mark.parametrize("task, unit", [("translate", "tokens"), ("fill", "tokens"), ("tag", "predictions")])
def test_the_curves_have_the_unit_of_the_task(run, monkeypatch, task, unit):
    run.recipe_file.write_text(RECIPE.replace('task = "translate"', f'task = "{task}"'), encoding="utf-8")
    drawn = []
    monkeypatch.setattr("seq2see.inspection.plotting.draw_curves", lambda *arguments: drawn.append(arguments[-1]))
    (run.path / "curves.png").write_bytes(b"an image")
    write_report(run)
    assert drawn == [unit]


def test_a_report_after_training_has_no_scores(run):
    page = Page(write_report(run))
    assert (run.path / "curves.png").stat().st_size > 10_000
    assert "Not evaluated yet" in page.text
    assert f"seq2see eval '{run.path}'" in page.text  # the folder's name has a space
    assert "This run is not finished" in page.text
    assert [tag for tag, _ in page.tags].count("img") == 1
    assert "Best and worst" not in page.text


def test_the_run_is_described_with_the_command_to_repeat_it(evaluated):
    page = Page(write_report(evaluated))
    assert page.row("encoder")[1] == "transformer, width 24, depth 3"
    assert page.row("decoder")[1] == "transformer, width 24, depth 5"
    assert page.row("tokens")[1] == "characters → words"
    assert page.row("weights")[1] == "1,077"
    assert page.row("training")[1] == "steps 2,000 / 2,000; compile false, schedule cosine (warmup 100)"
    assert page.row("command")[1] == "seq2see train 'a b.tsv'"
    assert page.row("train again")[1] == f"seq2see train '{evaluated.recipe_file}'"
    assert page.row("cores")[1] == "1,234"
    assert "not finished" not in page.text


def test_the_scores_are_those_of_the_files(evaluated):
    page = Page(write_report(evaluated))
    assert page.row("test") == ["test", "1,013", "37.3", "61.0", "12.5", "0.457"]
    assert page.row("roles") == ["roles", "17", "5.0", "", "", ""]
    assert page.row("perplexity per token (test, teacher forcing)")[1] == "3.142"
    assert page.row("bits per character")[1] == "0.777"
    assert page.row("token accuracy % (teacher forcing)")[1] == "88.9"
    assert page.row("alignment error rate of attention")[1] == "0.125 (layer 2, head 1, 3; selected on valid)"
    assert BLEU in page.text
    assert CHRF in page.text
    for figure in ("1.2346", "62.5%", "1:01:05"):  # best valid loss, last accuracy, 3665 seconds
        assert figure in page.text


def test_both_languages_are_in_the_page(evaluated):
    path = write_report(evaluated)
    english, chinese = Page(path), Page(path, "zh")
    for name in ("curves", "scores", "samples", "predictions", "recipe", "curves_note", "error_rate"):
        assert TEXTS[name][0] in english.text
        assert TEXTS[name][1] in chinese.text
        assert TEXTS[name][1] not in english.text
    assert chinese.row("编码器")[1] == "transformer, width 24, depth 3"


def test_every_text_has_two_languages_with_the_same_placeholders():
    for name, (english, chinese) in TEXTS.items():
        assert re.search("[\u4e00-\u9fff]", chinese), name
        assert not re.search("[\u4e00-\u9fff]", english), name
        assert set(re.findall(r"{\w+}", english)) == set(re.findall(r"{\w+}", chinese)), name


def test_data_cannot_bring_a_script_into_the_page(evaluated):
    path = write_report(evaluated)
    page = Page(path)
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert EVIL not in path.read_text(encoding="utf-8")
    assert page.text.count(EVIL) >= 5  # data, samples, predictions, recipe: shown as the text it is


def test_the_content_security_policy_allows_only_the_script_of_the_page(run):
    content = write_report(run).read_text(encoding="utf-8")
    script = re.search(r"<script>(.*)</script>\n</body>", content, re.DOTALL).group(1)
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = [tag["content"] for name, tag in Page(run.path / "report.html").tags if "http-equiv" in tag]
    assert policy.startswith("default-src 'none'")
    assert f"script-src 'sha256-{allowed}'" in policy


def test_no_resource_is_loaded_from_outside(evaluated):
    (evaluated.path / "attention").mkdir()
    image = base64.b64decode("iVBORw0KGgo=")
    (evaluated.path / "attention" / "alignment.png").write_bytes(image)
    path = write_report(evaluated)
    page, content = Page(path), path.read_text(encoding="utf-8")
    links = [tag[key] for _, tag in page.tags for key in ("src", "href", "srcset", "data") if key in tag]
    assert all(link.startswith(("data:image/png;base64,", "#")) for link in links)
    assert "data:image/png;base64,iVBORw0KGgo=" in links
    assert not re.search(r"https?://|@import|url\(", content)
    assert not {tag for tag, _ in page.tags} & {"link", "iframe", "object", "embed"}
    ids = {tag["id"] for _, tag in page.tags if "id" in tag}
    assert {link[1:] for link in links if link.startswith("#")} == ids


def test_samples_show_the_first_and_the_last_evaluation_and_a_few_between(run):
    page = Page(write_report(run))
    steps = [row[0] for row in page.rows if row[1].startswith(("a pen", "I have"))]
    assert steps == ["100", "500", "900", "1,200", "1,600", "2,000", "reference"]
    assert page.row("1,600")[1] == "a pen 1600"
    assert page.row("2,000")[1] == "I have a pen ✓"


def test_the_best_and_the_worst_are_the_ends_of_the_table_and_no_sentence_comes_twice(evaluated):
    page = Page(write_report(evaluated))
    shown = [row for row in page.rows if len(row) == 5 and row[0] != "source"]
    best, worst = ["句12", "句11", "句10", "句9"], ["句0", "句1", "句2", "句3", "句4"]
    assert [row[0] for row in shown] == [EVIL, *best, *worst]
    assert shown[1] == ["句12", "one two", "one three", "12.00", "-0.1250"]


@pytest.mark.parametrize(
    "output, reference, shown",
    [
        ("two red pens", "two blue pens", "two <mark>red</mark> pens"),
        ("我有书", "我有笔", "我有<mark>书</mark>"),
        ("a < b", "a < b", "a &lt; b"),
        ("<i>", "", "<mark>&lt;i&gt;</mark>"),
        ("pens.", "pens", "pens<mark>.</mark>"),
    ],
)
def test_differences_from_the_reference_are_marked(output, reference, shown):
    assert marked(output, reference) == shown


def test_an_empty_output_is_shown_as_empty():
    assert "(empty)" in marked("", "I have a pen")


def test_broken_rows_of_a_table_are_skipped(evaluated):
    with (evaluated.evaluation / "test.tsv").open("a", encoding="utf-8") as file:
        file.write("only\ttwo\nfive\tcells\tbut\tno\tnumber\n")
    assert "only" not in [row[0] for row in Page(write_report(evaluated)).rows]


def test_the_totals_of_user_data_are_shown(run):
    totals = {"read": 1010, "kept": 1000, "skipped": 7, "rejected": 3}
    write_lines(run.path / "data_report.json", [{"reports": [{"totals": totals}]}])
    page = Page(write_report(run))
    assert page.row("pairs read = kept + skipped + rejected")[1] == "1,010 = 1,000 + 7 + 3"


def test_a_run_that_has_only_its_recipe_can_be_reported(tmp_path):
    (tmp_path / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    assert "tiny & small" in Page(write_report(RunFolder(tmp_path))).text
