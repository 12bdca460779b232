/* libstratum_emulator.so: a library with libcuda's names, and what tests ask of it.
 *
 * Device memory is host memory. Copies, memsets and kernels are queued and run under a schedule. The library is
 * stricter than a driver: whatever a program must not do is refused and noted as a fault (emulator_fault), which is
 * also printed on stderr. docs/emulator.md lists the variables of the environment that choose devices, schedule and
 * more; they are read at the first call.
 */
#ifndef STRATUM_EMULATOR_H_
#define STRATUM_EMULATOR_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A recorded launch. Pointers are valid until emulator_reset. */
typedef struct emulator_launch {
  const char* kernel;
  const void* params; /* a copy of the parameter struct */
  int64_t params_bytes;
  uint64_t stream;
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t shared_bytes;
  int32_t device;
  int32_t captured; /* 1 if the stream was being captured */
  uint32_t cluster[3];
  int32_t cooperative;
} emulator_launch;

/* Forgets launches, call counts, faults, the call to fail, and the error that a device keeps after a kernel's fault.
 * Live objects and queued work stay. */
void emulator_reset(void);

/* The `nth` call (1 is the next one) of a function, by its exported name, fails with a CUDA error code. nth 0: none
 * fails any more. */
void emulator_fail(const char* function, int64_t nth, int32_t code);

/* Whether launches are run from now on (1) or only checked and recorded (0), as STRATUM_EMULATOR_EXECUTE says first. */
void emulator_execute(int32_t on);

/* Calls of a function since the last reset, failed ones included; of all functions for null. */
int64_t emulator_calls(const char* function);

/* The name of the i-th distinct function called since the last reset, or null past the last. */
const char* emulator_called(int64_t index);

int64_t emulator_launch_count(void);
/* Copies the i-th launch; 0 if there is none. */
int32_t emulator_launch_get(int64_t index, emulator_launch* launch);

/* Objects alive of a kind: "device" and "pinned" allocations, "event", "module", "stream", "graph", "exec" (a graph
 * that can be launched), "pool"; -1 for another word. */
int64_t emulator_live(const char* kind);
/* Bytes of live device allocations. */
int64_t emulator_live_bytes(void);

/* What the program did wrong: unknown or dead handles, a double free, a launch whose parameters point into freed
 * memory, page-locked memory written while a copy from it may be running, a call in a forked process, ... */
int64_t emulator_fault_count(void);
const char* emulator_fault(int64_t index); /* null past the last */

/* Copies from page-locked memory that nobody has waited for yet. */
int64_t emulator_copies_in_flight(void);
/* Operations of all streams that haven't run. */
int64_t emulator_queued(void);

/* Makes a stream on a device, and ends it. */
uint64_t emulator_stream_create(int32_t device);
void emulator_stream_destroy(uint64_t stream);
/* Begins (1) or ends (0) a capture of the stream, in global mode, by the calling thread. Ending returns 0 if the
 * capture was broken by a call that is not allowed during one. */
int32_t emulator_stream_capture(uint64_t stream, int32_t begin);

/* Makes a device's primary context current on this thread (replacing the current one); -1: no context. */
void emulator_set_current_device(int32_t device);
/* The device of this thread's current context, or -1; and how many contexts are on its stack. */
int32_t emulator_current_device(void);
int64_t emulator_context_depth(void);

/* What libcuda lacks: tells the runtime that device memory is host memory. Returns 1. */
int32_t stratum_driver_host_memory(void);

#ifdef __cplusplus
}
#endif

#endif /* STRATUM_EMULATOR_H_ */
