"""Language models exported to GPT-2's and Llama's layouts: `transformers` opens them, and so do we."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close
from transformers import AutoModelForCausalLM, AutoTokenizer

from causal_folders import SHAPES, causal_folder
from seq2see.cli.app import run
from seq2see.core.batch import Batch, Sequences
from seq2see.core.errors import UserError
from seq2see.core.files import sha256
from seq2see.data.tokenizers.tokenizer import BOS, BPE, Characters, Unigram, WordLevel, train_tokenizer
from seq2see.decoding.engine import Decoding
from seq2see.interop.formats import FORMATS
from seq2see.interop.hugging_face_causal import causal_layout, write_causal
from seq2see.models.build import fresh_model
from seq2see.models.settings import ModelSettings
from seq2see.recipes.registry import recipe
from seq2see.runs.load import load, open_model, read_model
from seq2see.tasks.model_folder import ModelConfig, StoredModel, Tokenizers, write_model
from seq2see.tasks.task import pretrained_task

TEXTS = ["the cat sat on the mat. ", "我有一支笔，你有一本书。", "def f(x): return x + 1\n"] * 20
KINDS = {
    "characters": Characters(),
    "words": WordLevel(),
    "bpe": BPE(vocab_size=330),
    "unigram": Unigram(vocab_size=330),
}
SMALL = {"decoder.width": 24, "decoder.depth": 2, "decoder.heads": 4, "target.max_tokens": 32}
CASES = {
    "write": {},
    "write, no bias, head of its own": {"decoder.bias": False, "target.head": "untied-no-bias"},
    "write, no positions, gelu": {
        "target.embedding.positions": "none",
        "decoder.activation": "gelu",
        "decoder.norm_eps": 1e-2,
    },
    "write-gpt2": {"target.embedding.max_positions": 32},
    "write-gpt2, fewer positions than times": {"target.embedding.max_positions": 5, "decoder.mlp_ratio": 1.3},
    "write-gpt2, more positions than times": {"target.embedding.max_positions": 50},
    "write-llama": {"decoder.kv_heads": 2},
    "write-llama, scaled and tied": {
        "target.embedding.scale": True,
        "target.head": "tied",
        "decoder.kv_heads": 0,
    },
    "write-llama, biased, other angles": {"decoder.bias": True, "decoder.rope_theta": 99.0},
}


def random_language_model(case: str, kind: str = "characters", **decoding) -> StoredModel:
    """A language model that is random; no bias is 0 and no norm weight is 1, so that a missing weight is noticed."""
    settings = recipe(case.split(",")[0]).with_(**SMALL).with_(**CASES[case]).model
    both = train_tokenizer(KINDS[kind], TEXTS)
    module = fresh_model(settings, (len(both), len(both)), "xavier", seed=1)
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in module.parameters():
            weight += 0.2 * torch.randn(weight.shape, generator=random)
    answers = Decoding(**{"max_new_tokens": 9} | decoding)
    config = ModelConfig(task=pretrained_task(settings), name="random", step=1, model=settings, decoding=answers)
    return StoredModel(config, module.eval(), Tokenizers(both, both))


@torch.inference_mode()
def scores(module, rows: list[list[int]]) -> torch.Tensor:
    inputs = Sequences.of(rows)
    return module(Batch(None, inputs, inputs.values, torch.arange(len(rows))))


@pytest.mark.parametrize("case", CASES)
def test_every_score_is_the_same_there_and_back_again(case, tmp_path):
    stored = random_language_model(case)
    write_causal(stored, tmp_path / "hf")
    reference, tokenizer = (each.from_pretrained(tmp_path / "hf") for each in (AutoModelForCausalLM, AutoTokenizer))
    text = "the cat 我有一支笔 sat"
    ids = [BOS, *stored.tokenizers.target.encode(text)]
    assert tokenizer(text).input_ids == ids
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    expected = scores(stored.module, [ids])
    with torch.inference_mode():
        assert_close(reference(torch.tensor([ids])).logits, expected, rtol=0, atol=1e-4)
    back = read_model(tmp_path / "hf", torch.device("cpu"))
    assert back.tokenizers.target.encode(text) == ids[1:]
    assert_close(scores(back.module, [ids]), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", ["write-gpt2", "write-llama"])
def test_answers_are_the_same_there_and_back_again(case, kind, tmp_path):
    stored = random_language_model(case, kind)
    write_causal(stored, tmp_path / "hf")
    reference, tokenizer = (each.from_pretrained(tmp_path / "hf") for each in (AutoModelForCausalLM, AutoTokenizer))
    texts = ["the cat", "我有一支笔，", "def f"]
    actual = open_model(stored).predict(texts)
    read = tokenizer(texts, return_tensors="pt", padding=True)
    found = tokenizer.batch_decode(reference.generate(**read), skip_special_tokens=True)
    assert found == [each.text.replace("<unk>", "") for each in actual]  # they leave out what we show
    assert [each.text for each in load(tmp_path / "hf").predict(texts)] == [each.text for each in actual]


@pytest.mark.parametrize("name", SHAPES)
def test_a_foreign_folder_goes_out_as_it_came_in(name, tmp_path):
    causal_folder(tmp_path / "in", name)
    before = {path.name: sha256(path) for path in (tmp_path / "in").iterdir()}
    assert run(["export", str(tmp_path / "in"), "--to", "hf", "--out", str(tmp_path / "out")]) == 0
    came, went = (load_file(tmp_path / side / "model.safetensors") for side in ("in", "out"))
    assert came.keys() == went.keys()
    assert all(torch.equal(came[weight], went[weight]) for weight in came)
    configs = [json.loads((tmp_path / side / "config.json").read_text()) for side in ("in", "out")]
    changed = {key for key, value in configs[1].items() if configs[0].get(key, value) != value}
    assert changed <= {"dtype", "attn_pdrop", "bos_token_id", "n_inner"}
    assert {path.name: sha256(path) for path in (tmp_path / "in").iterdir()} == before


def test_a_foreign_folder_is_not_written_into(tmp_path, capsys):
    causal_folder(tmp_path / "in", "gpt2")
    assert run(["export", str(tmp_path / "in"), "--to", "hf"]) == 2
    assert "--out" in capsys.readouterr().err
    assert not (tmp_path / "in" / "export").exists()
    assert not (tmp_path / "export").exists()


def test_what_is_printed_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    made = tmp_path / "runs" / "mine"
    made.mkdir(parents=True)
    (made / "recipe.toml").touch()
    write_model(made / "model", random_language_model("write"))
    assert run(["export", "mine", "--to", "hf"]) == 0
    printed = capsys.readouterr().out
    assert "The layout is that of GPT2LMHeadModel." in printed
    assert "the head became untied" in printed
    assert "a table of 32 rows" in printed
    exec(compile(printed.split("\n\n", 1)[1], "example", "exec"), {})
    assert capsys.readouterr().out.startswith("our text")  # there is no y in what it learned from
    assert run(["predict", "runs/mine/export/hf", "the cat"]) == 0


def test_what_the_page_shows_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_causal(random_language_model("write"), Path("runs/write/export/hf"))
    page = (Path(__file__).parents[2] / "docs" / "pretrained.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    exec(compile(shown, "page", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_settings_of_decoding_go_along(tmp_path):
    settings = {"do_sample": True, "temperature": 0.7, "max_new_tokens": 99, "repetition_penalty": 1.2}
    write_causal(random_language_model("write", **settings), tmp_path / "hf")
    generation = json.loads((tmp_path / "hf" / "generation_config.json").read_text())
    assert (generation["do_sample"], generation["temperature"], generation["suppress_tokens"]) == (True, 0.7, [0, 1])
    assert (generation["max_new_tokens"], generation["repetition_penalty"]) == (16, 1.2)  # half of the window
    decoding = load(tmp_path / "hf").config.decoding
    assert (decoding.do_sample, decoding.temperature, decoding.max_new_tokens) == (True, 0.7, 16)


@pytest.mark.parametrize(
    "name, changes, message",
    [
        ("write-alibi", {}, r"positions=alibi.*learned or sinusoidal or none"),
        ("write-lstm", {}, r"decoder\.kind=recurrent"),
        ("write", {"decoder.norm": "batch"}, r"decoder\.norm=batch"),
        ("write", {"decoder.norm_order": "post"}, r"decoder\.norm_order=post"),
        ("write", {"decoder.kv_heads": 2}, r"decoder\.kv_heads=2"),
        ("write", {"target.head": "untied"}, r"target\.head=untied"),
        ("write", {"decoder.activation": "swiglu"}, r"decoder\.activation=swiglu.*GPT2LMHeadModel"),
        ("write-llama", {"decoder.activation": "relu"}, r"decoder\.activation=relu.*LlamaForCausalLM"),
        ("write-llama", {"target.embedding.positions": "learned"}, r"positions=learned"),
    ],
    ids=str,
)
def test_what_cannot_be_held_is_refused_by_the_name_of_its_setting(name, changes, message):
    with pytest.raises(UserError, match=message):
        causal_layout(recipe(name).with_(**changes).model)


def test_what_is_refused_leaves_nothing_behind(tmp_path):
    stored = random_language_model("write")
    refused: list[ModelSettings] = [
        stored.config.model.with_(**{"decoder.norm_order": "post"}),
        stored.config.model.with_(**{"target.suppress_tokens": [0]}),
    ]
    for settings in refused:
        config = stored.config.model_copy(update={"model": settings})
        with pytest.raises(UserError, match=r"norm_order=post|suppress_tokens=\[0\]"):
            FORMATS["hf"].write(StoredModel(config, stored.module, stored.tokenizers), Path(tmp_path / "deep" / "out"))
    assert list(tmp_path.iterdir()) == []
