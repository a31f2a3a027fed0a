"""Models that only read, exported in the layout of BERT: `transformers` opens them, and so do we."""

from __future__ import annotations

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch.testing import assert_close
from transformers import AutoTokenizer

from bert_folders import SHAPES, bert_folder
from seq2see.cli.app import run
from seq2see.core.batch import Batch, Sequences, WordSequences
from seq2see.core.errors import UserError
from seq2see.data.tokenizers.tokenizer import BOS, BPE, EOS, Characters, add_mask_token, train_tokenizer
from seq2see.interop.formats import FORMATS
from seq2see.interop.hugging_face_bert import bert_layout, write_bert
from seq2see.models.build import fresh_model
from seq2see.recipes.registry import recipe
from seq2see.runs.load import load, open_model, read_model
from seq2see.tasks.model_folder import Candidates, ModelConfig, StoredModel, Tokenizers
from seq2see.tasks.task import pretrained_task

TEXTS = ["the cat sat on the mat. ", "我有一支笔，你有一本书。", "def f(x): return x + 1\n"] * 20
READ = ["the cat", "我有一支笔，你有一本书。 the mat", "x"]
KINDS = {"characters": Characters(), "bpe": BPE(vocab_size=330)}
BERT = {"source.embedding": {"kind": "bert"}, "encoder.norm_order": "post", "source.max_tokens": 32}
SMALL = {"encoder.width": 24, "encoder.depth": 2, "encoder.heads": 3}
CASES = {
    "fill-bert": {},
    "fill-bert, fewer places than times": {"source.embedding.max_positions": 5, "encoder.activation": "gelu"},
    "fill": {"encoder.activation": "relu", "encoder.mlp_ratio": 1.3, "encoder.norm_eps": 1e-2},
    "classify-text": {"target.pooling": "cls"},
    "tag": {"encoder": {"kind": "transformer"}, "target.word_pooling": "first"},
}
LABELS = ("O", "坏", "good")


def random_encoder_model(case: str, kind: str = "bpe") -> StoredModel:
    """A model that is random; no bias is 0 and no norm weight is 1, so that a missing weight is noticed."""
    chosen, changes = recipe(case.split(",")[0]), CASES[case]
    if "encoder" in changes:
        chosen = chosen.with_(**{"encoder.kind": "transformer"})
    settings = chosen.with_(**BERT).with_(**SMALL).with_(**{k: v for k, v in changes.items() if k != "encoder"}).model
    both, is_masked = train_tokenizer(KINDS[kind], TEXTS), settings.target.kind.startswith("masked-tokens")
    both = add_mask_token(both) if is_masked else both
    tokenizers = Tokenizers(both, both, () if is_masked else LABELS)
    module = fresh_model(settings, tokenizers.sizes, "xavier", seed=1)
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in module.parameters():
            weight += 0.2 * torch.randn(weight.shape, generator=random)
    config = ModelConfig(
        task=pretrained_task(settings), name=case, step=1, model=settings, prediction=Candidates(top_k=5)
    )
    return StoredModel(config, module.eval(), tokenizers)


def scores(stored: StoredModel, rows: list[list[int]]) -> torch.Tensor:
    source = Sequences.of(rows)
    if stored.config.model.target.kind == "tags":
        words = torch.arange(source.values.size(1)).expand_as(source.values)
        source = WordSequences(source.values, source.lengths, words)
    return stored.module(Batch(source, None, source.values, torch.arange(len(rows))))


@torch.inference_mode()
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_score_is_the_same_there_and_when_read_back(case, kind, tmp_path):
    stored = random_encoder_model(case, kind)
    write_bert(stored, tmp_path / "hf")
    architecture = bert_layout(stored.config.model)
    reference = getattr(transformers, architecture).from_pretrained(tmp_path / "hf").eval()
    inputs = AutoTokenizer.from_pretrained(tmp_path / "hf")(READ, padding=True, return_tensors="pt")
    rows = [[BOS, *stored.tokenizers.source.encode(text), EOS] for text in READ]
    lengths = [len(row) for row in rows]
    assert [ids[:length].tolist() for ids, length in zip(inputs["input_ids"], lengths, strict=True)] == rows
    assert inputs["attention_mask"].sum(1).tolist() == lengths
    expected, found = reference(**inputs), scores(stored, rows)
    logits = expected.prediction_logits if "prediction_logits" in expected else expected.logits
    first = int("seq_relationship_logits" in expected)
    if first:
        assert_close(found[:, 0, :2], expected.seq_relationship_logits.flip(-1), rtol=0, atol=1e-4)
    if logits.dim() == 2:
        assert_close(found[:, 0], logits, rtol=0, atol=1e-4)
    else:
        for row, length in enumerate(lengths):
            assert_close(found[row, first:length], logits[row, first:length], rtol=0, atol=1e-4)
    back = read_model(tmp_path / "hf", torch.device("cpu"))
    again = [[BOS, *back.tokenizers.source.encode(text), EOS] for text in READ]
    assert again == rows  # our own numbers go out and come back unchanged
    assert_close(scores(back, again), found, rtol=0, atol=1e-4)
    assert back.tokenizers.labels == stored.tokenizers.labels


def test_masks_are_tokenized_alike(tmp_path):
    stored = random_encoder_model("fill-bert")
    write_bert(stored, tmp_path / "hf")
    text = "the [MASK] sat on[MASK] mat"
    actual, back = open_model(stored), load(tmp_path / "hf")
    ids = actual.task.encode(stored, text).ids
    assert AutoTokenizer.from_pretrained(tmp_path / "hf")(text)["input_ids"] == ids
    assert back.task.encode(back.stored, text).ids == ids
    assert ids.count(stored.tokenizers.source.mask_id) == 2
    for first, second in zip(actual(text).candidates, back(text).candidates, strict=True):
        assert [choice.text for choice in first] == [choice.text for choice in second]


@pytest.mark.parametrize("name", [name for name, (_, changes) in SHAPES.items() if "more" not in changes])
def test_pretrained_weights_round_trip(name, tmp_path):
    bert_folder(tmp_path / "in", name)
    assert run(["export", str(tmp_path / "in"), "--to", "hf", "--out", str(tmp_path / "out")]) == 0
    before, after = (load_file(tmp_path / each / "model.safetensors") for each in ("in", "out"))
    assert {key for key in before.keys() - after.keys() if not key.startswith("pooler.")} == set()
    for key, tensor in after.items():
        assert torch.equal(tensor, before[key]), key
    cut = [AutoTokenizer.from_pretrained(tmp_path / "out")(text)["input_ids"] for text in READ]
    actual = load(tmp_path / "in").tokenizers.source
    assert cut == [[actual.id_map.original_ids[each] for each in [BOS, *actual.encode(text), EOS]] for text in READ]


@pytest.mark.parametrize(
    "name, changes, message",
    [
        ("fill", {}, r"source\.embedding\.kind=tokens.*fill-bert"),
        ("fill-bert", {"encoder.norm_order": "pre"}, r"encoder\.norm_order=pre"),
        ("fill-bert", {"encoder.norm": "rms"}, r"encoder\.norm=rms"),
        ("fill-bert", {"encoder.activation": "swiglu"}, r"encoder\.activation=swiglu"),
        ("fill-bert", {"encoder.kv_heads": 2}, r"encoder\.kv_heads=2"),
        ("fill-bert", {"encoder.bias": False}, r"encoder\.bias=false"),
        ("classify-text-gru", {}, r"encoder\.kind=recurrent"),
        ("classify-text", BERT, r"target\.pooling=encoder.*target\.pooling=cls"),
        ("tag", {}, r"encoder\.kind=recurrent"),
        ("sst2-minilm", {}, r"target\.pooling=encoder"),
    ],
    ids=str,
)
def test_what_cannot_be_held_is_refused_by_the_name_of_its_setting(name, changes, message):
    with pytest.raises(UserError, match=message):
        bert_layout(recipe(name).with_(**changes).model)


def test_what_is_refused_leaves_nothing_behind(tmp_path):
    stored = random_encoder_model("fill-bert")
    config = stored.config.model_copy(update={"model": stored.config.model.with_(**{"encoder.norm": "rms"})})
    with pytest.raises(UserError, match="rms"):
        FORMATS["hf"].write(StoredModel(config, stored.module, stored.tokenizers), tmp_path / "deep" / "out")
    assert list(tmp_path.iterdir()) == []


def test_the_example_that_is_shown_works(tmp_path, capsys):
    stored = random_encoder_model("fill-bert")
    FORMATS["hf"].write(stored, tmp_path / "hf")
    assert "BertForPreTraining" in FORMATS["hf"].notes(stored)[0]
    exec(compile(FORMATS["hf"].example(stored, tmp_path / "hf"), "example", "exec"), {})
    assert "tensor" in capsys.readouterr().out
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert config["architectures"] == ["BertForPreTraining"]
