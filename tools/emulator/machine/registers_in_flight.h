// The registers of a warp that its products in flight use: from a product's issue to the wait for its group nothing
// else may touch its accumulators and its A, and what touched them before needs a wgmma.fence in between.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/program.h"

namespace stratum::emulator {

class RegistersInFlight {
 public:
  explicit RegistersInFlight(const Program& program);

  // A new block.
  void reset();

  // A step is about to execute. Trap if it touches a register in flight.
  void touch(const Step& step);
  // wgmma.fence: a product may use what was touched.
  void fence();
  // A product is issued. Trap if it uses registers that were touched since the last fence; if an accumulator is the A
  // of another in flight, or one of another in flight whose accumulators are not all the same.
  void begin(const Step& product);
  // It was waited for.
  void end(const Step& product);

 private:
  struct Use {
    const Step* product = nullptr;  // the latest in flight
    uint16_t adding = 0;            // products that have the register as an accumulator
    uint16_t reading = 0;           // as a part of A
    int touched = 0;                // line, since the last fence; 0: not
  };
  [[noreturn]] void fault(uint16_t cell, const char* what) const;
  void check_fenced(uint16_t cell) const;
  template <class F>
  void each_accumulator(const Step& product, F f);
  template <class F>
  void each_a(const Step& product, F f);

  const Program& program_;
  std::vector<Use> uses_;  // by Step::cell
  uint32_t in_flight_ = 0;
};

}  // namespace stratum::emulator
