#include "driver/devices.h"

#include <algorithm>
#include <cstring>

#include "driver/call.h"

namespace stratum::emulator::driver {
namespace {

constexpr size_t kGiB = size_t{1} << 30;
constexpr int kMiB = 1 << 20;

constexpr DeviceFacts kDevices[] = {
    {7, 5, 40, 65536, 65536, 1024, 16, 4 * kMiB, 1590000, 16 * kGiB},         // T4; no kernel is built for it
    {8, 0, 108, 167936, 166912, 2048, 32, 40 * kMiB, 1410000, 80 * kGiB},     // A100
    {9, 0, 132, 233472, 232448, 2048, 32, 50 * kMiB, 1980000, 141 * kGiB},    // H200
    {10, 0, 148, 233472, 232448, 2048, 32, 126 * kMiB, 1965000, 180 * kGiB},  // B200
    {10, 3, 148, 233472, 232448, 2048, 32, 126 * kMiB, 1920000, 268 * kGiB},  // B300
    {12, 0, 170, 102400, 101376, 1536, 24, 96 * kMiB, 2407000, 32 * kGiB},    // RTX 5090
};

// Of CUdevice_attribute.
int attribute_of(const DeviceFacts& facts, int attribute, bool& known) {
  constexpr int kMaxGridX = 2147483647, kMaxGridYZ = 65535;
  known = true;
  switch (attribute) {
    case 1:
      return kMaxThreads;
    case 2:
    case 3:
      return kMaxThreads;  // block x, y
    case 4:
      return 64;  // block z
    case 5:
      return kMaxGridX;
    case 6:
    case 7:
      return kMaxGridYZ;
    case 8:
      return kDefaultSharedPerBlock;
    case 9:
      return 64 * 1024;  // constant memory
    case 10:
      return kWarp;
    case 12:
    case 82:
      return kRegisters;  // a block, a multiprocessor
    case 13:
      return facts.clock_khz;
    case 16:
      return facts.multiprocessors;
    case 18:
      return 0;  // integrated
    case 19:
      return 1;  // can map host memory
    case 31:
      return 1;  // concurrent kernels
    case 38:
      return facts.l2_bytes;
    case 39:
      return facts.threads_per_multiprocessor;
    case 41:
      return 1;  // unified addressing
    case 75:
      return facts.major;
    case 76:
      return facts.minor;
    case 78:
      return 1;  // stream priorities
    case 81:
      return facts.shared_per_multiprocessor;
    case 95:
      return 1;  // cooperative launches
    case 97:
      return facts.shared_per_block;
    case 106:
      return facts.blocks_per_multiprocessor;
    case 111:
      return facts.shared_per_multiprocessor - facts.shared_per_block;  // reserved by the driver, a block
    case 115:
      return 1;  // memory pools
    case 120:
      return facts.major >= 9 ? 1 : 0;  // clusters
    case 127:
      return facts.major >= 9 ? 1 : 0;  // tensor maps
    default:
      known = false;
      return 0;
  }
}

}  // namespace

const DeviceFacts* device_facts(int major, int minor) {
  const auto* found =
      std::ranges::find_if(kDevices, [&](const DeviceFacts& one) { return one.major == major && one.minor == minor; });
  return found == std::end(kDevices) ? nullptr : found;
}

std::string known_capabilities() {
  std::string text;
  for (const DeviceFacts& one : kDevices) {
    text += (text.empty() ? "" : ", ") + std::to_string(one.major) + "." + std::to_string(one.minor);
  }
  return text;
}

namespace {

// A function about one device, which needs no context.
template <typename F>
Result device_call(const char* name, int ordinal, F body) {
  return call(name, [&](State& s) {
    if (ordinal < 0 || ordinal >= static_cast<int>(s.devices.size())) {
      return s.refuse(kInvalidDevice, std::string(name) + ": device: expected 0 to " +
                                          std::to_string(s.devices.size() - 1) + ", got " + std::to_string(ordinal));
    }
    return body(*s.devices[static_cast<size_t>(ordinal)]);
  });
}

}  // namespace

extern "C" {

Result cuInit(unsigned flags) {
  return call("cuInit", [&](State& s) {
    if (flags != 0) return s.refuse(kInvalidValue, "cuInit: flags: expected 0");
    s.initialized = true;
    return kSuccess;
  });
}

Result cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}

Result cuDeviceGetCount(int* count) {
  return call("cuDeviceGetCount", [&](State& s) {
    *count = static_cast<int>(s.devices.size());
    return kSuccess;
  });
}

Result cuDeviceGet(int* device, int ordinal) {
  return call("cuDeviceGet", [&](State& s) {
    if (ordinal < 0 || ordinal >= static_cast<int>(s.devices.size())) return kInvalidDevice;
    *device = ordinal;
    return kSuccess;
  });
}

Result cuDeviceGetName(char* name, int bytes, int ordinal) {
  return device_call("cuDeviceGetName", ordinal, [&](Device& device) {
    std::strncpy(name, ("Emulated GPU " + std::to_string(device.context.device)).c_str(),
                 static_cast<size_t>(bytes) - 1);
    name[bytes - 1] = '\0';
    return kSuccess;
  });
}

Result cuDeviceGetAttribute(int* value, int attribute, int ordinal) {
  return device_call("cuDeviceGetAttribute", ordinal, [&](Device& device) {
    bool known = false;
    const int found = attribute_of(device.facts, attribute, known);
    if (!known) return kInvalidValue;
    *value = found;
    return kSuccess;
  });
}

Result cuDeviceTotalMem_v2(size_t* bytes, int ordinal) {
  return device_call("cuDeviceTotalMem_v2", ordinal, [&](Device& device) {
    *bytes = device.facts.memory_bytes;
    return kSuccess;
  });
}

}  // extern "C"

}  // namespace stratum::emulator::driver
