// Types shared by device and host code. Device code is compiled by NVRTC with no system headers, so the fixed-width
// names come from here; both compilers are LP64 and agree on them.
#pragma once

namespace stratum {

using u8 = unsigned char;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

static_assert(sizeof(i32) == 4 && sizeof(i64) == 8 && sizeof(void*) == 8, "the ABI is LP64");

}  // namespace stratum
