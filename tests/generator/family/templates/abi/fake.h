// Parameters of the fake family's kernels: one struct for all of them.
#pragma once

#include "abi/fake_types.h"

namespace fake {

struct Params {
  const float* x;
  float* y;
  index count;
  float factor;
};

}  // namespace fake
