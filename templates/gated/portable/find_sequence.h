// Which sequence a row of the packed arrays belongs to.
#pragma once

#include "abi/gated.h"
#include "device/element.h"

namespace stratum::gated {

// The index of the sequence that row `token` belongs to. first_token never decreases along `sequences`, and a sequence
// without new tokens has its successor's: so the last one that starts at or before the token is the right one.
STRATUM_DEVICE i32 find_sequence(const abi::SequenceSlice* sequences, i32 count, i32 token) {
  i32 found = 0, end = count;
  while (end - found > 1) {
    const i32 middle = found + (end - found) / 2;
    if (sequences[middle].first_token <= token) {
      found = middle;
    } else {
      end = middle;
    }
  }
  return found;
}

}  // namespace stratum::gated
