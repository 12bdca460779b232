// Loads and stores.
#include "exec/addresses.h"

namespace stratum::emulator::STRATUM_EMULATOR_ISA {
namespace {

// Loads kCount values of type T into rows of type Row.
template <Space space, class T, int kCount, class Row = T>
void load(Warp& warp, const Step& step, uint32_t lanes) {
  constexpr size_t kBytes = sizeof(T) * kCount;
  Places places;
  find_places<space>(warp, step, step.row[kCount], 0, kBytes, kBytes, false, lanes, places);
  Row* to[kCount];
  for (int i = 0; i < kCount; ++i) to[i] = row<Row>(warp, step.row[i]);
  for_each_lane(lanes, [&](uint32_t lane) {
    T values[kCount];
    std::memcpy(values, places.of[lane], kBytes);
    for (int i = 0; i < kCount; ++i) to[i][lane] = static_cast<Row>(values[i]);
  });
}

// Stores kCount values of type T from rows of type Row.
template <Space space, class T, int kCount, class Row = T>
void store(Warp& warp, const Step& step, uint32_t lanes) {
  constexpr size_t kBytes = sizeof(T) * kCount;
  Places places;
  find_places<space>(warp, step, step.row[0], 0, kBytes, kBytes, true, lanes, places);
  const Row* from[kCount];
  for (int i = 0; i < kCount; ++i) from[i] = row<Row>(warp, step.row[1 + i]);
  for_each_lane(lanes, [&](uint32_t lane) {
    T values[kCount];
    for (int i = 0; i < kCount; ++i) values[i] = static_cast<T>(from[i][lane]);
    std::memcpy(places.of[lane], values, kBytes);
  });
}

// Narrow numbers, extended to a word as their type says; and the lower part of a word.
#define NARROW(space, name, address)                                               \
  {"ld." name ".u8", "w=" address, load<space, uint8_t, 1, uint32_t>},             \
      {"ld." name ".s8", "w=" address, load<space, int8_t, 1, int32_t>},           \
      {"ld." name ".u16", "w=" address, load<space, uint16_t, 1, uint32_t>},       \
      {"ld." name ".s16", "w=" address, load<space, int16_t, 1, int32_t>},         \
      {"ld." name ".u16", "h=" address, load<space, uint16_t, 1, uint32_t>},       \
      {"ld." name ".b16", "h=" address, load<space, uint16_t, 1, uint32_t>},       \
      {"st." name ".u8", "=" address "w", store<space, uint8_t, 1, uint32_t>},     \
      {"st." name ".s8", "=" address "w", store<space, uint8_t, 1, uint32_t>},     \
      {"st." name ".u16", "=" address "w", store<space, uint16_t, 1, uint32_t>},   \
      {"st." name ".s16", "=" address "w", store<space, uint16_t, 1, uint32_t>},   \
      {"st." name ".u16", "=" address "h", store<space, uint16_t, 1, uint32_t>}, { \
    "st." name ".b16", "=" address "h", store<space, uint16_t, 1, uint32_t>        \
  }

#define LOADS(space, prefix, address)                                                                               \
  {prefix ".u32", "w=" address, load<space, uint32_t, 1>}, {prefix ".b32", "w=" address, load<space, uint32_t, 1>}, \
      {prefix ".s32", "w=" address, load<space, uint32_t, 1>},                                                      \
      {prefix ".f32", "w=" address, load<space, uint32_t, 1>},                                                      \
      {prefix ".s32", "q=" address, load<space, int32_t, 1, int64_t>},                                              \
      {prefix ".u32", "q=" address, load<space, uint32_t, 1, uint64_t>},                                            \
      {prefix ".u64", "q=" address, load<space, uint64_t, 1>},                                                      \
      {prefix ".b64", "q=" address, load<space, uint64_t, 1>},                                                      \
      {prefix ".v2.u32", "2w=" address, load<space, uint32_t, 2>},                                                  \
      {prefix ".v2.f32", "2w=" address, load<space, uint32_t, 2>},                                                  \
      {prefix ".v2.u64", "2q=" address, load<space, uint64_t, 2>},                                                  \
      {prefix ".v4.u32", "4w=" address, load<space, uint32_t, 4>}, {                                                \
    prefix ".v4.f32", "4w=" address, load<space, uint32_t, 4>                                                       \
  }

#define STORES(space, prefix, address)                                   \
  {prefix ".u32", "=" address "w", store<space, uint32_t, 1>},           \
      {prefix ".b32", "=" address "w", store<space, uint32_t, 1>},       \
      {prefix ".s32", "=" address "w", store<space, uint32_t, 1>},       \
      {prefix ".f32", "=" address "w", store<space, uint32_t, 1>},       \
      {prefix ".u64", "=" address "q", store<space, uint64_t, 1>},       \
      {prefix ".b64", "=" address "q", store<space, uint64_t, 1>},       \
      {prefix ".v2.u32", "=" address "2w", store<space, uint32_t, 2>},   \
      {prefix ".v2.f32", "=" address "2w", store<space, uint32_t, 2>},   \
      {prefix ".v4.u32", "=" address "4w", store<space, uint32_t, 4>}, { \
    prefix ".v4.f32", "=" address "4w", store<space, uint32_t, 4>        \
  }

const Form kForms[] = {
    LOADS(Space::Parameter, "ld.param", "P"),
    LOADS(Space::Global, "ld.global", "G"),
    LOADS(Space::Global, "ld.global.nc", "G"),
    // What is cached how doesn't matter.
    LOADS(Space::Global, "ld.global.cg", "G"),
    LOADS(Space::Global, "ld.global.cs", "G"),
    LOADS(Space::Shared, "ld.shared", "S"),
    STORES(Space::Global, "st.global", "G"),
    STORES(Space::Shared, "st.shared", "S"),
    NARROW(Space::Global, "global", "G"),
    NARROW(Space::Shared, "shared", "S"),
    // Every access goes to memory, and memory is the same for all: these orders are given.
    LOADS(Space::Global, "ld.volatile.global", "G"),
    LOADS(Space::Global, "ld.relaxed.gpu.global", "G"),
    LOADS(Space::Global, "ld.acquire.gpu.global", "G"),
    STORES(Space::Global, "st.volatile.global", "G"),
    STORES(Space::Global, "st.relaxed.gpu.global", "G"),
    STORES(Space::Global, "st.release.gpu.global", "G"),
};

}  // namespace

FormList memory_forms() { return list_of(kForms); }

}  // namespace stratum::emulator::STRATUM_EMULATOR_ISA
