"""The formats of `seq2see export`, each with example code that uses the exported folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from seq2see.core.errors import UserError, unknown_name
from seq2see.data.tokenizers.tokenizer import EOS, EOS_TEXT, SplitTokenizer
from seq2see.decoding.engine import Decoding
from seq2see.interop.ctranslate2 import translate_options, write_ct2
from seq2see.interop.exportable import ExportableModel
from seq2see.interop.hugging_face_bert import bert_layout, write_bert
from seq2see.interop.hugging_face_causal import LAYOUTS, causal_layout, to_layout_settings, write_causal
from seq2see.interop.hugging_face_files import ARCHITECTURES
from seq2see.interop.hugging_face_seq2seq import seq2seq_layout, write_seq2seq
from seq2see.interop.onnx_export import write_onnx, write_onnx_classifier
from seq2see.interop.vit_weights import image_settings_of, vit_layout, write_vit
from seq2see.models.image_settings import ImageSource


@dataclass(frozen=True)
class ExportFormat:
    """One export format: the function that writes it, example code for its folder, and notes on differences."""

    write: Callable[[ExportableModel, Path], None]
    example: Callable[[ExportableModel, Path], str]
    notes: Callable[[ExportableModel], list[str]]


def format_of(name: str) -> ExportFormat:
    """The export format with this name."""
    if name not in FORMATS:
        raise unknown_name("export format", name, FORMATS)
    return FORMATS[name]


SHOWN_OPTIONS = ("beam_size", "length_penalty", "patience", "max_decoding_length", "return_end_token")
"""The options of CTranslate2 that change which output is the best one."""


def _ct2_example(stored: ExportableModel, folder: Path) -> str:
    decoding = stored.config.decoding
    try:
        chosen = translate_options(decoding)
    except UserError:  # the notes give the reason
        chosen = {"beam_size": decoding.num_beams, "max_decoding_length": decoding.max_new_tokens}
    options = ", ".join(f"{name}={chosen[name]!r}" for name in SHOWN_OPTIONS if name in chosen)
    return f"""\
import ctranslate2, tokenizers
source, target = (tokenizers.Tokenizer.from_file(name) for name in {_tokenizer_paths(stored, folder)})
answers = ctranslate2.Translator("{folder}").translate_batch([source.encode("your text").tokens], {options})
tokens = [token for token in answers[0].hypotheses[0] if token != "{EOS_TEXT}"]
print(target.decode([target.token_to_id(token) for token in tokens]))"""


def _tokenizer_paths(stored: ExportableModel, folder: Path) -> tuple[str, str]:
    """The files of the source's and the target's tokenizer."""
    names = ["tokenizer.json"] * 2 if stored.tokenizers.shared else ["source_tokenizer.json", "target_tokenizer.json"]
    source, target = (str(folder / name) for name in names)
    return source, target


def _ct2_notes(stored: ExportableModel) -> list[str]:
    try:
        translate_options(stored.config.decoding)
    except UserError as error:
        return [f"{error.message} The exported folder uses CTranslate2's defaults."]
    return []


def _write_hf(stored: ExportableModel, folder: Path) -> None:
    """Encoder-only models, language models and encoder-decoders have different layouts in `transformers`."""
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
    architecture = vit_layout(stored.config.model)
    image_mode = {1: "L", 3: "RGB"}[image_settings_of(stored.config.model).channels]
    return f"""\
from PIL import Image
from transformers import AutoImageProcessor, {architecture}
model, processor = {architecture}.from_pretrained("{folder}"), AutoImageProcessor.from_pretrained("{folder}")
logits = model(**processor(Image.open("your image.png").convert("{image_mode}"), return_tensors="pt")).logits
print(model.config.id2label[logits.argmax().item()])"""


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
            "There an image is resized to a square without keeping its aspect ratio; here its center is cropped.",
        ]
    if not stored.config.model.generates:
        return [f"The layout is that of {bert_layout(stored.config.model)}."]
    if not stored.config.model.source:
        return _causal_notes(stored)
    notes = [f"The layout is that of {ARCHITECTURES[seq2seq_layout(stored.config.model)]}."]
    if not stored.tokenizers.shared:
        size = len(stored.tokenizers.source)
        notes.append(f"The two vocabularies are concatenated: the token ids of the target begin at {size:,}.")
    return notes + _decoding_notes(stored.config.decoding)


def _decoding_notes(decoding: Decoding) -> list[str]:
    """Differences of `generate` in `transformers` for settings that have the same name."""
    notes = []
    if decoding.length_penalty.kind == "gnmt":
        notes.append("There is no GNMT penalty there; length ** alpha with the same alpha replaces it.")
    if decoding.repetition_penalty != 1:
        notes.append("There repetition_penalty is applied before the softmax, so outputs may differ.")
    return notes


def _causal_notes(stored: ExportableModel) -> list[str]:
    settings = stored.config.model
    notes = [f"The layout is that of {LAYOUTS[causal_layout(settings)].architecture}."]
    layout_settings = to_layout_settings(settings)
    if layout_settings.target_text.head != settings.target_text.head:
        notes.append("Embeddings are scaled by √width here and not there, so the head became untied.")
    if layout_settings.target_text.embedding.positions != settings.target_text.embedding.positions:
        rows = layout_settings.target_text.embedding.max_positions
        notes.append(f"Positions became a table of {rows:,} rows: texts cannot be longer there.")
    return notes + _decoding_notes(stored.config.decoding)


def _write_onnx(stored: ExportableModel, folder: Path) -> None:
    """Write one graph with pixels as input for an image classifier, else two graphs with token ids as input."""
    (write_onnx_classifier if isinstance(stored.config.model.source, ImageSource) else write_onnx)(stored, folder)


def _onnx_example(stored: ExportableModel, folder: Path) -> str:
    if isinstance(stored.config.model.source, ImageSource):
        image = image_settings_of(stored.config.model)
        image_mode = {1: "L", 3: "RGB"}[image.channels]
        return f"""\
import json, numpy, onnxruntime
from PIL import Image, ImageOps
image = ImageOps.fit(Image.open("your image.png").convert("{image_mode}"), ({image.image_size}, {image.image_size}))
pixels = numpy.asarray(image).reshape({image.image_size}, {image.image_size}, {image.channels}).transpose(2, 0, 1)[None]
logits = onnxruntime.InferenceSession("{folder / "classifier.onnx"}").run(None, {{"pixels": pixels}})[0]
print(json.load(open("{folder / "model.json"}"))["labels"][logits.argmax()])"""
    return f"""\
import numpy, onnxruntime, tokenizers
tokens = tokenizers.Tokenizer.from_file("{_tokenizer_paths(stored, folder)[0]}").encode("your text").ids + [{EOS}]
inputs = {{"source": numpy.array([tokens]), "lengths": numpy.array([len(tokens)])}}
memory = onnxruntime.InferenceSession("{folder / "encoder.onnx"}").run(None, inputs)"""


def _onnx_notes(stored: ExportableModel) -> list[str]:
    if isinstance(stored.config.model.source, ImageSource):
        return ["model.json lists the labels, and the shape of the pixels, which are bytes."]
    return ["model.json lists inputs and outputs of decoder_step.onnx; docs/export.md has the decoding loop around it."]


def _checked(write: Callable[[ExportableModel, Path], None]) -> Callable[[ExportableModel, Path], None]:
    """The function that writes a format, which first refuses a tokenizer that other libraries do not have."""

    def checked(stored: ExportableModel, folder: Path) -> None:
        for tokenizer in (stored.tokenizers.source, stored.tokenizers.target):
            if isinstance(tokenizer, SplitTokenizer):
                message = f"The tokenizer '{tokenizer.kind}' is your own, and other libraries do not have it."
                raise UserError(message, hint="Export a model with a built-in tokenizer.")
        write(stored, folder)

    return checked


FORMATS = {
    "ct2": ExportFormat(_checked(write_ct2), _ct2_example, _ct2_notes),
    "hf": ExportFormat(_checked(_write_hf), _hf_example, _hf_notes),
    "onnx": ExportFormat(_checked(_write_onnx), _onnx_example, _onnx_notes),
}
