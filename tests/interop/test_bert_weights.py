"""BERT folders: masked tokens are predicted, texts get embeddings, and errors name what does not fit."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from bert_folders import bert_folder
from causal_folders import causal_folder, change_config
from seq2see.cli.app import run
from seq2see.core.errors import UserError
from seq2see.interop.pretrained import read_pretrained
from seq2see.runs.load import load


@pytest.fixture
def fill(tmp_path):
    bert_folder(tmp_path / "fill", "fill")
    return tmp_path / "fill"


@pytest.fixture
def body(tmp_path):
    bert_folder(tmp_path / "body", "body")
    return tmp_path / "body"


def with_weights(folder, change) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file(change(tensors), folder / "model.safetensors")


def test_masks_are_filled_with_the_most_probable_token(fill, capsys):
    assert run(["predict", str(fill), "The CAT [MASK] on the mat", "我有一[MASK]笔"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert re.match(r"the cat ?[^ ]+ on the mat\t", first)
    assert "[MASK]" not in first + second
    model = load(fill)
    guess = model("the cat [MASK] on the mat", top_k=0).candidates[0]
    assert sum(choice.probability for choice in guess) <= 1 + 1e-5
    assert len(guess) == len(model.tokenizers.source) - 5  # neither what controls nor [MASK] itself


def test_a_text_without_mask_is_refused(fill, capsys):
    assert run(["predict", str(fill), "the cat sat"]) == 2
    assert "[MASK]" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name, text, answer", [("label", "the cat", {"good", "坏", "so-so"}), ("tags", "猫 cat", None)]
)
def test_labels_have_their_names(tmp_path, name, text, answer):
    bert_folder(tmp_path / name, name)
    found = load(tmp_path / name)(text)
    if answer:
        assert found.text in answer
        assert {choice.text for choice in found.candidates[0]} == answer
    else:
        assert re.fullmatch(r"猫/(O|[BI]-\w+) cat/(O|[BI]-\w+)", found.text)


def test_vectors_are_of_length_one_and_stand_in_the_order_of_the_texts(body, tmp_path, capsys):
    texts = ["the cat", "a dog ran after the cats", "the cat", "我有一支笔"]
    assert run(["embed", str(body), *texts]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[1] for row in rows] == texts
    table = np.array([[float(each) for each in row[0].split()] for row in rows])
    assert np.allclose(table, table.T)
    assert table[0, 2] == pytest.approx(1, abs=1e-3)
    assert table[0, 1] < 0.999
    (tmp_path / "texts.txt").write_text("\n".join([texts[1], "", texts[0]]) + "\n", encoding="utf-8")
    assert run(["embed", str(body), "--file", str(tmp_path / "texts.txt"), "--out", str(tmp_path / "v.npy")]) == 0
    stored = np.load(tmp_path / "v.npy", allow_pickle=False)
    assert stored.dtype == np.float32
    assert np.linalg.norm(stored, axis=1) == pytest.approx([1, 0, 1], abs=1e-5)
    assert stored[0] @ stored[2] == pytest.approx(table[0, 1], abs=1e-3)
    assert "an empty text has an embedding of zeros" in capsys.readouterr().err
    assert run(["embed", str(body), "--json", "我有一支笔"]) == 0
    captured = capsys.readouterr()
    output = json.loads(captured.out)
    assert "an empty text" not in captured.err
    assert output["text"] == "我有一支笔"
    assert len(output["embedding"]) == 24


def test_an_invisible_text_has_a_zero_embedding(body, capsys):
    assert run(["embed", str(body), "--json", "the cat", "\u200b\ufeff"]) == 0
    captured = capsys.readouterr()
    lengths = [np.linalg.norm(json.loads(line)["embedding"]) for line in captured.out.splitlines()]
    assert lengths == pytest.approx([1, 0], abs=1e-5)
    assert "an embedding of zeros" in captured.err


def test_a_masked_language_model_embeds_texts_too(fill):
    alone, together = load(fill).embed(["the cat"]), load(fill).embed(["a dog ran after the cats", "the cat"])
    assert alone[0] == pytest.approx(together[1], abs=1e-5)


def test_the_pooling_config_is_followed(body):
    mean = load(body).embed(["the cat"])
    (body / "1_Pooling").mkdir()
    pooling_config = body / "1_Pooling" / "config.json"
    pooling_config.write_text(json.dumps({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}))
    (body / "sentence_bert_config.json").write_text('{"max_seq_length": 12}')
    model = load(body)
    assert model.config.model.source.max_tokens == 10
    first = model.embed(["the cat"])
    assert np.abs(first - mean).max() > 0.01
    for max_length in (3, 1000, "12", True):  # too few for a text, more than there are places, or no number at all
        (body / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": max_length}))
        assert load(body).config.model.source.max_tokens == 38
    (body / "sentence_bert_config.json").write_text("[]")
    assert load(body).config.model.source.max_tokens == 38
    both = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}
    for strange in ({"pooling_mode_max_tokens": True}, {"pooling_mode": "lasttoken"}, both):
        pooling_config.write_text(json.dumps(strange))
        with pytest.raises(UserError, match=" with ".join(strange)):
            load(body)


def test_a_config_that_names_no_architecture_is_of_a_body_alone(body):
    change_config(body, architectures=None)
    assert read_pretrained(body).settings.target.kind == "embedding"


@pytest.mark.parametrize("name, max_tokens", [("fill", 38), ("fill and pairs", 37)])
def test_what_stands_around_texts_has_room_too(tmp_path, name, max_tokens):
    bert_folder(tmp_path / "it", name)
    assert read_pretrained(tmp_path / "it").settings.source.max_tokens == max_tokens


def test_models_without_embeddings_are_refused(body, tmp_path, capsys):
    causal_folder(tmp_path / "gpt2", "gpt2")
    assert run(["embed", str(tmp_path / "gpt2"), "the cat"]) == 2
    assert "this is a generative model" in capsys.readouterr().err
    assert run(["embed", str(body), *["the cat"] * 21]) == 2
    assert "--out embeddings.npy" in capsys.readouterr().err
    assert run(["embed", str(body), "the cat", "--out", "v.csv"]) == 2
    assert ".npy" in capsys.readouterr().err
    assert run(["predict", str(body), "the cat"]) == 2
    assert "seq2see embed" in capsys.readouterr().err


def test_the_first_names_of_norms_are_known(fill):
    expected = load(fill)("the [MASK]").candidates
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}

    def with_legacy_names(tensors):
        for new, name in old.items():
            tensors = {key.replace(new, name): tensor for key, tensor in tensors.items()}
        return tensors

    with_weights(fill, with_legacy_names)
    assert not any("LayerNorm.weight" in name for name in load_file(fill / "model.safetensors"))
    assert load(fill)("the [MASK]").candidates == expected


def test_unused_heads_are_ignored(fill):
    expected = load(fill)("the [MASK] sat").candidates
    heads = ("bert.pooler.dense", "cls.predictions.decoder", "cls.seq_relationship")
    more = {f"{name}.{part}": torch.ones(2) for name in heads for part in ("weight", "bias")}
    more["bert.embeddings.position_ids"] = torch.arange(40)
    with_weights(fill, lambda tensors: tensors | more)
    assert load(fill)("the [MASK] sat").candidates == expected
    with_weights(fill, lambda tensors: tensors | {"bert.adapter.weight": torch.zeros(2)})
    with pytest.raises(UserError, match=r"bert\.adapter\.weight.*not part"):
        read_pretrained(fill)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"hidden_act": "silu"}, "hidden_act='silu'"),
        ({"position_embedding_type": "relative_key"}, "relative_key"),
        ({"type_vocab_size": 1}, "type_vocab_size=1"),
        ({"is_decoder": True}, "is_decoder"),
        ({"add_cross_attention": True}, "add_cross_attention"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings"),
        ({"architectures": ["BertForQuestionAnswering"]}, "BertForQuestionAnswering"),
        ({"architectures": ["BertForTokenClassification"]}, "labels"),
        ({"max_position_embeddings": 41}, "position_embeddings.*40 x 24.*41 x 24"),
        ({"vocab_size": 7}, "the embedding has 7 rows"),
        ({"intermediate_size": None}, "intermediate_size"),
        ({"model_type": "roberta"}, "roberta"),
    ],
    ids=str,
)
def test_unsupported_configs_are_refused_by_name(fill, changes, message):
    change_config(fill, **changes)
    with pytest.raises(UserError, match=message):
        read_pretrained(fill)


def test_a_text_with_several_labels_is_refused(tmp_path):
    bert_folder(tmp_path / "it", "label")
    change_config(tmp_path / "it", problem_type="multi_label_classification")
    with pytest.raises(UserError, match="multi_label_classification"):
        read_pretrained(tmp_path / "it")
    change_config(tmp_path / "it", problem_type=None, id2label={"0": "good", "1": "good", "2": "bad"})
    with pytest.raises(UserError, match="3 rows for labels"):
        read_pretrained(tmp_path / "it")
    change_config(tmp_path / "it", id2label={"0": "good", "1": "so-so", "worst": "bad"})
    with pytest.raises(UserError, match=r"has the key 'worst', .*Number the labels from 0 to 2\."):
        read_pretrained(tmp_path / "it")
    change_config(tmp_path / "it", id2label=["good", "so-so", "bad"])
    with pytest.raises(UserError, match=r"'id2label' is \['good', 'so-so', 'bad'\], but it should be a table"):
        read_pretrained(tmp_path / "it")


@pytest.mark.parametrize("name", ["[CLS]", "[MASK]"])
def test_a_vocabulary_without_what_controls_is_refused(fill, name):
    path = fill / "tokenizer.json"
    path.write_text(path.read_text(encoding="utf-8").replace(name, f"{name[:-1]}2]"), encoding="utf-8")
    with pytest.raises(
        UserError, match=rf"{re.escape(name)}.*Put the tokenizer of this model into the folder of its weights"
    ):
        read_pretrained(fill)
