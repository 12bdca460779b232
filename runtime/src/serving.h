// Prefill and decode over the paged cache: memory, bookkeeping, order, launches.
//
//     check ─▶ pages for the new tokens ─▶ metadata into a staging slot ─▶ one copy ─▶ page_copy ─▶ append ─▶ attention
//              (all or none)                                                            only if    prefill, or waves of
//                                                                                       shared     decode + merge
//
// Calls of one engine happen in the order they are made, whatever streams they name: they share the cache, one metadata
// buffer and one partials buffer. A call on another stream than the last one's first waits for the last one's event.
//
// A call changes the bookkeeping for good only when the driver has accepted all of its work. If it fails in between,
// what was queued is waited for, since it may still use pages that are given back, and everything is as before.
//
// Not safe from several threads: the engine serialises the calls. The context of the device must be current.
#pragma once

#include <cstdint>
#include <span>

#include "arrays.h"
#include "call_metadata.h"
#include "config.h"
#include "fused_decode.h"
#include "kernels.h"
#include "memory.h"
#include "scales.h"
#include "sequences.h"
#include "serving_sizes.h"
#include "staging.h"
#include "work_list.h"

namespace stratum {

struct ServingArrays {
  const stratum_array *q, *k, *v, *qg, *kg, *o;
};

class Serving {
 public:
  // Allocates everything. Refers to its arguments, `host_memory` as in ArrayChecker; `poison` fills the device memory
  // with 0xFF bytes. Throws Error (CONFIG_ERROR, DRIVER_ERROR).
  Serving(const Config& config, const Kernels& kernels, MemoryAccount& account, bool host_memory, bool poison);
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

  // Waits for the queued work: the device must be done before the memory goes. Throws Error (DRIVER_ERROR).
  void wait() const;

  // Throw Error as stratum.h says.
  void prefill(std::span<const int64_t> ids, std::span<const int64_t> lengths, const ServingArrays& arrays,
               cuda::Stream stream);
  void decode(std::span<const int64_t> ids, std::span<const int64_t> lengths, const ServingArrays& arrays,
              cuda::Stream stream);

  SequenceTable& sequences() { return sequences_; }
  const SequenceTable& sequences() const { return sequences_; }
  const ServingSizes& sizes() const { return sizes_; }

 private:
  enum class Attention { kPrefill, kDecode };
  struct Call;

  void run(Attention attention, std::span<const int64_t> ids, std::span<const int64_t> lengths,
           const ServingArrays& arrays, cuda::Stream stream);
  // The rows of the packed arrays.
  int32_t check_arrays(std::span<const int64_t> lengths, const ServingArrays& arrays) const;
  void list_work(Attention attention, Call& call) const;
  void queue(Attention attention, const Call& call, cuda::Stream stream);
  void launch_page_copy(const Call& call, const CallMetadata& metadata, cuda::Stream stream) const;
  void launch_append(const Call& call, const CallMetadata& metadata, cuda::Stream stream) const;
  void launch_prefill(const Call& call, const CallMetadata& metadata, cuda::Stream stream) const;
  void launch_decode(const Call& call, const CallMetadata& metadata, cuda::Stream stream) const;
  // Its blocks read the metadata where it is, in page-locked memory: they read each split's a unit ahead, and a copy
  // would delay all of them.
  void launch_fused_decode(const Call& call, const CallMetadata& metadata, const std::byte* slot,
                           cuda::Stream stream) const;

  const Config& config_;
  const Kernels& kernels_;
  ArrayChecker check_;
  Scales scales_;
  DecodeKind decode_;
  ServingSizes sizes_;
  SequenceTable sequences_;
  DeviceBuffer cache_, partials_, metadata_;
  StagingRing staging_;
  unsigned long long last_stream_ = 0;  // the driver's id of it: a handle may come back as another stream
};

}  // namespace stratum
