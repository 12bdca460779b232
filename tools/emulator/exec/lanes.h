// Work on the lanes of a warp. Only for the sources of row forms (forms.h says why).
#pragma once

#include <cstring>
#include <utility>

#include "exec/forms.h"
#include "exec/warp.h"

namespace stratum::emulator::STRATUM_EMULATOR_ISA {

template <class T>
[[gnu::always_inline]] inline T* row(Warp& warp, uint32_t offset) {
  return reinterpret_cast<T*>(warp.registers + offset);
}

template <class To, class F, class... From>
[[gnu::always_inline]] inline void each_row(uint32_t lanes, To* to, F f, const From*... from) {
  if (lanes == kAllLanes) {
    // A destination may be a source too, but then lane meets lane.
#ifndef __clang__
#pragma GCC ivdep
#endif
    for (uint32_t lane = 0; lane < kLanes; ++lane) to[lane] = f(from[lane]...);
    return;
  }
  To result[kLanes];
  for (uint32_t lane = 0; lane < kLanes; ++lane) result[lane] = f(from[lane]...);
  for_each_lane(lanes, [&](uint32_t lane) { to[lane] = result[lane]; });
}

template <class F>
struct Elementwise;

template <class F, class To, class... From>
struct Elementwise<To (F::*)(From...) const> {
  template <F f, size_t... kSource>
  [[gnu::always_inline]] static void run(Warp& warp, const Step& step, uint32_t lanes,
                                         std::index_sequence<kSource...>) {
    each_row(lanes, row<To>(warp, step.row[0]), f, row<From>(warp, step.row[1 + kSource])...);
  }
  using Sources = std::index_sequence_for<From...>;
};

// The handler that applies a function without state to every lane: its first operand is the result, the others are the
// arguments. The function must be defined for any bits, since it also sees lanes that do not run.
template <auto f>
void each(Warp& warp, const Step& step, uint32_t lanes) {
  using Rows = Elementwise<decltype(&decltype(f)::operator())>;
  Rows::template run<f>(warp, step, lanes, typename Rows::Sources{});
}

// Sets the bits of the lanes in a predicate.
inline void set_predicate(Warp& warp, uint32_t offset, uint32_t lanes, uint32_t bits) {
  uint32_t* predicate = row<uint32_t>(warp, offset);
  *predicate = (*predicate & ~lanes) | (bits & lanes);
}

template <size_t kCount>
FormList list_of(const Form (&forms)[kCount]) {
  return {forms, kCount};
}

}  // namespace stratum::emulator::STRATUM_EMULATOR_ISA
