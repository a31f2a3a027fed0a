"""Which tokens begin, end and replace unknown words, from the various files of a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bert_folders import bert_folder
from causal_folders import causal_folder, change_config
from seq2see.core.errors import UserError
from seq2see.data.tokenizers.tokenizer import EOS, PAD, UNK
from seq2see.interop.pretrained import read_pretrained


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    causal_folder(tmp_path / "it", "llama")
    return tmp_path / "it"


def change_tokenizer(folder: Path, change) -> None:
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def size_of(folder: Path) -> int:
    return json.loads((folder / "config.json").read_text())["vocab_size"]


def test_of_several_tokens_that_end_a_text_the_first_counts(folder):
    change_config(folder, eos_token_id=[7, 3])
    assert read_pretrained(folder).tokenizer.id_map.original_ids[EOS] == 7


def test_minus_one_is_no_token(folder):
    change_config(folder, pad_token_id=-1)
    assert read_pretrained(folder).tokenizer.id_map.original_ids[PAD] is None


@pytest.mark.parametrize("wrong", [2.0, "7", -2])
def test_what_is_no_number_of_a_token_is_refused(folder, wrong):
    change_config(folder, pad_token_id=wrong)
    with pytest.raises(UserError, match=r"'pad_token_id' is .*not a token id"):
        read_pretrained(folder)


def test_the_first_number_behind_the_table_is_refused(folder):
    change_config(folder, pad_token_id=size_of(folder))
    with pytest.raises(UserError, match="not a token id"):
        read_pretrained(folder)


def test_a_tokenizer_with_one_token_too_many_is_refused(folder):
    size, flags = size_of(folder), dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = {"id": size, "content": "<more>", **flags, "special": True}
    change_tokenizer(folder, lambda content: content["added_tokens"].append(added))
    with pytest.raises(UserError, match=f"has the token id {size:,}, but the embedding has {size:,} rows"):
        read_pretrained(folder)


def test_eos_stands_in_for_a_missing_bos(folder):
    change_tokenizer(folder, lambda content: content.update(json.loads(json.dumps(content).replace("<|end", "<|"))))
    change_config(folder, bos_token_id=None, eos_token_id=3)
    assert read_pretrained(folder).tokenizer.id_map.bos_id == 3


def test_bos_is_found_in_a_processor_sequence(folder):
    first, text = {"SpecialToken": {"id": "!", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    number = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]["!"]
    special = {"!": {"id": "!", "ids": [number], "tokens": ["!"]}}
    puts = {"type": "TemplateProcessing", "single": [first, text], "pair": [first, text], "special_tokens": special}
    bytes_ = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    steps = {"type": "Sequence", "processors": [bytes_, puts]}  # as Llama 3 has it
    change_tokenizer(folder, lambda content: content.update(post_processor=steps))
    assert read_pretrained(folder).tokenizer.id_map.bos_id == number


def test_a_unigram_model_names_unk_by_id(folder):
    def unigram(content) -> None:
        tokens = sorted(content["model"]["vocab"], key=content["model"]["vocab"].get)
        scored = [[token, -float(number)] for number, token in enumerate(tokens)]
        content["model"] = {"type": "Unigram", "unk_id": 5, "vocab": scored}

    change_tokenizer(folder, unigram)
    assert read_pretrained(folder).tokenizer.id_map.original_ids[UNK] == 5


@pytest.mark.parametrize("name, count", [("fill", 5), ("fill and pairs", 5), ("tags", 1), ("label", 0)])
def test_default_top_k(tmp_path, name, count):
    bert_folder(tmp_path / "it", name)
    assert read_pretrained(tmp_path / "it").decoding.top_k == count
