"""Loading pretrained models from Hugging Face folders into seq2see's own layers.

No code of the folder is executed: `config.json` holds the architecture, safetensors files hold the weights, and the
`tokenizers` library runs the tokenizer. The folder is only read.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2see.core.documents import load_json
from seq2see.core.errors import UserError
from seq2see.core.settings import read_tree
from seq2see.data.tokenizers.pretrained_tokenizer import (
    DOWNLOAD_AGAIN,
    PretrainedTokenizer,
    TokenIdMap,
    read_pretrained_tokenizer,
)
from seq2see.data.tokenizers.tokenizer import MASK_TEXT, Tokenizer
from seq2see.decoding.engine import Decoding
from seq2see.interop.checkpoint_files import (
    JsonConfig,
    SafetensorsFiles,
    TensorReader,
    WeightMapping,
    is_timm,
    match_weights,
)
from seq2see.interop.hugging_face_bert import (
    BASE_MODEL_PREFIX,
    IGNORED_SUFFIXES,
    bert_labels,
    bert_mappings,
    bert_settings,
    bert_token_ids,
)
from seq2see.interop.hugging_face_causal import LAYOUTS, SETTINGS
from seq2see.interop.vit_weights import ViTCheckpoint, google_vit, hugging_face_vit, timm_vit, vit_model
from seq2see.models.build import build_model, load_named_tensors
from seq2see.models.encoder_model import EncoderModel
from seq2see.models.language_model import LanguageModel
from seq2see.models.settings import Label, ModelSettings, Tags

VITS = ("vit", "deit")
END_OF_TEXT = "<|endoftext|>"
DEFAULT_MAX_NEW_TOKENS = 64
"""The default of `max_new_tokens`."""
DEFAULT_TOP_K = {"masked-tokens": 5, "masked-tokens-nsp": 5, "tags": 1}
"""The default of `top_k` for encoder-only models, by the kind of target."""


@dataclass(frozen=True)
class PretrainedModel:
    """A pretrained model in seq2see's layers, with its settings, tokenizer and labels."""

    settings: ModelSettings
    decoding: Decoding
    module: LanguageModel | EncoderModel
    tokenizer: Tokenizer
    labels: tuple[str, ...] = ()


def read_pretrained(folder: Path) -> PretrainedModel:
    """The model in a Hugging Face folder, or in one of timm's."""
    config = JsonConfig(_read_json(folder / "config.json"), str(folder / "config.json"))
    if config.get("quantization_config", None):
        message = "There is a 'quantization_config' here, but quantized weights are supported in GGUF files only."
        hint = "Give the model without quantization, in float32, float16 or bfloat16."
        raise UserError(message, location=config.location, hint=hint)
    if is_timm(config.tree):
        return _vit(timm_vit(config, SafetensorsFiles(folder)))
    kind, model_types = config.require("model_type"), (*LAYOUTS, "bert", *VITS)
    if kind not in model_types:
        # No suggestion by similar names: RoBERTa, DistilBERT and GPT-J differ from BERT and GPT-2.
        message = f"The model_type '{kind}' is not supported; there are {', '.join(model_types)}."
        raise UserError(message, location=config.location, hint="Give a folder of one of these.")
    weights = SafetensorsFiles(folder)
    if kind in VITS:
        return _vit(hugging_face_vit(folder, config, weights))
    if kind == "bert":
        return _bert(folder, config, weights, read_pretrained_tokenizer(folder))
    return build_pretrained(str(kind), config, weights, read_pretrained_tokenizer(folder), _decoding(folder))


def read_npz(path: Path) -> PretrainedModel:
    """The ViT in an npz file of Google's."""
    return _vit(google_vit(path))


def _vit(checkpoint: ViTCheckpoint) -> PretrainedModel:
    module, pixels, decoding = vit_model(checkpoint)
    return PretrainedModel(checkpoint.settings, decoding, module, pixels, checkpoint.labels)


def _bert(folder: Path, config: JsonConfig, weights: TensorReader, tokenizer: dict[str, Any]) -> PretrainedModel:
    """The encoder-only model in a folder of BERT."""
    settings, size, vocabulary = (
        bert_settings(config, folder),
        config.positive_int("vocab_size"),
        _vocabulary(tokenizer),
    )
    _check_size(config, vocabulary, size)
    id_map, labels = bert_token_ids(config, vocabulary, size), tuple[str, ...]()
    if settings.target.kind.startswith("masked-tokens") and id_map.mask_id is None:
        hint = "Put the tokenizer of this model into the folder of its weights."
        message = f"The tokenizer has no {MASK_TEXT}, which a masked language model needs."
        raise UserError(message, location=config.location, hint=hint)
    if isinstance(settings.target, Label | Tags):
        labels = bert_labels(config, weights.shapes().get("classifier.bias", (0,))[0])
    mappings = list(bert_mappings(settings, size, len(labels)))
    names = match_weights(weights, mappings, BASE_MODEL_PREFIX, IGNORED_SUFFIXES)
    text = PretrainedTokenizer(tokenizer, id_map)
    module = build_model(settings, len(text), len(labels or text))
    _load_weights(module, mappings, names, weights, id_map)
    top_k = {"top_k": DEFAULT_TOP_K[settings.target.kind]} if settings.target.kind in DEFAULT_TOP_K else {}
    decoding = read_tree(Decoding, {"max_new_tokens": 1} | top_k, location=config.location)
    return PretrainedModel(settings, decoding, module.eval(), text, labels)


def build_pretrained(
    kind: str, config: JsonConfig, weights: TensorReader, tokenizer: dict[str, Any], decoding: Decoding
) -> PretrainedModel:
    """A model from its config, weights and `tokenizer.json`; the shapes of all weights are checked first."""
    id_map = _token_ids(config, tokenizer)
    settings, layout = SETTINGS[kind](config, id_map.missing), LAYOUTS[kind]
    mappings = list(layout.mappings(settings, config.positive_int("vocab_size")))
    names = match_weights(weights, mappings, layout.base_model_prefix, layout.ignored_suffixes)
    text = PretrainedTokenizer(tokenizer, id_map)
    module = build_model(settings, len(text), len(text))
    _load_weights(module, mappings, names, weights, id_map)
    return PretrainedModel(settings, decoding, module.eval(), text)


def _load_weights(
    module: LanguageModel | EncoderModel,
    mappings: list[WeightMapping],
    names: dict[str, str],
    weights: TensorReader,
    id_map: TokenIdMap,
) -> None:
    """Load the external weights into the model."""
    own_weights = {}
    for mapping in mappings:
        weight = mapping.from_external([weights.read(names[name]) for name in mapping.external])
        own_weights[mapping.key] = id_map.reorder_rows(weight) if mapping.is_vocabulary_table else weight
    load_named_tensors(module, own_weights)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        tree = load_json(path)
        if not isinstance(tree, dict):
            raise ValueError("it is not a JSON object")
    except (OSError, ValueError) as error:
        raise UserError(f"This file cannot be read: {error}.", location=str(path), hint=DOWNLOAD_AGAIN) from None
    return tree


def _token_ids(config: JsonConfig, tokenizer: dict[str, Any]) -> TokenIdMap:
    """The map between the token ids of the vocabulary and those of seq2see."""
    size, vocabulary = config.positive_int("vocab_size"), _vocabulary(tokenizer)
    _check_size(config, vocabulary, size)
    eos_id, pad_id = (_special_id(config, name, size) for name in ("eos_token_id", "pad_token_id"))
    bos_id = _bos_id(tokenizer, vocabulary)
    if bos_id is None:
        bos_id = _special_id(config, "bos_token_id", size)
    if bos_id is None:
        bos_id = eos_id
    if bos_id is None:
        raise UserError(
            "There is neither a bos_token_id nor an eos_token_id to begin a text with.", location=config.location
        )
    model = tokenizer["model"]  # a unigram model stores the id of its unknown token
    unk_id = model["unk_id"] if "unk_id" in model else vocabulary.get(str(model.get("unk_token")))
    return TokenIdMap.of(size, bos_id=bos_id, eos_id=eos_id, pad_id=pad_id, unk_id=unk_id)


def _check_size(config: JsonConfig, vocabulary: dict[str, int], size: int) -> None:
    """Raise an error for a tokenizer with an id that has no embedding."""
    max_id = max(vocabulary.values(), default=0)
    if max_id >= size:
        message = f"The tokenizer has the token id {max_id:,}, but the embedding has {size:,} rows."
        hint = "The tokenizer and the weights belong to different models."
        raise UserError(message, location=config.location, hint=hint)


def _vocabulary(tokenizer: dict[str, Any]) -> dict[str, int]:
    """The id of every token."""
    tokens = tokenizer["model"]["vocab"]
    if isinstance(tokens, list):  # unigram: each with its score
        tokens = {token: token_id for token_id, (token, _) in enumerate(tokens)}
    return tokens | {each["content"]: each["id"] for each in tokenizer.get("added_tokens", [])}


def _special_id(config: JsonConfig, name: str, size: int) -> int | None:
    """The id of a special token; of several <eos> tokens the first."""
    value = config.get(name, None)
    value = value[0] if isinstance(value, list) and value else value
    if value is None or value == -1:  # some files write -1 for none
        return None
    if type(value) is not int or not 0 <= value < size:
        raise UserError(f"'{name}' is {value!r}, which is not a token id.", location=config.location)
    return value


def _bos_id(tokenizer: dict[str, Any], vocabulary: dict[str, int]) -> int | None:
    """The first token of every training text: the one that its tokenizer adds, or else the end of the previous text."""
    processor = tokenizer.get("post_processor") or {}
    for each in [processor, *processor.get("processors", [])]:
        first = each.get("single", [{}])[0] if each.get("type") == "TemplateProcessing" else {}
        if "SpecialToken" in first:
            return vocabulary.get(first["SpecialToken"]["id"])
    return vocabulary.get(END_OF_TEXT)


def _decoding(folder: Path) -> Decoding:
    """The decoding settings: those of `generation_config.json` with the same names, else greedy decoding."""
    path = folder / "generation_config.json"
    generation = _read_json(path) if path.exists() else {}
    settings = {
        name: generation[name] for name in Decoding.model_fields if type(generation.get(name)) in (int, float, bool)
    }
    for name in ("length_penalty", "early_stopping", "repetition_penalty"):  # the definitions differ there
        settings.pop(name, None)
    return read_tree(Decoding, {"max_new_tokens": DEFAULT_MAX_NEW_TOKENS} | settings, location=str(path))
