#include "machine/registers_in_flight.h"

#include <fmt/format.h>

#include <algorithm>

#include "exec/trap.h"

namespace stratum::emulator {
namespace {

constexpr uint8_t kOperandsWithA = 6;  // A in four registers, a descriptor, a predicate

}  // namespace

RegistersInFlight::RegistersInFlight(const Program& program) : program_(program), uses_(program.cells) {}

void RegistersInFlight::reset() {
  std::ranges::fill(uses_, Use{});
  in_flight_ = 0;
}

void RegistersInFlight::fence() {
  for (Use& use : uses_) use.touched = 0;
}

template <class F>
void RegistersInFlight::each_accumulator(const Step& product, F f) {
  for (const uint32_t place : product.accumulators) f(program_.cell_of(place));
}

template <class F>
void RegistersInFlight::each_a(const Step& product, F f) {
  if (product.operands != kOperandsWithA) return;
  for (int i = 0; i < 4; ++i) f(product.cell[i]);
}

void RegistersInFlight::touch(const Step& step) {
  const bool multiplies = !step.accumulators.empty();
  for (uint32_t i = 0; i < step.operands; ++i) {
    Use& use = uses_[step.cell[i]];
    if (in_flight_ && use.adding) fault(step.cell[i], "an accumulator");
    if (in_flight_ && use.reading && i < step.writes) fault(step.cell[i], "a part of A");
    if (!multiplies) use.touched = step.line;
  }
}

void RegistersInFlight::check_fenced(uint16_t cell) const {
  if (!uses_[cell].touched) return;
  throw Trap(Check::InFlight, fmt::format("{} was used at line {}, and no wgmma.fence is in between",
                                          program_.names[cell], uses_[cell].touched));
}

void RegistersInFlight::begin(const Step& product) {
  each_accumulator(product, [&](uint16_t cell) {
    check_fenced(cell);
    const Use& use = uses_[cell];
    if (use.reading) fault(cell, "a part of A");
    if (use.adding && use.product->accumulators != product.accumulators) fault(cell, "one of other accumulators");
  });
  each_a(product, [&](uint16_t cell) { check_fenced(cell); });
  each_accumulator(product, [&](uint16_t cell) { ++uses_[cell].adding, uses_[cell].product = &product; });
  each_a(product, [&](uint16_t cell) { ++uses_[cell].reading, uses_[cell].product = &product; });
  ++in_flight_;
}

void RegistersInFlight::end(const Step& product) {
  each_accumulator(product, [&](uint16_t cell) { --uses_[cell].adding; });
  each_a(product, [&](uint16_t cell) { --uses_[cell].reading; });
  --in_flight_;
}

void RegistersInFlight::fault(uint16_t cell, const char* what) const {
  throw Trap(Check::InFlight, fmt::format("{} is {} of the wgmma at line {}, which was not waited for",
                                          program_.names[cell], what, uses_[cell].product->line));
}

}  // namespace stratum::emulator
