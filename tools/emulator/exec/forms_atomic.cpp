// Atomic operations on integers in global memory. The lanes of a step come one after the other; blocks run beside each
// other, so the host's memory is changed atomically too.
#include <algorithm>
#include <atomic>

#define STRATUM_EMULATOR_ISA once  // what the row forms share, a copy for this source
#include "exec/addresses.h"

namespace stratum::emulator {
namespace {

struct Add {
  template <class T>
  static T of(T old, T a, T) {
    return old + a;
  }
};
struct Min {
  template <class T>
  static T of(T old, T a, T) {
    return std::min(old, a);
  }
};
struct Max {
  template <class T>
  static T of(T old, T a, T) {
    return std::max(old, a);
  }
};
struct And {
  template <class T>
  static T of(T old, T a, T) {
    return old & a;
  }
};
struct Or {
  template <class T>
  static T of(T old, T a, T) {
    return old | a;
  }
};
// Counts up to the operand and begins at 0 again; down from it.
struct Increment {
  template <class T>
  static T of(T old, T a, T) {
    return old >= a ? 0 : old + 1;
  }
};
struct Decrement {
  template <class T>
  static T of(T old, T a, T) {
    return old == 0 || old > a ? a : old - 1;
  }
};
struct Exchange {
  template <class T>
  static T of(T, T a, T) {
    return a;
  }
};
struct CompareAndSwap {
  template <class T>
  static T of(T old, T a, T b) {
    return old == a ? b : old;
  }
};

// Replaces a value in memory by Operation::of(it, operand, second operand); the result is what was there.
template <class Operation, class T, int kOperands = 1>
void atomic(Warp& warp, const Step& step, uint32_t lanes) {
  const auto row = [&](int i) { return reinterpret_cast<T*>(warp.registers + step.row[i]); };
  once::Places places;
  once::find_places<Space::Global>(warp, step, step.row[1], 0, sizeof(T), sizeof(T), false, lanes, places);
  once::find_places<Space::Global>(warp, step, step.row[1], 0, sizeof(T), sizeof(T), true, lanes, places);
  T result[kLanes];
  for_each_lane(lanes, [&](uint32_t lane) {
    const std::atomic_ref<T> memory(*reinterpret_cast<T*>(places.of[lane]));
    T old = memory.load();
    while (!memory.compare_exchange_weak(old, Operation::of(old, row(2)[lane], row(1 + kOperands)[lane]))) {
    }
    result[lane] = old;
  });
  for_each_lane(lanes, [&](uint32_t lane) { row(0)[lane] = result[lane]; });
}

const Form kForms[] = {
    {"atom.global.add.u32", "w=Gw", atomic<Add, uint32_t>},
    {"atom.global.add.s32", "w=Gw", atomic<Add, uint32_t>},
    {"atom.global.add.u64", "q=Gq", atomic<Add, uint64_t>},
    {"atom.global.min.u32", "w=Gw", atomic<Min, uint32_t>},
    {"atom.global.min.s32", "w=Gw", atomic<Min, int32_t>},
    {"atom.global.max.u32", "w=Gw", atomic<Max, uint32_t>},
    {"atom.global.max.s32", "w=Gw", atomic<Max, int32_t>},
    {"atom.global.and.b32", "w=Gw", atomic<And, uint32_t>},
    {"atom.global.or.b32", "w=Gw", atomic<Or, uint32_t>},
    {"atom.global.inc.u32", "w=Gw", atomic<Increment, uint32_t>},
    {"atom.global.dec.u32", "w=Gw", atomic<Decrement, uint32_t>},
    {"atom.global.exch.b32", "w=Gw", atomic<Exchange, uint32_t>},
    {"atom.global.exch.b64", "q=Gq", atomic<Exchange, uint64_t>},
    {"atom.global.cas.b32", "w=Gww", atomic<CompareAndSwap, uint32_t, 2>},
    {"atom.global.cas.b64", "q=Gqq", atomic<CompareAndSwap, uint64_t, 2>},
};

}  // namespace

FormList atomic_forms() { return {kForms, std::size(kForms)}; }

}  // namespace stratum::emulator
