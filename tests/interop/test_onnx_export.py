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
from trained_models import (
    assert_same_answers,
    best_tokens,
    decode_answers,
    encode_texts,
    held_out_sentences,
    make_tokenizers,
    own_answers,
    page_example,
    random_model,
    small_settings,
    trained_translator,
)

from seq2see.core.batch import Sequences, pick_rows
from seq2see.core.errors import UserError
from seq2see.decoding.engine import Decoding, GenerativeModel
from seq2see.interop.onnx_export import EncoderGraph, OnnxModel, StepGraph, graph_names
from seq2see.tasks.model_folder import write_model
from tiny_models import assert_same


def torch_graphs(model) -> OnnxModel:
    """The graphs as they are before they are written."""
    encoder, step = EncoderGraph(model.module), StepGraph(model.module)
    depth, settings = model.config.model.decoder.depth, model.config.model.decoder

    def step_function(inputs):
        tokens, lengths, *state = inputs
        return list(step(tokens, lengths, list(state[: 2 * depth]), list(state[2 * depth :])))

    size = settings.width // settings.heads
    return OnnxModel(lambda inputs: list(encoder(*inputs)), step_function, settings.heads, size)


@cache
def exported_folder() -> tuple[Path, str]:
    """The folder that the command line writes, and what it prints meanwhile."""
    workspace = Path(mkdtemp())
    run = workspace / "run"
    run.mkdir()
    (run / "recipe.toml").touch()
    write_model(run / "model", trained_translator("pre"))
    program = "from seq2see.cli import main; main()"
    command = [sys.executable, "-c", program, "export", str(run), "--to", "onnx", "--out", str(workspace / "onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return workspace / "onnx", done.stdout


@cache
def onnxruntime_model() -> OnnxModel:
    return OnnxModel.open(exported_folder()[0])


@pytest.mark.parametrize("order, num_beams", [("pre", 4), ("post", 1)])
def test_the_graphs_give_200_sentences_the_same_answers(order, num_beams):
    decoding = Decoding(max_new_tokens=40, num_beams=num_beams)
    reference = decode_answers(torch_graphs(trained_translator(order)), trained_translator(order), decoding)
    assert_same_answers(trained_translator(order), best_tokens(own_answers(order, decoding)), best_tokens(reference))


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "none"])
@pytest.mark.parametrize("norm", ["layer", "rms", "batch", "power"])
@pytest.mark.parametrize("order", ["pre", "post"])
def test_the_graphs_step_as_every_transformer_does(order, norm, positions):
    both = make_tokenizers("characters", "words")
    model = random_model(
        small_settings(both, positions, "untied", norm_order=order, norm=norm, width=16, heads=2), both
    )
    assert_same_steps(model, torch_graphs(model))


@torch.inference_mode()
def assert_same_steps(model, exported_model: OnnxModel) -> None:
    """Two tokens, then one, then rows change places, then three: always the same scores."""
    assert isinstance(exported_model, GenerativeModel)
    source = Sequences.of(encode_texts(model, held_out_sentences()[:3]))
    actual, reference = (each.start(source, 3, 9) for each in (model.module, exported_model))
    for new in (2, 1, 3):
        tokens = torch.randint(3, len(model.tokenizers.target), (3, new))
        expected, actual = model.module.step(tokens, actual)
        found, reference = exported_model.step(tokens, reference)
        assert_same(found, expected, 1e-4)
        actual, reference = (pick_rows(state, torch.tensor([2, 0, 0])) for state in (actual, reference))


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
        reference = decode_answers(onnxruntime_model(), trained_translator("pre"), decoding)
        assert_same_answers(
            trained_translator("pre"), best_tokens(own_answers("pre", decoding)), best_tokens(reference)
        )

    def test_steps_of_any_length_and_rows_that_change_namespace(self):
        assert_same_steps(trained_translator("pre"), onnxruntime_model())

    def test_one_row_alone_and_a_source_of_one_token(self):
        model, exported_model = trained_translator("pre"), onnxruntime_model()
        source = Sequences.of([[2]])
        expected, _ = model.module.step(torch.tensor([[1]]), model.module.start(source, 1, 4))
        found, _ = exported_model.step(torch.tensor([[1]]), exported_model.start(source, 1, 4))
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)

    def test_the_folder_describes_itself(self):
        folder, printed = exported_folder()
        description = json.loads((folder / "model.json").read_text())
        assert (description["bos"], description["eos"], description["suppress_tokens"], description["heads"]) == (
            1,
            2,
            [0, 1],
            4,
        )
        names = sorted(path.name for path in folder.iterdir())
        assert names == [
            "decoder_step.onnx", "encoder.onnx", "model.json", "source_tokenizer.json", "target_tokenizer.json",
        ]  # fmt: skip
        assert printed.startswith(f"wrote {folder}\n")

    def test_what_is_printed_runs(self):
        example = exported_folder()[1].split("\n\n", 1)[1]
        namespace: dict[str, object] = {}
        exec(compile(example, "example", "exec"), namespace)
        assert len(namespace["memory"]) == 4

    def test_what_the_page_shows_says_what_our_loop_says(self, tmp_path, monkeypatch, capsys):
        (tmp_path / "runs" / "pocket-transformer" / "export").mkdir(parents=True)
        (tmp_path / "runs" / "pocket-transformer" / "export" / "onnx").symlink_to(exported_folder()[0])
        monkeypatch.chdir(tmp_path)
        shown = page_example("onnxruntime").replace("我有一支笔", held_out_sentences()[0])
        exec(compile(shown, "page", "exec"), {})
        answer = best_tokens(own_answers("pre", Decoding(max_new_tokens=40)))[0]
        assert capsys.readouterr().out.strip("\n") == trained_translator("pre").tokenizers.target.decode(answer)
