"""The C++ version of a Transformer for decoding on a CPU: a whole step is one call, without operators of torch.

The PyTorch model is the definition; `cpp/` implements the same computation for speed (see the comments at the top of
its files), and tests compare both. Without a C++ compiler, or for a model that the C++ code does not support,
`make_native_model` returns None and `native_unsupported_reason` the reason; the callers then use slower code.
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
from torch import Tensor

from seq2see.core.batch import Sequences
from seq2see.decoding.compiler import load_native_library
from seq2see.decoding.native_weights import NativeWeights, unsupported_part
from seq2see.models.seq2seq import Seq2Seq

ERROR_MESSAGES = {
    1: "The cache is full: there is no room for more tokens.",
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
