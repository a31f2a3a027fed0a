"""Our models that only read as folders that stock Hugging Face `transformers` opens, in the layout of BERT.

That layout has one form: learned vectors for token, place and sentence, norms after the parts, and heads that stand on
<bos> or on single tokens. What has another is refused by its setting before anything is written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from seq2see.core.errors import UserError
from seq2see.core.files import write_bytes, write_json
from seq2see.interop.bert_layouts import ARCHITECTURES, BODY, around, bert_places, encoder_of
from seq2see.interop.causal_configs import GPT2_THINKS
from seq2see.interop.folders import new_folder
from seq2see.interop.hugging_face_causal import unchanged
from seq2see.interop.hugging_face_config import ENGINE, labels_json, stack_json
from seq2see.interop.position_tables import position_table
from seq2see.interop.stored import Stored, cannot
from seq2see.models.packing import pack_model
from seq2see.models.settings import Label, ModelSettings, Sentences, Tags
from seq2see.sequences.given import GivenTokeniser
from seq2see.sequences.tokenisers import BOS, BOS_TEXT, EOS, EOS_TEXT, MASK_TEXT, PAD, UNK, Tokeniser

# What the layout has, and how a run gets it; a setting with another value is refused.
HELD: dict[str, tuple[tuple[Any, ...], str]] = {
    "encoder.kind": (("transformer",), ""),
    "source.frontend.kind": (("sentences",), "The recipe fill-bert has it so."),
    "encoder.order": (("post",), "The recipe fill-bert has it so."),
    "encoder.norm": (("layer",), ""),
    "encoder.think": (tuple(dict.fromkeys(GPT2_THINKS.values())), ""),
    "encoder.matrices": (("biased",), ""),
    "encoder.key_heads": ((0,), ""),
}


def bert_layout(settings: ModelSettings) -> str:
    """The class that opens a model with these settings there; the error for one that none of them holds."""
    held = dict(HELD)
    if settings.encoder is None:
        raise cannot(ENGINE, "numbers in place of tokens", "there is no layout for series")
    if isinstance(settings.target, Label):
        held["target.summary"] = (("first",), "Train it with `--set target.summary=first`.")
    if isinstance(settings.target, Tags):
        held["target.word"] = (("first",), "Train it with `--set target.word=first`.")
    for path, (values, remedy) in held.items():
        value: Any = settings
        for name in path.split("."):
            value = getattr(value, name)
        if value not in values:
            raise cannot(ENGINE, f"{path}={value}", f"it is {' or '.join(map(str, values))} in BERT", remedy)
    return next(name for name, target in ARCHITECTURES.items() if type(settings.target) is target)


def write_bert(stored: Stored, folder: Path) -> None:
    """Write a folder that `transformers` opens with the class that `bert_layout` names."""
    settings = stored.config.model
    architecture, text = bert_layout(settings), stored.tokenisers.source
    labels = stored.tokenisers.labels
    numbers = text.numbers if isinstance(text, GivenTokeniser) else unchanged(len(text))
    if numbers.missing:
        raise UserError("A vocabulary without <pad>, <bos>, <eos> or <unk> cannot go into the layout of BERT.")
    said = _with_places(settings)
    with new_folder(folder) as temporary:
        padding = {"pad_token_id": numbers.theirs[PAD], "architectures": [architecture]}
        write_json(temporary / "config.json", _config(said, len(text), labels) | padding)
        _write_tokeniser(text, temporary, _places(said))
        weights = _weights(stored.module, said)
        theirs: dict[str, Tensor] = {}
        for place in bert_places(said, len(text), len(labels)):
            ours = weights[place.ours]
            theirs |= place.part(numbers.back(ours) if place.by_token else ours)
        if architecture == "BertModel":  # a body alone is called by the names of its parts
            theirs = {name.removeprefix(BODY): tensor for name, tensor in theirs.items()}
        write_bytes(temporary / "model.safetensors", save(theirs, metadata={"format": "pt"}))


def _with_places(settings: ModelSettings) -> ModelSettings:
    """The same with a vector for every place of the longest text: there none are shared."""
    needed = settings.read.longest + around(type(settings.target))
    return settings.with_(**{"source.frontend.longest": max(_places(settings), needed)})


def _places(settings: ModelSettings) -> int:
    assert settings.source is not None
    assert isinstance(settings.source.frontend, Sentences)
    return settings.source.frontend.longest


@torch.no_grad()
def _weights(module: Any, said: ModelSettings) -> dict[str, Tensor]:
    weights = {name: tensor.float().cpu().clone() for name, tensor in pack_model(module).items()}
    return weights | {"source.positions.table.weight": position_table(module.source, _places(said))}


def _config(settings: ModelSettings, size: int, labels: tuple[str, ...]) -> dict[str, Any]:
    places = {"max_position_embeddings": _places(settings), "type_vocab_size": 2}
    kind = {"model_type": "bert", "vocab_size": size, "tie_word_embeddings": True}
    return {**kind, **stack_json(encoder_of(settings)), **places, **labels_json(labels)}


def _write_tokeniser(text: Tokeniser, folder: Path, longest: int) -> None:
    """Write the tokeniser: ours, with <bos> before and <eos> behind each text, or a given one as it is."""
    text.save(folder / "tokenizer.json")
    names = dict(zip(("pad", "cls", "sep", "unk"), (text.name_of(number) for number in _specials(text)), strict=True))
    if not isinstance(text, GivenTokeniser):
        document = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        write_json(folder / "tokenizer.json", document | {"post_processor": _around()} | _with_mask(document, text))
    if text.has_mask:
        names["mask"] = MASK_TEXT
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **{f"{name}_token": content for name, content in names.items()},
            "model_max_length": longest,
            "padding_side": "right",
            "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
            "clean_up_tokenization_spaces": False,
            # The name of a special in a text is just text, but where blanks are filled [MASK] must be found.
            "split_special_tokens": not text.has_mask,
        },
    )


def _specials(text: Tokeniser) -> list[int]:
    """The four specials by the numbers of the file."""
    ours = (PAD, BOS, EOS, UNK)
    if not isinstance(text, GivenTokeniser):
        return list(ours)
    return [number for number in (text.numbers.theirs[each] for each in ours) if number is not None]


def _with_mask(document: dict[str, Any], text: Tokeniser) -> dict[str, Any]:
    """What finds [MASK] in a text, with the space before it where pieces begin with theirs."""
    if not text.has_mask:
        return {}
    flags = {"single_word": False, "lstrip": text.mask_takes_space, "rstrip": False, "normalized": False}
    mask = {"id": text.mask, "content": MASK_TEXT, **flags, "special": True}
    return {"added_tokens": [*document["added_tokens"], mask]}


def _around() -> dict[str, Any]:
    """`<bos> A <eos>`, or `<bos> A <eos> B <eos>` in two sentences."""
    first, second = ({"Sequence": {"id": letter, "type_id": number}} for number, letter in enumerate("AB"))
    before, behind = ({"SpecialToken": {"id": name, "type_id": 0}} for name in (BOS_TEXT, EOS_TEXT))
    last = {"SpecialToken": {"id": EOS_TEXT, "type_id": 1}}
    known = ((BOS_TEXT, BOS), (EOS_TEXT, EOS))
    return {
        "type": "TemplateProcessing",
        "single": [before, first, behind],
        "pair": [before, first, behind, second, last],
        "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]} for name, number in known},
    }
