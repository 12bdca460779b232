// Tensor copies: what they bring where, and what is told of programs that use them wrongly.
#include <catch2/catch.hpp>
#include <cstring>

#include "machine/tensor_map.h"
#include "support.h"

namespace stratum::emulator {
namespace {

using Catch::Contains;

constexpr int kHalf = 6;                                 // CUtensorMapDataType: 16-bit floats
constexpr int64_t kExtents[] = {96, 3, 5, 2};            // elements of 16 bits
constexpr uint32_t kRows = 4, kBatches = 2, kHeads = 1;  // of the box
constexpr uint32_t kMapBytes = 128;

// An array whose elements are their own numbers, from 1; and a map of boxes of `width` x 1 x 4 x 2 of its elements.
struct Array {
  explicit Array(int swizzle, uint32_t width) : elements(2880) {
    for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<uint16_t>(i + 1);
    map = {.type = kHalf, .rank = 4, .address = reinterpret_cast<uint64_t>(elements.data()), .swizzle = swizzle};
    const uint32_t box[] = {width, kHeads, kRows, kBatches};
    for (int axis = 0; axis < 4; ++axis) {
      map.extents[axis] = static_cast<uint64_t>(kExtents[axis]);
      map.box[axis] = box[axis];
      map.element_strides[axis] = 1;
    }
    map.strides[0] = 192;
    map.strides[1] = 3 * 192;
    map.strides[2] = 5 * 3 * 192;
    REQUIRE(problem_of(map) == "");
  }
  size_t box_elements() const { return size_t{map.box[0]} * kHeads * kRows * kBatches; }
  // The array's element that has a place in the box, null if it is outside the array.
  uint16_t* at(const int32_t (&from)[4], size_t place) {
    int64_t index[4];
    for (int axis = 0; axis < 4; ++axis) {
      index[axis] = from[axis] + static_cast<int64_t>(place % map.box[axis]);
      place /= map.box[axis];
      if (index[axis] < 0 || index[axis] >= kExtents[axis]) return nullptr;
    }
    return &elements[static_cast<size_t>(((index[3] * 5 + index[2]) * 3 + index[1]) * 96 + index[0])];
  }

  std::vector<uint16_t> elements;
  TensorMap map;
};

// Where an element of a box lies, in elements from its beginning, which is a multiple of 1024 bytes.
size_t swizzled(size_t place, int swizzle) {
  size_t byte = 2 * place;
  for (int bit = 0; bit < swizzle; ++bit) byte ^= (byte >> (7 + bit) & 1) << (4 + bit);
  return byte / 2;
}

struct Parameters {
  uint8_t map[kMapBytes], none[kMapBytes];
  uint64_t out;
};

// The box is at %r8, `bytes` of it; an mbarrier for one arrival at %r9, the map's address is %rd8. %p0 is thread 0.
std::string module_with_map(const Array& array, const std::string& body) {
  std::string text = module_of(
      "mov.u32 %r8, dynamic; add.s32 %r9, %r8, 8192; setp.eq.u32 %p0, %tid, 0; mov.u64 %rd8, map; cvta.param.u64 %rd8, "
      "%rd8;\n"
      "@%p0 mbarrier.init.shared::cta.b64 [%r9], 1; @%p0 fence.mbarrier_init.release.cluster; bar.sync 0;\n" +
      body);
  const std::string bytes = std::to_string(2 * array.box_elements());
  for (size_t at; (at = text.find("BYTES")) != text.npos;) text.replace(at, 5, bytes);
  const std::string in = ".param .u64 in,";
  text.replace(text.find(in), in.size(), ".param .align 64 .b8 map[128], .param .align 64 .b8 none[128],");
  const std::string load = "ld.param.u64 %in, [in];";
  return text.erase(text.find(load), load.size());
}

Setup watched(uint32_t threads, Arrival arrival, uint64_t seed = 0) {
  Setup setup{.threads = threads, .shared_bytes = 8192 + 8};
  setup.options = {.checks = true, .copies = arrival, .seed = seed};
  return setup;
}

void run_with_map(const Array& array, const std::string& body, void* out, const Setup& setup) {
  Parameters parameters{};
  encode_tensor_map(array.map, parameters.map);
  parameters.out = reinterpret_cast<uint64_t>(out);
  run(Kernel::load(module_with_map(array, body), "test"), {.grid = {1, 1, 1},
                                                           .block = {setup.threads, 1, 1},
                                                           .shared_bytes = setup.shared_bytes,
                                                           .parameters = &parameters,
                                                           .options = setup.options});
}

std::string fault(const std::string& body, Arrival arrival = Arrival::AtWait, uint64_t seed = 0) {
  Array array(kSwizzle128, 64);
  std::vector<uint32_t> out(2048);
  try {
    run_with_map(array, body, out.data(), watched(64, arrival, seed));
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "";
}

const std::string kExpect = "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], BYTES;\n";
const std::string kLoadTo =
    "@%p0 cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%r8], [%rd8, ";
const std::string kLoad = kLoadTo + "{0, 0, 0, 0}], [%r9];\n";
const std::string kStore = "@%p0 cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%rd8, {0, 0, 0, 0}], [%r8];\n";
const std::string kCommit = "@%p0 cp.async.bulk.commit_group;\n";

std::string wait(int parity) {
  return "{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%r9], " + std::to_string(parity) +
         "; @done bra.uni over; bra.uni again; over: }\n";
}

// Every thread copies words of the box to out, or writes its number to them.
std::string each_word(const std::string& what) {
  return "shl.b32 %r10, %tid, 2; add.s32 %r10, %r10, %r8; mul.wide.u32 %rd2, %tid, 4; add.s64 %rd2, %out, %rd2;\n"
         "mov.u32 %r11, 0;\n"
         "words: setp.ge.u32 %p1, %r11, BYTES; @%p1 bra last;\n" +
         what + "add.s32 %r10, %r10, 256; add.s64 %rd2, %rd2, 256; add.s32 %r11, %r11, 256; bra words;\nlast:\n";
}
const std::string kReadBox = each_word("ld.shared.u32 %r12, [%r10]; st.global.u32 [%rd2], %r12;\n");
const std::string kWriteBox = each_word("add.s32 %r12, %tid, %r11; st.shared.u32 [%r10], %r12;\n");

struct Case {
  int swizzle;
  uint32_t width;  // of the box, elements
};
constexpr Case kCases[] = {{kNoSwizzle, 8}, {kNoSwizzle, 56}, {kSwizzle32, 16}, {kSwizzle64, 32}, {kSwizzle128, 64}};
constexpr int32_t kCorners[][4] = {{0, 0, 0, 0},   {32, 2, 1, 0}, {-8, 1, -2, 1},
                                   {60, 0, 3, -1}, {95, 2, 4, 1}, {96, 3, 5, 2}};

std::string coordinates(const int32_t (&from)[4]) {
  std::string text = "{";
  for (const int32_t one : from) text += (text.size() > 1 ? ", " : "") + std::to_string(one);
  return text + "}";
}

}  // namespace

TEST_CASE("a tensor load brings a box, swizzled, with zeros for what is outside") {
  for (const Case& one : kCases)
    for (const auto& from : kCorners)
      for (const Arrival arrival : {Arrival::AtIssue, Arrival::AtWait, Arrival::Random}) {
        CAPTURE(one.swizzle, one.width, coordinates(from), static_cast<int>(arrival));
        Array array(one.swizzle, one.width);
        std::vector<uint16_t> box(4096);
        run_with_map(array, kExpect + kLoadTo + coordinates(from) + "], [%r9];\n" + wait(0) + kReadBox, box.data(),
                     watched(64, arrival, arrival == Arrival::Random ? 3 : 0));
        for (size_t i = 0; i < array.box_elements(); ++i) {
          const uint16_t* expected = array.at(from, i);
          CAPTURE(i);
          REQUIRE(box[swizzled(i, one.swizzle)] == (expected ? *expected : 0));
        }
      }
}

TEST_CASE("a tensor store writes a box, and nothing outside the array") {
  for (const Case& one : kCases)
    for (const auto& from : kCorners)
      for (const Arrival arrival : {Arrival::AtIssue, Arrival::AtWait, Arrival::Random}) {
        CAPTURE(one.swizzle, one.width, coordinates(from), static_cast<int>(arrival));
        Array array(one.swizzle, one.width), expected(one.swizzle, one.width);
        run_with_map(array,
                     kWriteBox + "fence.proxy.async.shared::cta; bar.sync 0;\n" +
                         "@%p0 cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%rd8, " + coordinates(from) +
                         "], [%r8];\n" + kCommit + "@%p0 cp.async.bulk.wait_group 0;\n",
                     nullptr, watched(64, arrival, arrival == Arrival::Random ? 3 : 0));
        for (size_t i = 0; i < array.box_elements(); ++i) {
          const size_t place = swizzled(i, one.swizzle), byte = 2 * place;
          // A word is the number of the thread that writes it, plus the bytes of the words that come in earlier rounds.
          const uint32_t word = static_cast<uint32_t>(byte / 4 % 64 + byte / 256 * 256);
          if (uint16_t* to = expected.at(from, i)) *to = static_cast<uint16_t>(byte % 4 ? word >> 16 : word);
        }
        CHECK(array.elements == expected.elements);
      }
}

TEST_CASE("stores read when they are waited for, groups by groups") {
  // The box is written anew between two stores of it, once the first has been read; the later one wins.
  const std::string body = kWriteBox + "fence.proxy.async.shared::cta; bar.sync 0;\n" + kStore + kCommit +
                           "@%p0 cp.async.bulk.wait_group.read 0;\nbar.sync 0;\n";
  Array array(kNoSwizzle, 8);
  run_with_map(array,
               body +
                   "shl.b32 %r10, %tid, 2; add.s32 %r10, %r10, %r8; setp.lt.u32 %p1, %tid, 32;\n"
                   "@%p1 st.shared.u32 [%r10], 7; fence.proxy.async.shared::cta; bar.sync 0;\n" +
                   kStore + kCommit + "@%p0 cp.async.bulk.wait_group.read 0;\n",
               nullptr, watched(64, Arrival::AtWait));
  const int32_t from[4] = {};
  for (size_t i = 0; i < array.box_elements(); i += 2) CHECK(*array.at(from, i) == 7);
}

TEST_CASE("loads that aren't waited for, or announced, are told") {
  for (const Arrival arrival : {Arrival::AtIssue, Arrival::AtWait, Arrival::Random}) {
    const uint64_t seed = arrival == Arrival::Random ? 5 : 0;
    CAPTURE(static_cast<int>(arrival));
    CHECK(fault(kExpect + kLoad + wait(0) + kReadBox, arrival, seed) == "");
    CHECK_THAT(fault(kExpect + kLoad + "bar.sync 0;\n" + kReadBox, arrival, seed),
               Contains("race: read of shared address 0x400") && Contains("written by a tensor copy at line 13"));
    // One phase early.
    CHECK_THAT(fault(kExpect + kLoad + wait(0) + "bar.sync 0;\n" + kExpect + kLoad + wait(0) + kReadBox, arrival, seed),
               Contains("race") || Contains("deadlock"));
    CHECK_THAT(
        fault("@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], 512;\n" + kLoad + wait(0), arrival, seed),
        Contains("deadlock") && Contains("still expects 0 of 1 arrivals and -512 bytes"));
    CHECK_THAT(
        fault("@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], 2048;\n" + kLoad + wait(0), arrival, seed),
        Contains("deadlock") && Contains("still expects 0 of 1 arrivals and 1024 bytes"));
  }
  CHECK_THAT(fault(kExpect + kLoad + kLoadTo + "{0, 1, 0, 0}], [%r9];\n" + wait(0)), Contains("race: write of shared"));
  CHECK_THAT(
      fault("add.s32 %r10, %r8, 4096;\n" + kExpect + kLoad +
            "@%p0 cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%rd8, {0, "
            "0, 0, 0}], [%r9];\n" +
            wait(0)),
      Contains("barrier") && Contains("1024 bytes that copies bring were not announced and are still in flight"));
  CHECK_THAT(fault(kExpect + kLoad),
             Contains("barrier") && Contains("the block ends, and 1024 bytes for the mbarrier"));
}

TEST_CASE("a box that is filled again must have been read before") {
  const std::string twice = kExpect + kLoad + wait(0) + kReadBox;
  CHECK(fault(twice + "bar.sync 0;\n" + kExpect + kLoad + wait(1)) == "");
  CHECK_THAT(fault(twice + kExpect + kLoad + wait(1)),
             Contains("race: write of shared") && Contains("read by warp 0, lane 1"));
  // The second warp fills it, which the first may still read.
  std::string other = kExpect + kLoad + wait(1);
  for (size_t at; (at = other.find("%p0")) != other.npos;) other.replace(at, 3, "%p2");
  CHECK_THAT(fault("setp.eq.u32 %p2, %tid, 32;\n" + twice + other),
             Contains("race: write of shared") && Contains("read by warp 0"));
  CHECK_THAT(fault(kWriteBox + "bar.sync 0;\n" + kExpect + kLoad + wait(0)),
             Contains("race: write of shared") && Contains("no fence.proxy.async is between the two"));
}

TEST_CASE("stores that read too early, and buffers that are used too early, are told") {
  const std::string fence = "fence.proxy.async.shared::cta;\n", sync = "bar.sync 0;\n";
  const std::string store = kStore + kCommit;
  const std::string read = "@%p0 cp.async.bulk.wait_group.read 0;\n";
  CHECK(fault(kWriteBox + fence + sync + store + read) == "");
  CHECK_THAT(fault(kWriteBox + sync + store + read),
             Contains("race: read of shared") && Contains("no fence.proxy.async is between the two"));
  CHECK_THAT(fault(kWriteBox + sync + store + read + fence), Contains("no fence.proxy.async"));
  CHECK_THAT(fault(kWriteBox + fence + store + read),
             Contains("race: read of shared") && Contains("written by warp 0, lane 1"));
  CHECK_THAT(fault(kWriteBox + fence + "bar.warp.sync -1;\n" + store + read),
             Contains("race: read of shared") && Contains("written by warp 1"));
  const std::string again = "shl.b32 %r10, %tid, 2; add.s32 %r10, %r10, %r8; st.shared.u32 [%r10], 7;\n";
  CHECK(fault(kWriteBox + fence + sync + store + read + sync + again) == "");
  CHECK_THAT(fault(kWriteBox + fence + sync + store + sync + again + read),
             Contains("race: write of shared") && Contains("read by a bulk copy of warp 0 at line"));
  CHECK_THAT(fault(kWriteBox + fence + sync + store + "@%p0 cp.async.bulk.wait_group.read 1;\n" + sync + again),
             Contains("read by a bulk copy of warp 0"));
  CHECK_THAT(fault(kWriteBox + fence + sync + kStore + read + sync + again), Contains("read by a bulk copy of warp 0"));
  CHECK_THAT(fault(kWriteBox + fence + sync + store), Contains("may still read shared memory: nothing waits for it"));
}

TEST_CASE("maps, boxes and mbarriers that a copy can't have are told") {
  CHECK_THAT(fault("mov.u64 %rd8, none; cvta.param.u64 %rd8, %rd8;\n" + kExpect + kLoad),
             Contains("operand") && Contains("no tensor map is at byte 128 of the parameters"));
  CHECK_THAT(fault("add.s64 %rd8, %rd8, 32;\n" + kExpect + kLoad),
             Contains("byte 32 of the parameters: not a multiple"));
  CHECK_THAT(fault("mov.u64 %rd8, %out;\n" + kExpect + kLoad), Contains("expected an address in the parameters"));
  CHECK_THAT(fault("add.s32 %r8, %r8, 64;\n" + kExpect + kLoad), Contains("misaligned"));
  CHECK_THAT(fault("add.s32 %r8, %r8, 8064;\n" + kExpect + kLoad), Contains("bounds"));
  CHECK_THAT(
      fault("@%p0 cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%r8], [%rd8, {0, 0, "
            "0}], [%r9];"),
      Contains("a tensor map of 4 axes: the instruction takes one of 3"));
  CHECK_THAT(fault("add.s32 %r9, %r9, -8;\n" + kLoad), Contains("no mbarrier was initialised"));
  CHECK_THAT(fault("add.s32 %r9, %r9, -8; @%p0 mbarrier.init.shared::cta.b64 [%r9], 1;\n" + kExpect + kLoad),
             Contains("race") && Contains("no fence.mbarrier_init"));
  Array narrow(kSwizzle128, 32);
  CHECK_THROWS_WITH(run_with_map(narrow, kExpect + kLoad, nullptr, watched(32, Arrival::AtWait)),
                    Contains("a box 64 bytes wide with a swizzle of 128: not emulated"));
}

}  // namespace stratum::emulator
