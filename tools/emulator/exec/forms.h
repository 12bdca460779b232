// The table of instruction forms: everything that can be executed is a row of it.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "exec/program.h"

namespace stratum::emulator {

// A form is an opcode with all its dotted parts. `operands` describes what it writes, then '=', then what it reads, in
// the order of PTX:
//
//   w  32-bit register     G  address in global memory      4w   vector of four
//   q  64-bit register     S  address in shared memory      w|p  a pair of destinations
//   h  16-bit register     P  address of a parameter        L    label
//   p  predicate           i  immediate (Step::number)    4T   address of a tensor map and four coordinates
//   _  a result that is not wanted                        m    small immediate (Step::modifiers)
//   a  accumulator, 32 bits (Step::accumulators)
//
// Forms of one name differ in their operands; the first that fits is taken.
struct Form {
  const char* name;
  const char* operands;
  Handler run;
};

struct FormList {
  const Form* first;
  size_t count;
  const Form* begin() const { return first; }
  const Form* end() const { return first + count; }
};

// All forms of that name, none if the emulator doesn't know it.
std::vector<const Form*> forms_named(std::string_view name);

// Forms that are compiled once.
FormList control_forms();
FormList shuffle_forms();
FormList vote_forms();
FormList async_copy_forms();
FormList atomic_forms();
FormList mbarrier_forms();
FormList tensor_copy_forms();
FormList warpgroup_forms();

// Forms that work on whole rows are compiled for any x86-64 and once more for AVX2 with FMA, each in a namespace of its
// own. Their sources use nothing of the standard library that could be emitted as a function: the linker keeps one copy
// of such a function and may keep the wrong one.
#define STRATUM_EMULATOR_ROW_FORMS \
  FormList compare_forms();        \
  FormList convert_forms();        \
  FormList float_forms();          \
  FormList integer_forms();        \
  FormList matrix_forms();         \
  FormList memory_forms();         \
  FormList mma_forms();            \
  FormList move_forms();           \
  FormList pair_forms();           \
  FormList wgmma_forms();

namespace any_x86 {
STRATUM_EMULATOR_ROW_FORMS
}
namespace avx2 {
STRATUM_EMULATOR_ROW_FORMS
}

}  // namespace stratum::emulator
