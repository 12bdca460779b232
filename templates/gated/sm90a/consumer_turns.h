// Turns of the consumer warpgroups at the tensor cores. Without them all run in lockstep: they multiply at the same
// time, then all do arithmetic while the tensor cores idle. With them one's products run under the others' arithmetic.
#pragma once

#include "device/named_barrier.h"

namespace stratum::gated::sm90a {

// Named barriers 1 ... kConsumers: barrier 1 + c completes when consumer c waits for its turn and the one before has
// passed. Everybody takes and passes equally often.
template <int kConsumers>
struct ConsumerTurns {
  int consumer;

  // The last consumer lets the first one begin.
  __device__ __forceinline__ explicit ConsumerTurns(int consumer) : consumer(consumer) {
    if (consumer == kConsumers - 1) pass();
  }
  __device__ __forceinline__ void take() const { named_barrier_sync<256>(1 + consumer); }
  __device__ __forceinline__ void pass() const {
    named_barrier_arrive<256>(consumer == kConsumers - 1 ? 1 : 2 + consumer);
  }
  // Behind everybody's last turn: takes what was passed to the first.
  __device__ __forceinline__ void finish() const {
    if (consumer == 0) take();
  }
};

// All threads of one consumer.
STRATUM_DEVICE void consumer_sync(int consumer) { named_barrier_sync<128>(8 + consumer); }

// All threads of both of two consumers.
STRATUM_DEVICE void consumers_sync() { named_barrier_sync<256>(15); }

}  // namespace stratum::gated::sm90a
