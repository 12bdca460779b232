// Conversions between types.
#include "exec/floats.h"
#include "exec/lanes.h"

namespace stratum::emulator::STRATUM_EMULATOR_ISA {
namespace {

// cvta: generic addresses and global addresses are both addresses of the host.
const Form kForms[] = {
    {"cvt.s64.s32", "q=w", each<[](int32_t a) { return int64_t{a}; }>},
    {"cvt.s64.s32", "q=q", each<[](int64_t a) { return int64_t{static_cast<int32_t>(a)}; }>},
    {"cvt.u64.u32", "q=w", each<[](uint32_t a) { return uint64_t{a}; }>},
    {"cvt.u32.u64", "w=q", each<[](uint64_t a) { return static_cast<uint32_t>(a); }>},
    {"cvt.u16.u32", "h=w", each<[](uint32_t a) { return a & 0xffff; }>},
    {"cvt.u32.u16", "w=h", each<[](uint32_t a) { return a & 0xffff; }>},
    {"cvta.to.global.u64", "q=q", each<[](uint64_t a) { return a; }>},
    {"cvt.f32.f16", "w=h", each<[](uint32_t a) { return canonical(from_float16(a)); }>},
    {"cvt.rn.bf16x2.f32", "w=ww",
     each<[](float high, float low) { return to_bfloat16(high) << 16 | to_bfloat16(low); }>},
    {"cvt.rn.f16x2.f32", "w=ww", each<[](float high, float low) { return to_float16(high) << 16 | to_float16(low); }>},
};

}  // namespace

FormList convert_forms() { return list_of(kForms); }

}  // namespace stratum::emulator::STRATUM_EMULATOR_ISA
