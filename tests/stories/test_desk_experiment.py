"""The desk experiment of Transformer² on tiny settings: every row is measured once, and the tables follow from them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaForCausalLM

from causal_folders import perturb_weights, small_config

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ '<|im_end|>' + '\\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import transformer2

    return transformer2


def tiny(desk, **changes):
    sizes = {"seeds": 2, "tasks": ("add", "sort"), "tested": ("add", "sort", "descend"), "rates": (1e-3,), "size": 60,
             "steps": {"cross-entropy": 2, "rewards": 1}, "batch_tokens": {"cross-entropy": 128, "rewards": 48},
             "test_questions": 4, "shots": 2, "mixing_rounds": 1, "check_every": 1,
             "base": {"training.steps": 2, "training.batch_tokens": 128, "decoder.width": 16, "decoder.heads": 2,
                      "decoder.depth": 1, "corpus.size": 60, "decoding.max_new_tokens": 3}}  # fmt: skip
    return desk.Setting(**sizes | changes)


@pytest.mark.long
def test_the_rows_of_a_tiny_desk_become_tables(desk, tmp_path, monkeypatch):
    monkeypatch.setattr(desk, "METHODS", {
        name: desk.Method(desk.LoRA(rank=2) if "LoRA" in name else method.adapter, method.objective)
        for name, method in desk.METHODS.items()
    })  # fmt: skip
    setting = tiny(desk)
    desk.Experiment(setting, tmp_path).run()
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "rows").iterdir()}
    desk.Experiment(setting, tmp_path).run()
    assert times == {path: path.stat().st_mtime_ns for path in (tmp_path / "rows").iterdir()}
    desk.Tables(desk.read_rows(tmp_path), setting).write(tmp_path / "results.json")
    tables = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["tables"]
    assert [row["method"] for row in tables["learning"]["rows"] if row["task"] == "sort"] == [
        "base model",
        *desk.METHODS,
    ]
    weights = {row["method"]: row.get("weights") for row in tables["learning"]["rows"] if row["task"] == "sort"}
    assert weights["SVF, cross-entropy"] < weights["LoRA r = 8, cross-entropy"] < weights["all weights, cross-entropy"]
    answered = [row["answered by"] for row in tables["dispatch"]["rows"]]
    assert answered == ["base model", "expert add", "expert sort", "prompt", "classifier", "few-shot",
                        "few-shot, per matrix", "oracle"]  # fmt: skip
    assert len(tables["claims"]["rows"]) == 15
    assert {len(row["add"]) for row in tables["mixtures"]["rows"]} == {2}


def small_language_model(folder: Path) -> Path:
    """A random Llama with ChatML, in place of SmolLM2."""
    library = Tokenizer(models.BPE())
    library.pre_tokenizer, library.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=270, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    library.train_from_iterator(["sort 1 2 3"], trainer)
    folder.mkdir()
    library.save(str(folder / "tokenizer.json"))
    torch.manual_seed(0)
    config = small_config(
        "llama", library.get_vocab_size(), bos_token_id=1, eos_token_id=2, max_position_embeddings=160
    )
    perturb_weights(LlamaForCausalLM(config)).save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(CHATML, encoding="utf-8")
    return folder


@pytest.mark.long
def test_a_pretrained_language_model_takes_the_place_of_the_base_models(desk, tmp_path, monkeypatch):
    monkeypatch.setattr(desk, "METHODS", {
        name: desk.METHODS[name] for name in ("SVF, cross-entropy", "SVF, REINFORCE")
    })  # fmt: skip
    setting = tiny(desk, seeds=1, real=small_language_model(tmp_path / "model"), test_questions=1, shots=1,
                   batch_tokens={"cross-entropy": 200, "rewards": 150})  # fmt: skip
    base, _ = desk.desk_base(setting, 1, tmp_path)
    monkeypatch.setattr(desk, "desk_base", lambda *arguments: (short_replies(base), "fingerprint"))
    desk.Experiment(setting, tmp_path).run()
    rows = desk.read_rows(tmp_path)
    assert {row["method"] for row in rows if "method" in row} == {"base", *desk.METHODS}
    assert [row["rewards"] for row in rows if row.get("method") == "SVF, REINFORCE" and "rewards" in row]
    assert desk.real_setting(Path("model.gguf")).real == Path("model.gguf")


def short_replies(stored):
    config = stored.config.model_copy(update={"decoding": stored.config.decoding.with_(max_new_tokens=3)})
    return type(stored)(config, stored.module, stored.tokenizers)


def test_intervals_and_verdicts_by_hand(desk):
    assert desk.interval([1.0, 2.0, 3.0]) == {"mean": 2.0, "low": -0.48, "high": 4.48}  # 2 ± 4.303 · 1 / √3
    assert desk.verdict([2.0, 2.5, 3.0])["verdict"] == "holds"
    assert desk.verdict([-2.0, -2.5, -3.0])["verdict"] == "does not hold"
    assert desk.verdict([-2.0, 2.5, 3.0])["verdict"] == "undecided at this size"
    assert desk.verdict([2.0])["verdict"] == "undecided at this size"
