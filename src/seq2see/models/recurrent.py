"""The recurrent family: an encoder that reads the source, a decoder that reads the target and looks back.

Here stand the settings, with the words one can choose from beside the classes they mean, and the two
models. What they are made of: the cells in `layers/recurrent_cells.py` and `layers/gru_lstm.py`, the ways of looking in
`recurrent_looks.py`, the first state in `recurrent_state.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from jaxtyping import Float
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from seq2see.core.batch import Sequences
from seq2see.core.errors import UserError
from seq2see.core.settings import Settings
from seq2see.layers.dropout import VariationalDropout
from seq2see.layers.gru_lstm import GRUCell, LSTMCell, ResetBeforeGRUCell
from seq2see.layers.padding import zero_padding
from seq2see.layers.recurrent_attention import (
    AdditiveAttention,
    BilinearAttention,
    DotAttention,
    ScaledDotAttention,
)
from seq2see.layers.recurrent_cells import FusedCell, RecurrentCell, ReluRNNCell, RNNCell
from seq2see.layers.recurrent_stack import BidirectionalRNN, StackedRNN, UnidirectionalRNN, VariationalStackedRNN
from seq2see.models.decoder_attention import (
    BahdanauAttention,
    ContextVectorAttention,
    DecoderAttention,
    LuongAttention,
    NoAttention,
)
from seq2see.models.encoder_output import EncoderOutput
from seq2see.models.recurrent_state import Bridge, DenseBridge, RecurrentState

CellName = Literal["rnn", "rnn-relu", "gru", "lstm", "gru-reset-before"]
AttentionName = Literal["none", "context-vector", "additive", "dot", "bilinear", "scaled-dot"]

CELLS: dict[str, type[RecurrentCell]] = {
    "rnn": RNNCell,
    "rnn-relu": ReluRNNCell,
    "gru": GRUCell,
    "lstm": LSTMCell,
    "gru-reset-before": ResetBeforeGRUCell,
}

ATTENTIONS: dict[str, Callable[[int, int], DecoderAttention]] = {  # from the decoder's width and the memory's
    "none": lambda width, memory: NoAttention(),
    "context-vector": lambda width, memory: ContextVectorAttention(memory),
    "additive": lambda width, memory: BahdanauAttention(AdditiveAttention(width, memory), memory),
    "dot": lambda width, memory: LuongAttention(DotAttention(width, memory), width, memory),
    "bilinear": lambda width, memory: LuongAttention(BilinearAttention(width, memory), width, memory),
    "scaled-dot": lambda width, memory: LuongAttention(ScaledDotAttention(width, memory), width, memory),
}


class RecurrentEncoderSettings(Settings):
    """A recurrent encoder: cells that read the source one vector at a time."""

    kind: Literal["recurrent"] = "recurrent"
    width: PositiveInt = 256
    """Numbers in each vector it gives; with both directions each has half of them."""
    depth: PositiveInt = 1
    """Layers of cells on top of each other."""
    cell: CellName = "gru"
    """Which cell: elman or elman-relu (no gates), gru, lstm, or notes-gru (reset before the product; slower)."""
    bidirectional: bool = True
    """Read the source forwards only, or in both directions."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Share of the numbers that is set to zero after each layer while training."""


Probability = Annotated[float, Field(ge=0, lt=1)]


class AWDSettings(Settings):
    """Dropout for language models, with masks that hold for all times (Merity et al. 2018, section 4)."""

    embedding_dropout: Probability = 0.0
    """Share of the words whose vectors are zero for a step, wherever they stand."""
    input_dropout: Probability = 0.0
    """Share of the numbers in the tokens' vectors."""
    weight_dropout: Probability = 0.0
    """Share of the weights between a state and the next that is left out for a step (DropConnect)."""
    output_dropout: Probability = 0.0
    """Share of the numbers in what the head sees; between the layers it is the decoder's `dropout`."""


class RecurrentDecoderSettings(Settings):
    """A recurrent decoder: cells that read the target so far and look at the source."""

    kind: Literal["recurrent"] = "recurrent"
    width: PositiveInt = 256
    """Numbers in its state and in each vector it gives."""
    depth: PositiveInt = 1
    """Layers of cells on top of each other."""
    cell: CellName = "gru"
    """Which cell: elman or elman-relu (no gates), gru, lstm, or notes-gru (reset before the product; slower)."""
    attention: AttentionName = "additive"
    """How it sees the source: in its first state, summed up at every step, or by one of four attentions."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Share of the numbers that is set to zero after each layer while training."""
    awd: AWDSettings | None = None
    """Dropout whose masks hold for all times; without it, each number falls out by itself."""
    embedding_width: PositiveInt | None = None
    """Numbers in a token's vector, if not `width`; what the cells give is brought to so many."""
    projection: Literal["linear", "last-layer"] = "linear"
    """How that is done: by a matrix behind the cells, or by a last layer of cells that is only so wide."""


def build_cells(
    word: str,
    input_width: int,
    between: int,
    width: int,
    depth: int,
    weight_dropout: float = 0.0,
    last: int | None = None,
) -> list[RecurrentCell]:
    """Cells for `depth` layers: the first reads the input, the others `between` numbers from below.

    The last may have a width of its own.
    """
    below = [between if layer else input_width for layer in range(depth)]
    cell, widths = CELLS[word], zip(below, [width] * (depth - 1) + [last or width], strict=True)
    if not weight_dropout:
        return [cell(*both) for both in widths]
    if not issubclass(cell, FusedCell):
        raise UserError(
            f"The weights of '{word}' cannot be dropped: no kernel reads with them.",
            hint="Set decoder.awd.weight_dropout=0, or decoder.cell=gru.",
        )
    return [cell(*both, weight_dropout) for both in widths]


class RecurrentEncoder(nn.Module):
    """Read the source with recurrent cells; Sutskever et al. 2014, in both directions Bahdanau et al. 2015.

    h_t = f(x_t, h_{t-1}). The summary is the reader's last state: the whole source squeezed into one vector.
    """

    def __init__(self, stack: UnidirectionalRNN | BidirectionalRNN):
        super().__init__()
        self.stack = stack

    @staticmethod
    def from_settings(settings: RecurrentEncoderSettings, input_width: int | None = None) -> RecurrentEncoder:
        """The encoder that the settings describe; its input has the same width, unless told otherwise."""
        word, width, depth = settings.cell, settings.width, settings.depth
        input_width = input_width or width
        if not settings.bidirectional:
            return RecurrentEncoder(
                UnidirectionalRNN(build_cells(word, input_width, width, width, depth), settings.dropout)
            )
        if width % 2:
            raise UserError(
                f"A width of {width} cannot be shared between two directions.",
                hint="Make encoder.width even, or set encoder.bidirectional=false.",
            )
        forward_cells = build_cells(word, input_width, width, width // 2, depth)
        backward_cells = build_cells(word, input_width, width, width // 2, depth)
        return RecurrentEncoder(BidirectionalRNN(forward_cells, backward_cells, settings.dropout))

    def forward(self, vectors: Sequences) -> EncoderOutput:
        """The memory of these source vectors."""
        read, pooled = self.stack(vectors)
        return EncoderOutput(read.values, read.lengths, pooled)


class RecurrentDecoder(nn.Module):
    """Read the target so far, look at the source, give a hidden vector for each token read.

    Three parts make it: a bridge (what the first state is), a stack of cells (how it reads on) and a
    look (how it sees the source while it does). Without a memory it is a language model, and its first
    state is zeros. What it gives passes through `output_projection`: nothing, or a matrix that makes it as wide as a token's vector,
    so that a head can share the table (Melis, Dyer & Blunsom 2018, "down-projection"), and dropout. Or the last layer
    is that wide (Merity et al. 2018, section 4.5): what it gives lies between -1 and 1, and SGD may take large steps.
    """

    def __init__(
        self,
        stack: StackedRNN,
        bridge: Bridge | None,
        cross_attention: DecoderAttention,
        output_projection: nn.Module | None = None,
    ):
        super().__init__()
        self.stack, self.bridge, self.cross_attention = stack, bridge, cross_attention
        self.output_projection = output_projection or nn.Identity()

    @staticmethod
    def from_settings(
        settings: RecurrentDecoderSettings, memory_width: int | None, input_width: int | None = None
    ) -> RecurrentDecoder:
        """The decoder that the settings describe; without an encoder `memory_width` is None."""
        word, width, depth = settings.cell, settings.width, settings.depth
        if memory_width is None and settings.attention != "none":
            raise UserError(
                f"Without an encoder there is nothing to look at by '{settings.attention}'.",
                hint="Set decoder.attention=none.",
            )
        if memory_width is not None and settings.awd:
            raise UserError(  # who looks before each token reads one at a time, and would draw a mask for each
                "Masks that hold for all times are for language models.", hint="Leave out decoder.awd."
            )
        last = settings.embedding_width if settings.projection == "last-layer" else None
        if memory_width is not None and last:
            raise UserError(  # what looks at the source does so with vectors as wide as the state
                "A last layer as wide as a token's vector is for language models.",
                hint="Set decoder.projection=linear.",
            )
        cross_attention, awd = ATTENTIONS[settings.attention](width, memory_width or 0), settings.awd
        input_width = (input_width or settings.embedding_width or width) + cross_attention.context_width
        cells = build_cells(word, input_width, width, width, depth, awd.weight_dropout if awd else 0.0, last)
        bridge = None if memory_width is None else DenseBridge(memory_width, width, depth, cells[0].state_count)
        stack = (VariationalStackedRNN if awd else StackedRNN)(cells, settings.dropout)
        return RecurrentDecoder(stack, bridge, cross_attention, _output_projection(settings))

    def start(self, memory: EncoderOutput | None, rows: int, max_length: int) -> RecurrentState:
        """The state before the first token. However long the target, it needs no more `max_length`."""
        zero_state = self.stack.initial_state(rows, next(self.parameters()))
        if memory is None or self.bridge is None:
            return RecurrentState(zero_state.hidden, zero_state.cell)
        first = self.bridge(memory.pooled, zero_state)
        keys, encoder_states = self.cross_attention.prepare_memory(memory)
        return RecurrentState(first.hidden, first.cell, keys, encoder_states)

    def step(
        self, vectors: Float[Tensor, "row new input"], state: RecurrentState
    ) -> tuple[Float[Tensor, "row new width"], RecurrentState]:
        """Read one or more new vectors; the whole past is in the state."""
        hidden, state = self.cross_attention.unroll(self.stack, vectors, state)
        return self.output_projection(hidden), state

    def forward(self, vectors: Sequences, memory: EncoderOutput | None) -> Float[Tensor, "row time width"]:
        """Read whole targets at once, as in training."""
        values = zero_padding(vectors).values
        state = self.start(memory, rows=values.size(0), max_length=values.size(1))
        hidden, _ = self.cross_attention.unroll(self.stack, values, state)
        return self.output_projection(hidden)


def _output_projection(settings: RecurrentDecoderSettings) -> nn.Sequential:
    """What stands between the cells and the head."""
    parts: list[nn.Module] = []
    if settings.embedding_width and settings.projection == "linear":
        parts.append(nn.Linear(settings.width, settings.embedding_width, bias=False))
    if settings.awd:
        parts.append(VariationalDropout(settings.awd.output_dropout))
    return nn.Sequential(*parts)
