"""The fast twin of a Transformer on a CPU: a whole step is one call of C++, and no operator of torch runs.

The model says what is computed; `cpp/` says it again in a form that a processor likes (see the heads of
its files), and tests say that both agree. `make_native_model` gives None, and `native_unsupported_reason` the reason, where there
is no C++ compiler or the model is no such Transformer; the callers then have a slower way.
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
    1: "There is no room for more tokens.",
    2: "There is no such token.",
    3: "There is not enough memory.",
}


def native_unsupported_reason(model: Seq2Seq) -> str | None:
    """Why there is no native twin of a model, or None if there is one."""
    return unsupported_part(model) or load_native_library().reason


def make_native_model(model: Seq2Seq, precision: str, threads: int) -> NativeModel | None:
    """A twin with weights of this precision ("float32", "bf16" or "int8") that works with so many threads.

    It is the model as it is now: what the model learns later, the twin does not know.
    """
    return None if native_unsupported_reason(model) else NativeModel(model, precision, threads)


class NativeCache:
    """The C++ side of one search: keys and values of the source and of every token stepped; all rows share it."""

    def __init__(self, model: NativeModel, address: int, positions: Tensor):
        self.address = address
        self.positions = positions  # read at every step
        self.model = model
        weakref.finalize(self, model.library.native_free_cache, address).atexit = False


@dataclass(frozen=True)
class NativeState:
    """Which slots of the store are each row's past. Beams that move only permute the rows of this small table."""

    slot_table: Int[Tensor, "row two_and_room"]
    """How many tokens a row has taken in, which of the sources it writes about, and the slots of its tokens."""
    cache: NativeCache

    @property
    def cache_length(self) -> Int[Tensor, "row"]:
        """How many tokens each row has taken in."""
        return self.slot_table[:, 0]


class NativeModel:
    """Decodes like the model it is made from. A step writes into its state, so a state has one owner."""

    def __init__(self, model: Seq2Seq, precision: str, threads: int):
        found = load_native_library()
        assert found.library is not None, found.reason
        self.library = _declare_signatures(found.library)
        self.vocab_size = model.target.table.num_embeddings
        sides: list[Any] = [model.source, model.target]
        self.embedding_dims = [side.table.embedding_dim for side in sides]
        self.positions = [copy.deepcopy(side.positions).float() for side in sides]
        self.position_cache = [torch.empty(0, 0), torch.empty(0, 0)]  # the positions' vectors computed so far
        weights = NativeWeights(model, precision)
        numbers = (ctypes.c_int64 * len(weights.sizes))(*weights.sizes)
        addresses = [None if table is None else table.data_ptr() for table in weights.tensors]
        tensors = (ctypes.c_void_p * len(addresses))(*addresses)
        self.address = self.library.native_model(numbers, tensors, threads)
        if not self.address:
            raise MemoryError("There is not enough memory for the packed weights.")
        self.retained_tensors = weights.retained_tensors
        weakref.finalize(self, self.library.native_free_model, self.address).atexit = False

    @torch.no_grad()
    def start(self, source: Sequences | None, rows: int, max_length: int) -> NativeState:
        """Read the source and get ready to write up to `max_length` tokens."""
        assert source is not None, "sequence to sequence needs a source"
        tokens, lengths = source.values.to(torch.int64).contiguous(), source.lengths.to(torch.int64).contiguous()
        read, written = self._positions(0, tokens.size(1)), self._positions(1, max_length)
        sizes = (ctypes.c_int64 * 3)(*tokens.shape, max_length)
        address = self.library.native_start(
            self.address, tokens.data_ptr(), lengths.data_ptr(), sizes, read.data_ptr(), written.data_ptr()
        )
        if not address:
            raise IndexError("There is no such token in the source, or not enough memory.")
        slot_table = torch.zeros(rows, 2 + max_length, dtype=torch.int32)
        slot_table[:, 1] = torch.arange(rows)
        return NativeState(slot_table, NativeCache(self, address, written))

    def step(
        self, tokens: Int[Tensor, "row new"], state: NativeState
    ) -> tuple[Float[Tensor, "row new vocab"], NativeState]:
        """Take in new target tokens; give the scores of the token after each of them."""
        return self._step(tokens, state, False), state

    def step_log_probabilities(
        self, tokens: Int[Tensor, "row new"], state: NativeState
    ) -> tuple[Float[Tensor, "row new vocab"], NativeState]:
        """The same with log-probabilities instead of logits: their sum is taken while they are at hand."""
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
        """The vectors of at least so many positions: they are computed once, for the longest row seen so far."""
        if self.position_cache[side].size(0) < length:
            count = max(length, 64)
            vectors = self.positions[side](torch.arange(count)[None])[0]
            self.position_cache[side] = vectors.detach().expand(count, self.embedding_dims[side]).contiguous()
        return self.position_cache[side]


def _declare_signatures(library: ctypes.CDLL) -> Any:
    """The library with the types of its functions' arguments, so that addresses keep all their bits."""
    address, number = ctypes.c_void_p, ctypes.c_int64
    signatures: dict[str, tuple[Any, Sequence[Any]]] = {
        "native_model": (address, (address, address, number)),
        "native_forget_model": (None, (address,)),
        "native_start": (address, (address,) * 6),
        "native_forget_store": (None, (address,)),
        "native_step": (ctypes.c_int, (address, address, number, number, address, address, number)),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
