"""The forms a model can be exported to, and what a newcomer types to use each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from seq2see.core.errors import UserError, unknown_name
from seq2see.decoding.settings import Decoding
from seq2see.interop.causal_layouts import LAYOUTS
from seq2see.interop.ct2_engine import translate_options
from seq2see.interop.ctranslate2 import write_ct2
from seq2see.interop.exportable import ExportableModel
from seq2see.interop.hugging_face_bert import bert_layout, write_bert
from seq2see.interop.hugging_face_causal import causal_layout, to_layout_settings, write_causal
from seq2see.interop.hugging_face_config import ARCHITECTURES
from seq2see.interop.hugging_face_seq2seq import seq2seq_layout, write_seq2seq
from seq2see.interop.hugging_face_vit import vit_layout, write_vit
from seq2see.interop.onnx_images import write_onnx_classifier
from seq2see.interop.onnx_seq2seq import write_onnx
from seq2see.interop.vit_weights import image_settings_of
from seq2see.models.image_settings import ImageSource
from seq2see.sequences.tokenizers import EOS


@dataclass(frozen=True)
class ExportFormat:
    """One form: how it is written, how its folder is used, and what a user should know about it."""

    write: Callable[[ExportableModel, Path], None]
    example: Callable[[ExportableModel, Path], str]
    notes: Callable[[ExportableModel], list[str]]


def format_of(name: str) -> ExportFormat:
    """The form with this name."""
    if name not in FORMATS:
        raise unknown_name("form to export to", name, FORMATS)
    return FORMATS[name]


def _ct2_example(stored: ExportableModel, folder: Path) -> str:
    decoding = stored.config.decoding
    options = f"beam_size={decoding.num_beams}, max_decoding_length={decoding.max_new_tokens}"
    return f"""\
import ctranslate2, tokenizers
source, target = (tokenizers.Tokenizer.from_file(name) for name in {_tokenizer_paths(stored, folder)})
answers = ctranslate2.Translator("{folder}").translate_batch([source.encode("your text").tokens], {options})
print(target.decode([target.token_to_id(piece) for piece in answers[0].hypotheses[0]]))"""


def _tokenizer_paths(stored: ExportableModel, folder: Path) -> tuple[str, str]:
    """The files of the source's and the target's tokenizer."""
    names = ["tokenizer.json"] * 2 if stored.tokenizers.shared else ["source_tokenizer.json", "target_tokenizer.json"]
    source, target = (str(folder / name) for name in names)
    return source, target


def _ct2_notes(stored: ExportableModel) -> list[str]:
    try:
        translate_options(stored.config.decoding)
    except UserError as error:
        return [f"{error.message} The folder's own settings are CTranslate2's."]
    return []


def _write_hf(stored: ExportableModel, folder: Path) -> None:
    """Models that only read, language models and encoder-decoders have different layouts there."""
    if not stored.config.model.generates:
        (write_vit if isinstance(stored.config.model.source, ImageSource) else write_bert)(stored, folder)
        return
    (write_seq2seq if stored.config.model.source else write_causal)(stored, folder)


def _hf_example(stored: ExportableModel, folder: Path) -> str:
    if isinstance(stored.config.model.source, ImageSource):
        return _vit_example(stored, folder)
    if not stored.config.model.generates:
        return _bert_example(stored, folder)
    if not stored.config.model.source:
        return f"""\
from transformers import AutoModelForCausalLM, AutoTokenizer
model, tokenizer = AutoModelForCausalLM.from_pretrained("{folder}"), AutoTokenizer.from_pretrained("{folder}")
tokens = model.generate(**tokenizer(["your text"], return_tensors="pt"))
print(tokenizer.batch_decode(tokens, skip_special_tokens=True)[0])"""
    return f"""\
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained("{folder}"), AutoTokenizer.from_pretrained("{folder}")
tokens = model.generate(**tokenizer(["your text"], return_tensors="pt"))
print(tokenizer.batch_decode(tokens, skip_special_tokens=True)[0])"""


def _vit_example(stored: ExportableModel, folder: Path) -> str:
    architecture, form = (
        vit_layout(stored.config.model),
        {1: "L", 3: "RGB"}[image_settings_of(stored.config.model).channels],
    )
    return f"""\
from PIL import Image
from transformers import AutoImageProcessor, {architecture}
model, processor = {architecture}.from_pretrained("{folder}"), AutoImageProcessor.from_pretrained("{folder}")
scores = model(**processor(Image.open("your image.png").convert("{form}"), return_tensors="pt")).logits
print(model.config.id2label[scores.argmax().item()])"""


def _bert_example(stored: ExportableModel, folder: Path) -> str:
    architecture, text = bert_layout(stored.config.model), "your text"
    if stored.config.model.target.kind.startswith("masked-tokens"):
        text = "your [MASK]"
    return f"""\
from transformers import AutoTokenizer, {architecture}
model, tokenizer = {architecture}.from_pretrained("{folder}"), AutoTokenizer.from_pretrained("{folder}")
print(model(**tokenizer(["{text}"], return_tensors="pt"))[0])"""


def _hf_notes(stored: ExportableModel) -> list[str]:
    if isinstance(stored.config.model.source, ImageSource):
        layout = vit_layout(stored.config.model)
        return [
            f"The layout is that of {layout}.",
            "There an image is pressed into a square; here its middle is cut out.",
        ]
    if not stored.config.model.generates:
        return [f"The layout is that of {bert_layout(stored.config.model)}."]
    if not stored.config.model.source:
        return _causal_notes(stored)
    found = [f"The layout is that of {ARCHITECTURES[seq2seq_layout(stored.config.model)]}."]
    if not stored.tokenizers.shared:
        size = len(stored.tokenizers.source)
        found.append(f"The two vocabularies are laid end to end: the target's tokens are counted from {size:,}.")
    return found + _decoding_notes(stored.config.decoding)


def _decoding_notes(decoding: Decoding) -> list[str]:
    """What their `generate` does differently with settings that go along under the same name."""
    found = []
    if decoding.length_penalty.kind == "gnmt":
        found.append("There is no GNMT penalty there; length ** alpha with the same alpha stands in for it.")
    if decoding.repetition_penalty != 1:
        found.append("There repetition_penalty weighs scores before the softmax, so that answers may differ.")
    return found


def _causal_notes(stored: ExportableModel) -> list[str]:
    settings = stored.config.model
    found, layout_settings = (
        [f"The layout is that of {LAYOUTS[causal_layout(settings)].architecture}."],
        to_layout_settings(settings),
    )
    if layout_settings.target_text.head != settings.target_text.head:
        found.append("Vectors are taken times √width here and not there, so the head became a matrix of its own.")
    if layout_settings.target_text.embedding.positions != settings.target_text.embedding.positions:
        rows = layout_settings.target_text.embedding.max_positions
        found.append(f"Positions became a table of {rows:,} rows: texts cannot be longer there.")
    return found + _decoding_notes(stored.config.decoding)


def _write_onnx(stored: ExportableModel, folder: Path) -> None:
    """Images go in as they are, texts by their tokens."""
    (write_onnx_classifier if isinstance(stored.config.model.source, ImageSource) else write_onnx)(stored, folder)


def _onnx_example(stored: ExportableModel, folder: Path) -> str:
    if isinstance(stored.config.model.source, ImageSource):
        image = image_settings_of(stored.config.model)
        form = {1: "L", 3: "RGB"}[image.channels]
        return f"""\
import json, numpy, onnxruntime
from PIL import Image, ImageOps
image = ImageOps.fit(Image.open("your image.png").convert("{form}"), ({image.image_size}, {image.image_size}))
pixels = numpy.asarray(image).reshape({image.image_size}, {image.image_size}, {image.channels}).transpose(2, 0, 1)[None]
scores = onnxruntime.InferenceSession("{folder / "classifier.onnx"}").run(None, {{"pixels": pixels}})[0]
print(json.load(open("{folder / "model.json"}"))["labels"][scores.argmax()])"""
    return f"""\
import numpy, onnxruntime, tokenizers
tokens = tokenizers.Tokenizer.from_file("{_tokenizer_paths(stored, folder)[0]}").encode("your text").ids + [{EOS}]
read = {{"source": numpy.array([tokens]), "lengths": numpy.array([len(tokens)])}}
memory = onnxruntime.InferenceSession("{folder / "encoder.onnx"}").run(None, read)"""


def _onnx_notes(stored: ExportableModel) -> list[str]:
    if isinstance(stored.config.model.source, ImageSource):
        return ["model.json names the labels, and the shape of the pixels: bytes as they are."]
    return ["model.json names what goes in and out of decoder_step.onnx; docs/export.md has the loop around it."]


FORMATS = {
    "ct2": ExportFormat(write_ct2, _ct2_example, _ct2_notes),
    "hf": ExportFormat(_write_hf, _hf_example, _hf_notes),
    "onnx": ExportFormat(_write_onnx, _onnx_example, _onnx_notes),
}
