// From a module as it is written to a program that warps run.
#pragma once

#include <string_view>

#include "exec/program.h"
#include "ptx/module.h"

namespace stratum::emulator {

// Decodes an entry of the module. ptx::ParseError, with the line, for a form that the emulator doesn't know, operands
// that don't fit it, and names that mean nothing.
Program decode(const ptx::Module& module, const ptx::Entry& entry);

}  // namespace stratum::emulator
