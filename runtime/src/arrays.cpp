#include "arrays.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "error.h"
#include "observer.h"

namespace stratum {
namespace {

constexpr int64_t kAlignmentBytes = 16;
constexpr int64_t kElementBytes = 2;
constexpr int64_t kAlignmentElements = kAlignmentBytes / kElementBytes;
constexpr int32_t kMaxRank = 4;

std::string describe_shape(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", shape[i] == kAnyExtent ? "any" : std::to_string(shape[i]));
  }
  return text + "]";
}

void check_shape(const stratum_array& array, const char* name, std::span<const int64_t> expected) {
  if (array.rank != static_cast<int32_t>(expected.size())) {
    fail(STRATUM_SHAPE_ERROR, name, "expected {} axes, {}, got {}", expected.size(), describe_shape(expected),
         array.rank);
  }
  const std::span shape(array.shape, expected.size());
  for (size_t axis = 0; axis < expected.size(); ++axis) {
    const bool fits = expected[axis] == kAnyExtent ? shape[axis] >= 0 : shape[axis] == expected[axis];
    if (!fits) {
      fail(STRATUM_SHAPE_ERROR, name, "expected shape {}, got {}", describe_shape(expected), describe_shape(shape));
    }
  }
}

const char* type_name(const stratum_array& array) {
  if (array.dtype_name != nullptr) return array.dtype_name;
  switch (array.dtype) {
    case STRATUM_BFLOAT16:
      return "bfloat16";
    case STRATUM_FLOAT16:
      return "float16";
    case STRATUM_RAW16:
      return "uint16";
    default:
      return "another type";
  }
}

// Each axis must step over all that the axes of smaller steps reach. Layouts that interleave in another way are refused
// too; nobody allocates such an output. `array` has a contiguous last axis and no extent of 0.
void check_no_overlap(const stratum_array& array, const char* name) {
  struct Axis {
    int32_t number;
    __int128 step;  // wide enough for the steps of any strides, and their sums
  };
  const int32_t last = array.rank - 1;
  std::vector<Axis> axes;
  for (int32_t axis = 0; axis < last; ++axis) {
    const __int128 stride = array.stride[axis];
    if (array.shape[axis] > 1) axes.push_back({axis, stride < 0 ? -stride : stride});
  }
  std::ranges::sort(axes, {}, &Axis::step);
  __int128 span = array.shape[last];  // elements from the first to the last of the axes so far
  for (const Axis& axis : axes) {
    if (axis.step < span) {
      fail(STRATUM_STRIDE_ERROR, name,
           "is written, expected elements that do not lie on one another, got stride {} on axis {} where the axes "
           "within it span {} elements",
           array.stride[axis.number], axis.number, span);
    }
    span += axis.step * (array.shape[axis.number] - 1);
  }
}

void check_strides(const stratum_array& array, const char* name, bool written) {
  const int32_t last = array.rank - 1;
  const std::span shape(array.shape, static_cast<size_t>(array.rank));
  if (std::ranges::any_of(shape, [](int64_t extent) { return extent == 0; })) return;  // nothing is read or written
  check_address(array.data, name);
  if (array.stride[last] != 1 && array.shape[last] > 1) {
    fail(STRATUM_STRIDE_ERROR, name, "expected a contiguous last axis (stride 1), got stride {}", array.stride[last]);
  }
  for (int32_t axis = 0; axis < last; ++axis) {
    if (array.shape[axis] == 1) continue;
    if (array.stride[axis] % kAlignmentElements != 0) {
      fail(STRATUM_STRIDE_ERROR, name,
           "expected rows aligned to {} bytes, a multiple of {} elements, got stride {} elements on axis {}",
           kAlignmentBytes, kAlignmentElements, array.stride[axis], axis);
    }
  }
  if (written) check_no_overlap(array, name);
}

void check(const stratum_array* array, const char* name, std::span<const int64_t> shape, const Config& config,
           bool host_memory, bool written) {
  if (array == nullptr) fail(STRATUM_SHAPE_ERROR, name, "expected an array, got a null pointer");
  if (array->rank < 0 || array->rank > kMaxRank) {
    fail(STRATUM_SHAPE_ERROR, name, "expected {} axes, got {}", shape.size(), array->rank);
  }
  if (array->dtype != config.dtype && array->dtype != STRATUM_RAW16) {
    fail(STRATUM_DTYPE_ERROR, name, "expected {} (or uint16, its raw bits), got {}", config.dtype_name(),
         type_name(*array));
  }
  if (array->device == STRATUM_HOST_MEMORY) {
    if (!host_memory) {
      fail(STRATUM_DEVICE_ERROR, name, "expected an array on CUDA device {}, got one in host memory", config.device);
    }
  } else if (array->device != config.device) {
    fail(STRATUM_DEVICE_ERROR, name, "expected an array on CUDA device {}, got one on device {}", config.device,
         array->device);
  }
  check_shape(*array, name, shape);
  check_strides(*array, name, written);
}

void* address(uint64_t data) { return reinterpret_cast<void*>(data); }

}  // namespace

void ArrayChecker::input(const stratum_array* array, const char* name, std::initializer_list<int64_t> shape) const {
  check(array, name, shape, config_, host_memory_, false);
  observer::array(*array, name, observer::Use::kRead);
}

void ArrayChecker::output(const stratum_array* array, const char* name, std::initializer_list<int64_t> shape) const {
  check(array, name, shape, config_, host_memory_, true);
  observer::array(*array, name, observer::Use::kWritten);
}

void ArrayChecker::apart(std::initializer_list<NamedArray> outputs, std::initializer_list<NamedArray> inputs) {
  for (const NamedArray* output = outputs.begin(); output != outputs.end(); ++output) {
    const auto refuse = [output](const NamedArray& other) {
      if (other.array->data != output->array->data) return;
      fail(STRATUM_STRIDE_ERROR, output->name, "expected memory of its own, got that of {}", other.name);
    };
    std::for_each(inputs.begin(), inputs.end(), refuse);
    std::for_each(outputs.begin(), output, refuse);
  }
}

void check_address(uint64_t address, const char* name) {
  if (address != 0 && address % kAlignmentBytes == 0) return;
  fail(STRATUM_STRIDE_ERROR, name, "expected an address aligned to {} bytes, got {:#x}", kAlignmentBytes, address);
}

abi::Dense dense(const stratum_array& array) {
  return {address(array.data), array.stride[0], array.stride[1], array.stride[2]};
}

abi::Packed packed(const stratum_array& array) { return {address(array.data), array.stride[0], array.stride[1]}; }

}  // namespace stratum
