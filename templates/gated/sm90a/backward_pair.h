// What both backward kernels do to a pair (query i, key j). With p the softmax, g the sigmoid, w = p g and dw = do.v:
//
//     ds = w dw - p delta        dt = w dw (1 - g)
//
// With t = tanh of half the gate's score, 2w = p + p t and 2 (1 - g) = 1 - t: no special function beyond exp2 and tanh.
// Powers of two stay out of the loop: the kernels carry 2w, 2ds and 4dt.
//
// p = exp2(s c - L) takes one fused multiply-add, L = max c + log2_sum rounded (max and log2_sum: RowStats). Its
// rounding is below 2^-12 while |max c| is at most kLargestMax; beyond, scores are reduced by max first, and logits of
// any size are right.
//
// Packed arithmetic works on two values of 16 bits at once, in the elements' own type: more rounding, fewer
// instructions. What it rounds in between is what eager PyTorch rounds.
#pragma once

#include "abi/gated.h"
#include "device/math.h"

namespace stratum::gated::sm90a {

// How far a pair's arithmetic is packed; what each means is at PairArithmetic.
enum class Packing { kNone = 0, kGradients = 1, kAll = 2 };

inline constexpr float kLargestMax = 2048.f;

// A query row's statistics in the form that the arithmetic takes them.
struct QueryStats {
  float reduce;        // what scores are reduced by first: 0 unless the row is far out
  float offset;        // L
  float minus_delta2;  // -2 delta

  // With the factor of the softmax's logits in base 2.
  STRATUM_DEVICE QueryStats of(const abi::RowStats& row, float delta, float scale_log2) {
    const bool far_out = fabsf(row.max * scale_log2) > kLargestMax;
    return {far_out ? row.max : 0.f, far_out ? row.log2_sum : fmaf(row.max, scale_log2, row.log2_sum), -2.f * delta};
  }
};

// The statistics of a row that doesn't exist: they make p 0.
inline constexpr abi::RowStats kNoRow = {0.f, kInfinity};

// Arithmetic on two packed values.
template <class Element>
struct Packed;

#define STRATUM_PACKED(Element, type)                                            \
  template <>                                                                    \
  struct Packed<Element> {                                                       \
    STRATUM_DEVICE u32 multiply(u32 a, u32 b) {                                  \
      u32 d;                                                                     \
      asm("mul.rn." type " %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));             \
      return d;                                                                  \
    }                                                                            \
    STRATUM_DEVICE u32 multiply_add(u32 a, u32 b, u32 c) {                       \
      u32 d;                                                                     \
      asm("fma.rn." type " %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c)); \
      return d;                                                                  \
    }                                                                            \
    STRATUM_DEVICE u32 negate(u32 a) {                                           \
      u32 d;                                                                     \
      asm("neg." type " %0, %1;" : "=r"(d) : "r"(a));                            \
      return d;                                                                  \
    }                                                                            \
  }
STRATUM_PACKED(bfloat16, "bf16x2");
STRATUM_PACKED(float16, "f16x2");
#undef STRATUM_PACKED

// Keeps the computation of `values` before what follows: the compiler would sink it behind the wait for a product.
template <int kCount>
STRATUM_DEVICE void keep_here(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i]));
}
template <int kSteps>
STRATUM_DEVICE void keep_here(u32 (&values)[kSteps][4]) {
#pragma unroll
  for (int i = 0; i < 4 * kSteps; ++i) asm volatile("" : "+r"(values[i / 4][i % 4]));
}

// Four values for the four elements that a thread has of 8 columns of an accumulator: rows r, r, r + 8, r + 8.
struct Quad {
  float value[4];
};

// One step's arithmetic. `stats` gives for each 8 columns n the Quads offsets(n) and minus_delta2s(n).
//
//   kNone       s and t become p and tanh in place; ds, dt come from them and dw
//   kGradients  once p and tanh are known, w, -2 p delta and 2w (1 - t) are packed into w, ds, dt; dw is packed too
//   kAll        p and tanh are packed into ds, dt, and all that follows is packed
template <class Tile>
struct PairArithmetic {
  using Element = typename Tile::Element;
  using Pairs = Packed<Element>;
  static constexpr int count = Tile::tile_n / 2;
  static constexpr Packing packing = Tile::packing;
  using Weights = u32[Tile::tile_n / 16][4];

  // t, half the gate's score, becomes tanh, packed in dt if that is asked for.
  STRATUM_DEVICE void open_gate(float (&t)[count], Weights& dt) {
#pragma unroll
    for (int i = 0; i < count; ++i) t[i] = fast_tanh(t[i]);
    if constexpr (packing == Packing::kAll) pack(dt, t);
  }

  // From the scores and tanh: what needs no dw. w is 2w where it is asked for or packed.
  template <bool kWeights, class Stats>
  STRATUM_DEVICE void weigh(float (&s)[count], const float (&t)[count], Weights& w, Weights& ds, Weights& dt,
                            const Stats& stats, float scale_log2) {
#pragma unroll
    for (int n = 0; n < count / 4; ++n) {
      const Quad offset = stats.offsets(n);
      float* p = s + 4 * n;
      const float* tanh = t + 4 * n;
#pragma unroll
      for (int i = 0; i < 4; ++i) p[i] = fast_exp2(fmaf(p[i], scale_log2, -offset.value[i]));
      u32* w2 = &w[n / 2][n % 2 * 2];
      u32* ds2 = &ds[n / 2][n % 2 * 2];
      u32* dt4 = &dt[n / 2][n % 2 * 2];
      if constexpr (packing == Packing::kNone) {
        if constexpr (kWeights) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            w2[i] =
                Element::pack(fmaf(p[2 * i], tanh[2 * i], p[2 * i]), fmaf(p[2 * i + 1], tanh[2 * i + 1], p[2 * i + 1]));
          }
        }
      } else if constexpr (packing == Packing::kGradients) {
        const Quad minus_delta2 = stats.minus_delta2s(n);
        float weight[4], gated[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          weight[i] = fmaf(p[i], tanh[i], p[i]);
          gated[i] = fmaf(-weight[i], tanh[i], weight[i]);
          p[i] *= minus_delta2.value[i];
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          w2[i] = Element::pack(weight[2 * i], weight[2 * i + 1]);
          ds2[i] = Element::pack(p[2 * i], p[2 * i + 1]);
          dt4[i] = Element::pack(gated[2 * i], gated[2 * i + 1]);
        }
      } else {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          ds2[i] = Element::pack(p[2 * i], p[2 * i + 1]);
          w2[i] = Pairs::multiply_add(ds2[i], dt4[i], ds2[i]);
        }
      }
    }
  }

  // Keeps `weigh` ahead of the wait for dw.
  STRATUM_DEVICE void keep_weights(float (&s)[count], float (&t)[count], Weights& w, Weights& ds, Weights& dt) {
    if constexpr (packing == Packing::kNone) {
      keep_here(s);
      keep_here(t);
    } else {
      keep_here(w);
      keep_here(ds);
      keep_here(dt);
    }
  }

  // With dw: 2ds and 4dt.
  template <class Stats>
  STRATUM_DEVICE void differentiate(const float (&p)[count], const float (&t)[count], const float (&dw)[count],
                                    const Weights& w, Weights& ds, Weights& dt, const Stats& stats) {
#pragma unroll
    for (int n = 0; n < count / 4; ++n) {
      if constexpr (packing == Packing::kNone) {
        const Quad minus_delta2 = stats.minus_delta2s(n);
        float to_score[4], to_gate[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float wdw2 = fmaf(p[4 * n + i], t[4 * n + i], p[4 * n + i]) * dw[4 * n + i];
          to_score[i] = fmaf(p[4 * n + i], minus_delta2.value[i], wdw2);
          to_gate[i] = fmaf(-wdw2, t[4 * n + i], wdw2);
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          ds[n / 2][n % 2 * 2 + i] = Element::pack(to_score[2 * i], to_score[2 * i + 1]);
          dt[n / 2][n % 2 * 2 + i] = Element::pack(to_gate[2 * i], to_gate[2 * i + 1]);
        }
      } else {
        Quad minus_delta2{};
        if constexpr (packing == Packing::kAll) minus_delta2 = stats.minus_delta2s(n);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const u32 dw2 = Element::pack(dw[4 * n + 2 * i], dw[4 * n + 2 * i + 1]);
          u32& ds2 = ds[n / 2][n % 2 * 2 + i];
          u32& dt4 = dt[n / 2][n % 2 * 2 + i];
          if constexpr (packing == Packing::kGradients) {
            ds2 = Pairs::multiply_add(w[n / 2][n % 2 * 2 + i], dw2, ds2);
            dt4 = Pairs::multiply(dt4, dw2);
          } else {
            const u32 wdw2 = Pairs::multiply(w[n / 2][n % 2 * 2 + i], dw2);
            ds2 =
                Pairs::multiply_add(ds2, Element::pack(minus_delta2.value[2 * i], minus_delta2.value[2 * i + 1]), wdw2);
            dt4 = Pairs::multiply_add(Pairs::negate(wdw2), dt4, wdw2);
          }
        }
      }
    }
  }

 private:
  STRATUM_DEVICE void pack(Weights& packed, const float (&values)[count]) {
#pragma unroll
    for (int i = 0; i < count / 2; ++i) packed[i / 4][i % 4] = Element::pack(values[2 * i], values[2 * i + 1]);
  }
};

}  // namespace stratum::gated::sm90a
