"""Models that other people trained, read from a Hugging Face folder and run by our own layers.

Nothing of the folder is executed: `config.json` says the shape, safetensors files hold the weights, and the tokenizer
is run by the `tokenizers` library. The folder is only read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError
from seq2see.core.settings import read_tree
from seq2see.decoding.settings import Decoding
from seq2see.interop.bert_configs import bert_labels, bert_settings, bert_token_ids
from seq2see.interop.bert_layouts import BASE_MODEL_PREFIX, IGNORED_SUFFIXES, bert_mappings
from seq2see.interop.causal_configs import SETTINGS, JsonConfig
from seq2see.interop.causal_layouts import LAYOUTS, WeightMapping
from seq2see.interop.folders import is_timm
from seq2see.interop.safetensors_files import SafetensorsFiles, TensorReader, match_weights
from seq2see.interop.vit_configs import google_vit, hugging_face_vit, timm_vit
from seq2see.interop.vit_weights import ViTCheckpoint, vit_model
from seq2see.models.build import build_model
from seq2see.models.encoder_model import EncoderModel
from seq2see.models.language_model import LanguageModel
from seq2see.models.named_tensors import load_named_tensors
from seq2see.models.settings import Label, ModelSettings, Tags
from seq2see.sequences.pretrained_tokenizer import (
    DOWNLOAD_AGAIN,
    PretrainedTokenizer,
    TokenIdMap,
    read_pretrained_tokenizer,
)
from seq2see.sequences.tokenizers import MASK_TEXT, Tokenizer

VITS = ("vit", "deit")
END_OF_TEXT = "<|endoftext|>"
DEFAULT_MAX_NEW_TOKENS = 64
"""New tokens, if nobody says how many."""
DEFAULT_TOP_K = {"masked-tokens": 5, "masked-tokens-nsp": 5, "tags": 1}
"""How many likely answers are told by a model that only reads, if it does not tell all."""


@dataclass(frozen=True)
class PretrainedModel:
    """A model that was trained elsewhere, in our layers."""

    settings: ModelSettings
    decoding: Decoding
    module: LanguageModel | EncoderModel
    tokenizer: Tokenizer
    labels: tuple[str, ...] = ()


def read_pretrained(folder: Path) -> PretrainedModel:
    """The model in a Hugging Face folder, or in one of timm's."""
    config = JsonConfig(_read_json(folder / "config.json"), str(folder / "config.json"))
    if config.get("quantization_config", None):
        what = "There is a 'quantization_config' here, and of weights in few bits we read GGUF files only."
        hint = "Give the model as it was before, in float32, float16 or bfloat16."
        raise UserError(what, location=config.location, hint=hint)
    if is_timm(config.tree):
        return _vit(timm_vit(config, SafetensorsFiles(folder)))
    kind, model_types = config.require("model_type"), (*LAYOUTS, "bert", *VITS)
    if kind not in model_types:
        # No likeness of names: RoBERTa, DistilBERT and GPT-J are no BERT and no GPT-2, whatever they are called.
        what = f"We have no layers for the model_type '{kind}'; there are {', '.join(model_types)}."
        raise UserError(what, location=config.location, hint="Give a folder of one of these.")
    weights = SafetensorsFiles(folder)
    if kind in VITS:
        return _vit(hugging_face_vit(folder, config, weights))
    if kind == "bert":
        return _bert(folder, config, weights, read_pretrained_tokenizer(folder))
    return build_pretrained(str(kind), config, weights, read_pretrained_tokenizer(folder), _decoding(folder))


def read_npz(path: Path) -> PretrainedModel:
    """The ViT in a file of Google's."""
    return _vit(google_vit(path))


def _vit(file: ViTCheckpoint) -> PretrainedModel:
    module, pixels, decoding = vit_model(file)
    return PretrainedModel(file.settings, decoding, module, pixels, file.labels)


def _bert(folder: Path, config: JsonConfig, weights: TensorReader, tokenizer: dict[str, Any]) -> PretrainedModel:
    """A model that only reads."""
    settings, size, known = bert_settings(config, folder), config.positive_int("vocab_size"), _vocabulary(tokenizer)
    _check_size(config, known, size)
    numbers, labels = bert_token_ids(config, known, size), tuple[str, ...]()
    if settings.target.kind.startswith("masked-tokens") and numbers.mask_id is None:
        hint = "Put the tokenizer of this model beside its weights."
        what = f"The tokenizer has no {MASK_TEXT}, so nothing can be asked for."
        raise UserError(what, location=config.location, hint=hint)
    if isinstance(settings.target, Label | Tags):
        labels = bert_labels(config, weights.shapes().get("classifier.bias", (0,))[0])
    mappings = list(bert_mappings(settings, size, len(labels)))
    names = match_weights(weights, mappings, BASE_MODEL_PREFIX, IGNORED_SUFFIXES)
    text = PretrainedTokenizer(tokenizer, numbers)
    module = build_model(settings, len(text), len(labels or text))
    _load_weights(module, mappings, names, weights, numbers)
    most = {"top_k": DEFAULT_TOP_K[settings.target.kind]} if settings.target.kind in DEFAULT_TOP_K else {}
    decoding = read_tree(Decoding, {"max_new_tokens": 1} | most, location=config.location)
    return PretrainedModel(settings, decoding, module.eval(), text, labels)


def build_pretrained(
    kind: str, config: JsonConfig, weights: TensorReader, tokenizer: dict[str, Any], decoding: Decoding
) -> PretrainedModel:
    """A model of its config, weights and `tokenizer.json`; the shapes of all weights are checked first."""
    numbers = _token_ids(config, tokenizer)
    settings, layout = SETTINGS[kind](config, numbers.missing), LAYOUTS[kind]
    mappings = list(layout.mappings(settings, config.positive_int("vocab_size")))
    names = match_weights(weights, mappings, layout.base_model_prefix, layout.ignored_suffixes)
    text = PretrainedTokenizer(tokenizer, numbers)
    module = build_model(settings, len(text), len(text))
    _load_weights(module, mappings, names, weights, numbers)
    return PretrainedModel(settings, decoding, module.eval(), text)


def _load_weights(
    module: LanguageModel | EncoderModel,
    mappings: list[WeightMapping],
    names: dict[str, str],
    weights: TensorReader,
    numbers: TokenIdMap,
) -> None:
    """Put their weights into our model."""
    ours = {}
    for mapping in mappings:
        joined = mapping.from_external([weights.read(names[name]) for name in mapping.external])
        ours[mapping.key] = numbers.reorder_rows(joined) if mapping.is_vocabulary_table else joined
    load_named_tensors(module, ours)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        tree = json.loads(path.read_bytes())
        if not isinstance(tree, dict):
            raise ValueError("it is no table")
    except (OSError, ValueError) as error:
        raise UserError(f"This cannot be read: {error}.", location=str(path), hint=DOWNLOAD_AGAIN) from None
    return tree


def _token_ids(config: JsonConfig, tokenizer: dict[str, Any]) -> TokenIdMap:
    """Our numbers for their vocabulary."""
    size, known = config.positive_int("vocab_size"), _vocabulary(tokenizer)
    _check_size(config, known, size)
    end, padding = (_special_id(config, name, size) for name in ("eos_token_id", "pad_token_id"))
    bos_id = _bos_id(tokenizer, known)
    if bos_id is None:
        bos_id = _special_id(config, "bos_token_id", size)
    if bos_id is None:
        bos_id = end
    if bos_id is None:
        raise UserError(
            "Neither bos_token_id nor eos_token_id says what stands before a text.", location=config.location
        )
    model = tokenizer["model"]  # a unigram model names its unknown piece by number
    unk = model["unk_id"] if "unk_id" in model else known.get(str(model.get("unk_token")))
    return TokenIdMap.of(size, bos_id=bos_id, eos_id=end, pad_id=padding, unk_id=unk)


def _check_size(config: JsonConfig, known: dict[str, int], size: int) -> None:
    """Refuse a tokenizer with numbers that have no vector."""
    beyond = max(known.values(), default=0)
    if beyond >= size:
        what = f"The tokenizer has the number {beyond:,}, but the table of vectors ends before {size:,}."
        raise UserError(
            what, location=config.location, hint="The tokenizer and the weights belong to different models."
        )


def _vocabulary(tokenizer: dict[str, Any]) -> dict[str, int]:
    """Every piece with its number."""
    tokens = tokenizer["model"]["vocab"]
    if isinstance(tokens, list):  # unigram: each with its score
        tokens = {piece: number for number, (piece, _) in enumerate(tokens)}
    return tokens | {each["content"]: each["id"] for each in tokenizer.get("added_tokens", [])}


def _special_id(config: JsonConfig, name: str, size: int) -> int | None:
    """A token's number; of several that end a text the first."""
    value = config.get(name, None)
    value = value[0] if isinstance(value, list) and value else value
    if value is None or value == -1:  # some files write -1 for none
        return None
    if type(value) is not int or not 0 <= value < size:
        raise UserError(f"'{name}' is {value!r}, which is no number of a token.", location=config.location)
    return value


def _bos_id(tokenizer: dict[str, Any], known: dict[str, int]) -> int | None:
    """What the model saw before every text: what its tokenizer puts there, or else the end of the text before."""
    processor = tokenizer.get("post_processor") or {}
    for each in [processor, *processor.get("processors", [])]:
        first = each.get("single", [{}])[0] if each.get("type") == "TemplateProcessing" else {}
        if "SpecialToken" in first:
            return known.get(first["SpecialToken"]["id"])
    return known.get(END_OF_TEXT)


def _decoding(folder: Path) -> Decoding:
    """How answers are made: the folder's own settings as far as they have our names, else greedily."""
    path = folder / "generation_config.json"
    generation = _read_json(path) if path.exists() else {}
    ours = {
        name: generation[name] for name in Decoding.model_fields if type(generation.get(name)) in (int, float, bool)
    }
    for name in ("length_penalty", "early_stopping", "repetition_penalty"):  # these mean something else there
        ours.pop(name, None)
    return read_tree(Decoding, {"max_new_tokens": DEFAULT_MAX_NEW_TOKENS} | ours, location=str(path))
