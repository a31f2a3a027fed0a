"""The configuration files of a BERT folder as model settings; an unsupported option raises an error with its name."""

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
"""The smallest maximum length in tokens: <bos>, <eos> and two more."""
# Options without a counterpart here: the only supported value, which is also the default of a missing key.
REQUIRED_VALUES = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
    "type_vocab_size": 2,
}
BERT_SPECIALS, OWN_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]"), (PAD_TEXT, UNK_TEXT, BOS_TEXT, EOS_TEXT)
"""The special tokens of BERT's vocabularies, and of seq2see's own vocabularies that were exported as BERT's."""
POOLING_MODES = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}


def bert_settings(config: JsonConfig, folder: Path) -> ModelSettings:
    """The model settings of a BERT: encoder, embedding and target."""
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
        "max_tokens": min(max_positions, _max_tokens(folder) or max_positions)
        - num_special_tokens(ARCHITECTURES[_architecture(config)]),
    }
    return read_tree(ModelSettings, {"source": source, "target": target, "encoder": encoder}, location=config.location)


def _architecture(config: JsonConfig) -> str:
    """The name of the architecture, which determines the task."""
    name = str((config.get("architectures", None) or ["BertModel"])[0])
    if name not in ARCHITECTURES:
        raise unknown_name("supported architecture", name, ARCHITECTURES, location=config.location)
    return name


def _target(config: JsonConfig, folder: Path) -> dict[str, Any]:
    """The settings of the target: the task, and the pooling of the hidden states."""
    name = _architecture(config)
    kind = ARCHITECTURES[name].model_fields["kind"].default
    if ARCHITECTURES[name] is EmbeddingTarget:
        return {"kind": kind, "pooling": _pooling(folder)}
    if name == "BertForSequenceClassification":
        problem = config.get("problem_type", "single_label_classification")
        if problem != "single_label_classification":
            raise config.unsupported("problem_type", problem, "only one label per text is supported")
        return {"kind": kind, "pooling": "cls"}
    return {"kind": kind, "word_pooling": "first"} if name == "BertForTokenClassification" else {"kind": kind}


def _pooling(folder: Path) -> str:
    """The pooling mode: sentence encoders store it in `1_Pooling/config.json`; the default is the mean."""
    path = folder / "1_Pooling" / "config.json"
    modes = [name for name, value in _read_json(path).items() if name.startswith("pooling_mode") and value]
    if len(modes) > 1 or not POOLING_MODES.keys() >= set(modes):
        message = f"The pooling {' with '.join(modes)} is not supported."
        raise UserError(message, location=str(path), hint=f"There are {' and '.join(POOLING_MODES)}, one at a time.")
    return POOLING_MODES[modes[0]] if modes else "mean"


def _max_tokens(folder: Path) -> int | None:
    """The maximum length of a sentence encoder in tokens, if it is less than the number of positions."""
    max_tokens = _read_json(folder / "sentence_bert_config.json").get("max_seq_length")
    return max_tokens if type(max_tokens) is int and max_tokens > MIN_TOKENS else None


def _read_json(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f"This cannot be read: {error}.", location=str(path), hint=DOWNLOAD_AGAIN) from None
    return content if isinstance(content, dict) else {}


def bert_labels(config: JsonConfig, count: int) -> tuple[str, ...]:
    """The names of `count` labels; without `id2label` they are LABEL_0, LABEL_1 and so on."""
    id2label = config.table("id2label") or {str(number): f"LABEL_{number}" for number in range(count)}
    labels = tuple(str(id2label.get(str(number))) for number in range(count))
    if len(id2label) == count and (unknown := [name for name in id2label if name not in map(str, range(count))]):
        message = f"'id2label' has the key '{unknown[0]}', which is not the index of a label."
        raise UserError(message, location=config.location, hint=f"Number the labels from 0 to {count - 1}.")
    if len(id2label) != count or len(set(labels)) != count or count < 2:
        message = f"There are {count} rows for labels, and the names of {len(set(id2label.values()))} labels."
        hint = "There must be two or more, each with a name of its own."
        raise UserError(message, location=config.location, hint=hint)
    return labels


def bert_token_ids(config: JsonConfig, vocabulary: dict[str, int], size: int) -> TokenIdMap:
    """The map of token ids: [CLS] is <bos>, [SEP] is <eos>, and [MASK], if there is one, has the last id."""
    names = OWN_SPECIALS if vocabulary.keys() >= set(OWN_SPECIALS) else BERT_SPECIALS
    for name in names:
        if name not in vocabulary:
            hint = "Put the tokenizer of this model into the folder of its weights."
            raise UserError(f"The tokenizer has no {name}.", location=config.location, hint=hint)
    pad_id, unk_id, cls_id, sep_id = (vocabulary[name] for name in names)
    mask_id = vocabulary.get(MASK_TEXT)
    return TokenIdMap.of(size, bos_id=cls_id, eos_id=sep_id, pad_id=pad_id, unk_id=unk_id, mask_id=mask_id)
