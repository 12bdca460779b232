// Branches, return, barriers and setmaxnreg.
#include <atomic>
#include <cstring>

#include "exec/forms.h"
#include "exec/paths.h"
#include "exec/trap.h"
#include "machine/barriers.h"
#include "machine/register_pool.h"
#include "machine/watch.h"

namespace stratum::emulator {
namespace {

// The value that all the lanes have.
uint32_t uniform(Warp& warp, uint32_t offset, uint32_t lanes, const char* what) {
  const uint32_t* row = reinterpret_cast<const uint32_t*>(warp.registers + offset);
  const uint32_t value = row[__builtin_ctz(lanes)];
  for_each_lane(lanes, [&](uint32_t lane) {
    if (row[lane] != value) throw Trap(Check::Converged, std::string(what) + " differs between lanes");
  });
  return value;
}

// The run loop leaves out a guarded branch that no lane takes: it then goes on with the next step.
void jump(Warp& warp, const Step& step, uint32_t lanes) { branch(warp, lanes, step.target, warp.pc, step.reconverge); }

void jump_together(Warp& warp, const Step& step, uint32_t lanes) {
  if (lanes != warp.active) trap_not_converged(warp, lanes, warp.active);
  warp.pc = step.target;
}

void end(Warp& warp, const Step&, uint32_t lanes) { leave(warp, lanes); }

enum class Count { Every, Given };

template <Count count, bool kWaits>
void at_barrier(Warp& warp, const Step& step, uint32_t lanes) {
  if (lanes != warp.live) trap_not_converged(warp, lanes, warp.live);
  const uint32_t number = uniform(warp, step.row[0], lanes, "the barrier's number");
  uint32_t threads = kEveryThread;
  if (count == Count::Given) {
    threads = uniform(warp, step.row[1], lanes, "the barrier's count of threads");
    if (threads == 0) throw Trap(Check::Barrier, "a barrier for 0 threads");
  }
  warp.barriers->arrive(warp, number, threads, kWaits);
}

// Operands: d, number, count of threads, predicate.
template <Reduction reduction>
void reduce_at_barrier(Warp& warp, const Step& step, uint32_t lanes) {
  if (lanes != warp.live) trap_not_converged(warp, lanes, warp.live);
  const uint32_t number = uniform(warp, step.row[1], lanes, "the barrier's number");
  const uint32_t threads = uniform(warp, step.row[2], lanes, "the barrier's count of threads");
  if (threads == 0) throw Trap(Check::Barrier, "a barrier for 0 threads");
  uint32_t holds;
  std::memcpy(&holds, warp.registers + step.row[3], sizeof holds);
  warp.barriers->arrive(warp, number, threads, true, reduction, holds & lanes);
}

// Lanes of a warp run together: there is nothing to do but to see that they do, and that their accesses are in order.
void sync_warp(Warp& warp, const Step& step, uint32_t lanes) {
  const uint32_t named = uniform(warp, step.row[0], lanes, "the mask of lanes") & warp.live;
  if (lanes != named) trap_not_converged(warp, lanes, named);
  if (warp.watch) warp.watch->order().sync_lanes(warp.index);
}

// A step like any other takes no time.
void sleep(Warp&, const Step&, uint32_t) {}

// Memory is the same for all threads at any time.
void fence(Warp&, const Step&, uint32_t) { std::atomic_thread_fence(std::memory_order_seq_cst); }

void give_registers(Warp& warp, const Step& step, uint32_t lanes) {
  if (lanes != warp.live) trap_not_converged(warp, lanes, warp.live);
  warp.pool->give(warp, step.number);
}

// Executed anew when somebody has given registers up.
void take_registers(Warp& warp, const Step& step, uint32_t lanes) {
  if (lanes != warp.live) trap_not_converged(warp, lanes, warp.live);
  if (!warp.pool->take(warp, step.number)) --warp.pc;
}

const Form kForms[] = {
    {"bra", "=L", jump},
    {"bra.uni", "=L", jump_together},
    {"ret", "=", end},
    {"exit", "=", end},
    {"nanosleep.u32", "=w", sleep},
    {"bar.sync", "=w", at_barrier<Count::Every, true>},
    {"bar.sync", "=ww", at_barrier<Count::Given, true>},
    {"bar.arrive", "=ww", at_barrier<Count::Given, false>},
    {"barrier.cta.red.or.pred", "p=wwp", reduce_at_barrier<Reduction::Or>},
    {"barrier.cta.red.and.pred", "p=wwp", reduce_at_barrier<Reduction::And>},
    {"barrier.cta.red.popc.u32", "w=wwp", reduce_at_barrier<Reduction::Count>},
    {"bar.warp.sync", "=w", sync_warp},
    {"setmaxnreg.dec.sync.aligned.u32", "=i", give_registers},
    {"setmaxnreg.inc.sync.aligned.u32", "=i", take_registers},
    {"membar.cta", "=", fence},
    {"membar.gl", "=", fence},
    {"membar.sys", "=", fence},
    {"fence.acq_rel.cta", "=", fence},
    {"fence.acq_rel.gpu", "=", fence},
    {"fence.sc.gpu", "=", fence},
};

}  // namespace

FormList control_forms() { return {kForms, std::size(kForms)}; }

}  // namespace stratum::emulator
