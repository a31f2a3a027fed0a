"""Models that other people trained, read from a Hugging Face folder and run by our own layers.

Nothing of the folder is executed: `config.json` says the shape, safetensors files hold the weights, and the tokeniser
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
from seq2see.interop.bert_configs import bert_labels, bert_numbers, bert_settings
from seq2see.interop.bert_layouts import BODY, UNUSED, bert_places
from seq2see.interop.causal_configs import SETTINGS, Config
from seq2see.interop.causal_layouts import LAYOUTS, Place
from seq2see.interop.folders import is_timm
from seq2see.interop.vit_configs import google_vit, hugging_face_vit, timm_vit
from seq2see.interop.vit_weights import ViTFile, vit_model
from seq2see.interop.weight_files import Tensors, WeightFiles, matched
from seq2see.models.build import build_model
from seq2see.models.language_model import LanguageModel
from seq2see.models.packing import unpack_model
from seq2see.models.reader import Reader
from seq2see.models.settings import Label, ModelSettings, Tags
from seq2see.sequences.given import AGAIN, GivenTokeniser, Renumbered, read_given
from seq2see.sequences.tokenisers import MASK_TEXT, Tokeniser

VITS = ("vit", "deit")
END_OF_TEXT = "<|endoftext|>"
TOKENS = 64
"""New tokens, if nobody says how many."""
GUESSES = {"blanks": 5, "blanks-and-pairs": 5, "tags": 1}
"""How many likely answers are told by a model that only reads, if it does not tell all."""


@dataclass(frozen=True)
class RealModel:
    """A model that was trained elsewhere, in our layers."""

    settings: ModelSettings
    decoding: Decoding
    module: LanguageModel | Reader
    tokeniser: Tokeniser
    labels: tuple[str, ...] = ()


def read_real(folder: Path) -> RealModel:
    """The model in a Hugging Face folder, or in one of timm's."""
    config = Config(_tree(folder / "config.json"), str(folder / "config.json"))
    if config.get("quantization_config", None):
        what = "There is a 'quantization_config' here, and of weights in few bits we read GGUF files only."
        remedy = "Give the model as it was before, in float32, float16 or bfloat16."
        raise UserError(what, where=config.where, remedy=remedy)
    if is_timm(config.tree):
        return _vit(timm_vit(config, WeightFiles(folder)))
    kind, known = config.need("model_type"), (*LAYOUTS, "bert", *VITS)
    if kind not in known:
        # No likeness of names: RoBERTa, DistilBERT and GPT-J are no BERT and no GPT-2, whatever they are called.
        what = f"We have no layers for the model_type '{kind}'; there are {', '.join(known)}."
        raise UserError(what, where=config.where, remedy="Give a folder of one of these.")
    weights = WeightFiles(folder)
    if kind in VITS:
        return _vit(hugging_face_vit(folder, config, weights))
    if kind == "bert":
        return _bert(folder, config, weights, read_given(folder))
    return assemble(str(kind), config, weights, read_given(folder), _decoding(folder))


def read_npz(path: Path) -> RealModel:
    """The ViT in a file of Google's."""
    return _vit(google_vit(path))


def _vit(file: ViTFile) -> RealModel:
    module, pixels, decoding = vit_model(file)
    return RealModel(file.settings, decoding, module, pixels, file.labels)


def _bert(folder: Path, config: Config, weights: Tensors, tokeniser: dict[str, Any]) -> RealModel:
    """A model that only reads."""
    settings, size, known = bert_settings(config, folder), config.number("vocab_size"), _vocabulary(tokeniser)
    _check_size(config, known, size)
    numbers, labels = bert_numbers(config, known, size), tuple[str, ...]()
    if settings.target.kind.startswith("blanks") and numbers.mask is None:
        remedy = "Put the tokeniser of this model beside its weights."
        what = f"The tokeniser has no {MASK_TEXT}, so nothing can be asked for."
        raise UserError(what, where=config.where, remedy=remedy)
    if isinstance(settings.target, Label | Tags):
        labels = bert_labels(config, weights.shapes().get("classifier.bias", (0,))[0])
    places = list(bert_places(settings, size, len(labels)))
    names = matched(weights, places, BODY, UNUSED)
    text = GivenTokeniser(tokeniser, numbers)
    module = build_model(settings, len(text), len(labels or text))
    _fill(module, places, names, weights, numbers)
    most = {"top_k": GUESSES[settings.target.kind]} if settings.target.kind in GUESSES else {}
    decoding = read_tree(Decoding, {"max_new_tokens": 1} | most, where=config.where)
    return RealModel(settings, decoding, module.eval(), text, labels)


def assemble(kind: str, config: Config, weights: Tensors, tokeniser: dict[str, Any], decoding: Decoding) -> RealModel:
    """A model of its config, weights and `tokenizer.json`; the shapes of all weights are checked first."""
    numbers = _numbers(config, tokeniser)
    settings, layout = SETTINGS[kind](config, numbers.missing), LAYOUTS[kind]
    places = list(layout.places(settings, config.number("vocab_size")))
    names = matched(weights, places, layout.body, layout.computed)
    text = GivenTokeniser(tokeniser, numbers)
    module = build_model(settings, len(text), len(text))
    _fill(module, places, names, weights, numbers)
    return RealModel(settings, decoding, module.eval(), text)


def _fill(
    module: LanguageModel | Reader, places: list[Place], names: dict[str, str], weights: Tensors, numbers: Renumbered
) -> None:
    """Put their weights into our model."""
    ours = {}
    for place in places:
        joined = place.join([weights.read(names[name]) for name in place.theirs])
        ours[place.ours] = numbers.ours(joined) if place.by_token else joined
    unpack_model(module, ours)


def _tree(path: Path) -> dict[str, Any]:
    try:
        tree = json.loads(path.read_bytes())
        if not isinstance(tree, dict):
            raise ValueError("it is no table")
    except (OSError, ValueError) as error:
        raise UserError(f"This cannot be read: {error}.", where=str(path), remedy=AGAIN) from None
    return tree


def _numbers(config: Config, tokeniser: dict[str, Any]) -> Renumbered:
    """Our numbers for their vocabulary."""
    size, known = config.number("vocab_size"), _vocabulary(tokeniser)
    _check_size(config, known, size)
    end, padding = (_special(config, name, size) for name in ("eos_token_id", "pad_token_id"))
    beginning = _beginning(tokeniser, known)
    if beginning is None:
        beginning = _special(config, "bos_token_id", size)
    if beginning is None:
        beginning = end
    if beginning is None:
        raise UserError("Neither bos_token_id nor eos_token_id says what stands before a text.", where=config.where)
    model = tokeniser["model"]  # a unigram model names its unknown piece by number
    unk = model["unk_id"] if "unk_id" in model else known.get(str(model.get("unk_token")))
    return Renumbered.of(size, beginning=beginning, end=end, padding=padding, unknown=unk)


def _check_size(config: Config, known: dict[str, int], size: int) -> None:
    """Refuse a tokeniser with numbers that have no vector."""
    beyond = max(known.values(), default=0)
    if beyond >= size:
        what = f"The tokeniser has the number {beyond:,}, but the table of vectors ends before {size:,}."
        raise UserError(what, where=config.where, remedy="The tokeniser and the weights belong to different models.")


def _vocabulary(tokeniser: dict[str, Any]) -> dict[str, int]:
    """Every piece with its number."""
    pieces = tokeniser["model"]["vocab"]
    if isinstance(pieces, list):  # unigram: each with its score
        pieces = {piece: number for number, (piece, _) in enumerate(pieces)}
    return pieces | {each["content"]: each["id"] for each in tokeniser.get("added_tokens", [])}


def _special(config: Config, name: str, size: int) -> int | None:
    """A token's number; of several that end a text the first."""
    value = config.get(name, None)
    value = value[0] if isinstance(value, list) and value else value
    if value is None or value == -1:  # some files write -1 for none
        return None
    if type(value) is not int or not 0 <= value < size:
        raise UserError(f"'{name}' is {value!r}, which is no number of a token.", where=config.where)
    return value


def _beginning(tokeniser: dict[str, Any], known: dict[str, int]) -> int | None:
    """What the model saw before every text: what its tokeniser puts there, or else the end of the text before."""
    processor = tokeniser.get("post_processor") or {}
    for each in [processor, *processor.get("processors", [])]:
        first = each.get("single", [{}])[0] if each.get("type") == "TemplateProcessing" else {}
        if "SpecialToken" in first:
            return known.get(first["SpecialToken"]["id"])
    return known.get(END_OF_TEXT)


def _decoding(folder: Path) -> Decoding:
    """How answers are made: the folder's own settings as far as they have our names, else greedily."""
    path = folder / "generation_config.json"
    told = _tree(path) if path.exists() else {}
    ours = {name: told[name] for name in Decoding.model_fields if type(told.get(name)) in (int, float, bool)}
    for name in ("length_penalty", "early_stopping", "repetition_penalty"):  # these mean something else there
        ours.pop(name, None)
    return read_tree(Decoding, {"max_new_tokens": TOKENS} | ours, where=str(path))
