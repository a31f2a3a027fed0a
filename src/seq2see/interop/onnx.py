"""Our Transformers as two ONNX graphs, for onnxruntime and whatever else reads ONNX.

`encoder.onnx` reads the source once and gives, for every block of the decoder, the keys and values of the
memory. `decoder_step.onnx` takes new tokens and the keys and values of the past, and gives the scores of the
next token and the longer past. Rows, source length, past length and the number of new tokens are free; the
past of the first step is empty. `model.json` names what goes in and out; whoever decodes begins with <bos>.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.export import Dim

from seq2see.core.batch import Sequences
from seq2see.core.files import sync_folder, write_json
from seq2see.interop.folders import need, new_folder
from seq2see.interop.stored import Stored, one_translator, transformer_pair
from seq2see.layers.masks import MayLook
from seq2see.models.seq2seq import Seq2Seq
from seq2see.models.settings import ModelSettings
from seq2see.sequences.tokenisers import BOS, EOS, PAD

ENGINE = "ONNX"
AnyModule = TypeVar("AnyModule", bound=nn.Module)


def check_onnx(settings: ModelSettings) -> None:
    """Refuse what has no such graphs: a recurrent part walks through time one step after the other."""
    transformer_pair(settings, ENGINE)


class EncoderGraph(nn.Module):
    """source, lengths -> keys and values of the memory for every block of the decoder."""

    def __init__(self, model: Seq2Seq):
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        """Read the source."""
        memory = self.model.encode(Sequences(source, lengths))
        found: list[Tensor] = []
        for block in self.model.decoder.blocks:
            found += block.look_across.prepare(memory.values)
        return tuple(found)


class StepGraph(nn.Module):
    """tokens, lengths of the sources, memory, past -> scores, and the past with the new tokens in it."""

    def __init__(self, model: Seq2Seq):
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, lengths: Tensor, memory: list[Tensor], past: list[Tensor]) -> tuple[Tensor, ...]:
        """Take in the new tokens."""
        begun, new = past[0].size(2), tokens.size(1)
        times = begun + torch.arange(new)
        places = torch.arange(memory[0].size(2))
        at_source = MayLook((places < lengths[:, None])[:, None, None, :])
        may_look = MayLook((torch.arange(begun + new) <= times[:, None])[None, None])
        vectors = self.model.target.at(tokens, times[None])
        real = torch.ones_like(tokens, dtype=torch.bool)
        present: list[Tensor] = []
        for number, block in enumerate(self.model.decoder.blocks):
            pair = slice(2 * number, 2 * number + 2)
            vectors, longer = _block(block, vectors, real, past[pair], memory[pair], (may_look, at_source))
            present += longer
        if self.model.decoder.ending is not None:
            vectors = self.model.decoder.ending(vectors, real)
        return self.model.head(vectors), *present


def _block(block: Any, vectors: Tensor, real: Tensor, past: list[Tensor], memory: list[Tensor], masks: Any) -> Any:
    """One block of the decoder; where ours writes into a cache, this one makes the past longer."""
    longer: list[Tensor] = []
    may_look, at_source = masks

    def look_back(vectors: Tensor) -> Tensor:
        queries, keys_values = block.look_back.project(vectors)
        keys, values = keys_values.unbind(1)
        longer.extend([torch.cat([past[0], keys], dim=2), torch.cat([past[1], values], dim=2)])
        return block.look_back.look(queries, *longer, may_look)

    vectors = block.around_back(vectors, real, look_back)
    vectors = block.around_across(vectors, real, lambda x: block.look_across(x, tuple(memory), at_source))
    return block.around_think(vectors, real, block.think), longer


def write_onnx(stored: Stored, folder: Path) -> None:
    """Write `encoder.onnx`, `decoder_step.onnx`, `model.json` and the tokenisers."""
    module = one_translator(stored, ENGINE)
    check_onnx(stored.config.model)
    need("onnx", "onnx", "onnxscript")
    _, decoder = transformer_pair(stored.config.model, ENGINE)
    names = graph_names(decoder.depth)
    with new_folder(folder) as temporary, torch.no_grad():
        stored.tokenisers.save(temporary)
        write_json(temporary / "model.json", _description(stored, names))
        model = portable(module)
        for file, graph, arguments, shapes in _graphs(model, stored.config.model):
            export_graph(graph, arguments, shapes, names[file], temporary / file)
        sync_folder(temporary)


Names = dict[str, dict[str, list[str]]]


def graph_names(blocks: int) -> Names:
    """What goes into each graph and comes out of it, in order."""
    memory, past, present = (
        [f"{name}_{kind}_{number}" for number in range(blocks) for kind in ("keys", "values")]
        for name in ("memory", "past", "present")
    )
    return {
        "encoder.onnx": {"inputs": ["source", "lengths"], "outputs": memory},
        "decoder_step.onnx": {"inputs": ["tokens", "lengths", *memory, *past], "outputs": ["logits", *present]},
    }


def portable(module: AnyModule) -> AnyModule:
    """A copy on the processor in single precision: exporting leaves the model as it is."""
    return copy.deepcopy(module).float().cpu().eval()


def _graphs(
    model: Seq2Seq, settings: ModelSettings
) -> Iterator[tuple[str, nn.Module, tuple[Any, ...], tuple[Any, ...]]]:
    """Each graph with arguments to try it on, all sizes different, and the axes that stay free."""
    _, decoder = transformer_pair(settings, ENGINE)
    rows, size = 3, decoder.width // decoder.heads
    source, lengths = torch.full((rows, 5), EOS), torch.tensor([5, 4, 2])
    free = Dim.DYNAMIC
    encoder = EncoderGraph(model)
    yield "encoder.onnx", encoder, (source, lengths), ({0: free, 1: free}, {0: free})
    memory = list(encoder(source, lengths))
    past = [torch.zeros(rows, decoder.heads, 7, size) for _ in memory]
    arguments = (torch.full((rows, 2), EOS), lengths, memory, past)
    shapes = [{0: free, 2: free} for _ in memory]
    yield "decoder_step.onnx", StepGraph(model), arguments, ({0: free, 1: free}, {0: free}, shapes, shapes)


def export_graph(graph: nn.Module, arguments: Any, shapes: Any, names: dict[str, list[str]], path: Path) -> None:
    """Write one graph, tried on these arguments, with these axes free."""
    with _quiet():
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
def _quiet() -> Iterator[None]:
    """The exporter tells much about itself that a user has no use for; what fails is still raised."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def _description(stored: Stored, names: Names) -> dict[str, Any]:
    _, decoder = transformer_pair(stored.config.model, ENGINE)
    return {
        "format": 1,
        "graphs": names,
        "shapes": {
            "source": "(row, source) int64, <eos> behind each text, padding behind that",
            "lengths": "(row) int64, how much of each source is real, <eos> counted",
            "tokens": "(row, new) int64, <bos> first",
            "memory_*": "(row, head, source, size) float32",
            "past_*": "(row, head, past, size) float32; past is 0 at the first step",
            "present_*": "(row, head, past + new, size) float32; the past of the next step",
            "logits": "(row, new, vocabulary) float32, the scores of the token after each new one",
        },
        "heads": decoder.heads,
        "size": decoder.width // decoder.heads,
        "bos": BOS,
        "eos": EOS,
        "never_said": [PAD, BOS],
        "max_new_tokens": stored.config.decoding.max_new_tokens,
    }
