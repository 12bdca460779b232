// Reads PTX text into a Module.
#pragma once

#include <string_view>

#include "ptx/module.h"

namespace stratum::emulator::ptx {

// Reads a whole module. ParseError, with the line, for what it doesn't understand.
Module parse(std::string_view source);

}  // namespace stratum::emulator::ptx
