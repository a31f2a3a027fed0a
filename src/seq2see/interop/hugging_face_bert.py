"""BERT of Hugging Face, in both directions: options, weight names, and the export of encoder-only models of text.

The encoder is the same for all tasks; the name of the architecture determines the head. The layout is fixed: learned
embeddings of token, position and segment, post-norm, and heads on <bos> or on each token. An unsupported option raises
an error with its name, and so does, before anything is written, a setting that BERT does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from seq2see.core.documents import load_json
from seq2see.core.errors import UserError, unknown_name
from seq2see.core.files import atomic_folder, write_bytes, write_json
from seq2see.core.settings import Settings, read_tree
from seq2see.data.tokenizers.pretrained_tokenizer import DOWNLOAD_AGAIN, PretrainedTokenizer, TokenIdMap
from seq2see.data.tokenizers.tokenizer import (
    BOS,
    BOS_TEXT,
    EOS,
    EOS_TEXT,
    MASK_TEXT,
    PAD,
    PAD_TEXT,
    UNK,
    UNK_TEXT,
    Tokenizer,
)
from seq2see.interop.checkpoint_files import HF_ACTIVATIONS, JsonConfig, WeightMapping, norm_mappings
from seq2see.interop.exportable import ExportableModel, position_table, setting_text, unsupported
from seq2see.interop.hugging_face_files import ENGINE, identity_ids, labels_json, stack_json
from seq2see.models.build import named_tensors
from seq2see.models.settings import (
    BertEmbeddingSettings,
    EmbeddingTarget,
    Label,
    MaskedTokensNSPTarget,
    MaskedTokensTarget,
    ModelSettings,
    Tags,
)
from seq2see.models.transformer import TransformerSettings

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
        raise UserError(message, location=str(path), hint=f"Use one of {', '.join(POOLING_MODES)}.")
    return POOLING_MODES[modes[0]] if modes else "mean"


def _max_tokens(folder: Path) -> int | None:
    """The maximum length of a sentence encoder in tokens, if it is less than the number of positions."""
    max_tokens = _read_json(folder / "sentence_bert_config.json").get("max_seq_length")
    return max_tokens if type(max_tokens) is int and max_tokens > MIN_TOKENS else None


def _read_json(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        content = load_json(path)
    except (OSError, ValueError) as error:
        raise UserError(f"This file cannot be read: {error}.", location=str(path), hint=DOWNLOAD_AGAIN) from None
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


BASE_MODEL_PREFIX = "bert."
"""The prefix of the encoder's weight names; an encoder that was saved without a head does not have it."""

IGNORED_SUFFIXES = (
    "position_ids",
    "predictions.decoder.weight",
    "predictions.decoder.bias",
    "pooler.dense.weight",
    "pooler.dense.bias",
    "seq_relationship.weight",
    "seq_relationship.bias",
)
"""Suffixes of weights that are not read: buffers, copies of tied weights, and unused heads."""

ARCHITECTURES: dict[str, type[Settings]] = {
    "BertForMaskedLM": MaskedTokensTarget,
    "BertForPreTraining": MaskedTokensNSPTarget,
    "BertForSequenceClassification": Label,
    "BertForTokenClassification": Tags,
    "BertModel": EmbeddingTarget,
}


def bert_mappings(settings: ModelSettings, size: int, num_labels: int) -> Iterator[WeightMapping]:
    """A BERT (Devlin et al. 2019) with `size` tokens, and with `num_labels` labels if it predicts labels."""
    yield from _embeddings(settings, size)
    stack = encoder_settings_of(settings)
    width, hidden = stack.width, stack.feed_forward_width
    for number in range(stack.depth):
        key, external = f"encoder.blocks.{number}", f"{BASE_MODEL_PREFIX}encoder.layer.{number}"
        qkv = tuple(f"{external}.attention.self.{name}" for name in ("query", "key", "value"))
        for part, names, out_features, in_features in (
            ("self_attention.qkv_proj", qkv, width, width),
            ("self_attention.out_proj", (f"{external}.attention.output.dense",), width, width),
            ("feed_forward.up_proj", (f"{external}.intermediate.dense",), hidden, width),
            ("feed_forward.down_proj", (f"{external}.output.dense",), width, hidden),
        ):
            yield from _linear(f"{key}.{part}", names, out_features, in_features)
        yield from norm_mappings(f"{key}.self_attention_residual.norm", f"{external}.attention.output.LayerNorm", width)
        yield from norm_mappings(f"{key}.feed_forward_residual.norm", f"{external}.output.LayerNorm", width)
    yield from _head(settings, size, num_labels)


def _embeddings(settings: ModelSettings, size: int) -> Iterator[WeightMapping]:
    width, prefix = encoder_settings_of(settings).width, f"{BASE_MODEL_PREFIX}embeddings"
    assert settings.source is not None
    assert isinstance(settings.source.embedding, BertEmbeddingSettings)
    words, max_positions = f"{prefix}.word_embeddings.weight", settings.source.embedding.max_positions
    yield WeightMapping("source.table.weight", (words,), ((size, width),), is_vocabulary_table=True)
    yield WeightMapping(
        "source.positions.embedding.weight", (f"{prefix}.position_embeddings.weight",), ((max_positions, width),)
    )
    yield WeightMapping(
        "source.token_type_embedding.weight", (f"{prefix}.token_type_embeddings.weight",), ((2, width),)
    )
    yield from norm_mappings("source.norm", f"{prefix}.LayerNorm", width)


def _head(settings: ModelSettings, size: int, num_labels: int) -> Iterator[WeightMapping]:
    width, target = encoder_settings_of(settings).width, settings.target
    if isinstance(target, MaskedTokensTarget | MaskedTokensNSPTarget):
        inner = "head.tokens" if isinstance(target, MaskedTokensNSPTarget) else "head"
        yield WeightMapping(f"{inner}.bias", ("cls.predictions.bias",), ((size,),), is_vocabulary_table=True)
        yield from _linear("transform.project", ("cls.predictions.transform.dense",), width, width)
        yield from norm_mappings("transform.norm", "cls.predictions.transform.LayerNorm", width)
    if isinstance(target, MaskedTokensNSPTarget | Label):
        yield from _linear("pooler", (f"{BASE_MODEL_PREFIX}pooler.dense",), width, width)
    if isinstance(target, MaskedTokensNSPTarget):  # in BERT, class 0 means "is the next sentence"
        yield WeightMapping(
            "head.next_sentence.project.weight", ("cls.seq_relationship.weight",), ((2, width),), flip=True
        )
        yield WeightMapping("head.next_sentence.project.bias", ("cls.seq_relationship.bias",), ((2,),), flip=True)
    if isinstance(target, Label | Tags):
        yield from _linear("head.project", ("classifier",), num_labels, width)


def _linear(key: str, external: tuple[str, ...], out_features: int, in_features: int) -> Iterator[WeightMapping]:
    """A linear layer; several external layers are concatenated along the output features."""
    yield WeightMapping(
        f"{key}.weight", tuple(f"{name}.weight" for name in external), ((out_features, in_features),) * len(external)
    )
    yield WeightMapping(f"{key}.bias", tuple(f"{name}.bias" for name in external), ((out_features,),) * len(external))


def num_special_tokens(target: type[Settings]) -> int:
    """The number of special tokens of an input: one <bos>, and an <eos> after each text."""
    return 3 if target is MaskedTokensNSPTarget else 2


def encoder_settings_of(settings: ModelSettings) -> TransformerSettings:
    """The settings of the encoder, which must be a Transformer."""
    assert isinstance(settings.encoder, TransformerSettings)
    return settings.encoder


# --- export ---


# The supported values of each setting, and a hint how to train such a model; another value raises an error.
SUPPORTED_TEXTS: dict[str, tuple[tuple[Any, ...], str]] = {
    "encoder.kind": (("transformer",), ""),
    "source.embedding.kind": (("bert",), "The recipe fill-bert has this value."),
    "encoder.norm_order": (("post",), "The recipe fill-bert has this value."),
    "encoder.norm": (("layer",), ""),
    "encoder.activation": (tuple(dict.fromkeys(HF_ACTIVATIONS.values())), ""),
    "encoder.bias": ((True,), ""),
    "encoder.kv_heads": ((0,), ""),
}


def bert_layout(settings: ModelSettings) -> str:
    """The class of `transformers` for a model with these settings; an unsupported setting raises an error."""
    supported = dict(SUPPORTED_TEXTS)
    if settings.encoder is None:
        raise unsupported(ENGINE, "numbers instead of tokens", "there is no layout for series")
    if isinstance(settings.target, Label):
        supported["target.pooling"] = (("cls",), "Train it with `--set target.pooling=cls`.")
    if isinstance(settings.target, Tags):
        supported["target.word_pooling"] = (("first",), "Train it with `--set target.word_pooling=first`.")
    for path, (values, hint) in supported.items():
        value: Any = settings
        for name in path.split("."):
            value = getattr(value, name)
        if value not in values:
            raise unsupported(
                ENGINE, f"{path}={setting_text(value)}", f"it is {' or '.join(map(setting_text, values))} in BERT", hint
            )
    architecture = next((name for name, target in ARCHITECTURES.items() if type(settings.target) is target), None)
    if architecture is None:
        raise unsupported(ENGINE, f"target.kind={settings.target.kind}", "there is no layout for it")
    return architecture


def write_bert(stored: ExportableModel, folder: Path) -> None:
    """Write a folder for the class of `transformers` that `bert_layout` returns."""
    settings = stored.config.model
    architecture, text = bert_layout(settings), stored.tokenizers.source
    labels = stored.tokenizers.labels
    id_map = text.id_map if isinstance(text, PretrainedTokenizer) else identity_ids(len(text))
    if id_map.missing:
        raise UserError("The layout of BERT needs a vocabulary with <pad>, <bos>, <eos> and <unk>.")
    layout_settings = _with_all_positions(settings)
    with atomic_folder(folder) as temporary:
        padding = {"pad_token_id": id_map.original_ids[PAD], "architectures": [architecture]}
        write_json(temporary / "config.json", _text_config(layout_settings, len(text), labels) | padding)
        _write_tokenizer(text, temporary, _max_positions(layout_settings))
        weights = _weights(stored.module, layout_settings)
        exported: dict[str, Tensor] = {}
        for mapping in bert_mappings(layout_settings, len(text), len(labels)):
            weight = weights[mapping.key]
            exported |= mapping.to_external(id_map.restore_rows(weight) if mapping.is_vocabulary_table else weight)
        if architecture == "BertModel":  # the names of an encoder without a head have no prefix
            exported = {name.removeprefix(BASE_MODEL_PREFIX): tensor for name, tensor in exported.items()}
        write_bytes(temporary / "model.safetensors", save(exported, metadata={"format": "pt"}))


def _with_all_positions(settings: ModelSettings) -> ModelSettings:
    """The settings with one position embedding for each position of the longest text: BERT shares none."""
    needed = settings.source_text.max_tokens + num_special_tokens(type(settings.target))
    return settings.with_(**{"source.embedding.max_positions": max(_max_positions(settings), needed)})


def _max_positions(settings: ModelSettings) -> int:
    assert settings.source is not None
    assert isinstance(settings.source.embedding, BertEmbeddingSettings)
    return settings.source.embedding.max_positions


@torch.no_grad()
def _weights(module: Any, layout_settings: ModelSettings) -> dict[str, Tensor]:
    weights = {name: tensor.float().cpu().clone() for name, tensor in named_tensors(module).items()}
    return weights | {
        "source.positions.embedding.weight": position_table(module.source, _max_positions(layout_settings))
    }


def _text_config(settings: ModelSettings, size: int, labels: tuple[str, ...]) -> dict[str, Any]:
    embeddings = {"max_position_embeddings": _max_positions(settings), "type_vocab_size": 2}
    kind = {"model_type": "bert", "vocab_size": size, "tie_word_embeddings": True}
    return {**kind, **stack_json(encoder_settings_of(settings)), **embeddings, **labels_json(labels)}


def _write_tokenizer(text: Tokenizer, folder: Path, max_length: int) -> None:
    """Write the tokenizer; one of seq2see adds <bos> and <eos> to each text, a pretrained one is unchanged."""
    text.save(folder / "tokenizer.json")
    names = dict(
        zip(("pad", "cls", "sep", "unk"), (text.token_name(number) for number in _special_ids(text)), strict=True)
    )
    if not isinstance(text, PretrainedTokenizer):
        document = load_json(folder / "tokenizer.json")
        write_json(
            folder / "tokenizer.json", document | {"post_processor": _post_processor()} | _with_mask(document, text)
        )
    if text.has_mask:
        names["mask"] = MASK_TEXT
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **{f"{name}_token": content for name, content in names.items()},
            "model_max_length": max_length,
            "padding_side": "right",
            "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
            "clean_up_tokenization_spaces": False,
            # The name of a special token in a text is plain text, but a model for masked tokens must find [MASK].
            "split_special_tokens": not text.has_mask,
        },
    )


def _special_ids(text: Tokenizer) -> list[int]:
    """The ids of the four special tokens in the file."""
    special_ids = (PAD, BOS, EOS, UNK)
    if not isinstance(text, PretrainedTokenizer):
        return list(special_ids)
    return [number for number in (text.id_map.original_ids[each] for each in special_ids) if number is not None]


def _with_mask(document: dict[str, Any], text: Tokenizer) -> dict[str, Any]:
    """The added token [MASK], which includes the space before it if the tokens of words begin with a space."""
    if not text.has_mask:
        return {}
    flags = {"single_word": False, "lstrip": text.mask_lstrip, "rstrip": False, "normalized": False}
    mask = {"id": text.mask_id, "content": MASK_TEXT, **flags, "special": True}
    return {"added_tokens": [*document["added_tokens"], mask]}


def _post_processor() -> dict[str, Any]:
    """`<bos> A <eos>`, or `<bos> A <eos> B <eos>` in two sentences."""
    first, second = ({"Sequence": {"id": letter, "type_id": number}} for number, letter in enumerate("AB"))
    bos, eos = ({"SpecialToken": {"id": name, "type_id": 0}} for name in (BOS_TEXT, EOS_TEXT))
    second_eos = {"SpecialToken": {"id": EOS_TEXT, "type_id": 1}}
    specials = ((BOS_TEXT, BOS), (EOS_TEXT, EOS))
    return {
        "type": "TemplateProcessing",
        "single": [bos, first, eos],
        "pair": [bos, first, eos, second, second_eos],
        "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]} for name, number in specials},
    }
