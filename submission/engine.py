"""build_engine, and the engine that it returns."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from . import torch_op, training
from .call import to_int64
from .errors import DtypeError, LengthError, UnknownSequence
from .library import check
from .native import Native
from .serving import serve
from .training import Saved


def build_engine(config) -> Engine:
    """Builds an engine: picks the kernels for `config` and this device, loads them, allocates all serving memory.

    config: a dict, or the path of a JSON file, with the keys

        head_dim, gate_dim, q_heads, kv_heads   sizes; q_heads is a multiple of kv_heads
        dtype                                   "bfloat16" (default) or "float16", of all inputs and outputs
        modes                                   list of "training", "prefill", "decode"; default all
        max_sequences, max_seq_len, max_cached_tokens
                                                serving capacity, needed for prefill and decode; a prefix that forks
                                                share counts once
        memory_limit_bytes                      most device memory the engine may hold; default no limit
        batch_invariant                         true: prefill and decode give the same bits; default false
        device                                  CUDA ordinal; default the caller's current device

    Errors: ConfigError, NoKernelError, PackError, DriverError.
    """
    return Engine(Native(config))


class Engine:
    """Pairwise-gated attention on one device; made by build_engine.

    For query head h with key/value head c = h // (q_heads / kv_heads), over the keys j that query i sees (causal, the
    last query of a sequence sees every key of it):

        o[i] = sum_j softmax_j(q[i]·k[j] / sqrt(D)) sigmoid(qg[i]·kg[j] / sqrt(R)) v[j]

    D = head_dim, R = gate_dim. Arrays are torch tensors, or have `__cuda_array_interface__`, DLPack, or, where device
    memory is host memory, `__array_interface__`. Their dtype is the configured one, or unsigned 16-bit integers that
    hold its raw bits. The last axis is contiguous, rows are 16-byte aligned, other strides are free; inputs may be
    expanded (stride 0). Inputs are never written.

    `out=` takes the array, or the tuple of arrays, to write the result to, and is returned. Without it the result is a
    new contiguous torch tensor, which needs inputs that are torch's.

    Work is queued and nothing waits for it: on torch's current stream of the engine's device if an input is a CUDA
    tensor of torch, else on the default stream; `stream=` (a handle as an int, or a stream object) names another. An
    array used on a stream other than its own must outlive the work, as with any torch operator.

    Work queued earlier on an input or output comes first if it is on the same stream, or if the array speaks DLPack,
    whose exporters order the streams. A torch tensor's other streams are the caller's to order, as in torch. An array
    that has `__cuda_array_interface__` alone and names another `stream` there is refused.

    Calls from several threads are serialised. A call that raises (an EngineError) has done nothing. Beside the errors
    that each method lists, any of them but close may raise DeviceError (engine closed, process forked) and
    DriverError, and ConfigError if the engine was built without its mode.

        ShapeError    an array's rank or extent
        StrideError   an array's strides or alignment, elements of an output that overlap
        DtypeError    an array's dtype, a masked array, a read-only output, no `out` beside inputs that aren't torch's,
                      an argument of a wrong type
        DeviceError   an array on another device, one that names another stream
    """

    def __init__(self, native: Native):
        self._native = native
        self._handle = native.handle
        # Registered here rather than on first use, so that `attention` can be traced by torch.compile.
        self._attention = torch_op.register(native) if "torch" in sys.modules else None

    # ---- Training

    def forward(self, q, k, v, qg, kg, out=None, stream=None):
        """Attention over a dense batch, with what backward needs. May be captured in a CUDA graph.

        q [B,S,Hq,D]; k, v [B,S,Hkv,D]; qg [B,S,Hq,R]; kg [B,S,Hkv,R]. Returns (o, saved): o [B,S,Hq,D], saved for
        backward. Takes 8 bytes a query head and token of training workspace, freed with `saved`. Not recorded by
        autograd; `attention` is. B or S may be 0.

        Errors: ShapeError, StrideError, DtypeError, DeviceError, MemoryLimitError.
        """
        saved = training.forward(self._native, (q, k, v, qg, kg), out, stream)
        return saved.output, saved

    def backward(self, saved: Saved, do, out=None, stream=None):
        """The gradients of a forward for the gradient `do` [B,S,Hq,D] of its output. May be captured in a CUDA graph.

        saved: the second value that forward returned; good for any number of calls. do may be expanded. Returns
        (dq, dk, dv, dqg, dkg), each with the shape and dtype of its input: dq [B,S,Hq,D]; dk, dv [B,S,Hkv,D];
        dqg [B,S,Hq,R]; dkg [B,S,Hkv,R]. `out` is a tuple of those five. Takes 4 bytes a query head and token of
        training workspace for the time of the call.

        Errors: ShapeError, StrideError, DtypeError, DeviceError (another engine's `saved` too), MemoryLimitError.
        """
        return training.backward(self._native, saved, do, out, stream)

    def attention(self, q, k, v, qg, kg):
        """Differentiable attention over a dense batch of torch tensors.

        q [B,S,Hq,D]; k, v [B,S,Hkv,D]; qg [B,S,Hq,R]; kg [B,S,Hkv,R]. Returns o [B,S,Hq,D].
        A torch custom op on torch's current stream: works under autograd and torch.compile, takes any strides of the
        gradient of o. There is no second derivative.

        Errors: ShapeError, StrideError, DtypeError, DeviceError, MemoryLimitError; in backward MemoryLimitError.
        """
        if self._attention is None:
            self._attention = self._late_attention()
        return self._attention(q, k, v, qg, kg, self._handle)[0]

    # ---- Serving

    def create(self) -> int:
        """A new, empty sequence; returns its id, an int that is never used again.

        Errors: PagesExhausted beyond max_sequences.
        """
        native = self._native
        made = native.ffi.new("int64_t*")
        check(native.lib.stratum_create(native.handle, made))
        return made[0]

    def fork(self, id: int) -> int:
        """A new sequence with the tokens of `id`; returns its id. Shares the parent's pages until one of them writes.

        Errors: UnknownSequence; PagesExhausted beyond max_sequences; DtypeError if `id` is no integer.
        """
        native = self._native
        made = native.ffi.new("int64_t*")
        check(native.lib.stratum_fork(native.handle, to_int64(id, "id", UnknownSequence), made))
        return made[0]

    def release(self, id: int) -> None:
        """Ends a sequence and frees the pages that no other one shares.

        Errors: UnknownSequence; DtypeError if `id` is no integer.
        """
        native = self._native
        check(native.lib.stratum_release(native.handle, to_int64(id, "id", UnknownSequence)))

    def truncate(self, id: int, length: int) -> None:
        """Drops the newest tokens of a sequence, so that `length` remain.

        Errors: UnknownSequence; LengthError if `length` is negative or above the present length; DtypeError if one is
        no integer.
        """
        native = self._native
        number, kept = to_int64(id, "id", UnknownSequence), to_int64(length, "length", LengthError)
        check(native.lib.stratum_truncate(native.handle, number, kept))

    def length(self, id: int) -> int:
        """Tokens cached of a sequence.

        Errors: UnknownSequence; DtypeError if `id` is no integer.
        """
        native = self._native
        tokens = native.ffi.new("int64_t*")
        check(native.lib.stratum_length(native.handle, to_int64(id, "id", UnknownSequence), tokens))
        return tokens[0]

    def prefill(self, ids: Sequence[int], q, k, v, qg, kg, lengths: Sequence[int], out=None, stream=None):
        """Appends tokens to sequences and attends from them to all of their tokens, old and new.

        ids, lengths: integers in host memory (list, tuple, numpy), one of each a sequence; an id at most once, a length
        may be 0. Arrays are packed in the order of ids, T = sum(lengths): q [T,Hq,D]; k, v [T,Hkv,D]; qg [T,Hq,R];
        kg [T,Hkv,R]. Returns o [T,Hq,D]. Calls happen in the order they are made, whatever streams they name.

        Errors: ShapeError, StrideError, DtypeError; LengthError for an id that comes twice, a negative length, a
        sequence beyond max_seq_len, lengths that don't sum to T; UnknownSequence; PagesExhausted; DeviceError on a
        stream under capture too.
        """
        native = self._native
        return serve(native, native.lib.stratum_prefill, ids, q, k, v, qg, kg, lengths, out, stream)

    def decode(self, ids: Sequence[int], q, k, v, qg, kg, lengths: Sequence[int], out=None, stream=None):
        """Appends 1 to 8 tokens to each sequence and attends from them to all of its tokens, old and new; made for few
        new tokens and long caches.

        ids, lengths: integers in host memory (list, tuple, numpy), one of each a sequence; an id at most once, a length
        from 1 to 8. Arrays are packed in the order of ids, T = sum(lengths): q [T,Hq,D]; k, v [T,Hkv,D]; qg [T,Hq,R];
        kg [T,Hkv,R]. Returns o [T,Hq,D]. Calls happen in the order they are made, whatever streams they name.

        Errors: ShapeError, StrideError, DtypeError; LengthError for an id that comes twice, a length outside 1 to 8, a
        sequence beyond max_seq_len, lengths that don't sum to T; UnknownSequence; PagesExhausted; DeviceError on a
        stream under capture too.
        """
        native = self._native
        return serve(native, native.lib.stratum_decode, ids, q, k, v, qg, kg, lengths, out, stream)

    # ---- The engine itself

    def memory(self) -> dict[str, int]:
        """Device bytes and pages that the engine holds now.

        Bytes: bytes_held, bytes_peak (the most at one moment), bytes_limit (-1: none), and of those held bytes_cache,
        bytes_partials, bytes_metadata, bytes_training. Pages: pages_total, pages_free, pages_used, pages_shared (by
        more than one sequence), page_tokens. And the number of sequences. Kernels' code and the caller's arrays don't
        count.
        """
        native = self._native
        memory = native.ffi.new("stratum_memory*")
        check(native.lib.stratum_get_memory(native.handle, memory))
        return {name: getattr(memory, name) for name, _ in native.ffi.typeof("stratum_memory").fields}

    def describe(self) -> dict:
        """Facts about the engine as a new dict that JSON has a form for: its configuration, its device, the kernels
        chosen."""
        import json

        native = self._native
        text = native.ffi.new("char**")
        check(native.lib.stratum_describe(native.handle, text))
        return json.loads(native.ffi.string(text[0]))

    def close(self) -> None:
        """Waits for the queued work and frees everything; again is harmless. Dropping the engine does the same.

        Errors: DriverError, and then the engine is still open.
        """
        self._native.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def _late_attention(self):
        if "torch" not in sys.modules:
            raise DtypeError("attention: expected torch tensors, but torch isn't imported")
        return torch_op.register(self._native)
