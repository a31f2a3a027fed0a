"""The two ONNX graphs: in plain torch, and, once written, in onnxruntime; with our own loop around them."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest
import torch
from taught import (
    answers_of,
    assert_same_answers,
    best,
    on_the_page,
    our_answers,
    random_model,
    read,
    sentences,
    shaped,
    taught,
    tokenisers,
)

from seq2see.core.batch import Sequences
from seq2see.core.errors import UserError
from seq2see.core.rows import pick_rows
from seq2see.decoding.engine import Decodes
from seq2see.decoding.settings import Decoding
from seq2see.interop.onnx import EncoderGraph, StepGraph, graph_names
from seq2see.interop.onnx_model import OnnxModel
from seq2see.workbench.model_folder import write_model
from tiny_models import assert_same


def in_torch(model) -> OnnxModel:
    """The graphs as they are before they are written."""
    encoder, step = EncoderGraph(model.module), StepGraph(model.module)
    depth, settings = model.config.model.decoder.depth, model.config.model.decoder

    def take(inputs):
        tokens, lengths, *kept = inputs
        return list(step(tokens, lengths, list(kept[: 2 * depth]), list(kept[2 * depth :])))

    size = settings.width // settings.heads
    return OnnxModel(lambda inputs: list(encoder(*inputs)), take, settings.heads, size)


@cache
def written() -> tuple[Path, str]:
    """The folder that the command line writes, and what it prints meanwhile."""
    desk = Path(mkdtemp())
    run = desk / "run"
    run.mkdir()
    (run / "recipe.toml").touch()
    write_model(run / "model", taught("pre"))
    program = "from seq2see.cli import main; main()"
    command = [sys.executable, "-c", program, "export", str(run), "--to", "onnx", "--out", str(desk / "onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return desk / "onnx", done.stdout


@cache
def in_onnxruntime() -> OnnxModel:
    return OnnxModel.open(written()[0])


@pytest.mark.parametrize("order, num_beams", [("pre", 4), ("post", 1)])
def test_the_graphs_give_200_sentences_the_same_answers(order, num_beams):
    decoding = Decoding(max_new_tokens=40, num_beams=num_beams)
    theirs = answers_of(in_torch(taught(order)), taught(order), decoding)
    assert_same_answers(taught(order), best(our_answers(order, decoding)), best(theirs))


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "none"])
@pytest.mark.parametrize("norm", ["layer", "rms", "batch", "power"])
@pytest.mark.parametrize("order", ["pre", "post"])
def test_the_graphs_step_as_every_transformer_does(order, norm, positions):
    both = tokenisers("characters", "words")
    model = random_model(shaped(both, positions, "free", order=order, norm=norm, width=16, heads=2), both)
    assert_same_steps(model, in_torch(model))


@torch.inference_mode()
def assert_same_steps(model, twin: OnnxModel) -> None:
    """Two tokens, then one, then rows change places, then three: always the same scores."""
    assert isinstance(twin, Decodes)
    source = Sequences.of(read(model, sentences()[:3]))
    ours, theirs = (each.start(source, 3, 9) for each in (model.module, twin))
    for new in (2, 1, 3):
        tokens = torch.randint(3, len(model.tokenisers.target), (3, new))
        expected, ours = model.module.step(tokens, ours)
        found, theirs = twin.step(tokens, theirs)
        assert_same(found, expected, 1e-4)
        ours, theirs = (pick_rows(state, torch.tensor([2, 0, 0])) for state in (ours, theirs))


def test_names_come_in_pairs_of_keys_and_values():
    names = graph_names(2)
    assert names["encoder.onnx"]["outputs"] == [
        "memory_keys_0", "memory_values_0", "memory_keys_1", "memory_values_1",
    ]  # fmt: skip
    assert names["decoder_step.onnx"]["inputs"][:3] == ["tokens", "lengths", "memory_keys_0"]
    assert names["decoder_step.onnx"]["outputs"][-1] == "present_values_1"


def test_another_folder_is_refused(tmp_path):
    pytest.importorskip("onnxruntime")
    with pytest.raises(UserError, match="not an ONNX folder"):
        OnnxModel.open(tmp_path)
    (tmp_path / "model.json").write_text('{"heads": 2, "size": 4}')
    (tmp_path / "encoder.onnx").write_bytes(b"not a graph")
    with pytest.raises(UserError, match="onnxruntime cannot open"):
        OnnxModel.open(tmp_path)


@pytest.mark.long
@pytest.mark.timeout(400)
class TestWritten:
    """What only the written files can show; writing them takes some ten seconds."""

    @pytest.fixture(autouse=True)
    def needs(self):
        for package in ("onnx", "onnxscript", "onnxruntime"):
            pytest.importorskip(package)

    @pytest.mark.parametrize("num_beams", [1, 4])
    def test_200_sentences_get_the_same_answers(self, num_beams):
        decoding = Decoding(max_new_tokens=40, num_beams=num_beams)
        theirs = answers_of(in_onnxruntime(), taught("pre"), decoding)
        assert_same_answers(taught("pre"), best(our_answers("pre", decoding)), best(theirs))

    def test_steps_of_any_length_and_rows_that_change_places(self):
        assert_same_steps(taught("pre"), in_onnxruntime())

    def test_one_row_alone_and_a_source_of_one_token(self):
        model, twin = taught("pre"), in_onnxruntime()
        source = Sequences.of([[2]])
        expected, _ = model.module.step(torch.tensor([[1]]), model.module.start(source, 1, 4))
        found, _ = twin.step(torch.tensor([[1]]), twin.start(source, 1, 4))
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)

    def test_the_folder_describes_itself(self):
        folder, printed = written()
        told = json.loads((folder / "model.json").read_text())
        assert (told["bos"], told["eos"], told["never_said"], told["heads"]) == (1, 2, [0, 1], 4)
        names = sorted(path.name for path in folder.iterdir())
        assert names == [
            "decoder_step.onnx", "encoder.onnx", "model.json", "source_tokenizer.json", "target_tokenizer.json",
        ]  # fmt: skip
        assert printed.startswith(f"wrote {folder}\n")

    def test_what_is_printed_runs(self):
        example = written()[1].split("\n\n", 1)[1]
        places: dict[str, object] = {}
        exec(compile(example, "example", "exec"), places)
        assert len(places["memory"]) == 4

    def test_what_the_page_shows_says_what_our_loop_says(self, tmp_path, monkeypatch, capsys):
        (tmp_path / "runs" / "pocket-transformer" / "export").mkdir(parents=True)
        (tmp_path / "runs" / "pocket-transformer" / "export" / "onnx").symlink_to(written()[0])
        monkeypatch.chdir(tmp_path)
        shown = on_the_page("onnxruntime").replace("我有一支笔", sentences()[0])
        exec(compile(shown, "page", "exec"), {})
        answer = best(our_answers("pre", Decoding(max_new_tokens=40)))[0]
        assert capsys.readouterr().out.strip("\n") == taught("pre").tokenisers.target.decode(answer)
