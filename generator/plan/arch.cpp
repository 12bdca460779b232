#include "generator/plan/arch.h"

#include <algorithm>

namespace stratum::gen {

std::string Arch::virtual_name() const { return "compute_" + std::string(name.substr(3)); }

std::string Arch::digits() const {
  std::string text(name.substr(3));
  std::erase_if(text, [](char c) { return c < '0' || c > '9'; });
  return text;
}

const std::vector<Arch>& archs() {
  // sm_80 is bound by 8.6 and 8.9, whose blocks may have 99 KiB.
  static const std::vector<Arch> table = {
      {"sm_80", 101376, 167936, 64, 32},  {"sm_90", 232448, 233472, 64, 32},   {"sm_90a", 232448, 233472, 64, 32},
      {"sm_100", 232448, 233472, 64, 32}, {"sm_100a", 232448, 233472, 64, 32}, {"sm_103a", 232448, 233472, 64, 32},
      {"sm_120", 101376, 102400, 48, 24},
  };
  return table;
}

const Arch* find_arch(std::string_view name) {
  const auto found = std::ranges::find(archs(), name, &Arch::name);
  return found == archs().end() ? nullptr : &*found;
}

int warps_per_sm(const Arch& arch, int registers, int64_t shared_bytes, int threads) {
  constexpr int kSmRegisters = 65536;
  constexpr int kRegisterUnit = 256;        // registers are handed to a warp in this unit
  constexpr int kSystemSharedBytes = 1024;  // taken by the system from every block
  constexpr int kSharedUnit = 128;
  const auto round_up = [](int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; };

  const int warps = (threads + 31) / 32;
  // The four quarters of an SM have a register file each, so only multiples of four warps fill it.
  const int64_t warps_by_registers = kSmRegisters / round_up(int64_t{registers} * 32, kRegisterUnit) / 4 * 4;
  const int64_t blocks =
      std::min<int64_t>({arch.sm_blocks, arch.sm_warps / warps, warps_by_registers / warps,
                         arch.sm_shared_bytes / round_up(shared_bytes + kSystemSharedBytes, kSharedUnit)});
  return static_cast<int>(blocks) * warps;
}

}  // namespace stratum::gen
