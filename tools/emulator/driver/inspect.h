/* What tests ask about the kernels' own instructions; the rest of the interface is in emulator.h.
 *
 * A kernel is named as in the pack. Texts that are returned are valid until the thread's next call.
 */
#ifndef STRATUM_EMULATOR_INSPECT_H_
#define STRATUM_EMULATOR_INSPECT_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The pack's PTX of a kernel; null if it has no such kernel. */
const char* emulator_ptx(const char* kernel);

/* Launches of the kernel run `ptx` instead of the pack's; null: the pack's again. Returns null, or what is wrong with
 * the text, which then changes nothing. */
const char* emulator_override(const char* kernel, const char* ptx);

/* Of all launches: whether they are checked and counted (1, the default), and how many instructions the warps of a
 * block may execute before that is a fault (10^9 by default; 0: any number). */
void emulator_checks(int32_t on);
void emulator_limit(int64_t instructions);

/* From now on MMAs are rounded as the hardware's (1), or sum in float32 (0), which is faster. STRATUM_EMULATOR_MMA says
 * what holds at first. */
void emulator_exact_mma(int32_t on);

/* For each line of the pack's PTX of a kernel, from line 0: how often warps executed its instruction in the launches
 * that were counted, -1 for a line without one. Fills `executed`, which has room for `lines`, and returns how many
 * lines there are; 0 if no launch was counted. */
int64_t emulator_coverage(const char* kernel, int64_t* executed, int64_t lines);

/* What a kernel did in the launches that were counted, as JSON; null if there was none:
 *
 *     {"blocks": 8, "lines": [[line, executed, lanes, bytes, sectors, wavefronts, least_wavefronts, ticks], ...],
 *      "warps": [executed, ...]}
 *
 * with a row for each instruction (machine/counters.h says what the numbers are) and the instructions that each warp of
 * a block executed, summed over blocks. */
const char* emulator_counters(const char* kernel);

/* Forgets all counts, those of emulator_coverage too. */
void emulator_forget_counts(void);

#ifdef __cplusplus
}
#endif

#endif /* STRATUM_EMULATOR_INSPECT_H_ */
