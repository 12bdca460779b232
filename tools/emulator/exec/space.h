// State spaces that instructions address.
#pragma once

namespace stratum::emulator {

enum class Space { Global, Shared, Parameter };

inline const char* name_of(Space space) {
  return space == Space::Global ? "global" : space == Space::Shared ? "shared" : "parameter";
}

}  // namespace stratum::emulator
