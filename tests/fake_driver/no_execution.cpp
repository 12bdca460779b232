#include "execution.h"

namespace fake {

int execute(State&, const Function&, const Launch&) { return kSuccess; }

}  // namespace fake
