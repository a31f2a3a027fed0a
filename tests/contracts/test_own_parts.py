"""A metric, a tokenizer and an encoder from outside: a small run with each trains, is stored, loaded and evaluated."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from torch import nn

import own_parts
import seq2see
from seq2see.cli.app import run as command
from seq2see.core.errors import UserError
from seq2see.core.settings import Settings
from seq2see.data.readers.lines import is_blank
from seq2see.data.tokenizers.tokenizer import (
    OWN_TOKENIZERS,
    UNK,
    SplitTokenizer,
    Tokenizer,
    add_mask_token,
    train_tokenizer,
)
from seq2see.models.settings import OWN_ENCODERS
from seq2see.recipes.registry import recipe
from seq2see.runs.train import NullListener
from seq2see.tasks.text_scores import OWN_METRICS

SMALL = {
    "encoder.width": 16, "decoder.width": 16, "decoder.depth": 1, "training.steps": 8, "training.evaluate_every": 4,
    "training.batch_tokens": 128, "decoding.max_new_tokens": 8,
}  # fmt: skip
PAIRS = "tokenizer.kind", "character-pairs"


def unregister() -> None:
    """Other tests of this process have the built-in parts only; to import the module registers them."""
    for table in (OWN_METRICS, OWN_TOKENIZERS, OWN_ENCODERS):
        table.clear()


unregister()


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    """The parts, for the tests of this file only."""
    seq2see.register_metric("length-ratio", own_parts.length_ratio, title="length ratio", digits=2)
    seq2see.register_tokenizer(own_parts.CharacterPairs, own_parts.split_pairs)
    seq2see.register_encoder(own_parts.ContextMean, own_parts.ContextMeanEncoder)
    yield
    unregister()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "pairs.tsv"
    colors, animals = ("red", "black", "white", "green", "old", "small"), ("cat", "dog", "bird", "fish", "hen", "cow")
    path.write_text("".join(f"{c[0]}{a[0]} {a}\tthe {c} {a}\n" for c in colors for a in animals), encoding="utf-8")
    return path


def train(data: Path, out: Path, name: str = "translate", **changes: object):
    small = {path: value for path, value in SMALL.items() if name == "translate" or not path.startswith("deco")}
    return seq2see.train(name, data, out=out, set=small | changes, listener=NullListener())


def test_a_metric_has_a_column_of_its_own(data: Path, tmp_path: Path, capsys):
    run = train(data, tmp_path / "run", metrics=["exact_match", "length-ratio"])
    scores = run.evaluate()["test"]
    rows = [line.split("\t") for line in (tmp_path / "run/eval/test.tsv").read_text().splitlines()[1:]]
    expected = sum(len(row[2]) for row in rows) / sum(len(row[1]) for row in rows)
    assert scores["length-ratio"] == pytest.approx(expected, abs=0.02)  # the table replaces tabs by spaces
    assert command(["eval", str(tmp_path / "run")]) == 0
    assert "length ratio" in capsys.readouterr().out
    page = (tmp_path / "run/report.html").read_text(encoding="utf-8")
    assert "length ratio" in page
    assert f"{scores['length-ratio']:.2f}" in page


def test_an_unknown_metric_is_refused(data: Path):
    with pytest.raises(UserError, match=r"metrics\.0' cannot be 'length-quotient'"):
        recipe("translate").with_(metrics=["length-quotient"])
    with pytest.raises(UserError, match="already a metric 'bleu'"):
        seq2see.register_metric("bleu", own_parts.length_ratio)


def test_a_tokenizer_is_two_functions_and_its_vocabulary_is_stored(data: Path, tmp_path: Path):
    tokenizers = {f"source.{PAIRS[0]}": PAIRS[1], f"target.{PAIRS[0]}": PAIRS[1]}
    run = train(data, tmp_path / "run", **tokenizers)
    model = run.model()
    tokenizer = model.tokenizers.source
    assert isinstance(tokenizer, SplitTokenizer)
    ids = tokenizer.encode("rc cat")
    assert tokenizer.tokens(ids) == ["rc", "▁c", "at"]
    assert tokenizer.decode(ids) == "rc cat"
    assert tokenizer.offsets("rc cat") == [(0, 2), (2, 4), (4, 6)]
    assert tokenizer.tokens(tokenizer.encode("##")) == ["<unk>"]
    assert isinstance(model("rc cat").text, str)
    stored = json.loads((tmp_path / "run/model/tokenizer.json").read_text(encoding="utf-8"))
    assert stored["kind"] == "character-pairs"
    assert model.tokenizers.fingerprint == Tokenizer.load(tmp_path / "run/model/tokenizer.json").fingerprint * 2
    for to in ("hf", "ct2", "onnx"):
        assert command(["export", str(tmp_path / "run"), "--to", to]) == 2
    assert not (tmp_path / "run/export").exists()


def test_a_masked_language_model_reads_a_tokenizer_of_ones_own(data: Path, tmp_path: Path):
    text = tmp_path / "book.txt"
    text.write_text(data.read_text(encoding="utf-8") * 4, encoding="utf-8")
    changes = {"source.max_tokens": 16, f"source.{PAIRS[0]}": PAIRS[1], "encoder.depth": 1}
    model = train(text, tmp_path / "run", "fill", **changes).model()
    assert model.tokenizers.source.has_mask
    found = model("the [MASK] cat")
    assert not is_blank(found.text)
    assert found.candidates


def test_a_tokenizer_counts_tokens_and_orders_them_by_count():
    tokenizer = train_tokenizer(own_parts.CharacterPairs(), ["abab", "abcd", "e\u0301e\u0301"])
    assert tokenizer.tokens(range(4, len(tokenizer))) == ["ab", "cd", "éé"]  # in composed form
    masked = add_mask_token(tokenizer)
    assert len(masked) == len(tokenizer) + 1
    assert masked.encode("abcd") == tokenizer.encode("abcd")


def test_the_name_of_a_special_token_in_a_text_is_an_unknown_word():
    class Spaces(Settings):
        kind: Literal["spaces"] = "spaces"

    seq2see.register_tokenizer(Spaces, str.split, " ".join)
    tokenizer = train_tokenizer(Spaces(), ["a <eos> b <pad>"])
    assert len(tokenizer) == 6
    assert tokenizer.encode("a <eos> <pad> b") == [4, UNK, UNK, 5]


def test_a_damaged_vocabulary_is_refused(tmp_path: Path):
    path = tmp_path / "tokenizer.json"
    train_tokenizer(own_parts.CharacterPairs(), ["abab"]).save(path)
    path.write_text(path.read_text().replace('"ab": 4', '"ab": 5'))
    with pytest.raises(UserError, match="not a valid tokenizer file"):
        Tokenizer.load(path)


def test_an_encoder_is_selected_by_its_kind(data: Path, tmp_path: Path):
    run = train(data, tmp_path / "run", **{"encoder.kind": "context-mean"})
    model = run.model()
    assert isinstance(model.module.encoder, own_parts.ContextMeanEncoder)
    assert model.config.model.encoder == own_parts.ContextMean(width=16, dropout=0.2)
    assert model.score("rc cat", "the red cat") == pytest.approx(model.score("rc cat", "the red cat"))
    labels = tmp_path / "labels.tsv"
    labels.write_text("".join(f"{line.split()[0]}\t{line.split()[-1]}\n" for line in data.read_text().splitlines()))
    classifier = train(labels, tmp_path / "labels", "classify-text", **{"encoder.kind": "context-mean"})
    assert classifier.model()("rc").text in ("cat", "dog", "bird", "fish", "hen", "cow")
    with pytest.raises(UserError, match="no setting 'heads'"):
        recipe("translate").with_(**{"encoder.kind": "context-mean", "encoder.heads": 2})


def test_an_encoder_needs_a_kind_of_its_own_and_a_width():
    class Taken(own_parts.ContextMean):
        kind: str = "transformer"

    class Narrow(Settings):
        kind: str = "narrow"

    with pytest.raises(UserError, match="already an encoder 'transformer'"):
        seq2see.register_encoder(Taken, nn.Identity)
    with pytest.raises(UserError, match="need the field 'width'"):
        seq2see.register_encoder(Narrow, nn.Identity)
    with pytest.raises(UserError, match="already a tokenizer 'bpe'"):
        seq2see.register_tokenizer(type("Taken", (Settings,), {"__annotations__": {"kind": str}, "kind": "bpe"}), list)


def test_without_its_module_a_run_is_refused_with_a_hint(data: Path, tmp_path: Path):
    """In a process of its own, in which nobody has registered the parts."""
    train(data, tmp_path / "tokens", **{f"source.{PAIRS[0]}": PAIRS[1], f"target.{PAIRS[0]}": PAIRS[1]})
    train(data, tmp_path / "encoder", **{"encoder.kind": "context-mean"})
    for name in ("tokens", "encoder"):
        done = subprocess.run(
            [sys.executable, "-m", "seq2see", "predict", str(tmp_path / name), "rc"],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 2
        assert "character-pairs" in done.stderr or "context-mean" in done.stderr
        assert "Traceback" not in done.stderr
