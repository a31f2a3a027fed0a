"""`seq2see export`: what it prints, what it refuses before it writes anything, and that it writes all or nothing."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from trained_models import make_tokenizers, page_example, random_model, small_settings, stored_model, trained_translator

from seq2see.cli.app import run
from seq2see.core.errors import UserError, require_packages
from seq2see.core.files import atomic_folder
from seq2see.decoding.ensemble import Ensemble
from seq2see.interop.ctranslate2 import Ct2Engine, check_ct2, write_ct2
from seq2see.interop.exportable import position_table, positions_needed
from seq2see.interop.formats import FORMATS
from seq2see.interop.hugging_face_seq2seq import seq2seq_layout, write_seq2seq
from seq2see.interop.onnx_export import check_onnx
from seq2see.models.build import fresh_model
from seq2see.models.settings import ModelSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.model_folder import write_model
from tiny_models import FAMILIES, tiny_model

CHECKS = {"ct2": check_ct2, "hf": seq2seq_layout, "onnx": check_onnx}
SUPPORTED = {
    "ct2": {"transformer, pre-norm", "transformer, post-norm", "transformer, rms norm"},
    "hf": {"transformer, pre-norm"},  # the post-norm one has learned positions
    "onnx": {name for name in FAMILIES if name.startswith("transformer,")},
}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a finished run."""
    monkeypatch.chdir(tmp_path)
    made = tmp_path / "runs" / "mine"
    made.mkdir(parents=True)
    (made / "recipe.toml").touch()
    write_model(made / "model", trained_translator("post"))
    return tmp_path


def pretend_missing(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else there(name))


@pytest.mark.parametrize("form", ["ct2", "hf"])
def test_what_is_printed_runs(form, workspace, capsys):
    pytest.importorskip({"ct2": "ctranslate2", "hf": "transformers"}[form])
    assert run(["export", "mine", "--to", form]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"wrote runs/mine/export/{form}\n")
    for path in (workspace / "runs" / "mine" / "export" / form).iterdir():
        assert path.name in printed
    exec(compile(printed.split("\n\n", 1)[1], "example", "exec"), {})
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("form, package", [("ct2", "ctranslate2"), ("hf", "transformers")])
def test_what_the_page_shows_runs(form, package, tmp_path, monkeypatch, capsys):
    pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    FORMATS[form].write(trained_translator("pre"), Path("runs/pocket-transformer/export") / form)
    exec(compile(page_example(package), "page", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_the_folder_can_be_named(workspace, capsys):
    assert run(["export", "runs/mine", "--to", "hf", "--out", "there/it"]) == 0
    assert (workspace / "there" / "it" / "model.safetensors").exists()
    assert "The layout is that of MarianMTModel." in capsys.readouterr().out


def test_nothing_is_written_over(workspace, capsys):
    assert run(["export", "mine", "--to", "hf"]) == 0
    before = sorted(workspace.rglob("*"))
    assert run(["export", "mine", "--to", "hf"]) == 2
    assert "runs/mine/export/hf: This exists already." in capsys.readouterr().err
    assert sorted(workspace.rglob("*")) == before


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["mine", "--to", "htf"], "There is no export format 'htf'. Did you mean 'hf'?"),
        (["mien", "--to", "hf"], "Did you mean 'runs/mine'?"),
        (["mine"], "--to"),
        (["begun", "--to", "hf"], "not finished"),
    ],
)
def test_mistakes_are_reported(arguments, message, workspace, capsys):
    (workspace / "runs" / "begun").mkdir()
    (workspace / "runs" / "begun" / "recipe.toml").touch()
    assert run(["export", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("form", ["ct2", "hf", "onnx"])
@pytest.mark.parametrize("family", FAMILIES)
def test_what_cannot_be_held_is_refused_by_the_name_of_its_setting(form, family):
    if family in SUPPORTED[form]:
        CHECKS[form](FAMILIES[family])
        return
    with pytest.raises(UserError, match=r"(encoder|decoder)\.(kind|norm|order)=|positions="):
        CHECKS[form](FAMILIES[family])


@pytest.mark.parametrize("form", ["ct2", "hf", "onnx"])
def test_what_is_refused_leaves_nothing_behind(form, tmp_path):
    both = make_tokenizers("words")
    model = stored_model(FAMILIES["recurrent, dot"], both, tiny_model("recurrent, dot"))
    with pytest.raises(UserError, match=r"encoder\.kind=recurrent"):
        FORMATS[form].write(model, tmp_path / "deep" / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["ct2", "hf", "onnx"])
def test_several_models_in_one_are_refused(form, tmp_path):
    both = make_tokenizers("words")
    settings = small_settings(both, width=8, heads=2, depth=1)
    one = random_model(settings, both).module
    with pytest.raises(UserError, match="does not support ensembles"):
        FORMATS[form].write(stored_model(settings, both, Ensemble([one, one])), tmp_path / "deep" / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["ct2", "hf", "onnx"])
@pytest.mark.parametrize(
    "changes, named",
    [
        ({"encoder.activation": "swiglu"}, r"encoder\.activation=swiglu"),
        ({"decoder.activation": "gelu-tanh"}, r"decoder\.activation=gelu-tanh"),
        ({"decoder.kv_heads": 1}, r"decoder\.kv_heads=1"),
        ({"encoder.bias": False}, r"encoder\.bias=false"),
        ({"decoder.norm_eps": 1e-3}, r"decoder\.norm_eps=0\.001"),
        ({"target.head": "untied-no-bias"}, r"target\.head=untied-no-bias"),
        ({"target.embedding.scale": False}, r"target\.embedding\.scale=false"),
        ({"source.embedding.positions": "rotary"}, r"source\.embedding\.positions=rotary"),
        ({"target.embedding.positions": "alibi"}, r"target\.embedding\.positions=alibi"),
    ],
    ids=str,
)
def test_newer_parts_are_refused_by_the_name_of_their_setting(form, changes, named):
    settings = small_settings(make_tokenizers("words"), width=8, heads=2).with_(**changes)
    with pytest.raises(UserError, match=named):
        CHECKS[form](settings)


@pytest.mark.parametrize("form", ["ct2", "onnx"])
def test_a_language_model_is_refused(form, tmp_path):
    settings, both = ModelSettings(decoder=TransformerSettings(width=8, depth=1, heads=2)), make_tokenizers("words")
    model = stored_model(settings, both, fresh_model(settings, both.sizes, "xavier", 1))
    with pytest.raises(UserError, match=r"no encoder|encoder\.kind=none"):
        FORMATS[form].write(model, tmp_path / "deep" / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_norm_on_one_side_only_is_refused():
    settings = small_settings(make_tokenizers("words"), width=8, heads=2).with_(**{"encoder.norm": "rms"})
    with pytest.raises(UserError, match=r"encoder\.norm=rms"):
        check_ct2(settings)


@pytest.mark.parametrize("form, package", [("ct2", "ctranslate2"), ("onnx", "onnx"), ("onnx", "onnxscript")])
def test_a_missing_package_is_reported_with_its_installation(form, package, tmp_path, monkeypatch):
    pretend_missing(monkeypatch, package)
    with pytest.raises(UserError, match=rf"{package}, which.*seq2see\[{form}\]"):
        FORMATS[form].write(trained_translator("post"), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_the_engine_reports_a_missing_package(monkeypatch):
    pretend_missing(monkeypatch, "ctranslate2")
    with pytest.raises(UserError, match=r"seq2see\[ct2\]"):
        Ct2Engine(trained_translator("post"), "float32", 1)


def test_what_is_there_needs_nothing():
    require_packages("ct2", "json", "torch")


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    with atomic_folder(tmp_path / "a" / "b") as folder:
        (folder / "x").touch()
        assert not (tmp_path / "a" / "b").exists()
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["x"]
    with pytest.raises(FileNotFoundError), atomic_folder(tmp_path / "c") as folder:
        (folder / "no" / "x").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_an_unwritable_folder_is_reported_as_given(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(UserError, match="file/x: This folder cannot be written"),
        atomic_folder(tmp_path / "file" / "x"),
    ):
        pass


def test_leftovers_of_a_killed_export_are_replaced(tmp_path):
    (tmp_path / ".hf.tmp").mkdir()
    (tmp_path / ".hf.tmp" / "stale").touch()
    write_seq2seq(trained_translator("post"), tmp_path / "hf")
    assert not (tmp_path / "hf" / "stale").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]


def test_a_link_that_leads_nowhere_is_not_written_over(tmp_path):
    (tmp_path / "ct2").symlink_to(tmp_path / "gone")
    with pytest.raises(UserError, match="exists already"):
        write_ct2(trained_translator("post"), tmp_path / "ct2")


def test_notes_name_the_differences():
    both = make_tokenizers("characters", "words")
    settings = small_settings(both, width=8, heads=2, depth=1)
    decoding = {"num_beams": 4, "length_penalty": {"kind": "gnmt"}, "repetition_penalty": 1.2}
    model = stored_model(settings, both, random_model(settings, both).module, **decoding)
    notes = " ".join(FORMATS["hf"].notes(model))
    assert f"begin at {len(both.source):,}" in notes
    assert "GNMT" in notes
    assert "repetition_penalty" in notes
    assert "length_penalty.kind=gnmt" in " ".join(FORMATS["ct2"].notes(model))
    assert FORMATS["ct2"].notes(trained_translator("post")) == []


@pytest.mark.parametrize(
    "changes, rows",
    [
        ({}, 1024),
        ({"source.max_tokens": 1500}, 1501),
        ({"target.max_tokens": 1300}, 1301),
        ({"source.max_tokens": 2}, 1024),
    ],
    ids=str,
)
def test_position_tables_are_as_long_as_the_longest_text(changes, rows):
    both = make_tokenizers("words")
    settings = small_settings(both, width=8, heads=2, depth=1)
    module = random_model(settings, both).module
    assert positions_needed(stored_model(settings.with_(**changes), both, module)) == rows
    assert positions_needed(stored_model(settings, both, module, max_new_tokens=1100)) == 1101
    assert position_table(module.source, rows).shape == (rows, 8)
