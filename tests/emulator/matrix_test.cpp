#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "support.h"

namespace stratum::emulator {
namespace {

const std::string kOwn16 =
    "mul.wide.u32 %rd0, %tid, 16; add.s64 %rd1, %in, %rd0; add.s64 %rd2, %out, %rd0;\n"
    "shl.b32 %r9, %tid, 4; mov.u32 %r8, dynamic; add.s32 %r9, %r9, %r8;\n";

uint16_t half_word(const std::vector<uint32_t>& words, size_t index) {
  return static_cast<uint16_t>(words[index / 2] >> index % 2 * 16);
}

struct Fragments {
  std::vector<uint32_t> a, b, c, d;  // fragments: [lane][register]
};

Fragments multiplied(const std::string& type, std::vector<uint32_t> a, std::vector<uint32_t> b, std::vector<uint32_t> c) {
  std::vector<uint32_t> in;
  for (size_t lane = 0; lane < 32; ++lane) {
    in.insert(in.end(), a.begin() + lane * 4, a.begin() + lane * 4 + 4);
    in.insert(in.end(), b.begin() + lane * 2, b.begin() + lane * 2 + 2);
    in.insert(in.end(), 2, 0);
    in.insert(in.end(), c.begin() + lane * 4, c.begin() + lane * 4 + 4);
  }
  const auto d = run_body(
      "mul.wide.u32 %rd0, %tid, 48; add.s64 %rd1, %in, %rd0; mul.wide.u32 %rd0, %tid, 16; add.s64 %rd2, %out, %rd0;\n"
      "ld.global.v4.u32 {%r0,%r1,%r2,%r3}, [%rd1]; ld.global.v4.u32 {%r4,%r5,%r6,%r7}, [%rd1+16];\n"
      "ld.global.v4.f32 {%f0,%f1,%f2,%f3}, [%rd1+32];\n"
      // D in C's registers, in another order.
      "mma.sync.aligned.m16n8k16.row.col.f32." +
          type + "." + type +
          ".f32 {%f2,%f3,%f0,%f1}, {%r0,%r1,%r2,%r3},\n"
          "{%r4,%r5}, {%f0,%f1,%f2,%f3};\n"
          "st.global.v4.f32 [%rd2], {%f2,%f3,%f0,%f1};",
      in, 128, {.options = {.mma = Mma::Plain}});
  return {a, b, c, d};
}

// Where PTX puts element (row, column) of a fragment: lane * registers * 2 + register * 2 + half for A and B.
size_t of_a(size_t row, size_t k) { return (row % 8 * 4 + k % 8 / 2) * 8 + (row / 8 + k / 8 * 2) * 2 + k % 2; }
size_t of_b(size_t k, size_t column) { return (column * 4 + k % 8 / 2) * 4 + k / 8 * 2 + k % 2; }
size_t of_c(size_t row, size_t column) { return (row % 8 * 4 + column / 2) * 4 + row / 8 * 2 + column % 2; }

float from_bfloat16(uint16_t x) { return std::bit_cast<float>(uint32_t{x} << 16); }
float from_float16(uint16_t x) {
  const int exponent = x >> 10 & 31, fraction = x & 0x3ff;
  const double magnitude = exponent == 31 ? INFINITY
                           : exponent     ? std::ldexp(1024 + fraction, exponent - 25)
                                          : std::ldexp(fraction, -24);
  return static_cast<float>(x & 0x8000 ? -magnitude : magnitude);
}

void check_mma(const std::string& type, float (*to_float)(uint16_t), const std::vector<uint32_t>& a,
               const std::vector<uint32_t>& b, const std::vector<uint32_t>& c) {
  const Fragments mma = multiplied(type, a, b, c);
  for (size_t row = 0; row < 16; ++row) {
    for (size_t column = 0; column < 8; ++column) {
      float sum = as_float(c[of_c(row, column)]);
      for (size_t k = 0; k < 16; ++k) {
        sum = std::fma(to_float(half_word(a, of_a(row, k))), to_float(half_word(b, of_b(k, column))), sum);
      }
      CAPTURE(type, row, column);
      REQUIRE(mma.d[of_c(row, column)] == result_bits(sum));
    }
  }
}

// Fragments of 16-bit floats of moderate size.
std::vector<uint32_t> halves(const std::string& type, size_t words, uint32_t seed) {
  std::vector<uint32_t> found = random_words(words, seed);
  for (uint32_t& word : found) {
    const uint32_t mask = type == "f16" ? 0x8fff8fff : 0x83ff83ff, exponent = type == "f16" ? 0x30003000 : 0x3c003c00;
    word = (word & mask) | exponent;
  }
  return found;
}

}  // namespace

TEST_CASE("ldmatrix reads four matrices by rows") {
  const auto in = random_words(128);
  const auto out =
      run_body(kOwn16 +
                   "ld.global.v4.u32 {%r0,%r1,%r2,%r3}, [%rd1]; st.shared.v4.u32 [%r9], {%r0,%r1,%r2,%r3};\n"
                   "xor.b32 %r9, %r9, 32;\n"  // rows 0 and 2, 1 and 3, ... change places
                   "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4,%r5,%r6,%r7}, [%r9];\n"
                   "st.global.v4.u32 [%rd2], {%r4,%r5,%r6,%r7};",
               in, 128, {.shared_bytes = 512});
  for (size_t lane = 0; lane < 32; ++lane) {
    for (size_t matrix = 0; matrix < 4; ++matrix) {
      const size_t row = (matrix * 8 + lane / 4) ^ 2;
      CHECK(out[lane * 4 + matrix] == in[row * 4 + lane % 4]);
    }
  }
}

TEST_CASE("ldmatrix.trans reads them by columns") {
  const auto in = random_words(128);
  const auto out =
      run_body(kOwn16 +
                   "ld.global.v4.u32 {%r0,%r1,%r2,%r3}, [%rd1]; st.shared.v4.u32 [%r9], {%r0,%r1,%r2,%r3};\n"
                   "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r4,%r5,%r6,%r9}, [%r9];\n"
                   "st.global.v4.u32 [%rd2], {%r4,%r5,%r6,%r9};",
               in, 128, {.shared_bytes = 512});
  for (size_t lane = 0; lane < 32; ++lane) {
    for (size_t matrix = 0; matrix < 4; ++matrix) {
      const size_t column = lane / 4, row = lane % 4 * 2;
      const auto element = [&](size_t r) { return uint32_t{half_word(in, matrix * 64 + r * 8 + column)}; };
      CHECK(out[lane * 4 + matrix] == (element(row) | element(row + 1) << 16));
    }
  }
}

TEST_CASE("stmatrix writes what ldmatrix reads") {
  const auto in = random_words(128);
  const auto out =
      run_body(kOwn16 +
                   "ld.global.v4.u32 {%r0,%r1,%r2,%r3}, [%rd1];\n"
                   "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r9], {%r0,%r1,%r2,%r3};\n"
                   "ld.shared.v4.u32 {%r4,%r5,%r6,%r7}, [%r9]; st.global.v4.u32 [%rd2], {%r4,%r5,%r6,%r7};",
               in, 128, {.shared_bytes = 512});
  for (size_t row = 0; row < 32; ++row) {
    for (size_t word = 0; word < 4; ++word) {
      CHECK(out[row * 4 + word] == in[(row % 8 * 4 + word) * 4 + row / 8]);
    }
  }
}

TEST_CASE("plain mma sums products in float32, k ascending") {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::vector<uint32_t> c(128);
    for (size_t i = 0; i < 128; ++i) c[i] = std::bit_cast<uint32_t>(static_cast<float>(i) - 60.5f);
    check_mma("bf16", from_bfloat16, halves("bf16", 128, seed), halves("bf16", 64, seed + 100), c);
    check_mma("f16", from_float16, halves("f16", 128, seed), halves("f16", 64, seed + 100), c);
  }
}

TEST_CASE("plain mma with subnormals, infinities and their NaN") {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::vector<uint32_t> a = random_words(128, seed), b = random_words(64, seed + 50);
    for (auto* words : {&a, &b})
      for (uint32_t& word : *words) {
        const auto finite_or_infinite = [](uint32_t x) { return (x & 0x7c00) == 0x7c00 ? x & 0xfc00 : x; };
        word = finite_or_infinite(word & 0xffff) | finite_or_infinite(word >> 16) << 16;
      }
    check_mma("f16", from_float16, a, b, std::vector<uint32_t>(128, 0x3f800000));
  }
}

TEST_CASE("matrix instructions need the whole warp and rows on multiples of 16 bytes") {
  using Catch::Contains;
  const Setup setup{.shared_bytes = 512};
  const std::string load = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4,%r5,%r6,%r7}, [%r9];";
  CHECK_THAT(fault_of(kOwn16 + "setp.ne.u32 %p0, %tid, 3;\n@%p0 " + load, setup), Contains("0xfffffff7"));
  CHECK_THAT(fault_of(kOwn16 + "add.s32 %r9, %r9, 8;\n" + load, setup), Contains("multiple of 16"));
  CHECK_THAT(fault_of(kOwn16 + "add.s32 %r9, %r9, 16;\n" + load, setup), Contains("lane 31: outside"));
  CHECK_THAT(fault_of("setp.ne.u32 %p0, %tid, 3;\n@%p0 mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                      "{%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%f0,%f1,%f2,%f3};"),
             Contains("line 11") && Contains("0xfffffff7"));
  CHECK_THAT(fault_of(kOwn16 + load, {.threads = 16, .shared_bytes = 512}), Contains("0x0000ffff"));
}

}  // namespace stratum::emulator
