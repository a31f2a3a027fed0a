"""What the files of a BERT folder say, as settings of ours; what we have no part for is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError, unknown
from seq2see.core.settings import read_tree
from seq2see.interop.bert_layouts import ARCHITECTURES, around
from seq2see.interop.causal_configs import GPT2_THINKS, Config
from seq2see.models.settings import ModelSettings, Vector
from seq2see.sequences.given import AGAIN, Renumbered
from seq2see.sequences.tokenisers import BOS_TEXT, EOS_TEXT, MASK_TEXT, PAD_TEXT, UNK_TEXT

FEWEST = 4
"""Tokens that a text must have room for: <bos>, <eos> and two more."""
# What we have no part for, and the value with which it does nothing; also what is meant where it is not said.
FIXED = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
    "type_vocab_size": 2,
}
BERTS, OURS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]"), (PAD_TEXT, UNK_TEXT, BOS_TEXT, EOS_TEXT)
"""What controls in BERT's vocabularies, and in those of ours that were written as BERT's."""
SUMMARIES = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first"}


def bert_settings(config: Config, folder: Path) -> ModelSettings:
    """BERT's shape, and what it is asked."""
    config.check(FIXED)
    curve = config.get("hidden_act", "gelu")
    if curve not in GPT2_THINKS:
        raise config.refuse("hidden_act", curve, f"there are {', '.join(GPT2_THINKS)}")
    width, places = config.number("hidden_size"), config.number("max_position_embeddings")
    encoder = {
        "kind": "transformer",
        "width": width,
        "depth": config.number("num_hidden_layers"),
        "heads": config.number("num_attention_heads"),
        "expansion": config.number("intermediate_size") / width,
        "epsilon": config.get("layer_norm_eps", 1e-12),
        "order": "post",
        "think": GPT2_THINKS[curve],
        "dropout": config.get("hidden_dropout_prob", 0.1),
    }
    target = _target(config, folder)
    source = {
        "tokeniser": {"kind": "given"},
        "frontend": {"kind": "sentences", "longest": places},
        "longest": min(places, _most(folder) or places) - around(ARCHITECTURES[_head(config)]),
    }
    return read_tree(ModelSettings, {"source": source, "target": target, "encoder": encoder}, where=config.where)


def _head(config: Config) -> str:
    """The name of the architecture, which tells what is asked."""
    name = str((config.get("architectures", None) or ["BertModel"])[0])
    if name not in ARCHITECTURES:
        raise unknown("head that we have", name, ARCHITECTURES, where=config.where)
    return name


def _target(config: Config, folder: Path) -> dict[str, Any]:
    """What is asked, and of what."""
    name = _head(config)
    kind = ARCHITECTURES[name].model_fields["kind"].default
    if ARCHITECTURES[name] is Vector:
        return {"kind": kind, "summary": _summary(folder)}
    if name == "BertForSequenceClassification":
        problem = config.get("problem_type", "single_label_classification")
        if problem != "single_label_classification":
            raise config.refuse("problem_type", problem, "a text has one label here")
        return {"kind": kind, "summary": "first"}
    return {"kind": kind, "word": "first"} if name == "BertForTokenClassification" else {"kind": kind}


def _summary(folder: Path) -> str:
    """Which vector of many stands for the text: sentence encoders tell it in a file of their own; else the mean."""
    path = folder / "1_Pooling" / "config.json"
    told = [name for name, value in _told(path).items() if name.startswith("pooling_mode") and value]
    if len(told) > 1 or not SUMMARIES.keys() >= set(told):
        what = f"We have no part for {' with '.join(told)}."
        raise UserError(what, where=str(path), remedy=f"There are {' and '.join(SUMMARIES)}, one at a time.")
    return SUMMARIES[told[0]] if told else "mean"


def _most(folder: Path) -> int | None:
    """How many tokens a sentence encoder reads, if it reads fewer than it has places."""
    most = _told(folder / "sentence_bert_config.json").get("max_seq_length")
    return most if type(most) is int and most > FEWEST else None


def _told(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f"This cannot be read: {error}.", where=str(path), remedy=AGAIN) from None
    return found if isinstance(found, dict) else {}


def bert_labels(config: Config, count: int) -> tuple[str, ...]:
    """The names of so many labels; a file that does not name them means LABEL_0, LABEL_1 and so on."""
    named = config.table("id2label") or {str(number): f"LABEL_{number}" for number in range(count)}
    labels = tuple(str(named.get(str(number))) for number in range(count))
    if len(named) == count and (strange := [name for name in named if name not in map(str, range(count))]):
        what = f"'id2label' names a label '{strange[0]}', which is no number of a row."
        raise UserError(what, where=config.where, remedy=f"Number the labels from 0 to {count - 1}.")
    if len(named) != count or len(set(labels)) != count or count < 2:
        what = f"There are {count} rows for labels, and the names of {len(set(named.values()))} labels."
        raise UserError(what, where=config.where, remedy="There must be two or more, each with a name of its own.")
    return labels


def bert_numbers(config: Config, known: dict[str, int], size: int) -> Renumbered:
    """Our numbers for their vocabulary: [CLS] is <bos>, [SEP] is <eos>, and [MASK], if it is there, the last."""
    names = OURS if known.keys() >= set(OURS) else BERTS
    for name in names:
        if name not in known:
            remedy = "Put the tokeniser of this model beside its weights."
            raise UserError(f"The tokeniser has no {name}.", where=config.where, remedy=remedy)
    padding, unk, first, last = (known[name] for name in names)
    mask = known.get(MASK_TEXT)
    return Renumbered.of(size, beginning=first, end=last, padding=padding, unknown=unk, mask=mask)
