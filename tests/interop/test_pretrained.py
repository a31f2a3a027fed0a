"""Reading a Hugging Face folder: what is refused, by which name, and that the folder is only read."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from causal_folders import causal_folder, change_config
from seq2see.cli.app import run
from seq2see.cli.predict import interactive
from seq2see.core.errors import UserError
from seq2see.core.files import sha256
from seq2see.interop import pretrained
from seq2see.interop.pretrained import read_pretrained
from seq2see.metrics.perplexity import Accuracy, Perplexity
from seq2see.runs import evaluate
from seq2see.runs.evaluate import evaluate_texts
from seq2see.runs.load import load, read_model
from seq2see.tasks import generative
from seq2see.tasks.model import TextAttention
from seq2see.tasks.model_folder import fingerprint_of, write_model


@pytest.fixture
def gpt2(tmp_path: Path) -> Path:
    causal_folder(tmp_path / "gpt2", "gpt2")
    return tmp_path / "gpt2"


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    causal_folder(tmp_path / "llama", "llama")
    return tmp_path / "llama"


def with_weights(folder: Path, change) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def test_a_text_is_continued(gpt2, capsys):
    assert run(["predict", str(gpt2), "the cat", "我有"]) == 0
    first, second = capsys.readouterr().out.split("\n")[:2]
    assert first.startswith("the cat")
    assert second.startswith("我有")
    assert len(first) > len("the cat")


def test_dots_continue_the_whole_text(gpt2, monkeypatch):
    model, asked, typed = load(gpt2), [], iter(["the cat", "...", ""])
    monkeypatch.setattr("builtins.input", lambda prompt: next(typed))
    monkeypatch.setattr(model, "stream", lambda text, **settings: asked.append(text) or iter([" sat"]))
    interactive(model, {"prefix": ""})
    assert asked == ["the cat", "the cat sat"]


def test_attention_weights_are_shown(gpt2):
    shown = TextAttention.of(load(gpt2).trace("the", " cat"))
    assert shown.source[0] == "<bos>"
    assert "".join(shown.target) == "the▁cat"
    assert len(shown.weights) == 2
    assert shown.weights[0].shape[-2:] == (len(shown.target), len(shown.source))


def test_answers_go_to_a_file_and_the_folder_stays_as_it_was(gpt2, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = {path.name: sha256(path) for path in gpt2.iterdir()}
    (tmp_path / "new.txt").write_text("the cat\n\na dog\n", encoding="utf-8")
    options = ["--set", "decoding.max_new_tokens=2", "--set", "decoding.num_beams=4"]
    assert run(["predict", "gpt2", "--file", "new.txt", "--out", "answers.txt", *options]) == 0
    assert len((tmp_path / "answers.txt").read_text(encoding="utf-8").split("\n")) >= 3
    assert {path.name: sha256(path) for path in gpt2.iterdir()} == before


def test_the_fingerprint_is_of_every_file(gpt2):
    first = fingerprint_of(gpt2)
    assert fingerprint_of(gpt2) == first
    with_weights(gpt2, lambda tensors: tensors["transformer.wpe.weight"].add_(1))
    assert fingerprint_of(gpt2) != first


def test_the_fingerprint_is_of_texts_too(gpt2):
    (gpt2 / "merges.txt").write_text("a b\n")
    before = fingerprint_of(gpt2)
    (gpt2 / "merges.txt").write_text("b a\n")
    assert fingerprint_of(gpt2) != before


def test_files_of_a_killed_write_are_ignored(gpt2, tmp_path):
    (tmp_path / ".model.tmp").mkdir()
    (tmp_path / ".model.tmp" / "half.safetensors").write_bytes(b"torn")
    write_model(tmp_path / "model", read_model(gpt2, torch.device("cpu")))
    assert not (tmp_path / "model" / "half.safetensors").exists()


def test_the_folders_own_ways_of_decoding_hold(gpt2):
    generation = {"do_sample": True, "temperature": 0.5, "max_new_tokens": 3, "length_penalty": 2.0, "unheard_of": 1}
    generation |= {"early_stopping": True, "repetition_penalty": 1.1}  # these mean something else there
    (gpt2 / "generation_config.json").write_text(json.dumps(generation))
    decoding = load(gpt2).config.decoding
    assert (decoding.do_sample, decoding.temperature, decoding.max_new_tokens) == (True, 0.5, 3)
    assert (decoding.length_penalty.kind, decoding.early_stopping, decoding.repetition_penalty) == ("none", False, 1.0)
    (gpt2 / "generation_config.json").write_text('{"temperature": -1.0}')
    with pytest.raises(UserError, match=r"generation_config\.json.*temperature"):
        load(gpt2)


def test_names_without_their_body_are_those_of_the_first_gpt2(gpt2):
    expected = load(gpt2).score("the", " cat")

    def bare(tensors):
        for name in list(tensors):
            tensors[name.removeprefix("transformer.")] = tensors.pop(name)
        tensors["h.0.attn.bias"] = torch.ones(1, 1, 40, 40)  # a mask that is not used

    with_weights(gpt2, bare)
    assert load(gpt2).score("the", " cat") == expected


def test_a_head_that_is_stored_although_it_is_tied_is_left_alone(gpt2):
    expected = load(gpt2).score("the", " cat")
    with_weights(gpt2, lambda tensors: tensors.update({"lm_head.weight": torch.zeros(289, 24)}))
    assert load(gpt2).score("the", " cat") == expected


def test_stored_masks_and_frequencies_are_ignored(gpt2, llama):
    for folder, names in (
        (gpt2, ("transformer.h.0.attn.bias", "transformer.h.1.attn.masked_bias")),
        (llama, ("model.layers.0.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq")),
    ):
        expected = load(folder).score("the", " cat")
        with_weights(folder, lambda tensors, names=names: tensors.update({name: torch.ones(3) for name in names}))
        assert load(folder).score("the", " cat") == expected


def test_vocabulary_and_merges_will_do(gpt2):
    expected = load(gpt2).tokenizers.target.encode("the cat 你好")
    content = json.loads((gpt2 / "tokenizer.json").read_text(encoding="utf-8"))
    (gpt2 / "tokenizer.json").unlink()
    (gpt2 / "vocab.json").write_text(json.dumps(content["model"]["vocab"]), encoding="utf-8")
    merges = "".join(" ".join(merge) + "\n" for merge in content["model"]["merges"])
    (gpt2 / "merges.txt").write_text("#version: 0.2\n" + merges, encoding="utf-8")
    assert load(gpt2).tokenizers.target.encode("the cat 你好") == expected


class TestRefused:
    @pytest.mark.parametrize(
        "name, shape, message",
        [
            ("transformer.h.1.mlp.c_fc.weight", (24, 95), r"c_fc\.weight' is 24 x 95, but .* 24 x 96"),
            ("transformer.h.0.attn.c_attn.bias", (71,), r"c_attn\.bias' is 71, but .* 72"),
            ("transformer.wpe.weight", (39, 24), r"wpe\.weight' is 39 x 24, but .* 40 x 24"),
        ],
    )
    def test_a_weight_of_another_shape_before_anything_is_built(self, gpt2, monkeypatch, name, shape, message):
        with_weights(gpt2, lambda tensors: tensors.update({name: torch.zeros(shape)}))
        monkeypatch.setattr(pretrained, "build_model", lambda *given: pytest.fail("something was built"))
        with pytest.raises(UserError, match=message):
            read_pretrained(gpt2)

    def test_a_weight_that_is_missing(self, llama):
        with_weights(llama, lambda tensors: tensors.pop("model.layers.1.self_attn.k_proj.weight"))
        with pytest.raises(UserError, match=r"k_proj\.weight' \(24 x 24\) is missing"):
            read_pretrained(llama)

    def test_a_head_of_its_own_that_is_missing(self, llama):
        with_weights(llama, lambda tensors: tensors.pop("lm_head.weight"))
        with pytest.raises(UserError, match=r"lm_head\.weight' .* is missing"):
            read_pretrained(llama)

    def test_an_unexpected_weight(self, gpt2):
        with_weights(gpt2, lambda tensors: tensors.update({"score.weight": torch.zeros(2, 24)}))
        with pytest.raises(UserError, match=r"'score\.weight' is not part of the model.*belong to different models"):
            read_pretrained(gpt2)

    def test_a_config_that_is_no_json(self, gpt2, capsys):
        (gpt2 / "config.json").write_text('{"model_type": "gpt2", ')
        assert run(["predict", str(gpt2), "the cat"]) == 2
        assert re.search(r"config\.json: .*cannot be read.*Get the file again", capsys.readouterr().err, re.DOTALL)

    @pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "last.ckpt"])
    def test_pickles_with_a_remedy(self, gpt2, name):
        (gpt2 / "model.safetensors").rename(gpt2 / name)
        with pytest.raises(UserError, match=rf"{name} is a pickle.*save_pretrained"):
            read_pretrained(gpt2)

    def test_a_folder_without_weights(self, gpt2):
        (gpt2 / "model.safetensors").unlink()
        with pytest.raises(UserError, match=r"no model\.safetensors"):
            read_pretrained(gpt2)

    def test_a_file_that_is_cut_off(self, gpt2):
        whole = (gpt2 / "model.safetensors").read_bytes()
        (gpt2 / "model.safetensors").write_bytes(whole[:-100])
        with pytest.raises(UserError, match=r"model\.safetensors: These weights cannot be read"):
            read_pretrained(gpt2)

    @pytest.mark.parametrize("name", ["../other.safetensors", "gone.safetensors"])
    def test_an_index_that_leads_elsewhere(self, gpt2, name):
        (gpt2 / "model.safetensors").rename(gpt2.parent / "other.safetensors")
        (gpt2 / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
        with pytest.raises(UserError, match=r"index\.json.*not in this folder\. Put all files"):
            read_pretrained(gpt2)

    @pytest.mark.parametrize(
        "content, message",
        [
            ("{", "cannot be read: Expecting"),
            ("[]", "no table 'weight_map'"),
            ("{}", "no table 'weight_map'"),
            ('{"weight_map": ["a"]}', "no table 'weight_map'"),
            ('{"weight_map": {"a": {}}}', "no table 'weight_map'"),
        ],
    )
    def test_an_index_that_is_broken(self, gpt2, content, message):
        (gpt2 / "model.safetensors").unlink()
        (gpt2 / "model.safetensors.index.json").write_text(content)
        with pytest.raises(UserError, match=rf"index\.json: This index .*{message}.*Get the file again"):
            read_pretrained(gpt2)

    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_weights_that_are_no_numbers(self, gpt2, value):
        with_weights(gpt2, lambda tensors: tensors["transformer.ln_f.weight"][5:6].fill_(value))
        with pytest.raises(UserError, match=r"'transformer\.ln_f\.weight' has a value that is not finite"):
            read_pretrained(gpt2)

    def test_weights_in_whole_numbers(self, gpt2):
        def rounded(tensors):
            tensors["transformer.ln_f.weight"] = tensors["transformer.ln_f.weight"].to(torch.int8)

        with_weights(gpt2, rounded)
        with pytest.raises(UserError, match=r"'transformer\.ln_f\.weight' has integers \(int8\).*Give"):
            read_pretrained(gpt2)

    def test_merges_that_are_no_text(self, gpt2):
        (gpt2 / "tokenizer.json").unlink()
        (gpt2 / "vocab.json").write_text("{}")
        (gpt2 / "merges.txt").write_bytes(b"\xff\xfe")
        with pytest.raises(UserError, match=r"merges\.txt: This vocabulary cannot be read"):
            read_pretrained(gpt2)

    @pytest.mark.parametrize(
        "changes, message",
        [
            ({"model_type": "roberta"}, r"'roberta' is not supported; there are gpt2, llama, bert, vit, deit\. Give"),
            ({"model_type": "distilbert"}, r"model_type 'distilbert' is not supported"),
            ({"n_embd": None}, "no 'n_embd'"),
            ({"n_head": "three"}, "'n_head' is 'three'"),
            ({"n_layer": 0}, "'n_layer' is 0"),
            ({"n_head": 5}, "multiple of twice its 5 heads"),
            ({"activation_function": "silu"}, "activation_function='silu'"),
            ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx=True"),
            ({"scale_attn_weights": False}, "scale_attn_weights=False"),
            ({"add_cross_attention": True}, "add_cross_attention=True"),
            ({"vocab_size": 100}, "the embedding has 100 rows"),
            ({"eos_token_id": 290}, "'eos_token_id' is 290"),
            (
                {"tie_word_embeddings": "yes"},
                "'tie_word_embeddings' is 'yes', but it must be true or false.*Write true",
            ),
            ({"quantization_config": {"bits": 4}}, "'quantization_config' here.*Give the model without quantization"),
        ],
        ids=str,
    )
    def test_unsupported_gpt2_configs(self, gpt2, changes, message):
        change_config(gpt2, **changes)
        with pytest.raises(UserError, match=rf"config\.json.*{message}"):
            read_pretrained(gpt2)

    @pytest.mark.parametrize(
        "changes, message",
        [
            ({"hidden_act": "gelu"}, "hidden_act='gelu'"),
            ({"mlp_bias": True}, "mlp_bias=True"),
            ({"attention_bias": "no"}, "'attention_bias' is 'no', but it must be true or false"),
            ({"head_dim": 8}, "head_dim=8"),
            ({"rope_parameters": None, "rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_type='linear'"),
            ({"rope_parameters": None, "rope_scaling": "yarn"}, "'rope_scaling' is 'yarn', but it should be a table"),
            ({"num_key_value_heads": 3}, "must divide its 4 heads"),
        ],
        ids=str,
    )
    def test_unsupported_llama_configs(self, llama, changes, message):
        change_config(llama, **changes)
        with pytest.raises(UserError, match=rf"config\.json.*{message}"):
            read_pretrained(llama)

    def test_no_token_to_begin_with(self, gpt2):
        content = (gpt2 / "tokenizer.json").read_text(encoding="utf-8")
        (gpt2 / "tokenizer.json").write_text(content.replace("<|endoftext|>", "<|other|>"), encoding="utf-8")
        change_config(gpt2, bos_token_id=None, eos_token_id=None)
        with pytest.raises(UserError, match="neither a bos_token_id nor an eos_token_id"):
            read_pretrained(gpt2)

    @pytest.mark.parametrize("content", ["{", "[]", '{"version": "1.0"}', '{"model": {"type": "Magic"}}'])
    def test_a_tokenizer_that_is_none(self, gpt2, content):
        (gpt2 / "tokenizer.json").write_text(content)
        with pytest.raises(UserError, match=r"tokenizer\.json.*Get the file again"):
            read_pretrained(gpt2)

    def test_a_folder_without_tokenizer(self, gpt2):
        (gpt2 / "tokenizer.json").unlink()
        with pytest.raises(UserError, match=r"neither tokenizer\.json"):
            read_pretrained(gpt2)


def test_older_files_name_the_base_of_the_angles_by_itself(llama):
    expected = load(llama).score("the", " cat")
    change_config(llama, rope_parameters=None, rope_theta=10_000.0)
    assert load(llama).score("the", " cat") == expected
    change_config(llama, rope_theta=50.0)
    assert load(llama).score("the", " cat") != expected
    assert load(llama).config.model.decoder.rope_theta == 50.0


def test_a_token_that_the_tokenizer_puts_first_begins_every_text(llama):
    content = json.loads((llama / "tokenizer.json").read_text(encoding="utf-8"))
    text, first = {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "!", "type_id": 0}}
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [first, text],
        "pair": [first, text],
        "special_tokens": {"!": {"id": "!", "ids": [content["model"]["vocab"]["!"]], "tokens": ["!"]}},
    }
    (llama / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    assert load(llama).tokenizers.target.id_map.bos_id == content["model"]["vocab"]["!"]


class TestEval:
    def test_a_text_evaluates_pretrained_weights(self, gpt2, llama, tmp_path, capsys):
        book = tmp_path / "book.txt"
        book.write_text("the cat sat on the mat\n我有一支笔\n" * 9, encoding="utf-8")
        assert run(["eval", str(gpt2), str(llama), "--file", str(book)]) == 0
        first, second, last = capsys.readouterr().out.strip().split("\n")
        assert last == "perplexities with different tokenizers are not comparable; compare bits per character"
        assert first.startswith(f"{gpt2}: perplexity ")
        assert second.startswith(f"{llama}: perplexity ")
        assert "bits per character" in first
        assert not (gpt2 / "eval").exists()
        assert run(["eval", str(gpt2), str(gpt2), "--file", str(book)]) == 0
        assert "cannot be compared" not in capsys.readouterr().out

    def test_its_perplexity_is_that_of_its_scores(self, gpt2, tmp_path):
        book = tmp_path / "book.txt"
        book.write_text("the cat sat\n", encoding="utf-8")
        model = load(gpt2)
        scores = evaluate_texts(model, [book])["perplexity"]
        count = len(model.tokenizers.target.encode("the cat sat\n"))
        assert math.log(scores["per_token"]) * count == pytest.approx(-model.score("", "the cat sat\n"), abs=1e-4)
        assert scores["bits_per_character"] * 12 * math.log(2) == pytest.approx(
            -model.score("", "the cat sat\n"), abs=1e-4
        )

    def test_token_accuracy_is_in_per_cent(self, gpt2, tmp_path, monkeypatch):
        (tmp_path / "book.txt").write_text("the cat sat\n", encoding="utf-8")
        found = Perplexity(2.0, 4, "token", 12), Accuracy(1, 4)
        monkeypatch.setattr(generative, "evaluate_teacher_forced", lambda module, texts, watch: found)
        assert evaluate_texts(load(gpt2), [tmp_path / "book.txt"])["perplexity"]["token_accuracy"] == 25

    def test_a_window_is_no_wider_than_memory_allows(self, gpt2, tmp_path, monkeypatch):
        (tmp_path / "book.txt").write_text("the cat sat on the mat\n", encoding="utf-8")
        monkeypatch.setattr(evaluate, "MAX_WINDOW", 5)
        widths = []
        monkeypatch.setattr(
            generative, "evaluate_teacher_forced", lambda module, texts, watch: widths.append(texts.width) or 1 / 0
        )
        with pytest.raises(ZeroDivisionError):
            evaluate_texts(load(gpt2), [tmp_path / "book.txt"])
        assert widths == [5]

    def test_evaluation_needs_a_text(self, gpt2, capsys):
        assert run(["eval", str(gpt2)]) == 2
        assert f"seq2see eval {gpt2} --file book.txt" in capsys.readouterr().err

    def test_memory_is_for_as_many_rows_as_fit(self, gpt2, tmp_path, monkeypatch):
        book = tmp_path / "book.txt"
        book.write_text("the cat sat on the mat\n" * 60, encoding="utf-8")
        model = load(gpt2)
        expected = evaluate_texts(model, [book])["perplexity"]["per_token"]
        rows = []
        watched = model.module.register_forward_pre_hook(lambda module, inputs: rows.append(len(inputs[0].labels)))
        monkeypatch.setattr(generative, "MAX_SCORES", 2 * 40 * len(model.tokenizers.target))
        assert evaluate_texts(model, [book])["perplexity"]["per_token"] == pytest.approx(expected)
        watched.remove()
        assert max(rows) == 2

    def test_settings_that_would_not_matter_are_refused(self, gpt2, capsys):
        assert run(["eval", str(gpt2), "--file", "book.txt", "--set", "decoding.num_beams=4"]) == 2
        assert "Leave out --set" in capsys.readouterr().err
