"""Measured figures on the pages: what is stored is what is shown, and nothing is shown that was not measured."""

from __future__ import annotations

import json
import sys

import pytest
from source_tree import ROOT

sys.path.append(str(ROOT / "docs"))

import measured
from languages import PHRASES, WORDS, chinese, english

ENVIRONMENT = {"torch": "2.13", "platform": "Linux", "note": "alone"}


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Puts results where the pages look for them."""
    monkeypatch.setattr(measured, "ROOT", tmp_path)

    def put(name, **results):
        path = tmp_path / "benchmarks" / "results" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"environment": ENVIRONMENT, "command": "make bench", **results}))

    return put


def page(kind, name, content="old"):
    return f"a\n<!-- {kind}: {name} -->\n\n{content}\n\n<!-- end of {kind} -->\nb\n"


class TestBlocks:
    @pytest.mark.parametrize("kind", [kind for kind in measured.BLOCKS if kind != "difference"])
    @pytest.mark.parametrize("name", ["multi30k", "multi30k/lengths"])
    def test_missing_results_are_reported_in_both_languages(self, store, kind, name):
        assert measured.fill_markers(page(kind, name), english) == page(kind, name, "Not measured yet.")
        assert measured.fill_markers(page(kind, name), chinese) == page(kind, name, "尚未测量。")

    def test_differences_come_from_the_source(self, store):
        diff = measured.fill_markers(page("difference", "encoder-to-gpt"), english)
        assert "`TransformerEncoder.forward` → `GPTDecoder.forward`" in diff
        assert (
            "\n-     self_attention_mask = document_mask(text, text) if isinstance(text, PackedSequences) else padding_"
            in diff
        )
        assert (
            "\n+     self_attention_mask = causal_document_mask(text) if isinstance(text, PackedSequences) else causal_"
            in diff
        )
        assert "\n+     return self.run_blocks(text, self_attention_mask)" in diff
        assert '"""' not in diff

    def test_filling_twice_changes_nothing_and_the_rest_of_a_page_stays(self, store):
        store("speed", rows=[{"name": "x", "value": 3}])
        once = measured.fill_markers(page("table", "speed"), english)
        assert once.startswith("a\n<!-- table: speed -->\n")
        assert once.endswith("<!-- end of table -->\nb\n")
        assert measured.fill_markers(once, english) == once

    def test_two_blocks_on_a_page_do_not_run_into_each_other(self, store):
        text = page("table", "one") + "between\n" + page("table", "two")
        fill_markers = measured.fill_markers(text, english)
        assert "between" in fill_markers
        assert fill_markers.count("Not measured yet.") == 2

    def test_a_part_without_rows_was_not_measured(self, store):
        store("multi30k", tables={"ablation": {"columns": [], "rows": []}})
        assert measured.table_block(english, "multi30k/ablation") == "Not measured yet."
        assert measured.table_block(english, "multi30k/ladder") == "Not measured yet."


class TestTable:
    def test_columns_say_what_is_shown_and_how(self, store):
        columns = [
            {"key": "recipe", "title": "recipe"}, {"key": "weights", "title": "weights", "digits": 0},
            {"key": "bleu", "title": "test BLEU", "digits": 1},
            {"key": "gain", "title": "difference", "digits": 2, "sign": True},
            {"key": "never", "title": "never"},
        ]  # fmt: skip
        rows = [
            {"recipe": "a|b", "weights": 1061888, "bleu": [40.0, 41.0, 42.0], "hidden": 5, "gain": 0.5},
            {"recipe": "c", "weights": 5, "bleu": [39.96], "gain": -1},
            {"recipe": "<d>"},
        ]
        store("multi30k", tables={"ladder": {"columns": columns, "rows": rows}})
        assert measured.table_block(english, "multi30k/ladder").split("\n") == [
            "| recipe | weights | test BLEU | difference |",
            "|---|---:|---:|---:|",
            "| a\\|b | 1,061,888 | 41.0 ± 1.0 | +0.50 |",
            "| c | 5 | 40.0 | -1.00 |",
            "| &lt;d> | – | – | – |",
        ]
        assert measured.table_block(chinese, "multi30k/ladder").startswith("| 配方 | 参数量 | 测试集 BLEU | 差 |")

    def test_without_columns_every_plain_key_is_one_and_three_digits_matter(self, store):
        rows = [
            {"cell": "decode", "value": 123456.7, "ratio": 1.2345, "fits": True, "all": [1.0, 2.0], "more": {"a": 1}}
        ]
        rows += [{"cell": "train", "value": 8, "ratio": 0.01234, "spread_of_it": None}]
        store("speed", rows=rows)
        assert measured.table_block(english, "speed").split("\n") == [
            "| cell | value | ratio | fits |",
            "|---|---:|---:|---:|",
            "| decode | 123,457 | 1.23 | yes |",
            "| train | 8 | 0.0123 | – |",
            "",
            "Measured with `make bench` (torch 2.13, alone).",
        ]

    def test_the_stored_results_of_today_can_be_shown(self):
        for path in sorted((ROOT / "benchmarks" / "results").glob("*.json")):
            if "rows" in json.loads(path.read_text(encoding="utf-8")):
                assert measured.table_block(english, path.stem).count("\n|") > 1

    def test_the_pocket_recipes_have_a_table_of_their_own(self, store):
        row = {"recipe": "a", "steps": 900, "weights": 1061888, "seconds": 71.6, "alignment_error": 0.0826}
        full = {
            "test": {"bleu": 98.76, "exact_match": 91.25},
            "pairs": {"exact_match": 7},
            "roles": {"exact_match": 5},
            "length": {"exact_match": 0},
        }
        bare = row | {"recipe": "b", "alignment_error": None, "splits": {"test": {"bleu": 2}}}
        store("pocket", rows=[row | {"splits": full}, bare])
        lines = measured.pocket_table(english).split("\n")
        assert lines[0].count("|") == lines[1].count("|") == lines[2].count("|") == 11
        assert lines[2] == "| a | 1,061,888 | 900 | 72 | 98.8 | 91.2 | 7.0 | 5.0 | 0.0 | 0.083 |"
        assert lines[3] == "| b | 1,061,888 | 900 | 72 | 2.0 | – | – | – | – | – |"
        assert "| a |" not in measured.pocket_table(english, prefix="b")


class TestExamplesAndSignatures:
    def test_an_example_shows_the_output_of_every_system(self, store):
        example = {"change": "a → b", "source": "x | y", "reference": "r", "outputs": {"a": "one", "b": "two"}}
        store("multi30k", examples=[example, example], signatures={"bleu": "tok:13a"})
        first, second = measured.examples_block(english, "multi30k").split("\n\n")
        assert first == second
        assert first.split("\n") == [
            "| | a → b |", "|---|---|", "| source | x \\| y |", "| reference | r |", "| a | one |", "| b | two |",
        ]  # fmt: skip
        assert measured.signatures_block(english, "multi30k") == "- bleu: `tok:13a`"


class TestImages:
    ROWS = ({"words": "1–8", "pairs": 3, "gru": [40.0, 42.0]}, {"words": "9+", "pairs": 2, "gru": [30.0, 31.0]})

    def test_a_plot_is_redrawn_when_its_results_change(self, store, tmp_path):
        assert measured.stale_images() == []
        store("multi30k", tables={"lengths": {"columns": [], "rows": self.ROWS}})
        (path,) = measured.stale_images()
        measured.draw_images([path])
        assert path == tmp_path / "docs" / "images" / "multi30k-length.png"
        assert measured.stale_images() == []
        assert measured.image_block(english, "multi30k/lengths").endswith("](images/multi30k-length.png)")
        store("multi30k", tables={"lengths": {"columns": [], "rows": self.ROWS[:1]}})
        assert measured.stale_images() == [path]


def test_words_are_translated_once_and_no_phrase_is_empty():
    assert not WORDS.keys() & PHRASES.keys()
    assert all(first and second for first, second in PHRASES.values())
    assert all(chinese(word) != word for word in WORDS)
