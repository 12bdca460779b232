// Small PTX entries for tests.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "machine/run.h"

namespace stratum::emulator {

// A module with one entry `test(.param .u64 in, .param .u64 out)` whose body begins on line 10. These hold something
// already: %tid (the thread), %in and %out (its parameters). Free to use are %p0-7, %h0-3 (16 bits), %r0-31, %f0-31,
// %rd0-15, and `dynamic`, shared memory of the size that the launch gives.
std::string module_of(const std::string& body);

// The line of the body's first line.
inline constexpr int kBodyLine = 10;

struct Setup {
  uint32_t threads = 32;
  uint32_t blocks = 1;
  uint32_t shared_bytes = 0;
  uint32_t registers = 0;
  Options options = {};
};

// Runs the body on arrays of words and returns `out`, which begins as zeros.
std::vector<uint32_t> run_body(const std::string& body, const std::vector<uint32_t>& in, size_t out_words,
                               const Setup& setup = {});

// The message of the Fault that running the body ends with; "" if there is none.
std::string fault_of(const std::string& body, const Setup& setup = {});

// The operands of one lane.
using Arguments = std::array<uint64_t, 4>;

// Executes an instruction on each of the arguments, once for all lanes and once under a guard that leaves out every
// third lane, and checks the results: `expected`, or what the destination held in lanes left out. The instruction reads
// %a0-3 (32 bits) or %w0-3 (64 bits), its predicates %c0-3 are bit 0 of the arguments, and it writes %d (32 bits), %e
// (64 bits) or %q (a predicate).
void check_instruction(const std::string& text, const std::vector<Arguments>& arguments,
                       const std::function<uint64_t(const Arguments&)>& expected);

// Random arguments, with values where instructions have their edges.
std::vector<Arguments> integers(size_t count = 1000);
std::vector<Arguments> floats(size_t count = 1000);

inline float as_float(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }

// The bits of an arithmetic result: every NaN is the same one.
inline uint64_t result_bits(float x) { return x == x ? std::bit_cast<uint32_t>(x) : 0x7fffffffu; }

std::vector<uint32_t> random_words(size_t count, uint32_t seed = 1);

}  // namespace stratum::emulator
