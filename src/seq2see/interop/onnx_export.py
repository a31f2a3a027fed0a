"""ONNX, for onnxruntime and other engines: export of image classifiers and encoder-decoders, and decoding.

An image classifier becomes one graph, `classifier.onnx`: pixels in, logits of the labels out. Its input is bytes, and
the graph includes their normalization. The number of images is dynamic, their size is that of the training images.
`model.json` lists the labels.

An encoder-decoder Transformer becomes two graphs. `encoder.onnx` encodes the source once and returns, for every block
of the decoder, the keys and values of cross-attention (the memory). `decoder_step.onnx` maps new tokens and the keys
and values of the past to the logits of the next token and the extended past. Batch size, source length, past length and
the number of new tokens are dynamic; the past of the first step is empty. `model.json` lists inputs and outputs;
decoding begins with <bos>.

`OnnxModel` is such a pair of graphs as a model for seq2see's own decoding loop. The graphs may run in any engine;
`OnnxModel.open` runs them in onnxruntime on the CPU.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.export import Dim

from seq2see.core.batch import Batch, Images, Sequences
from seq2see.core.errors import UserError, require_packages
from seq2see.core.files import atomic_folder, sync_folder, write_json
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD
from seq2see.interop.exportable import ExportableModel, require_seq2seq, require_transformers, unsupported
from seq2see.interop.vit_weights import image_settings_of
from seq2see.layers.masks import AttentionMask
from seq2see.models.encoder_model import EncoderModel
from seq2see.models.seq2seq import Seq2Seq
from seq2see.models.settings import ImageLabel, ModelSettings

Graph = Callable[[Sequence[Tensor]], list[Tensor]]
"""A graph as a function: its inputs in order to its outputs in order."""


@dataclass(frozen=True)
class OnnxState:
    """The decoder state between two steps; the first axis of every tensor is the batch."""

    lengths: Int[Tensor, "row"]
    memory: tuple[Tensor, ...]
    past: tuple[Tensor, ...]


@dataclass(frozen=True)
class OnnxModel:
    """Two graphs with the interface of a model for `decoding.engine.decode`."""

    encoder: Graph
    decoder_step: Graph
    heads: int
    head_dim: int

    @staticmethod
    def open(folder: Path, threads: int = 1) -> OnnxModel:
        """The graphs of a folder that `write_onnx` wrote, in onnxruntime."""
        require_packages("onnx", "onnxruntime")
        try:
            description = json.loads((folder / "model.json").read_text(encoding="utf-8"))
            encoder, step = (_graph(folder / name, threads) for name in ("encoder.onnx", "decoder_step.onnx"))
            return OnnxModel(encoder, step, description["heads"], description["head_dim"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"This is not an ONNX folder of seq2see: {error}.", location=str(folder)) from None

    def start(self, source: Sequences | None, rows: int, max_length: int) -> OnnxState:
        """Encode the source; the past is empty and grows, so no memory is reserved."""
        assert source is not None, "sequence to sequence needs a source"
        memory = tuple(self.encoder([source.values, source.lengths]))
        empty = torch.zeros(rows, self.heads, 0, self.head_dim)
        return OnnxState(source.lengths, memory, tuple(empty for _ in memory))

    def step(
        self, tokens: Int[Tensor, "row new"], state: OnnxState
    ) -> tuple[Float[Tensor, "row new vocab"], OnnxState]:
        """The logits of the token after each new token, and the next state."""
        logits, *past = self.decoder_step([tokens, state.lengths, *state.memory, *state.past])
        return logits, OnnxState(state.lengths, state.memory, tuple(past))


def _graph(file: Path, threads: int) -> Graph:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    try:
        runtime: Any = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no common base class
        raise UserError(f"onnxruntime cannot open this: {error}.", location=str(file)) from None
    names = [each.name for each in runtime.get_inputs()]

    def run(inputs: Sequence[Tensor]) -> list[Tensor]:
        arrays = {name: tensor.contiguous().numpy() for name, tensor in zip(names, inputs, strict=True)}
        return [torch.from_numpy(output) for output in runtime.run(None, arrays)]

    return run


FILE = "classifier.onnx"
NAMES = {"inputs": ["pixels"], "outputs": ["logits"]}
KINDS = ("transformer", "resnet")
"""Encoders that process all positions in parallel; a recurrent one has a loop over time, which is not exported."""


def check_classifier(settings: ModelSettings) -> None:
    """Raise an error for settings that this export does not support."""
    if not isinstance(settings.target, ImageLabel):
        raise unsupported(
            ENGINE, f"target.kind={settings.target.kind}", "only classifiers of images are supported there"
        )
    assert settings.encoder is not None
    if settings.encoder.kind not in KINDS:
        raise unsupported(ENGINE, f"encoder.kind={settings.encoder.kind}", f"it is {' or '.join(KINDS)} there")


class ClassifierGraph(nn.Module):
    """pixels -> the logits of the labels."""

    def __init__(self, model: EncoderModel):
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        """The logits of each image."""
        rows = torch.zeros_like(pixels[:, 0, 0, 0], dtype=torch.long)
        return self.model(Batch(Images(pixels), None, rows[:, None], rows))[:, 0]


@torch.no_grad()
def write_onnx_classifier(stored: ExportableModel, folder: Path) -> None:
    """Write `classifier.onnx` and `model.json`."""
    settings = stored.config.model
    check_classifier(settings)
    require_packages("onnx", "onnx", "onnxscript")
    image = image_settings_of(settings)
    module: Any = to_cpu_float32(stored.module)
    pixels = torch.zeros(3, image.channels, image.image_size, image.image_size, dtype=torch.uint8)
    with atomic_folder(folder) as temporary:
        write_json(temporary / "model.json", _image_description(stored))
        export_graph(ClassifierGraph(module), (pixels,), ({0: Dim.DYNAMIC},), NAMES, temporary / FILE)
        sync_folder(temporary)


def _image_description(stored: ExportableModel) -> dict[str, Any]:
    image = image_settings_of(stored.config.model)
    shape = f"(row, {image.channels}, {image.image_size}, {image.image_size})"
    return {
        "format": 1,
        "graphs": {FILE: NAMES},
        "shapes": {
            "pixels": f"{shape} uint8, channel by channel from the top left",
            "logits": "(row, label) float32; the softmax gives probabilities",
        },
        "labels": list(stored.tokenizers.labels),
    }


ENGINE = "ONNX"
AnyModule = TypeVar("AnyModule", bound=nn.Module)


def check_onnx(settings: ModelSettings) -> None:
    """Raise an error for settings that this export does not support, such as recurrent layers with a loop over time."""
    require_transformers(settings, ENGINE)


class EncoderGraph(nn.Module):
    """source, lengths -> keys and values of the memory for every block of the decoder."""

    def __init__(self, model: Seq2Seq):
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        """The keys and values of cross-attention for each block."""
        memory = self.model.encode(Sequences(source, lengths))
        keys_values: list[Tensor] = []
        for block in self.model.decoder.blocks:
            keys_values += block.cross_attention.project_memory(memory)
        return tuple(keys_values)


class StepGraph(nn.Module):
    """tokens, lengths of the sources, memory, past -> logits, and the past extended by the new tokens."""

    def __init__(self, model: Seq2Seq):
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, lengths: Tensor, memory: list[Tensor], past: list[Tensor]) -> tuple[Tensor, ...]:
        """The logits of the token after each new token, and the extended past."""
        past_length, new = past[0].size(2), tokens.size(1)
        positions = past_length + torch.arange(new)
        source_positions = torch.arange(memory[0].size(2))
        cross_attention_mask = AttentionMask((source_positions < lengths[:, None])[:, None, None, :])
        attention_mask = AttentionMask((torch.arange(past_length + new) <= positions[:, None])[None, None])
        hidden_states = self.model.target.embed_at(tokens, positions[None])
        valid = torch.ones_like(tokens, dtype=torch.bool)
        present: list[Tensor] = []
        for number, block in enumerate(self.model.decoder.blocks):
            pair = slice(2 * number, 2 * number + 2)
            hidden_states, next_past = _block(
                block, hidden_states, valid, past[pair], memory[pair], (attention_mask, cross_attention_mask)
            )
            present += next_past
        if self.model.decoder.final_norm is not None:
            hidden_states = self.model.decoder.final_norm(hidden_states, valid)
        return self.model.head(hidden_states), *present


def _block(
    block: Any, hidden_states: Tensor, valid: Tensor, past: list[Tensor], memory: list[Tensor], masks: Any
) -> Any:
    """One block of the decoder, which concatenates past and new keys and values instead of writing to a cache."""
    next_past: list[Tensor] = []
    attention_mask, cross_attention_mask = masks

    def attend(hidden_states: Tensor) -> Tensor:
        queries, keys, values = block.self_attention.project(hidden_states)
        next_past.extend([torch.cat([past[0], keys], dim=2), torch.cat([past[1], values], dim=2)])
        return block.self_attention.attend(queries, *next_past, attention_mask)

    hidden_states = block.self_attention_residual(hidden_states, valid, attend)
    hidden_states = block.cross_attention_residual(
        hidden_states, valid, lambda x: block.cross_attention(x, tuple(memory), cross_attention_mask)
    )
    return block.feed_forward_residual(hidden_states, valid, block.feed_forward), next_past


def write_onnx(stored: ExportableModel, folder: Path) -> None:
    """Write `encoder.onnx`, `decoder_step.onnx`, `model.json` and the tokenizers."""
    module = require_seq2seq(stored, ENGINE)
    check_onnx(stored.config.model)
    require_packages("onnx", "onnx", "onnxscript")
    _, decoder = require_transformers(stored.config.model, ENGINE)
    names = graph_names(decoder.depth)
    with atomic_folder(folder) as temporary, torch.no_grad():
        stored.tokenizers.save(temporary)
        write_json(temporary / "model.json", _description(stored, names))
        model = to_cpu_float32(module)
        for file, graph, arguments, shapes in _graphs(model, stored.config.model):
            export_graph(graph, arguments, shapes, names[file], temporary / file)
        sync_folder(temporary)


GraphNames = dict[str, dict[str, list[str]]]


def graph_names(blocks: int) -> GraphNames:
    """The names of the inputs and outputs of each graph, in order."""
    memory, past, present = (
        [f"{name}_{kind}_{number}" for number in range(blocks) for kind in ("keys", "values")]
        for name in ("memory", "past", "present")
    )
    return {
        "encoder.onnx": {"inputs": ["source", "lengths"], "outputs": memory},
        "decoder_step.onnx": {"inputs": ["tokens", "lengths", *memory, *past], "outputs": ["logits", *present]},
    }


def to_cpu_float32(module: AnyModule) -> AnyModule:
    """A copy on the CPU in float32, so that exporting does not change the model."""
    return copy.deepcopy(module).float().cpu().eval()


def _graphs(
    model: Seq2Seq, settings: ModelSettings
) -> Iterator[tuple[str, nn.Module, tuple[Any, ...], tuple[Any, ...]]]:
    """Each graph with example arguments, whose sizes all differ, and its dynamic axes."""
    _, decoder = require_transformers(settings, ENGINE)
    rows, size = 3, decoder.width // decoder.heads
    source, lengths = torch.full((rows, 5), EOS), torch.tensor([5, 4, 2])
    dynamic = Dim.DYNAMIC
    encoder = EncoderGraph(model)
    yield "encoder.onnx", encoder, (source, lengths), ({0: dynamic, 1: dynamic}, {0: dynamic})
    # Strides of a view would become symbols of the graph, which ONNX does not have.
    memory = [each.contiguous() for each in encoder(source, lengths)]
    past = [torch.zeros(rows, decoder.heads, 7, size) for _ in memory]
    arguments = (torch.full((rows, 2), EOS), lengths, memory, past)
    shapes = [{0: dynamic, 2: dynamic} for _ in memory]
    yield "decoder_step.onnx", StepGraph(model), arguments, ({0: dynamic, 1: dynamic}, {0: dynamic}, shapes, shapes)


def export_graph(graph: nn.Module, arguments: Any, shapes: Any, names: dict[str, list[str]], path: Path) -> None:
    """Export one graph with these example arguments and dynamic axes to a file."""
    with _without_output():
        program = torch.onnx.export(
            graph.eval(),
            arguments,
            dynamo=True,
            dynamic_shapes=shapes,
            input_names=names["inputs"],
            output_names=names["outputs"],
            verbose=False,
        )
        assert program is not None
        program.save(path)


@contextlib.contextmanager
def _without_output() -> Iterator[None]:
    """Suppress the exporter's log, warnings and output; errors are still raised."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def _description(stored: ExportableModel, names: GraphNames) -> dict[str, Any]:
    _, decoder = require_transformers(stored.config.model, ENGINE)
    return {
        "format": 1,
        "graphs": names,
        "shapes": {
            "source": "(row, source) int64, <eos> after each text, then padding",
            "lengths": "(row) int64, the length of each source with <eos>",
            "tokens": "(row, new) int64, <bos> first",
            "memory_*": "(row, head, source, size) float32",
            "past_*": "(row, head, past, size) float32; past is 0 at the first step",
            "present_*": "(row, head, past + new, size) float32; the past of the next step",
            "logits": "(row, new, vocabulary) float32, the logits of the token after each new one",
        },
        "heads": decoder.heads,
        "head_dim": decoder.width // decoder.heads,
        "bos": BOS,
        "eos": EOS,
        "suppress_tokens": [PAD, BOS],
        "max_new_tokens": stored.config.decoding.max_new_tokens,
    }
