"""The inputs of models from requests (texts, images, sounds, defaults), and the traces of a model for them.

A text in a request is never a file name. The default is an example from the samples of the run, or a fixed text. The
patches of an image can be reordered and masked.

A trace is recorded once and cached for the next requests: views request one head at a time, and one forward pass gives
all heads. If all attention maps together are too large for the cache (their size is quadratic in the length), each
layer is recorded separately, when it is requested.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.data.examples import ImageExamples
from seq2see.data.image_dataset import ImageProcessor, VideoProcessor
from seq2see.data.readers.image_files import decode_image
from seq2see.data.readers.sound_files import DecodedSound, decode_sound
from seq2see.data.readers.video_decoding import load_frames
from seq2see.data.recordings import CharacterTimes, RecordingExamples
from seq2see.explorer.schemas import (
    MAX_SHOWN_TOKENS,
    ArrayResponse,
    ImageBase64,
    Index,
    InputRequest,
    InputText,
    PixelsBase64,
    RunRequest,
)
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.inspection.patch_editing import mask_patches, reorder_patches
from seq2see.inspection.record import ActivationRecord, Signal, SignalKind
from seq2see.inspection.trace import ATTENTION
from seq2see.models.image_settings import ImageSource
from seq2see.runs.run_folder import read_table
from seq2see.tasks.model import NamedBatch, trace_batch
from seq2see.tasks.transcribe import EXAMPLE_HERTZ


def example_of(run: OpenRun, text: str = "") -> Any:
    """The input of a model: the text of the user if there is one, else the first text of the samples.

    For models of images or videos it is a gray image.
    """
    if run.task.reads_files:
        if text:
            reject_file_model(run)
        return run.task.example_input(run.settings)
    return text or next((_unescape(row[0]) for row in _samples(run)), run.task.example_input(run.settings))


def first_example(run: OpenRun) -> dict[str, str] | None:
    """The first sample of the run (a text of the validation split and its reference) or the default; None for images.

    Samples name images by their files, which are no input texts; so an image has only a target, its caption.
    """
    has_images = run.task.reads_files
    if has_images and not run.task.generates:
        return None
    for text, target, *_ in _samples(run):
        return {"text": "" if has_images else _unescape(text), "target": _unescape(target)}
    return None if has_images else {"text": example_of(run), "target": ""}


def _samples(run: OpenRun) -> Iterator[list[str]]:
    """The samples of a run (source, reference, output), the newest file first.

    The files are read lazily; damaged and missing files are skipped.
    """
    for path in sorted(run.folder.samples.glob("step-*.tsv"), reverse=True) if run.folder else ():
        with contextlib.suppress(FileNotFoundError, UnicodeDecodeError):
            yield from (row for row in read_table(path, 3) if row[0].strip())


def _unescape(text: str) -> str:
    """The original text of a table cell, with its line breaks and tabs."""
    return text.replace("⏎", "\n").replace("⇥", "\t")


def reject_file_model(run: OpenRun) -> None:
    """Reject models of images and sounds: in Python, their text input is a file name, and a request names no files."""
    if run.task.reads_files:
        kind = run.task.input_kind
        article = "an" if kind == "image" else "a"
        raise UserError(
            f"This model needs {article} {kind} as input.", location=run.name, hint=f"Give {article} {kind}."
        )


def require_text_model(run: OpenRun) -> None:
    """Reject models of images and of series."""
    reject_file_model(run)
    if run.task.input_kind != "text":
        kind = run.task.input_kind
        raise UserError(
            f"The input of this model is a {kind}.", location=run.name, hint="Choose a run that reads texts."
        )


def check_length(count: int, side: str = "text") -> None:
    """Reject sequences with more than `MAX_SHOWN_TOKENS` tokens."""
    if count > MAX_SHOWN_TOKENS:
        raise UserError(
            f"The {side} has {count:,} tokens, and the maximum of this view is {MAX_SHOWN_TOKENS:,}.",
            hint="Give a shorter text.",
        )


def pixels_of(run: OpenRun, *files: str) -> NDArray[np.uint8]:
    """(height, width, channel): an image file in base64, resized for the model of this run.

    For a video model (frame, height, width, channel): an animated image, or one image for each frame.
    """
    processor: Any = run.model.tokenizers.source
    if not isinstance(processor, ImageProcessor):
        raise UserError("This model does not accept images.", location=run.name, hint="Give a text.")
    contents = [decode_base64(each, "image") for each in files]
    if isinstance(processor, VideoProcessor):
        return load_frames(contents, processor.image_size, processor.channels, processor.frames)
    if len(contents) > 1:
        raise UserError(
            f"There are {len(contents)} files, and this model needs one image.", location=run.name, hint="Choose one."
        )
    return decode_image(contents[0], "image", processor.image_size, processor.channels)


def sound_of(run: OpenRun, file: str) -> DecodedSound:
    """A sound file in base64, at the sampling rate of the model of this run."""
    model: Any = run.model
    if run.task.input_kind != "sound":
        raise UserError("This model does not accept sounds.", location=run.name, hint="Choose a run that transcribes.")
    return decode_sound(decode_base64(file, "sound"), model.rate, "this recording")


@dataclass(frozen=True)
class Recording:
    """A recording with its metadata; those of an uploaded one are unknown."""

    samples: NDArray[np.float32]
    name: str = ""
    truth: str = ""
    times: CharacterTimes = ()
    """Start and end of each character of `truth` in seconds, if known."""
    warnings: tuple[str, ...] = ()
    """Warnings about an uploaded file, for example that it is clipped."""


def test_recordings(run: OpenRun) -> RecordingExamples | None:
    """The test split of a run; None for runs whose data are missing."""
    try:
        examples = run.test_examples
    except UserError:
        return None
    return examples if isinstance(examples, RecordingExamples) else None


def recording_of(run: OpenRun, number: int, file: str = "") -> Recording:
    """A sound file in base64, or a recording of the test split; without test recordings, a tone."""
    if file:
        decoded = sound_of(run, file)
        return Recording(decoded.samples, warnings=decoded.messages)
    examples = test_recordings(run)
    if not examples:
        return Recording(run.task.example_input(run.settings), f"{EXAMPLE_HERTZ} Hz")
    if number >= len(examples):
        message = f"There are {len(examples):,} test recordings, and no recording {number:,}."
        raise UserError(message, hint="Choose a smaller number, or upload a recording.")
    times = examples.times[number] if examples.times else ()
    return Recording(examples.samples[number], examples.names[number], examples.texts[number], times)


def decode_base64(content: str, kind: str) -> bytes:
    """The bytes of a file in a request."""
    try:
        return base64.b64decode(content, validate=True)
    except ValueError:
        article = "an" if kind == "image" else "a"
        hint = f"Send the bytes of {article} {kind} file."
        raise UserError("This is not base64.", location=kind, hint=hint) from None


DEFAULT_GRID = 8
"""For models without patches, the number of masked or reordered squares in each row and column of an image."""
MAX_PATCHES = 4096
MAX_FILES = 256
"""The maximum number of image files of a video."""
PatchIndices = Annotated[tuple[Index, ...], Field(max_length=MAX_PATCHES)]


class ImageRequest(RunRequest):
    """A request about an image: one of the test split by its index, or preprocessed pixels."""

    number: Index = 0
    pixels: PixelsBase64 = ""
    """Bytes in base64 (height, width, channel); if there are any, `number` is ignored."""
    order: PatchIndices = ()
    """The patch at each position; empty for the original order."""
    cover: PatchIndices = ()
    """The positions of masked patches, after the reordering."""


class UploadRequest(RunRequest):
    """An image file or a video of the user."""

    files: Annotated[tuple[ImageBase64, ...], Field(min_length=1, max_length=MAX_FILES)]
    """One file; for a video, an animated image or one image for each frame in order."""


@dataclass(frozen=True)
class PreparedImage:
    """An image with the requested changes, and its metadata."""

    pixels: NDArray[np.uint8]  # (height, width, channel)
    patch_size: int
    """The width and height of a patch in pixels."""
    name: str = ""
    truth: str = ""
    video: bool = False
    """Whether its patches are the frames of a video."""

    @property
    def grid(self) -> tuple[int, int]:
        """The number of rows and columns of patches."""
        return self.pixels.shape[0] // self.patch_size, self.pixels.shape[1] // self.patch_size

    @property
    def model_input(self) -> NDArray[np.uint8]:
        """(height, width, channel), or (frame, height, width, channel) for a video: the input of the model."""
        if not self.video:
            return self.pixels
        height, width, channels = self.pixels.shape
        return self.pixels.reshape(height, width // self.patch_size, self.patch_size, channels).swapaxes(0, 1)


def prepare_image(workspace: Workspace, request: ImageRequest) -> PreparedImage:
    """The image of a request, with its patches reordered and masked."""
    run = workspace.run(request.run)
    image, default = image_settings_of(run), side_by_side(example_of(run))
    result = PreparedImage(default, _patch_size(run, image), video=run.task.input_kind == "video")
    if request.pixels:
        result = replace(result, pixels=_pixels(request.pixels, default.shape))
    elif request.number or len(test_images(run)):  # without test images, the default is a gray image
        examples = test_images(run)
        if request.number >= len(examples):
            others = f"the last one is {len(examples) - 1:,}" if len(examples) else "this run has none"
            raise UserError(
                f"There is no test image {request.number:,}: {others}.",
                hint="Choose a smaller number, or upload an image.",
            )
        example = examples[request.number]
        pixels = side_by_side(examples.pixels[request.number])
        result = replace(result, pixels=pixels, name=example.source, truth=example.target)
    reordered = reorder_patches(result.pixels, request.order, result.patch_size)
    return replace(result, pixels=mask_patches(reordered, request.cover, result.patch_size))


def side_by_side(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(height, width, channel): an image unchanged, or the frames of a video from left to right."""
    return pixels if pixels.ndim == 3 else np.concatenate(list(pixels), axis=1)


def _patch_size(run: OpenRun, image: ImageSource) -> int:
    """The width and height of the squares that can be masked and reordered, in pixels."""
    if run.task.input_kind == "video":
        return image.image_size
    return image.embedding.size if image.embedding.size > 1 else max(1, image.image_size // DEFAULT_GRID)


def image_settings_of(run: OpenRun) -> ImageSource:
    """The settings of the image source of a run."""
    if run.task.input_kind not in ("image", "video"):
        raise UserError("This model does not accept images.", location=run.name, hint="Choose a run with images.")
    source: Any = run.settings.source
    return source


def test_images(run: OpenRun) -> ImageExamples:
    """The test split of a run; empty for pretrained weights and for runs whose data are missing."""
    try:
        examples = run.test_examples
    except UserError:
        examples = ()
    if isinstance(examples, ImageExamples):
        return examples
    return ImageExamples(np.zeros((0, 1, 1, 1), np.uint8), (), ())


def _pixels(text: str, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise UserError("This is not base64.", location="pixels", hint="Send the bytes of all pixels.") from None
    height, width, channels = shape
    if len(content) != height * width * channels:
        raise UserError(
            f"There are {len(content):,} bytes, and {height} x {width} pixels with {channels} channels need "
            f"{height * width * channels:,}.",
            location="pixels",
        )
    return np.frombuffer(content, np.uint8).reshape(shape)


def image(workspace: Workspace, request: ImageRequest) -> ArrayResponse:
    """(height, width, channel): the pixels of the image, from 0 to 255."""
    return ArrayResponse(prepare_image(workspace, request).pixels)


def upload(workspace: Workspace, request: UploadRequest) -> ArrayResponse:
    """(height, width, channel): the preprocessed pixels of uploaded files, with frames side by side."""
    run = workspace.run(request.run)
    image_settings_of(run)
    return ArrayResponse(side_by_side(pixels_of(run, *request.files)))


def image_info(workspace: Workspace, request: ImageRequest) -> dict[str, Any]:
    """The metadata of an image or a video, and the number of test images."""
    prepared = prepare_image(workspace, request)
    return {
        "grid": list(prepared.grid),
        "patch_size": prepared.patch_size,
        "video": prepared.video,
        "name": prepared.name,
        "truth": prepared.truth,
        "count": len(test_images(workspace.run(request.run))),
    }


QUERIES: tuple[SignalKind, ...] = ("query",)
MAX_ATTENTION_BYTES = 32 << 20
"""The maximum size of the attention weights that are recorded for all layers at once."""


class TraceRequest(InputRequest):
    """A request about the activations of a model for one input and one target."""

    target: InputText | None = None
    """The target, by default the model's own prediction; for language models, the continuation of the text."""


def model_input(workspace: Workspace, request: InputRequest) -> Any:
    """The input of the model: the text, the pixels of an image or a video, or the samples of a recording."""
    run = workspace.run(request.run)
    if run.task.input_kind == "sound":
        return recording_of(run, request.number).samples
    if not run.task.reads_files:
        return request.text
    return prepare_image(
        workspace, ImageRequest(run=request.run, number=request.number, pixels=request.pixels)
    ).model_input


def named_batch(workspace: Workspace, request: TraceRequest) -> NamedBatch:
    """The batch of the input and its target, with the names of its tokens."""
    return workspace.cached((*_key(request), "batch"), lambda: _named_batch(workspace, request))


def record(
    workspace: Workspace, request: TraceRequest, kinds: Collection[SignalKind], module_names: Collection[str] = ()
) -> ActivationRecord:
    """The activation record of these kinds of signals, for all modules or only for `module_names`."""
    key = (*_key(request), tuple(sorted(kinds)), tuple(sorted(module_names)))
    return workspace.cached(
        key, lambda: trace_batch(workspace.run(request.run).model, named_batch(workspace, request), kinds, module_names)
    )


def attention_layers(workspace: Workspace, request: TraceRequest) -> list[Signal]:
    """Every attention layer of the model in order, with its queries as values (its weights may be large)."""
    if workspace.run(request.run).config.members:
        return []  # the members of an ensemble have different attention weights
    return record(workspace, request, QUERIES).of("query")


def attention_weights(workspace: Workspace, request: TraceRequest, layer: int) -> tuple[ActivationRecord, Signal]:
    """The weights of one attention layer, and their record."""
    layers = attention_layers(workspace, request)
    if layer >= len(layers):
        raise UserError(f"This model has {len(layers)} attention layers, and no layer {layer}.")
    tokens = named_batch(workspace, request).tokens
    size = sum(
        4 * len(each.values) * each.values.shape[1] * len(tokens.get(each.key_side or "", "")) for each in layers
    )
    traced = record(workspace, request, ATTENTION, () if size <= MAX_ATTENTION_BYTES else (layers[layer].name,))
    return traced, traced.find(layers[layer].name, "attention")


def _key(request: TraceRequest) -> tuple[Any, ...]:
    return request.run, request.text, request.target, request.number, request.pixels


def _named_batch(workspace: Workspace, request: TraceRequest) -> NamedBatch:
    run, target = workspace.run(request.run), request.target
    if not run.model.has_source:
        target = target or ""  # the text alone, without a continuation
    batch = run.model.named_batch(model_input(workspace, request), target)
    batch = run.task.page_batch(batch)
    for side, tokens in batch.tokens.items():
        check_length(len(tokens), side)
    return batch
