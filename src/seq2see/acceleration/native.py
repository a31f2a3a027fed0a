"""The C++ version of a Transformer for decoding on a CPU: a whole step is one call, without operators of torch.

The definition is the PyTorch model (models/seq2seq.py, models/transformer.py); `cpp/` implements the same computation
for speed (see the comments at the top of its files), and tests/acceleration/test_native.py compares both. Without a C++
compiler, or for a model that the C++ code does not support, `make_native_model` returns None and
`native_unsupported_reason` the reason; the callers then use slower code.
"""

from __future__ import annotations

import copy
import ctypes
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from seq2see.acceleration.compiler import load_native_library
from seq2see.acceleration.fast_search import CPULoop
from seq2see.core.batch import Sequences
from seq2see.core.devices import plain_class
from seq2see.layers.attention import Attention, SelfAttention
from seq2see.layers.feed_forward import FeedForward
from seq2see.layers.norms_and_dropout import LayerNorm, PostNorm, PreNorm, RMSNorm
from seq2see.layers.positions import LearnedPositions, NoPositions, SinusoidalPositions
from seq2see.models.embeddings_and_heads import TiedHead, TokenEmbedding, UntiedHead
from seq2see.models.seq2seq import Seq2Seq
from seq2see.models.transformer import TransformerDecoder, TransformerEncoder

LANES, MAX_HEAD_SIZE = 16, 128
"""The number of floats in a register, and the largest head in C++."""
PRECISIONS = {"float32": 0, "bf16": 1, "int8": 2}
ERROR_MESSAGES = {
    1: "The cache is full: no more tokens fit.",
    2: "There is no such token in the target vocabulary.",
    3: "There is not enough memory.",
}


def native_unsupported_reason(model: Seq2Seq) -> str | None:
    """Why there is no C++ version of a model; None if there is one."""
    return unsupported_part(model) or load_native_library().reason


def make_native_model(model: Seq2Seq, precision: str, threads: int) -> NativeModel | None:
    """Return the C++ version of a model with weights in this precision ("float32", "bf16" or "int8"), or None.

    It contains a copy of the current weights: later training of the model does not change it.
    """
    return None if native_unsupported_reason(model) else NativeModel(model, precision, threads)


class NativeCache:
    """The key-value cache of one search in C++, for the source and for every token so far; all rows share it."""

    def __init__(self, model: NativeModel, address: int, positions: Tensor):
        self.address = address
        self.positions = positions  # referenced here, because C++ reads them at every step
        self.model = model
        weakref.finalize(self, model.library.native_free_cache, address).atexit = False


@dataclass(frozen=True)
class NativeState:
    """The cache slots of the tokens of each row. Reordering beams only permutes the rows of this small table."""

    slot_table: Int[Tensor, "row columns"]
    """For each row: the number of its tokens, the index of its source, and the slots of its tokens."""
    cache: NativeCache

    @property
    def cache_length(self) -> Int[Tensor, "row"]:
        """The number of tokens of each row."""
        return self.slot_table[:, 0]


class NativeModel:
    """A model that decodes in C++. A step writes into its state, so a state has one owner."""

    decoding_loop = CPULoop

    def __init__(self, model: Seq2Seq, precision: str, threads: int):
        build = load_native_library()
        assert build.library is not None, build.reason
        self.library = _declare_signatures(build.library)
        self.vocab_size = model.target.table.num_embeddings
        sides: list[Any] = [model.source, model.target]
        self.embedding_dims = [side.table.embedding_dim for side in sides]
        self.positions = [copy.deepcopy(side.positions).float() for side in sides]
        self.position_cache = [torch.empty(0, 0), torch.empty(0, 0)]  # the position encodings computed so far
        weights = NativeWeights(model, precision)
        sizes = (ctypes.c_int64 * len(weights.sizes))(*weights.sizes)
        addresses = [None if tensor is None else tensor.data_ptr() for tensor in weights.tensors]
        tensors = (ctypes.c_void_p * len(addresses))(*addresses)
        self.address = self.library.native_model(sizes, tensors, threads)
        if not self.address:
            raise MemoryError("There is not enough memory for the packed weights.")
        self.retained_tensors = weights.retained_tensors
        weakref.finalize(self, self.library.native_free_model, self.address).atexit = False

    @torch.no_grad()
    def start(self, source: Sequences | None, rows: int, max_length: int) -> NativeState:
        """Encode the source and return a state for up to `max_length` tokens."""
        assert source is not None, "a sequence-to-sequence model needs a source"
        tokens, lengths = source.values.to(torch.int64).contiguous(), source.lengths.to(torch.int64).contiguous()
        source_positions, target_positions = self._positions(0, tokens.size(1)), self._positions(1, max_length)
        sizes = (ctypes.c_int64 * 3)(*tokens.shape, max_length)
        address = self.library.native_start(
            self.address,
            tokens.data_ptr(),
            lengths.data_ptr(),
            sizes,
            source_positions.data_ptr(),
            target_positions.data_ptr(),
        )
        if not address:
            raise IndexError("There is no such token in the source vocabulary, or there is not enough memory.")
        slot_table = torch.zeros(rows, 2 + max_length, dtype=torch.int32)
        slot_table[:, 1] = torch.arange(rows)
        return NativeState(slot_table, NativeCache(self, address, target_positions))

    def step(
        self, tokens: Int[Tensor, "row new"], state: NativeState
    ) -> tuple[Float[Tensor, "row new vocab"], NativeState]:
        """Read new target tokens; return for each of them the logits of the next token."""
        return self._step(tokens, state, False), state

    def step_log_probabilities(
        self, tokens: Int[Tensor, "row new"], state: NativeState
    ) -> tuple[Float[Tensor, "row new vocab"], NativeState]:
        """`step` with log-probabilities instead of logits: the log-softmax is computed in C++."""
        return self._step(tokens, state, True), state

    def _step(
        self, tokens: Int[Tensor, "row new"], state: NativeState, probabilities: bool
    ) -> Float[Tensor, "row new vocab"]:
        if tokens.dtype != torch.int64 or not tokens.is_contiguous():
            tokens = tokens.to(torch.int64).contiguous()
        rows, new = tokens.shape
        scores = torch.empty(rows, new, self.vocab_size)
        error = self.library.native_step(
            state.cache.address,
            tokens.data_ptr(),
            rows,
            new,
            state.slot_table.data_ptr(),
            scores.data_ptr(),
            probabilities,
        )
        if error:
            raise IndexError(ERROR_MESSAGES[error])
        return scores

    def _positions(self, side: int, length: int) -> Float[Tensor, "time width"]:
        """The encodings of at least `length` positions; they are cached for the largest length so far."""
        if self.position_cache[side].size(0) < length:
            count = max(length, 64)
            encodings = self.positions[side](torch.arange(count)[None])[0]
            self.position_cache[side] = encodings.detach().expand(count, self.embedding_dims[side]).contiguous()
        return self.position_cache[side]


def _declare_signatures(library: ctypes.CDLL) -> Any:
    """Declare the argument types of the functions of the library, so that addresses keep all their bits."""
    address, number = ctypes.c_void_p, ctypes.c_int64
    signatures: dict[str, tuple[Any, Sequence[Any]]] = {
        "native_model": (address, (address, address, number)),
        "native_free_model": (None, (address,)),
        "native_start": (address, (address,) * 6),
        "native_free_cache": (None, (address,)),
        "native_step": (ctypes.c_int, (address, address, number, number, address, address, number)),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


# --- the weights, as the C++ code reads them ---


def unsupported_part(model: Seq2Seq) -> str | None:
    """Name the part of a model that the C++ code does not support; None if it supports all of them."""
    if plain_class(model) is not Seq2Seq:
        return "it is no plain sequence-to-sequence model"
    supported: list[tuple[str, Any, tuple[type, ...]]] = [
        ("source", model.source, (TokenEmbedding,)),
        ("encoder", model.encoder, (TransformerEncoder,)),
        ("target", model.target, (TokenEmbedding,)),
        ("decoder", model.decoder, (TransformerDecoder,)),
        ("head", model.head, (TiedHead, UntiedHead)),
    ]
    supported += [
        ("positions", getattr(side, "positions", None), (SinusoidalPositions, LearnedPositions, NoPositions))
        for side in (model.source, model.target)
    ]
    for name, module in model.named_modules():
        last = name.rpartition(".")[2]
        if last == "feed_forward":
            supported.append((name, module, (FeedForward,)))
        elif last == "self_attention":
            supported += [
                (name, module, (SelfAttention,)),
                (f"{name}.relative_positions", getattr(module, "relative_positions", None), (type(None),)),
            ]
        elif last in ("qkv_proj", "out_proj"):
            supported.append((f"{name}.bias", module.bias, (nn.Parameter,)))
        elif last.endswith("_residual"):
            supported += [(name, module, (PreNorm, PostNorm)), (f"{name}.norm", module.norm, (LayerNorm, RMSNorm))]
    for name, module, types in supported:
        if plain_class(module) not in types:
            return f"its {name} is a {plain_class(module).__name__}"
    attentions = [module for module in model.modules() if isinstance(module, Attention)]
    head_size = max(attention.out_proj.in_features // attention.heads for attention in attentions)
    if head_size > MAX_HEAD_SIZE:
        return f"its heads have {head_size} numbers, more than {MAX_HEAD_SIZE}"
    if any(weight.device.type != "cpu" for weight in model.parameters()):
        return "it is not on the CPU"
    return None


class NativeWeights:
    """The sizes and tensors of a model, collected in the order in which the C++ code reads them (`cpp/model.hpp`).

    In C++ a head occupies whole registers of sixteen numbers. The weights of heads of other sizes are padded with zeros
    here, so that the rest of the code need not treat them differently.
    """

    def __init__(self, model: Seq2Seq, precision: str):
        self.sizes: list[int] = [PRECISIONS[precision]]
        self.tensors: list[Tensor | None] = []
        self.retained_tensors: list[Tensor] = []  # tensors that C++ does not copy, but reads at every step
        self.add_stack(model.source, model.encoder)
        self.add_stack(model.target, model.decoder)
        if isinstance(model.head, TiedHead):
            self.add_weight(model.head.table.weight, None)
        elif isinstance(model.head, UntiedHead):
            self.add_linear(model.head.project)

    def add_stack(self, embedding: Any, stack: Any) -> None:
        """Add the encoder or the decoder, with its token embeddings."""
        first = stack.blocks[0]
        norm = first.feed_forward_residual.norm
        heads = first.self_attention.heads
        width, hidden = embedding.table.embedding_dim, first.feed_forward.up_proj.out_features
        self.sizes += [embedding.table.num_embeddings, width, len(stack.blocks), heads, width // heads, hidden]
        self.sizes += [int(type(first.feed_forward_residual) is PreNorm), int(isinstance(norm, LayerNorm))]
        table = _float32(embedding.table.weight).clone()  # a copy, so that later training does not change it
        self.retained_tensors.append(table)
        self.tensors += [table, torch.tensor([embedding.scale, norm.eps])]
        for block in stack.blocks:
            self.add_block(block, width // heads)
        if stack.final_norm is not None:
            self.add_norm(stack.final_norm)

    def add_block(self, block: Any, size: int) -> None:
        """Add self-attention, cross-attention (in a decoder) and feed-forward; `size` is the size of a head."""
        self.add_norm(block.self_attention_residual.norm)
        self.add_head_projection(block.self_attention.qkv_proj, size)
        self.add_output_projection(block.self_attention.out_proj, size)
        if hasattr(block, "cross_attention"):
            self.add_norm(block.cross_attention_residual.norm)
            self.add_head_projection(block.cross_attention.q_proj, size)
            self.add_kv_projection(block.cross_attention.kv_proj, size)
            self.add_output_projection(block.cross_attention.out_proj, size)
        self.add_norm(block.feed_forward_residual.norm)
        self.add_linear(block.feed_forward.up_proj)
        self.add_linear(block.feed_forward.down_proj)

    def add_head_projection(self, linear: nn.Linear, size: int) -> None:
        """Add a projection to queries, keys or values of all heads, or to several of them."""
        weight = _pad_heads(linear.weight.unflatten(0, (-1, size)), 1).flatten(0, 1)
        self.add_weight(weight, _pad_heads(linear.bias.unflatten(0, (-1, size)), 1).flatten())

    def add_kv_projection(self, linear: nn.Linear, size: int) -> None:
        """Add the projection to keys and values, reordered: the key and the value of each head are adjacent."""
        weight = linear.weight.unflatten(0, (2, -1, size)).transpose(0, 1)
        bias = linear.bias.unflatten(0, (2, -1, size)).transpose(0, 1)
        self.add_weight(_pad_heads(weight, 2).flatten(0, 2), _pad_heads(bias, 2).flatten())

    def add_output_projection(self, linear: nn.Linear, size: int) -> None:
        """Add the output projection of attention."""
        self.add_weight(_pad_heads(linear.weight.unflatten(1, (-1, size)), 2).flatten(1), linear.bias)

    def add_linear(self, linear: nn.Linear) -> None:
        """Add a linear layer."""
        self.add_weight(linear.weight, linear.bias)

    def add_weight(self, weight: Tensor, bias: Tensor | None) -> None:
        """Add a weight (columns, inputs) and a bias."""
        self.tensors += [_float32(weight), None if bias is None else _float32(bias)]

    def add_norm(self, norm: Any) -> None:
        """Add the weight and the bias of a norm."""
        self.tensors += [_float32(norm.weight), _float32(norm.bias) if isinstance(norm, LayerNorm) else None]


def _float32(weight: Tensor) -> Tensor:
    return weight.detach().to(torch.float32).contiguous()


def _pad_heads(weight: Tensor, dimension: int) -> Tensor:
    """Append zeros to each head, up to a whole number of registers."""
    shape = list(weight.shape)
    shape[dimension] = -shape[dimension] % LANES
    return torch.cat([weight, weight.new_zeros(shape)], dimension)
