"""What the files of a BERT folder say, as settings of ours; what we have no part for is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError, unknown_name
from seq2see.core.settings import read_tree
from seq2see.interop.bert_layouts import ARCHITECTURES, num_special_tokens
from seq2see.interop.causal_configs import HF_ACTIVATIONS, JsonConfig
from seq2see.models.settings import EmbeddingTarget, ModelSettings
from seq2see.sequences.pretrained_tokenizer import DOWNLOAD_AGAIN, TokenIdMap
from seq2see.sequences.tokenizers import BOS_TEXT, EOS_TEXT, MASK_TEXT, PAD_TEXT, UNK_TEXT

MIN_TOKENS = 4
"""Tokens that a text must have room for: <bos>, <eos> and two more."""
# What we have no part for, and the value with which it does nothing; also what is meant where it is not said.
REQUIRED_VALUES = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
    "type_vocab_size": 2,
}
BERT_SPECIALS, OWN_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]"), (PAD_TEXT, UNK_TEXT, BOS_TEXT, EOS_TEXT)
"""What controls in BERT's vocabularies, and in those of ours that were written as BERT's."""
POOLING_MODES = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}


def bert_settings(config: JsonConfig, folder: Path) -> ModelSettings:
    """BERT's shape, and what it is asked."""
    config.check(REQUIRED_VALUES)
    activation = config.get("hidden_act", "gelu")
    if activation not in HF_ACTIVATIONS:
        raise config.unsupported("hidden_act", activation, f"there are {', '.join(HF_ACTIVATIONS)}")
    width, max_positions = config.positive_int("hidden_size"), config.positive_int("max_position_embeddings")
    encoder = {
        "kind": "transformer",
        "width": width,
        "depth": config.positive_int("num_hidden_layers"),
        "heads": config.positive_int("num_attention_heads"),
        "mlp_ratio": config.positive_int("intermediate_size") / width,
        "norm_eps": config.get("layer_norm_eps", 1e-12),
        "norm_order": "post",
        "activation": HF_ACTIVATIONS[activation],
        "dropout": config.get("hidden_dropout_prob", 0.1),
    }
    target = _target(config, folder)
    source = {
        "tokenizer": {"kind": "pretrained"},
        "embedding": {"kind": "bert", "max_positions": max_positions},
        "max_tokens": min(max_positions, _max_seq_length(folder) or max_positions)
        - num_special_tokens(ARCHITECTURES[_architecture(config)]),
    }
    return read_tree(ModelSettings, {"source": source, "target": target, "encoder": encoder}, location=config.location)


def _architecture(config: JsonConfig) -> str:
    """The name of the architecture, which tells what is asked."""
    name = str((config.get("architectures", None) or ["BertModel"])[0])
    if name not in ARCHITECTURES:
        raise unknown_name("head that we have", name, ARCHITECTURES, location=config.location)
    return name


def _target(config: JsonConfig, folder: Path) -> dict[str, Any]:
    """What is asked, and of what."""
    name = _architecture(config)
    kind = ARCHITECTURES[name].model_fields["kind"].default
    if ARCHITECTURES[name] is EmbeddingTarget:
        return {"kind": kind, "pooling": _pooling(folder)}
    if name == "BertForSequenceClassification":
        problem = config.get("problem_type", "single_label_classification")
        if problem != "single_label_classification":
            raise config.unsupported("problem_type", problem, "a text has one label here")
        return {"kind": kind, "pooling": "cls"}
    return {"kind": kind, "word_pooling": "first"} if name == "BertForTokenClassification" else {"kind": kind}


def _pooling(folder: Path) -> str:
    """Which vector of many stands for the text: sentence encoders tell it in a file of their own; else the mean."""
    path = folder / "1_Pooling" / "config.json"
    modes = [name for name, value in _read_json(path).items() if name.startswith("pooling_mode") and value]
    if len(modes) > 1 or not POOLING_MODES.keys() >= set(modes):
        what = f"We have no part for {' with '.join(modes)}."
        raise UserError(what, location=str(path), hint=f"There are {' and '.join(POOLING_MODES)}, one at a time.")
    return POOLING_MODES[modes[0]] if modes else "mean"


def _max_seq_length(folder: Path) -> int | None:
    """How many tokens a sentence encoder reads, if it reads fewer than it has places."""
    max_seq_length = _read_json(folder / "sentence_bert_config.json").get("max_seq_length")
    return max_seq_length if type(max_seq_length) is int and max_seq_length > MIN_TOKENS else None


def _read_json(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f"This cannot be read: {error}.", location=str(path), hint=DOWNLOAD_AGAIN) from None
    return found if isinstance(found, dict) else {}


def bert_labels(config: JsonConfig, count: int) -> tuple[str, ...]:
    """The names of so many labels; a file that does not name them means LABEL_0, LABEL_1 and so on."""
    named = config.table("id2label") or {str(number): f"LABEL_{number}" for number in range(count)}
    labels = tuple(str(named.get(str(number))) for number in range(count))
    if len(named) == count and (strange := [name for name in named if name not in map(str, range(count))]):
        what = f"'id2label' names a label '{strange[0]}', which is no number of a row."
        raise UserError(what, location=config.location, hint=f"Number the labels from 0 to {count - 1}.")
    if len(named) != count or len(set(labels)) != count or count < 2:
        what = f"There are {count} rows for labels, and the names of {len(set(named.values()))} labels."
        raise UserError(what, location=config.location, hint="There must be two or more, each with a name of its own.")
    return labels


def bert_token_ids(config: JsonConfig, vocabulary: dict[str, int], size: int) -> TokenIdMap:
    """Our numbers for their vocabulary: [CLS] is <bos>, [SEP] is <eos>, and [MASK], if it is there, the last."""
    names = OWN_SPECIALS if vocabulary.keys() >= set(OWN_SPECIALS) else BERT_SPECIALS
    for name in names:
        if name not in vocabulary:
            hint = "Put the tokenizer of this model beside its weights."
            raise UserError(f"The tokenizer has no {name}.", location=config.location, hint=hint)
    padding, unk, first, last = (vocabulary[name] for name in names)
    mask = vocabulary.get(MASK_TEXT)
    return TokenIdMap.of(size, bos_id=first, eos_id=last, pad_id=padding, unk_id=unk, mask_id=mask)
