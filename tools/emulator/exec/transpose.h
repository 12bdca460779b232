// Rearranging 8 x 8 matrices by whole rows. Only for the sources of row forms.
#pragma once

#include <cstdint>

namespace stratum::emulator::STRATUM_EMULATOR_ISA {

// a[0] b[0] a[1] b[1] ...: kCount of each.
template <int kCount, class T>
[[gnu::always_inline]] inline void interleave(const T* a, const T* b, T* to) {
  for (int i = 0; i < kCount; ++i) {
    to[2 * i] = a[i];
    to[2 * i + 1] = b[i];
  }
}

// Interleaving the halves of 64 elements turns the six bits of an element's place by one; three turns exchange the bits
// of its row with those of its column.
template <class T>
[[gnu::always_inline]] inline void transpose_8x8(const T* from, T* to) {
  T once[64], twice[64];
  interleave<32>(from, from + 32, once);
  interleave<32>(once, once + 32, twice);
  interleave<32>(twice, twice + 32, to);
}

}  // namespace stratum::emulator::STRATUM_EMULATOR_ISA
