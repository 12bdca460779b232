// Products of a warpgroup: their values in every layout of the operands, and in every schedule.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

#include "support.h"

namespace stratum::emulator {
namespace {

constexpr uint32_t kDynamic = 1024, kThreads = 128;  // where `dynamic` is

// Small multiples of 1/4: products and their sums are exact, in whatever order they are added.
float value(uint32_t number) { return static_cast<float>(static_cast<int>(number * 2654435761u >> 20 & 31) - 15) / 4; }

uint16_t narrow(const std::string& type, float x) {
  if (type == "bf16") return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16);
  if (x == 0) return 0;
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | ((bits >> 23 & 0xff) - 127 + 15) << 10 | (bits >> 13 & 0x3ff));
}

// An operand in shared memory: `rows` rows (of A, or columns of B) of `depth` elements.
struct Layout {
  uint32_t swizzle;  // bytes: 128, 64, 32; 0: none
  bool mn_major;
};

// The offset of an element, and the descriptor of a tile at `address` whose k begins at `k`. A swizzled tile is an
// array with rows of `swizzle` bytes, several of them one after the other if it is wider; chunks of 16 bytes change
// places within a row by the number of the row. Without swizzle 8 x 8 elements lie together.
struct Tile {
  Layout layout;
  uint32_t rows, depth;

  uint32_t lines() const { return layout.mn_major ? depth : rows; }  // rows of the array
  uint32_t line_elements() const { return layout.swizzle / 2; }
  uint32_t bytes() const {  // whole lines
    const uint32_t along = layout.mn_major ? rows : depth, line = std::max(line_elements(), 8u);
    return (along + line - 1) / line * line * lines() * 2;
  }

  uint32_t offset(uint32_t row, uint32_t k) const {
    const uint32_t line = layout.mn_major ? k : row, at = layout.mn_major ? row : k;
    if (!layout.swizzle) return (at / 8 * (lines() / 8) + line / 8) * 128 + line % 8 * 16 + at % 8 * 2;
    const uint32_t block = at / line_elements(), chunk = at % line_elements() / 8;
    const uint32_t turned = layout.swizzle == 128  ? chunk ^ line % 8
                            : layout.swizzle == 64 ? chunk ^ line / 2 % 4
                                                   : chunk ^ line / 4 % 2;
    return block * lines() * layout.swizzle + line * layout.swizzle + turned * 16 + at % 8 * 2;
  }

  uint64_t descriptor(uint32_t address, uint32_t k) const {
    const auto field = [](uint64_t value, int at) { return value / 16 << at; };
    const uint32_t across = lines() / 8 * 128;  // without swizzle: from a block of 8 x 8 to the next in a line
    if (!layout.swizzle) {
      const uint32_t start = address + (layout.mn_major ? k / 8 * 128 : k / 8 * across);
      return field(start, 0) | field(layout.mn_major ? 128 : across, 16) | field(layout.mn_major ? across : 128, 32);
    }
    const uint64_t code = layout.swizzle == 128 ? 1 : layout.swizzle == 64 ? 2 : 3;
    const uint32_t block = lines() * layout.swizzle;
    const uint32_t start =
        address + (layout.mn_major ? k * layout.swizzle : k / line_elements() * block + k % line_elements() * 2);
    return field(start, 0) | field(block, 16) | field(8 * layout.swizzle, 32) | code << 62;
  }
};

// What is multiplied: D = A B + D, over `depth` k's, 16 at a time.
struct Case {
  std::string type = "bf16";
  uint32_t columns = 64, depth = 16;
  Layout a = {128, false}, b = {128, false};
  bool a_in_registers = false, adds = true;
  int scale_a = 1, scale_b = 1;
};

float a_of(uint32_t row, uint32_t k) { return value(row * 1000 + k); }
float b_of(uint32_t column, uint32_t k) { return value(500000 + column * 1000 + k); }
float d_of(uint32_t row, uint32_t column) { return value(900000 + row * 1000 + column); }

// The row and column of a thread's accumulator.
uint32_t row_of(uint32_t thread, uint32_t i) { return thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8; }
uint32_t column_of(uint32_t thread, uint32_t i) { return i / 4 * 8 + thread % 4 * 2 + i % 2; }

std::string list(const std::string& name, uint32_t first, uint32_t count) {
  std::string text;
  for (uint32_t i = 0; i < count; ++i) text += fmt::format("{}{}{}", i ? "," : "{", name, first + i);
  return text + "}";
}

// Runs the case and checks every element. Shared memory is filled with the operands, word by word; A in registers and D
// come from `in`, a row a thread.
void check(const Case& one, Arrival arrival, uint64_t seed, Mma mma) {
  const Tile a{one.a, 64, one.depth}, b{one.b, one.columns, one.depth};
  const uint32_t b_at = (a.bytes() + 1023) / 1024 * 1024, image_bytes = (b_at + b.bytes() + 2047) / 2048 * 2048;
  const uint32_t accumulators = one.columns / 2, steps = one.depth / 16, own = accumulators + steps * 4;
  std::vector<uint16_t> halves(image_bytes / 2);
  for (uint32_t k = 0; k < one.depth; ++k) {
    for (uint32_t row = 0; row < 64; ++row) halves[a.offset(row, k) / 2] = narrow(one.type, a_of(row, k));
    for (uint32_t n = 0; n < one.columns; ++n) halves[(b_at + b.offset(n, k)) / 2] = narrow(one.type, b_of(n, k));
  }
  std::vector<uint32_t> in(image_bytes / 4);
  std::memcpy(in.data(), halves.data(), image_bytes);
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    for (uint32_t i = 0; i < accumulators; ++i)
      in.push_back(std::bit_cast<uint32_t>(d_of(row_of(thread, i), column_of(thread, i))));
    for (uint32_t i = 0; i < steps * 4; ++i) {
      const uint32_t row = row_of(thread, i % 2 * 2), k = i / 4 * 16 + i / 2 % 2 * 8 + thread % 4 * 2;
      in.push_back(narrow(one.type, a_of(row, k)) | uint32_t{narrow(one.type, a_of(row, k + 1))} << 16);
    }
  }

  std::string body = fmt::format(
      "{{.reg .f32 %d<{}>; .reg .b32 %a<{}>; .reg .b64 %da, %db; .reg .pred %adds;\n"
      "mul.wide.u32 %rd0, %tid, 16; add.s64 %rd1, %in, %rd0; shl.b32 %r9, %tid, 4; mov.u32 %r8, dynamic;\n"
      "add.s32 %r9, %r9, %r8; mul.wide.u32 %rd0, %tid, {}; add.s64 %rd2, %in, %rd0;\n"
      "mul.wide.u32 %rd0, %tid, {}; add.s64 %rd3, %out, %rd0; setp.ne.b32 %adds, {}, 0;\n",
      accumulators, steps * 4, own * 4, accumulators * 4, one.adds ? 1 : 0);
  for (uint32_t at = 0; at < image_bytes; at += 16 * kThreads) {
    body += fmt::format(
        "ld.global.v4.u32 {{%r0,%r1,%r2,%r3}}, [%rd1+{0}]; st.shared.v4.u32 [%r9+{0}], {{%r0,%r1,%r2,%r3}};\n", at);
  }
  for (uint32_t i = 0; one.adds && i < accumulators; ++i)
    body += fmt::format("ld.global.f32 %d{}, [%rd2+{}];\n", i, image_bytes + 4 * i);
  for (uint32_t i = 0; i < steps * 4; ++i)
    body += fmt::format("ld.global.u32 %a{}, [%rd2+{}];\n", i, image_bytes + 4 * (accumulators + i));
  body += "fence.proxy.async.shared::cta; bar.sync 0; wgmma.fence.sync.aligned;\n";
  for (uint32_t step = 0; step < steps; ++step) {
    body += fmt::format("mov.b64 %da, {}; mov.b64 %db, {};\n", a.descriptor(kDynamic, 16 * step),
                        b.descriptor(kDynamic + b_at, 16 * step));
    body += fmt::format("wgmma.mma_async.sync.aligned.m64n{0}k16.f32.{1}.{1} {2}, {3}, %db, %adds, {4}, {5}{6}, {7};\n",
                        one.columns, one.type, list("%d", 0, accumulators),
                        one.a_in_registers ? list("%a", step * 4, 4) : "%da", one.scale_a, one.scale_b,
                        one.a_in_registers ? ""
                        : one.a.mn_major   ? ", 1"
                                           : ", 0",
                        one.b.mn_major ? 1 : 0);
    body += "setp.eq.b32 %adds, 0, 0;\n";
  }
  body += "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n";
  for (uint32_t i = 0; i < accumulators; ++i) body += fmt::format("st.global.f32 [%rd3+{}], %d{};\n", 4 * i, i);
  body += "}";

  Setup setup{.threads = kThreads, .shared_bytes = image_bytes};
  setup.options.checks = true;
  setup.options.copies = arrival;
  setup.options.seed = seed;
  setup.options.mma = mma;
  const std::vector<uint32_t> out = run_body(body, in, kThreads * accumulators, setup);
  std::string wrong;  // one assertion for all elements: one each would take most of the time
  for (uint32_t thread = 0; thread < kThreads && wrong.empty(); ++thread) {
    for (uint32_t i = 0; i < accumulators; ++i) {
      const uint32_t row = row_of(thread, i), column = column_of(thread, i);
      float sum = 0;
      for (uint32_t k = 0; k < one.depth; ++k) sum += a_of(row, k) * b_of(column, k);
      sum = sum * static_cast<float>(one.scale_a * one.scale_b) + (one.adds ? d_of(row, column) : 0);
      const float got = as_float(out[thread * accumulators + i]);
      if (got != sum) wrong = fmt::format("row {}, column {}: {}, expected {}", row, column, got, sum);
    }
  }
  CAPTURE(seed, one.type, one.columns, one.depth, one.a_in_registers, one.a.swizzle, one.a.mn_major, one.b.swizzle,
          one.b.mn_major);
  REQUIRE(wrong == "");
}

}  // namespace

TEST_CASE("a warpgroup multiplies operands in every layout") {
  const uint32_t swizzles[] = {128, 64, 32, 0};
  for (const uint32_t of_a : swizzles) {
    for (const uint32_t of_b : swizzles) {
      for (const bool mn_major : {false, true}) {
        const std::string type = mn_major ? "f16" : "bf16";
        check({.type = type, .depth = 64, .a = {of_a, mn_major}, .b = {of_b, !mn_major}}, Arrival::AtWait, 0,
              Mma::Exact);
        check({.type = type, .depth = 64, .a = {of_a, mn_major}, .b = {of_b, mn_major}}, Arrival::AtIssue, 0,
              Mma::Plain);
      }
    }
    check({.depth = 32, .b = {of_a, true}, .a_in_registers = true}, Arrival::AtWait, 0, Mma::Exact);
    check({.type = "f16", .depth = 32, .b = {of_a, false}, .a_in_registers = true}, Arrival::AtWait, 0, Mma::Plain);
  }
}

TEST_CASE("a warpgroup multiplies by 8 to 256 columns") {
  for (uint32_t columns = 8; columns <= 256; columns += 8) {
    check({.type = columns % 16 ? "f16" : "bf16", .columns = columns, .adds = columns % 3 == 0}, Arrival::AtWait, 0,
          Mma::Exact);
    check({.columns = columns, .b = {32, false}, .a_in_registers = true}, Arrival::AtWait, 0, Mma::Plain);
  }
}

TEST_CASE("products of a warpgroup have signs and add to what their accumulators hold or not") {
  for (const int sign : {1, -1}) {
    check({.adds = false, .scale_a = sign}, Arrival::AtWait, 0, Mma::Exact);
    check({.depth = 64, .adds = false, .scale_a = sign, .scale_b = -1}, Arrival::AtWait, 0, Mma::Plain);
    check({.depth = 64, .a_in_registers = true, .scale_b = sign}, Arrival::AtWait, 0, Mma::Exact);
  }
}

TEST_CASE("products of a warpgroup are the same whenever they complete") {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    for (const Arrival arrival : {Arrival::AtIssue, Arrival::AtWait, Arrival::Random}) {
      check({.depth = 64}, arrival, seed, Mma::Exact);
      check({.depth = 64, .b = {64, true}, .a_in_registers = true, .adds = false}, arrival, seed, Mma::Plain);
    }
  }
}

}  // namespace stratum::emulator
