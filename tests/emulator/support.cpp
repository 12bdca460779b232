#include "support.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

namespace stratum::emulator {

std::string module_of(const std::string& body) {
  return ".version 9.0\n"
         ".target sm_80\n"
         ".address_size 64\n"
         ".extern .shared .align 16 .b8 dynamic[];\n"
         ".visible .entry test(.param .u64 in, .param .u64 out)\n"
         "{\n"
         ".reg .pred %p<8>; .reg .b16 %h<4>; .reg .b32 %r<32>; .reg .f32 %f<32>; .reg .b64 %rd<16>;\n"
         ".reg .b32 %tid; .reg .b64 %in, %out;\n"
         "mov.u32 %tid, %tid.x; ld.param.u64 %in, [in]; ld.param.u64 %out, [out];\n" +
         body + "\nret;\n}\n";
}

std::vector<uint32_t> run_body(const std::string& body, const std::vector<uint32_t>& in, size_t out_words,
                               const Setup& setup) {
  std::vector<uint32_t> out(out_words + 4, 0);  // 16 bytes more, for an address that is a multiple of 16
  const uint64_t first = (reinterpret_cast<uint64_t>(out.data()) + 15) / 16 * 16;
  std::vector<uint32_t> input(in.size() + 4, 0);
  const uint64_t input_first = (reinterpret_cast<uint64_t>(input.data()) + 15) / 16 * 16;
  std::copy(in.begin(), in.end(), reinterpret_cast<uint32_t*>(input_first));
  const uint64_t parameters[] = {input_first, first};
  run(Kernel::load(module_of(body), "test"), {.grid = {setup.blocks, 1, 1},
                                              .block = {setup.threads, 1, 1},
                                              .shared_bytes = setup.shared_bytes,
                                              .registers = setup.registers,
                                              .parameters = parameters,
                                              .options = setup.options});
  const uint32_t* words = reinterpret_cast<const uint32_t*>(first);
  return {words, words + out_words};
}

std::string fault_of(const std::string& body, const Setup& setup) {
  try {
    run_body(body, std::vector<uint32_t>(1024), 1024, setup);
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "";
}

void check_instruction(const std::string& text, const std::vector<Arguments>& arguments,
                       const std::function<uint64_t(const Arguments&)>& expected) {
  const std::string module = fmt::format(R"(
.version 9.0
.target sm_80
.address_size 64
.visible .entry check(.param .u64 in, .param .u64 out, .param .u32 count)
{{
  .reg .pred %c<4>, %q, %left_out, %beyond;
  .reg .b32 %a<4>, %d, %thread, %block, %count, %third;
  .reg .b64 %w<4>, %e, %in, %out, %offset;
  ld.param.u64 %in, [in];
  ld.param.u64 %out, [out];
  ld.param.u32 %count, [count];
  mov.u32 %block, %ctaid.x;
  mov.u32 %thread, %tid.x;
  mad.lo.s32 %thread, %block, 64, %thread;
  setp.ge.u32 %beyond, %thread, %count;
  @%beyond ret;
  mul.wide.u32 %offset, %thread, 32;
  add.s64 %in, %in, %offset;
  ld.global.u64 %w0, [%in];
  ld.global.u64 %w1, [%in+8];
  ld.global.u64 %w2, [%in+16];
  ld.global.u64 %w3, [%in+24];
  cvt.u32.u64 %a0, %w0;
  cvt.u32.u64 %a1, %w1;
  cvt.u32.u64 %a2, %w2;
  cvt.u32.u64 %a3, %w3;
  and.b32 %d, %a0, 1;
  setp.ne.b32 %c0, %d, 0;
  and.b32 %d, %a1, 1;
  setp.ne.b32 %c1, %d, 0;
  and.b32 %d, %a2, 1;
  setp.ne.b32 %c2, %d, 0;
  and.b32 %d, %a3, 1;
  setp.ne.b32 %c3, %d, 0;
  rem.u32 %third, %thread, 3;
  setp.eq.b32 %left_out, %third, 0;
  mul.wide.u32 %offset, %thread, 16;
  add.s64 %out, %out, %offset;
  {0}
  {1}
  st.global.u64 [%out], %e;
  mov.u32 %d, 1234;
  mov.u64 %e, 1234;
  mov.pred %q, 0;
  @!%left_out {0}
  {1}
  st.global.u64 [%out+8], %e;
  ret;
}}
)",
                                         text,
                                         text.find("%d") != std::string::npos   ? "cvt.u64.u32 %e, %d;"
                                         : text.find("%q") != std::string::npos ? "selp.u64 %e, 1, 0, %q;"
                                                                                : "");
  std::vector<uint64_t> results(2 * arguments.size());
  struct {
    const void* in;
    void* out;
    uint32_t count;
  } parameters{arguments.data(), results.data(), static_cast<uint32_t>(arguments.size())};
  const uint32_t blocks = (parameters.count + 63) / 64;
  run(Kernel::load(module, "check"), {.grid = {blocks, 1, 1}, .block = {64, 1, 1}, .parameters = &parameters});
  const uint64_t kept = text.find("%q") != std::string::npos ? 0 : 1234;
  for (size_t i = 0; i < arguments.size(); ++i) {
    CAPTURE(text, i, arguments[i]);
    const uint64_t value = expected(arguments[i]);
    REQUIRE(results[2 * i] == value);
    REQUIRE(results[2 * i + 1] == (i % 3 == 0 ? kept : value));
  }
}

std::vector<Arguments> integers(size_t count) {
  static const uint64_t kEdges[] = {0,
                                    1,
                                    2,
                                    3,
                                    5,
                                    7,
                                    8,
                                    15,
                                    16,
                                    24,
                                    31,
                                    32,
                                    33,
                                    63,
                                    64,
                                    65,
                                    255,
                                    256,
                                    0x7fffffff,
                                    0x80000000,
                                    0xffffffff,
                                    0x7fffffffffffffff,
                                    0x8000000000000000,
                                    0xffffffffffffffff,
                                    0xfffffffe,
                                    0xffffffff80000000};
  std::mt19937_64 random(7);
  std::vector<Arguments> found(count);
  for (Arguments& arguments : found) {
    for (uint64_t& one : arguments) one = random() % 2 ? kEdges[random() % std::size(kEdges)] : random();
    if (random() % 8 == 0) arguments[1] = arguments[0];
  }
  return found;
}

std::vector<Arguments> floats(size_t count) {
  static const uint32_t kEdges[] = {0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000,
                                    0xffc12345, 0x7f800001, 0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff,
                                    0xff7fffff, 0x40490fdb, 0x477fe000, 0x477fefff, 0x477ff000, 0x33000000, 0x33000001,
                                    0x387fc000, 0x38800000, 0x7f7f8000, 0x7f7f7fff};
  std::mt19937 random(9);
  std::normal_distribution<float> normal(0, 3);
  std::vector<Arguments> found(count);
  for (Arguments& arguments : found) {
    for (uint64_t& one : arguments) {
      const uint32_t kind = random() % 4;
      one = kind == 0   ? kEdges[random() % std::size(kEdges)]
            : kind == 1 ? static_cast<uint32_t>(random())
                        : std::bit_cast<uint32_t>(normal(random));
    }
    if (random() % 8 == 0) arguments[1] = arguments[0];
  }
  return found;
}

std::vector<uint32_t> random_words(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint32_t> words(count);
  for (uint32_t& word : words) word = static_cast<uint32_t>(random());
  return words;
}

}  // namespace stratum::emulator
