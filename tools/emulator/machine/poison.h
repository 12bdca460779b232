// What memory and registers hold before anything was written: as a float of 16 or 32 bits NaN, as an address none.
#pragma once

namespace stratum::emulator {

inline constexpr int kPoison = 0xff;

}  // namespace stratum::emulator
