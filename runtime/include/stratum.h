/* Stratum's C interface: load a pack of attention kernels and launch them through the CUDA driver, nothing else.
 *
 * The operation, per query head h with key/value head c = h / (q_heads / kv_heads), D = head_dim, R = gate_dim:
 *
 *     o[i] = sum_j softmax_j(q[i].k[j] / sqrt(D)) * sigmoid(qg[i].kg[j] / sqrt(R)) * v[j]      over the visible keys j
 *
 * The mask is causal and aligned to the bottom right: the last query of a sequence sees every key of it.
 *
 * Conventions. Functions return a stratum_status; on failure stratum_error_message() tells this thread what was wrong
 * (the argument, what was expected, what came) and the engine is exactly as before the call. Arrays live in device
 * memory, the last axis is contiguous, rows are 16-byte aligned, strides count elements. Calls are safe from several
 * threads. The caller's current CUDA context is as before after every call.
 *
 * `stream` is a CUstream (0 is the default stream); work is queued on it and the host goes on, but for this. Prefill
 * and decode wait for the engine's fourth last such call if the device is not through with it: there is page-locked memory
 * for the metadata of four. One that fails half way waits for what it queued. Close waits for the engine's queued work,
 * and so does build for the memory it fills under STRATUM_POISON.
 *
 * Errors. Each function lists its own, named without STRATUM_. Beside those, every function that takes an engine gives
 * DEVICE_ERROR for one that is closed (where nothing else is said) or was never built, and any may give SHAPE_ERROR for
 * a null result pointer and INTERNAL_ERROR when the host is out of memory.
 *
 * fork(). Once a process has built an engine, the children it forks can't use CUDA: there every function that
 * returns a status gives DEVICE_ERROR before it reads or calls anything, but those that give something up
 * (stratum_close, stratum_training_release, stratum_device_free), which do nothing and succeed.
 *
 * Environment: STRATUM_DRIVER names a library to open instead of libcuda.so.1. STRATUM_POISON=1 fills an engine's
 * device memory with NaNs when it is built, for tests that results don't depend on what it held.
 */
#ifndef STRATUM_H_
#define STRATUM_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised whenever a struct or function below changes; stratum_abi_version() returns the library's. */
#define STRATUM_ABI_VERSION 1

typedef enum stratum_status {
  STRATUM_OK = 0,
  STRATUM_CONFIG_ERROR = 1,      /* configuration: unknown key, wrong type, bad value, too small a memory limit */
  STRATUM_SHAPE_ERROR = 2,       /* an array's rank or extent */
  STRATUM_STRIDE_ERROR = 3,      /* an array's strides or alignment */
  STRATUM_LENGTH_ERROR = 4,      /* lengths: out of range, over max_seq_len, not summing to the packed rows */
  STRATUM_DTYPE_ERROR = 5,       /* an array's element type */
  STRATUM_DEVICE_ERROR = 6,      /* another device's array, a closed engine, a forked process, a capturing stream */
  STRATUM_UNKNOWN_SEQUENCE = 7,  /* an id never created, or released */
  STRATUM_PAGES_EXHAUSTED = 8,   /* not enough free pages; the message has needed and free */
  STRATUM_NO_KERNEL = 9,         /* the pack has no kernel for this stratum on this device */
  STRATUM_PACK_ERROR = 10,       /* a missing, truncated, altered or wrong-version file of the pack */
  STRATUM_DRIVER_ERROR = 11,     /* a CUDA driver call failed; the message has the call, the error's name, the kernel */
  STRATUM_MEMORY_LIMIT = 12,     /* the call's workspace would pass memory_limit_bytes */
  STRATUM_INTERNAL_ERROR = 13    /* a fault of this library */
} stratum_status;

typedef enum stratum_dtype {
  STRATUM_BFLOAT16 = 1,
  STRATUM_FLOAT16 = 2,
  STRATUM_RAW16 = 3, /* 16-bit unsigned integers taken as raw bits of the engine's dtype */
  STRATUM_OTHER = 4  /* anything else; dtype_name says what, for the message */
} stratum_dtype;

#define STRATUM_HOST_MEMORY (-1)

/* A strided array. `device` is a CUDA ordinal, or STRATUM_HOST_MEMORY, which is accepted only where the driver's device
 * memory is host memory. `dtype_name` is used in messages alone and may be null. */
typedef struct stratum_array {
  uint64_t data;
  int64_t shape[4];
  int64_t stride[4];
  int32_t rank;
  int32_t dtype;
  int32_t device;
  int32_t reserved;
  const char* dtype_name;
} stratum_array;

/* Names an engine; 0 is never one. A closed engine's name stays invalid for ever. */
typedef int64_t stratum_engine;

/* Bytes and pages an engine holds. Device bytes are exact; the kernels' code and the caller's arrays don't count. */
typedef struct stratum_memory {
  int64_t bytes_held;      /* device memory held now, training workspaces included */
  int64_t bytes_peak;      /* the most ever held at one moment */
  int64_t bytes_limit;     /* memory_limit_bytes, or -1 without a limit */
  int64_t bytes_cache;     /* the page pool */
  int64_t bytes_partials;  /* split partials of decode */
  int64_t bytes_metadata;  /* block tables, lengths, work lists */
  int64_t bytes_training;  /* softmax statistics and delta of training calls */
  int64_t pages_total;
  int64_t pages_free;
  int64_t pages_used;
  int64_t pages_shared;    /* pages that more than one sequence refers to */
  int64_t page_tokens;
  int64_t sequences;       /* sequences alive */
} stratum_memory;

/* STRATUM_ABI_VERSION of the library. */
int32_t stratum_abi_version(void);

/* What failed last on this thread; valid until the next failure on it, calls that succeed leave it alone. Never null. */
const char* stratum_error_message(void);

/* The key (for STRATUM_CONFIG_ERROR) or argument that the last failure of this thread names; "" if none. Never null. */
const char* stratum_error_argument(void);

/* Builds an engine from a configuration, a JSON object in UTF-8 (keys: README.md, "Configuration"; `device` must be
 * given), and a pack directory (the one that holds manifest.json). Loads every kernel of the asked modes and allocates
 * all serving memory. Errors: CONFIG_ERROR, NO_KERNEL, PACK_ERROR, DRIVER_ERROR, DEVICE_ERROR in a forked process. */
stratum_status stratum_build(const char* config_json, const char* pack_directory, stratum_engine* engine);

/* Frees everything the engine holds, after waiting for its queued work. Closing a closed engine succeeds. Errors:
 * DRIVER_ERROR, and then the engine is still open and holds all it held. */
stratum_status stratum_close(stratum_engine engine);

/* Device of the calling thread's current context, or 0 if it has none. Loads the driver library, initialises nothing.
 * Errors: DRIVER_ERROR without a driver library, DEVICE_ERROR in a forked process. */
stratum_status stratum_current_device(int32_t* device);

/* 1 if the driver's device memory is host memory (a stand-in driver), else 0. Loads the driver library. Errors:
 * DRIVER_ERROR without one, DEVICE_ERROR in a forked process. */
stratum_status stratum_host_memory(int32_t* host_memory);

/* ---- Training. q, o, dout, dq [B,S,Hq,D]; k, v, dk, dv [B,S,Hkv,D]; qg, dqg [B,S,Hq,R]; kg, dkg [B,S,Hkv,R].
 *
 * The workspaces come from the caller's allocator and count against the limit: reserve before allocating, release after
 * freeing. stats [B,Hq,S,2] float32 is written by forward and read by backward; delta is scratch of backward,
 * [B,Hq,S] float32 or more. */

/* Bytes of stats and of delta for a batch and length. Errors: CONFIG_ERROR naming modes for an engine without training,
 * SHAPE_ERROR for a size that is negative or beyond one launch. */
stratum_status stratum_training_bytes(stratum_engine engine, int64_t batch, int64_t seq_len, int64_t* stats_bytes,
                                      int64_t* delta_bytes);

/* Counts `bytes` of training workspace as held. Errors: MEMORY_LIMIT if that would pass the limit, SHAPE_ERROR for a
 * negative number. */
stratum_status stratum_training_reserve(stratum_engine engine, int64_t bytes);

/* Takes `bytes` of training workspace off the count. Succeeds on a closed engine. Errors: SHAPE_ERROR for more than is
 * counted, or a negative number. */
stratum_status stratum_training_release(stratum_engine engine, int64_t bytes);

/* Device memory for callers without an allocator of their own, in the order of `stream`; counted by the functions
 * above, not by this. 0 bytes give the address 0. Errors: SHAPE_ERROR for a negative number, DRIVER_ERROR. */
stratum_status stratum_device_allocate(stratum_engine engine, int64_t bytes, uint64_t stream, uint64_t* data);

/* Frees what stratum_device_allocate gave, in the order of `stream`; 0 is nothing to free. The engine may be closed.
 * Errors: DRIVER_ERROR. */
stratum_status stratum_device_free(stratum_engine engine, uint64_t data, uint64_t stream);

/* o, and stats for backward. May be captured in a CUDA graph: it queues kernels and nothing else. An empty batch or
 * length queues nothing. Inputs may be expanded or reversed views (strides of 0 or below); the elements of arrays that
 * are written must not lie on one another. stats is 16-byte aligned. Errors: CONFIG_ERROR naming modes for an engine
 * without training, SHAPE_ERROR, DTYPE_ERROR, DEVICE_ERROR (also another device's array), STRIDE_ERROR (also an address
 * out of alignment) before anything is queued; DRIVER_ERROR. */
stratum_status stratum_forward(stratum_engine engine, const stratum_array* q, const stratum_array* k,
                               const stratum_array* v, const stratum_array* qg, const stratum_array* kg,
                               const stratum_array* o, uint64_t stats, uint64_t stream);

/* dq, dk, dv, dqg, dkg from what forward got and gave, and dout. Captures, empty sizes, strides, alignment (delta's
 * too) and errors as for forward. After a DRIVER_ERROR the gradients may be written in part. */
stratum_status stratum_backward(stratum_engine engine, const stratum_array* q, const stratum_array* k,
                                const stratum_array* v, const stratum_array* qg, const stratum_array* kg,
                                const stratum_array* o, const stratum_array* dout, uint64_t stats, uint64_t delta,
                                const stratum_array* dq, const stratum_array* dk, const stratum_array* dv,
                                const stratum_array* dqg, const stratum_array* dkg, uint64_t stream);

/* ---- Serving. Sequences have ids that are never used again. Calls happen in the order they are made, whatever streams
 * they name. All but stratum_get_memory give CONFIG_ERROR naming modes for an engine without prefill and decode. */

/* A new sequence without tokens. Errors: PAGES_EXHAUSTED naming max_sequences, if so many are alive. */
stratum_status stratum_create(stratum_engine engine, int64_t* id);

/* A new sequence with the parent's tokens; pages are shared until one of the two writes to them. Errors:
 * UNKNOWN_SEQUENCE, PAGES_EXHAUSTED naming max_sequences. */
stratum_status stratum_fork(stratum_engine engine, int64_t parent, int64_t* id);

/* Ends a sequence; pages that no other one shares are free again. Errors: UNKNOWN_SEQUENCE. */
stratum_status stratum_release(stratum_engine engine, int64_t id);

/* Drops the newest tokens so that `length` remain. Errors: UNKNOWN_SEQUENCE, LENGTH_ERROR if length is negative or
 * above the present length. */
stratum_status stratum_truncate(stratum_engine engine, int64_t id, int64_t length);

/* The tokens that a sequence has. Errors: UNKNOWN_SEQUENCE. */
stratum_status stratum_length(stratum_engine engine, int64_t id, int64_t* length);

/* What the engine holds at this moment; for an engine without a serving mode the parts of serving are 0. No errors of
 * its own. */
stratum_status stratum_get_memory(stratum_engine engine, stratum_memory* memory);

/* Appends k, v, kg of `count` sequences and attends from their new tokens to all of their tokens. Arrays are packed
 * [T,H,dim], T = sum of lengths, in the order of ids. An id may appear once. A length may be 0. Strides as for forward.
 * Errors: CONFIG_ERROR naming modes for an engine without prefill; DEVICE_ERROR also for a stream under capture and
 * another device's array; SHAPE_ERROR, DTYPE_ERROR, STRIDE_ERROR; LENGTH_ERROR for lengths that are negative, pass
 * max_seq_len or don't sum to T, and for an id given twice; UNKNOWN_SEQUENCE; PAGES_EXHAUSTED; DRIVER_ERROR. After a
 * DRIVER_ERROR o may be written in part. */
stratum_status stratum_prefill(stratum_engine engine, const int64_t* ids, const int64_t* lengths, int64_t count,
                               const stratum_array* q, const stratum_array* k, const stratum_array* v,
                               const stratum_array* qg, const stratum_array* kg, const stratum_array* o,
                               uint64_t stream);

/* The same for the mode decode, with every length 1 to 8 (else LENGTH_ERROR); other errors as for prefill. */
stratum_status stratum_decode(stratum_engine engine, const int64_t* ids, const int64_t* lengths, int64_t count,
                              const stratum_array* q, const stratum_array* k, const stratum_array* v,
                              const stratum_array* qg, const stratum_array* kg, const stratum_array* o,
                              uint64_t stream);

/* Facts about the engine as a JSON object: configuration, device, the kernels chosen. The text lives until this
 * thread's next stratum_describe, or the thread's end. No errors of its own. */
stratum_status stratum_describe(stratum_engine engine, const char** json);

#ifdef __cplusplus
}
#endif

#endif /* STRATUM_H_ */
