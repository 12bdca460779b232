// mbarriers, and the fences that asynchronous copies need.
#include "exec/forms.h"
#include "exec/trap.h"
#include "machine/mbarriers.h"
#include "machine/options.h"
#include "machine/watch.h"
#define STRATUM_EMULATOR_ISA once  // what the row forms share, a copy for this source
#include "exec/addresses.h"

namespace stratum::emulator {
namespace {

constexpr uint64_t kBytes = 8;  // of an mbarrier

const uint32_t* words(const Warp& warp, const Step& step, int i) {
  return reinterpret_cast<const uint32_t*>(warp.registers + step.row[i]);
}

// Calls f(lane, address) for the mbarrier of each lane, whose address is that operand.
template <class F>
void each_mbarrier(Warp& warp, const Step& step, int operand, uint32_t lanes, F f) {
  once::Places places;
  uint64_t address[kLanes];
  once::find_unwatched_places<Space::Shared>(warp, step, step.row[operand], 0, kBytes, kBytes, lanes, address, places);
  for_each_lane(lanes, [&](uint32_t lane) { f(lane, address[lane]); });
}

void init(Warp& warp, const Step& step, uint32_t lanes) {
  each_mbarrier(warp, step, 0, lanes, [&](uint32_t lane, uint64_t address) {
    warp.mbarriers->init(warp, lane, address, words(warp, step, 1)[lane]);
  });
}

void arrive(Warp& warp, const Step& step, uint32_t lanes) {
  each_mbarrier(warp, step, 1, lanes, [&](uint32_t, uint64_t address) { warp.mbarriers->arrive(warp, address, 1, 0); });
}

void arrive_count(Warp& warp, const Step& step, uint32_t lanes) {
  each_mbarrier(warp, step, 1, lanes, [&](uint32_t lane, uint64_t address) {
    warp.mbarriers->arrive(warp, address, words(warp, step, 2)[lane], 0);
  });
}

void arrive_expect(Warp& warp, const Step& step, uint32_t lanes) {
  each_mbarrier(warp, step, 1, lanes, [&](uint32_t lane, uint64_t address) {
    warp.mbarriers->arrive(warp, address, 1, words(warp, step, 2)[lane]);
  });
}

// Operands: p, [mbarrier], parity. The instruction may wait as long as it likes: here until a phase completes, and then
// it is executed anew. By chance it gives up at once, as it may too.
void try_wait(Warp& warp, const Step& step, uint32_t lanes) {
  uint32_t complete = 0;
  each_mbarrier(warp, step, 1, lanes, [&](uint32_t lane, uint64_t address) {
    complete |= static_cast<uint32_t>(warp.mbarriers->test(warp, address, words(warp, step, 2)[lane])) << lane;
  });
  const bool gives_up = warp.options->seed && warp.random() % 4 == 0;
  if (complete || gives_up) {
    uint32_t* done = reinterpret_cast<uint32_t*>(warp.registers + step.row[0]);
    *done = (*done & ~lanes) | complete;
    return;
  }
  each_mbarrier(warp, step, 1, lanes, [&](uint32_t, uint64_t address) { warp.mbarriers->wait(warp, address); });
  --warp.pc;
}

void fence_inits(Warp& warp, const Step&, uint32_t) { warp.mbarriers->fence_inits(warp); }

void fence_proxy(Warp& warp, const Step&, uint32_t) {
  warp.mbarriers->fence_inits(warp);
  if (warp.watch) warp.watch->order().fence_proxy(warp.index);
}

const Form kForms[] = {
    {"mbarrier.init.shared::cta.b64", "=Sw", init},
    {"mbarrier.arrive.shared::cta.b64", "_=S", arrive},
    {"mbarrier.arrive.shared::cta.b64", "_=Sw", arrive_count},
    {"mbarrier.arrive.expect_tx.shared::cta.b64", "_=Sw", arrive_expect},
    {"mbarrier.try_wait.parity.shared::cta.b64", "p=Sw", try_wait},
    {"fence.mbarrier_init.release.cluster", "=", fence_inits},
    {"fence.proxy.async", "=", fence_proxy},
    {"fence.proxy.async.shared::cta", "=", fence_proxy},
};

}  // namespace

FormList mbarrier_forms() { return {kForms, std::size(kForms)}; }

}  // namespace stratum::emulator
