// Checks of the arrays that a call brings.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "abi/gated.h"
#include "config.h"
#include "stratum.h"

namespace stratum {

// Any extent will do.
inline constexpr int64_t kAnyExtent = -1;

struct NamedArray {
  const stratum_array* array;
  const char* name;
};

class ArrayChecker {
 public:
  // Arrays of this configuration's dtype and device; of host memory too if `host_memory`.
  ArrayChecker(const Config& config, bool host_memory) : config_(config), host_memory_(host_memory) {}

  // An input of the given extents. Throws Error naming the array: SHAPE_ERROR, DTYPE_ERROR, DEVICE_ERROR,
  // STRIDE_ERROR. Strides may be 0 or negative: an expanded or reversed view is read as it is.
  void input(const stratum_array* array, const char* name, std::initializer_list<int64_t> shape) const;

  // The same for an array that is written, whose elements must not lie on one another (STRIDE_ERROR).
  void output(const stratum_array* array, const char* name, std::initializer_list<int64_t> shape) const;

  // Refuses an output that starts where an input or another output does (STRIDE_ERROR). Arrays that overlap in another
  // way are not looked for: views of one packed array lie between each other and share no element.
  static void apart(std::initializer_list<NamedArray> outputs, std::initializer_list<NamedArray> inputs);

 private:
  const Config& config_;
  bool host_memory_;
};

// Checks an address that comes without a shape. Throws Error (STRIDE_ERROR).
void check_address(uint64_t address, const char* name);

abi::Dense dense(const stratum_array& array);    // [batch, token, head, dim]
abi::Packed packed(const stratum_array& array);  // [token, head, dim]

}  // namespace stratum
