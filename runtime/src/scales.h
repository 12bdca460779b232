// The scalar factors of the operation, formed in double and rounded once.
#pragma once

#include <cmath>
#include <numbers>

#include "config.h"

namespace stratum {

struct Scales {
  explicit Scales(const Config& config)
      : softmax(static_cast<float>(1.0 / std::sqrt(config.head_dim))),
        softmax_log2(static_cast<float>(std::numbers::log2e / std::sqrt(config.head_dim))),
        gate(static_cast<float>(1.0 / std::sqrt(config.gate_dim))),
        gate_half(static_cast<float>(0.5 / std::sqrt(config.gate_dim))) {}

  float softmax;       // 1 / sqrt(head_dim)
  float softmax_log2;  // log2(e) / sqrt(head_dim)
  float gate;          // 1 / sqrt(gate_dim)
  float gate_half;     // 0.5 / sqrt(gate_dim)
};

}  // namespace stratum
