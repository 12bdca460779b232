// Included by fake.h alone: a change here must reach every kernel's key through it.
#pragma once

namespace fake {

using index = long long;

}  // namespace fake
