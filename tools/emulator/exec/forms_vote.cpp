// What the lanes of a warp decide or count together.
#include <cstring>

#include "exec/forms.h"
#include "exec/trap.h"

namespace stratum::emulator {
namespace {

uint32_t* row(Warp& warp, const Step& step, int i) {
  return reinterpret_cast<uint32_t*>(warp.registers + step.row[i]);
}

// The lanes that execute must be those that each of them names.
void check_mask(Warp& warp, const uint32_t* mask, uint32_t lanes) {
  for_each_lane(lanes, [&](uint32_t lane) {
    const uint32_t named = mask[lane] & warp.live;
    if (lanes != named) trap_not_converged(warp, lanes, named);
  });
}

void set_all(uint32_t* to, uint32_t lanes, uint32_t value) {
  for_each_lane(lanes, [&](uint32_t lane) { to[lane] = value; });
}

void set_predicate(uint32_t* to, uint32_t lanes, bool value) { *to = (*to & ~lanes) | (value ? lanes : 0); }

enum class Vote { All, Any, Uniform };

// Operands: p, a predicate, mask of lanes.
template <Vote vote>
void vote_predicate(Warp& warp, const Step& step, uint32_t lanes) {
  check_mask(warp, row(warp, step, 2), lanes);
  const uint32_t yes = *row(warp, step, 1) & lanes;
  const bool all = yes == lanes, none = yes == 0;
  set_predicate(row(warp, step, 0), lanes, vote == Vote::All ? all : vote == Vote::Any ? !none : all || none);
}

void ballot(Warp& warp, const Step& step, uint32_t lanes) {
  check_mask(warp, row(warp, step, 2), lanes);
  set_all(row(warp, step, 0), lanes, *row(warp, step, 1) & lanes);
}

// Operands: d, a, mask of lanes.
template <auto combine>
void reduce(Warp& warp, const Step& step, uint32_t lanes) {
  check_mask(warp, row(warp, step, 2), lanes);
  const uint32_t* a = row(warp, step, 1);
  uint32_t result = a[__builtin_ctz(lanes)];
  for_each_lane(lanes & (lanes - 1), [&](uint32_t lane) { result = combine(result, a[lane]); });
  set_all(row(warp, step, 0), lanes, result);
}

int32_t as_signed(uint32_t a) { return static_cast<int32_t>(a); }

// Each lane gets the mask of the lanes that have its value.
void match_any(Warp& warp, const Step& step, uint32_t lanes) {
  check_mask(warp, row(warp, step, 2), lanes);
  uint32_t a[kLanes];  // d may be the same register
  std::memcpy(a, row(warp, step, 1), sizeof a);
  for_each_lane(lanes, [&](uint32_t lane) {
    uint32_t same = 0;
    for_each_lane(lanes, [&](uint32_t other) { same |= static_cast<uint32_t>(a[other] == a[lane]) << other; });
    row(warp, step, 0)[lane] = same;
  });
}

// Operands: d|p, a, mask of lanes. All lanes' mask and true if all have one value, else 0 and false.
void match_all(Warp& warp, const Step& step, uint32_t lanes) {
  check_mask(warp, row(warp, step, 3), lanes);
  const uint32_t* a = row(warp, step, 2);
  const uint32_t first = a[__builtin_ctz(lanes)];
  bool same = true;
  for_each_lane(lanes, [&](uint32_t lane) { same &= a[lane] == first; });
  set_all(row(warp, step, 0), lanes, same ? lanes : 0);
  set_predicate(row(warp, step, 1), lanes, same);
}

// Operands: d|p, mask of lanes. The lowest lane is elected.
void elect(Warp& warp, const Step& step, uint32_t lanes) {
  check_mask(warp, row(warp, step, 2), lanes);
  const uint32_t leader = static_cast<uint32_t>(__builtin_ctz(lanes));
  set_all(row(warp, step, 0), lanes, leader);
  uint32_t* elected = row(warp, step, 1);
  *elected = (*elected & ~lanes) | 1u << leader;
}

void active_mask(Warp& warp, const Step& step, uint32_t lanes) { set_all(row(warp, step, 0), lanes, lanes); }

const Form kForms[] = {
    {"vote.sync.all.pred", "p=pw", vote_predicate<Vote::All>},
    {"vote.sync.any.pred", "p=pw", vote_predicate<Vote::Any>},
    {"vote.sync.uni.pred", "p=pw", vote_predicate<Vote::Uniform>},
    {"vote.sync.ballot.b32", "w=pw", ballot},
    {"redux.sync.add.u32", "w=ww", reduce<[](uint32_t a, uint32_t b) { return a + b; }>},
    {"redux.sync.add.s32", "w=ww", reduce<[](uint32_t a, uint32_t b) { return a + b; }>},
    {"redux.sync.min.u32", "w=ww", reduce<[](uint32_t a, uint32_t b) { return a < b ? a : b; }>},
    {"redux.sync.max.u32", "w=ww", reduce<[](uint32_t a, uint32_t b) { return a < b ? b : a; }>},
    {"redux.sync.min.s32", "w=ww", reduce<[](uint32_t a, uint32_t b) { return as_signed(a) < as_signed(b) ? a : b; }>},
    {"redux.sync.max.s32", "w=ww", reduce<[](uint32_t a, uint32_t b) { return as_signed(a) < as_signed(b) ? b : a; }>},
    {"redux.sync.and.b32", "w=ww", reduce<[](uint32_t a, uint32_t b) { return a & b; }>},
    {"redux.sync.or.b32", "w=ww", reduce<[](uint32_t a, uint32_t b) { return a | b; }>},
    {"redux.sync.xor.b32", "w=ww", reduce<[](uint32_t a, uint32_t b) { return a ^ b; }>},
    {"match.any.sync.b32", "w=ww", match_any},
    {"match.all.sync.b32", "w|p=ww", match_all},
    {"elect.sync", "w|p=w", elect},
    {"activemask.b32", "w=", active_mask},
};

}  // namespace

FormList vote_forms() { return {kForms, std::size(kForms)}; }

}  // namespace stratum::emulator
