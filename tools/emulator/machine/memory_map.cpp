#include "machine/memory_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace stratum::emulator {
namespace {

// The axes from the longest stride to the shortest, those that are one run of bytes joined.
std::vector<Axis> simplified(std::vector<Axis> axes) {
  std::erase_if(axes, [](const Axis& axis) { return axis.extent == 1 || axis.stride == 0; });
  for (Axis& axis : axes) axis.stride = std::abs(axis.stride);
  std::ranges::sort(axes, [](const Axis& a, const Axis& b) { return a.stride > b.stride; });
  std::vector<Axis> joined;
  for (const Axis& axis : axes) {
    if (!joined.empty() && joined.back().stride == axis.extent * axis.stride) {
      joined.back() = {joined.back().extent * axis.extent, axis.stride};
    } else {
      joined.push_back(axis);
    }
  }
  return joined;
}

bool inside(const Region& region, uint64_t address, uint64_t size) {
  const uint64_t at = address - region.first;
  return at < region.bytes && region.bytes - at >= size;
}

}  // namespace

bool Region::holds(uint64_t address, uint64_t size) const {
  if (!inside(*this, address, size)) return false;
  uint64_t at = address - first;
  for (const Axis& axis : axes) {
    const uint64_t stride = static_cast<uint64_t>(axis.stride), index = at / stride;
    if (index >= static_cast<uint64_t>(axis.extent)) return false;
    if (&axis == &axes.back()) return at + size <= static_cast<uint64_t>(axis.extent) * stride;
    at -= index * stride;
  }
  return true;
}

void MemoryMap::add_array(Region array) {
  array.axes = simplified(std::move(array.axes));
  // Rows that lie on one another, as in a sliding window, have no single place for a byte.
  for (size_t i = 0; i + 1 < array.axes.size(); ++i) {
    if (array.axes[i].stride < array.axes[i + 1].extent * array.axes[i + 1].stride) array.axes.clear();
  }
  arrays_.push_back(std::move(array));
}

void MemoryMap::add_allocation(Region allocation) { allocations_.push_back(std::move(allocation)); }

void MemoryMap::prepare() {
  std::ranges::sort(allocations_, {}, &Region::first);
  callers_.clear();
  for (const Region& allocation : allocations_) {
    callers_.push_back(std::ranges::any_of(arrays_, [&](const Region& array) {
      return array.first < allocation.first + allocation.bytes && allocation.first < array.first + array.bytes;
    }));
  }
}

const Region* MemoryMap::find(uint64_t address, uint64_t size) const {
  for (const Region& array : arrays_)
    if (array.holds(address, size)) return &array;
  auto next = std::ranges::upper_bound(allocations_, address, {}, &Region::first);
  if (next == allocations_.begin()) return nullptr;
  --next;
  const bool found = next->holds(address, size) && !callers_[static_cast<size_t>(next - allocations_.begin())];
  return found ? &*next : nullptr;
}

std::string MemoryMap::describe(uint64_t address, uint64_t size) const {
  constexpr uint64_t kNear = uint64_t{1} << 30;
  const Region* nearest = nullptr;
  uint64_t least = kNear;
  const auto distance = [&](const Region& region) -> uint64_t {
    if (address + size <= region.first) return region.first - address;
    return address >= region.first + region.bytes ? address - (region.first + region.bytes) + 1 : 0;
  };
  for (const auto* regions : {&arrays_, &allocations_})
    for (const Region& region : *regions)
      if (distance(region) < least) least = distance(region), nearest = &region;
  if (nearest == nullptr) return "no memory is near";
  const std::string name = fmt::format("{} ({} bytes)", nearest->name, nearest->bytes);
  if (address + size <= nearest->first) return fmt::format("{} bytes before {}", nearest->first - address, name);
  const uint64_t end = nearest->first + nearest->bytes;
  if (address >= end) return fmt::format("{} bytes behind the end of {}", address - end, name);
  if (!inside(*nearest, address, size)) return "across an end of " + name;
  return fmt::format("{} bytes into {}, between its elements", address - nearest->first, name);
}

}  // namespace stratum::emulator
