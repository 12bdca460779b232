// cp.async.bulk.tensor: boxes of arrays between global and shared memory; and the groups of those that store.
#include <cstring>

#include "exec/forms.h"
#include "exec/trap.h"
#include "machine/bulk_stores.h"
#include "machine/tensor_copies.h"

namespace stratum::emulator {
namespace {

// What a lane gives as the step's address of that number, whose register is the operand.
uint64_t address(const Warp& warp, const Step& step, int operand, int which, uint32_t lane) {
  const std::byte* const row = warp.registers + step.row[operand];
  const uint64_t offset = static_cast<uint64_t>(step.offset[which]);
  if (step.wide[which]) return reinterpret_cast<const uint64_t*>(row)[lane] + offset;
  return reinterpret_cast<const uint32_t*>(row)[lane] + static_cast<uint32_t>(offset);
}

// The map at the address, and after it the coordinates.
template <int kRank>
TensorCopy copy_of(const Warp& warp, const Step& step, int operand, int which, uint32_t lane) {
  TensorCopy copy{
      .map = find_tensor_map(warp, address(warp, step, operand, which, lane), kRank), .at = {}, .shared = 0};
  for (int axis = 0; axis < kRank; ++axis) {
    copy.at[axis] = reinterpret_cast<const int32_t*>(warp.registers + step.row[operand + 1 + axis])[lane];
  }
  return copy;
}

// Operands: [to], [map, {coordinates}], [mbarrier]; a cache policy after them changes nothing.
template <int kRank>
void load(Warp& warp, const Step& step, uint32_t lanes) {
  for_each_lane(lanes, [&](uint32_t lane) {
    TensorCopy copy = copy_of<kRank>(warp, step, 1, 1, lane);
    copy.shared = address(warp, step, 0, 0, lane);
    begin_tensor_load(warp, lane, copy, address(warp, step, 2 + kRank, 2, lane));
  });
}

// Operands: [map, {coordinates}], [from].
template <int kRank>
void store(Warp& warp, const Step& step, uint32_t lanes) {
  for_each_lane(lanes, [&](uint32_t lane) {
    TensorCopy copy = copy_of<kRank>(warp, step, 0, 0, lane);
    copy.shared = address(warp, step, 1 + kRank, 1, lane);
    begin_tensor_store(warp, lane, copy);
  });
}

void commit(Warp& warp, const Step&, uint32_t lanes) { warp.stores->commit(lanes); }

template <bool kOnlyRead>
void wait(Warp& warp, const Step& step, uint32_t lanes) {
  warp.stores->wait(warp, lanes, step.number, kOnlyRead);
}

// A parameter's generic address is where the launch's parameters lie in the host's memory.
void parameter_address(Warp& warp, const Step& step, uint32_t lanes) {
  const uint64_t* from = reinterpret_cast<const uint64_t*>(warp.registers + step.row[1]);
  uint64_t* to = reinterpret_cast<uint64_t*>(warp.registers + step.row[0]);
  for_each_lane(lanes, [&](uint32_t lane) { to[lane] = from[lane] + reinterpret_cast<uint64_t>(warp.parameters); });
}

// There is no cache, so all policies are alike; the driver's bits of them are not known.
void policy(Warp& warp, const Step& step, uint32_t lanes) {
  uint64_t* to = reinterpret_cast<uint64_t*>(warp.registers + step.row[0]);
  for_each_lane(lanes, [&](uint32_t lane) { to[lane] = 0; });
}

// There is no cache; the address must be right.
void prefetch(Warp& warp, const Step& step, uint32_t lanes) {
  for_each_lane(lanes, [&](uint32_t lane) { find_tensor_map(warp, address(warp, step, 0, 0, lane), kAnyRank); });
}

#define RANK(rank, dimensions)                                                                                   \
  {"cp.async.bulk.tensor." dimensions ".shared::cluster.global.mbarrier::complete_tx::bytes", "=S" #rank "TS",   \
   load<rank>},                                                                                                  \
      {"cp.async.bulk.tensor." dimensions ".shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint", \
       "=S" #rank "TSq", load<rank>},                                                                            \
  {                                                                                                              \
    "cp.async.bulk.tensor." dimensions ".global.shared::cta.bulk_group", "=" #rank "TS", store<rank>             \
  }

const Form kForms[] = {
    RANK(1, "1d"),
    RANK(2, "2d"),
    RANK(3, "3d"),
    RANK(4, "4d"),
    RANK(5, "5d"),
    {"cp.async.bulk.commit_group", "=", commit},
    {"cp.async.bulk.wait_group", "=i", wait<false>},
    {"cp.async.bulk.wait_group.read", "=i", wait<true>},
    {"cvta.param.u64", "q=q", parameter_address},
    {"createpolicy.fractional.L2::evict_first.b64", "q=", policy},
    {"prefetch.tensormap", "=G", prefetch},
};

}  // namespace

FormList tensor_copy_forms() { return {kForms, std::size(kForms)}; }

}  // namespace stratum::emulator
