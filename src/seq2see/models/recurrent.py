"""The recurrent encoder and decoder, with their settings and the tables of cells and attentions.

Their parts: cells in `layers/recurrent_cells.py` and `layers/gru_lstm.py`, attention and the
initial state in `decoder_attention.py`.
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
from seq2see.layers.gru_lstm import GRUCell, LSTMCell, ResetBeforeGRUCell
from seq2see.layers.masks import zero_padding
from seq2see.layers.norms_and_dropout import VariationalDropout
from seq2see.layers.recurrent_attention import (
    AdditiveAttention,
    BilinearAttention,
    DotAttention,
    ScaledDotAttention,
)
from seq2see.layers.recurrent_cells import (
    BidirectionalRNN,
    FusedCell,
    RecurrentCell,
    ReluRNNCell,
    RNNCell,
    StackedRNN,
    UnidirectionalRNN,
    VariationalStackedRNN,
)
from seq2see.models.decoder_attention import (
    BahdanauAttention,
    Bridge,
    ContextVectorAttention,
    DecoderAttention,
    DenseBridge,
    LuongAttention,
    NoAttention,
    RecurrentState,
)
from seq2see.models.encoder_model import EncoderOutput

CellName = Literal["rnn", "rnn-relu", "gru", "lstm", "gru-reset-before"]
AttentionName = Literal["none", "context-vector", "additive", "dot", "bilinear", "scaled-dot"]

CELLS: dict[str, type[RecurrentCell]] = {
    "rnn": RNNCell,
    "rnn-relu": ReluRNNCell,
    "gru": GRUCell,
    "lstm": LSTMCell,
    "gru-reset-before": ResetBeforeGRUCell,
}

ATTENTIONS: dict[str, Callable[[int, int], DecoderAttention]] = {  # from the widths of the decoder and of the memory
    "none": lambda width, memory: NoAttention(),
    "context-vector": lambda width, memory: ContextVectorAttention(memory),
    "additive": lambda width, memory: BahdanauAttention(AdditiveAttention(width, memory), memory),
    "dot": lambda width, memory: LuongAttention(DotAttention(width, memory), width, memory),
    "bilinear": lambda width, memory: LuongAttention(BilinearAttention(width, memory), width, memory),
    "scaled-dot": lambda width, memory: LuongAttention(ScaledDotAttention(width, memory), width, memory),
}


class RecurrentEncoderSettings(Settings):
    """A recurrent encoder: RNN, GRU or LSTM, unidirectional or bidirectional."""

    kind: Literal["recurrent"] = "recurrent"
    width: PositiveInt = 256
    """Width of the hidden states; if bidirectional, each direction has half of it."""
    depth: PositiveInt = 1
    """The number of layers."""
    cell: CellName = "gru"
    """The cell: rnn (tanh), rnn-relu, gru, lstm, or gru-reset-before (reset gate before the matrix product; slower)."""
    bidirectional: bool = True
    """Whether the encoder reads the source in both directions, or only forward."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Dropout rate after each layer."""


Probability = Annotated[float, Field(ge=0, lt=1)]


class AWDSettings(Settings):
    """The dropouts of AWD-LSTM: variational, with one mask for all time steps (Merity et al. 2018, section 4)."""

    embedding_dropout: Probability = 0.0
    """Embedding dropout: the probability that the embedding of a word is zero for a whole step."""
    input_dropout: Probability = 0.0
    """Input dropout: the dropout rate of the embedded tokens."""
    weight_dropout: Probability = 0.0
    """Weight dropout: the dropout rate of the hidden-to-hidden weights (DropConnect)."""
    output_dropout: Probability = 0.0
    """Output dropout: the rate before the head; between the layers it is the decoder's `dropout`."""


class RecurrentDecoderSettings(Settings):
    """A recurrent decoder: RNN, GRU or LSTM, with or without attention to the source."""

    kind: Literal["recurrent"] = "recurrent"
    width: PositiveInt = 256
    """Width of the hidden states."""
    depth: PositiveInt = 1
    """The number of layers."""
    cell: CellName = "gru"
    """The cell: rnn (tanh), rnn-relu, gru, lstm, or gru-reset-before (reset gate before the matrix product; slower)."""
    attention: AttentionName = "additive"
    """Access to the source: initial state only (none), context vector at every step, or one of four attentions."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Dropout rate after each layer."""
    awd: AWDSettings | None = None
    """Variational dropout with one mask for all time steps; without it, ordinary dropout."""
    embedding_width: PositiveInt | None = None
    """Width of the embeddings, if it is not `width`; the output is projected to it."""
    projection: Literal["linear", "last-layer"] = "linear"
    """How the output is projected: by a linear layer after the cells, or by a last recurrent layer of that width."""


def build_cells(
    name: str,
    input_width: int,
    between: int,
    width: int,
    depth: int,
    weight_dropout: float = 0.0,
    last_width: int | None = None,
) -> list[RecurrentCell]:
    """Cells for `depth` layers, the first with inputs of `input_width`, the others with inputs of `between`.

    The last layer may have a width of its own, `last_width`.
    """
    input_widths = [between if layer else input_width for layer in range(depth)]
    cell, widths = CELLS[name], zip(input_widths, [width] * (depth - 1) + [last_width or width], strict=True)
    if not weight_dropout:
        return [cell(*pair) for pair in widths]
    if not issubclass(cell, FusedCell):
        raise UserError(
            f"Weight dropout is not possible for '{name}': it has no fused kernel.",
            hint="Set decoder.awd.weight_dropout=0, or decoder.cell=gru.",
        )
    return [cell(*pair, weight_dropout) for pair in widths]


class RecurrentEncoder(nn.Module):
    """A recurrent encoder (Sutskever et al. 2014), bidirectional as in Bahdanau et al. 2015.

    h_t = f(x_t, h_{t-1}). The pooled vector is the last state: one vector for the whole source.
    """

    def __init__(self, stack: UnidirectionalRNN | BidirectionalRNN):
        super().__init__()
        self.stack = stack

    @staticmethod
    def from_settings(settings: RecurrentEncoderSettings, input_width: int | None = None) -> RecurrentEncoder:
        """The encoder that the settings describe; by default the width of its input is that of its output."""
        cell, width, depth = settings.cell, settings.width, settings.depth
        input_width = input_width or width
        if not settings.bidirectional:
            return RecurrentEncoder(
                UnidirectionalRNN(build_cells(cell, input_width, width, width, depth), settings.dropout)
            )
        if width % 2:
            raise UserError(
                f"A width of {width} cannot be split between two directions.",
                hint="Make encoder.width even, or set encoder.bidirectional=false.",
            )
        forward_cells = build_cells(cell, input_width, width, width // 2, depth)
        backward_cells = build_cells(cell, input_width, width, width // 2, depth)
        return RecurrentEncoder(BidirectionalRNN(forward_cells, backward_cells, settings.dropout))

    def forward(self, vectors: Sequences) -> EncoderOutput:
        """The encoder output for the embedded source."""
        hidden, pooled = self.stack(vectors)
        return EncoderOutput(hidden.values, hidden.lengths, pooled)


class RecurrentDecoder(nn.Module):
    """A recurrent decoder of three parts: a bridge, a stack of cells, and attention to the source.

    The bridge computes the initial state from the encoder output. Without an encoder it is a language model, whose
    initial state is zero. `output_projection` is the identity, or a linear layer to the width of the embeddings, so
    that a head can be tied (Melis, Dyer & Blunsom 2018, "down-projection"), and dropout. Or the last layer has that
    width (Merity et al. 2018, section 4.5): its outputs are between -1 and 1, and SGD may use a large learning rate.
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
        cell, width, depth = settings.cell, settings.width, settings.depth
        if memory_width is None and settings.attention != "none":
            raise UserError(
                f"decoder.attention={settings.attention} needs an encoder.",
                hint="Set decoder.attention=none.",
            )
        if memory_width is not None and settings.awd:
            raise UserError(  # attention before each step calls the cells once a token, each time with new masks
                "Variational dropout is for language models.", hint="Leave out decoder.awd."
            )
        last_width = settings.embedding_width if settings.projection == "last-layer" else None
        if memory_width is not None and last_width:
            raise UserError(  # the queries of attention have the width of the state
                "decoder.projection=last-layer is for language models.",
                hint="Set decoder.projection=linear.",
            )
        cross_attention, awd = ATTENTIONS[settings.attention](width, memory_width or 0), settings.awd
        input_width = (input_width or settings.embedding_width or width) + cross_attention.context_width
        cells = build_cells(cell, input_width, width, width, depth, awd.weight_dropout if awd else 0.0, last_width)
        bridge = None if memory_width is None else DenseBridge(memory_width, width, depth, cells[0].state_count)
        stack = (VariationalStackedRNN if awd else StackedRNN)(cells, settings.dropout)
        return RecurrentDecoder(stack, bridge, cross_attention, _output_projection(settings))

    def start(self, memory: EncoderOutput | None, rows: int, max_length: int) -> RecurrentState:
        """The state before the first token; its size does not depend on `max_length`."""
        zero_state = self.stack.initial_state(rows, next(self.parameters()))
        if memory is None or self.bridge is None:
            return RecurrentState(zero_state.hidden, zero_state.cell)
        initial = self.bridge(memory.pooled, zero_state)
        keys, stored_memory = self.cross_attention.prepare_memory(memory)
        return RecurrentState(initial.hidden, initial.cell, keys, stored_memory)

    def step(
        self, vectors: Float[Tensor, "row new input"], state: RecurrentState
    ) -> tuple[Float[Tensor, "row new width"], RecurrentState]:
        """Process one or more new embeddings; the state holds the whole past."""
        hidden, state = self.cross_attention.unroll(self.stack, vectors, state)
        return self.output_projection(hidden), state

    def forward(self, vectors: Sequences, memory: EncoderOutput | None) -> Float[Tensor, "row time width"]:
        """The hidden states of whole targets, as in training."""
        values = zero_padding(vectors).values
        state = self.start(memory, rows=values.size(0), max_length=values.size(1))
        hidden, _ = self.cross_attention.unroll(self.stack, values, state)
        return self.output_projection(hidden)


def _output_projection(settings: RecurrentDecoderSettings) -> nn.Sequential:
    """The projection and the dropout between the cells and the head."""
    parts: list[nn.Module] = []
    if settings.embedding_width and settings.projection == "linear":
        parts.append(nn.Linear(settings.width, settings.embedding_width, bias=False))
    if settings.awd:
        parts.append(VariationalDropout(settings.awd.output_dropout))
    return nn.Sequential(*parts)
