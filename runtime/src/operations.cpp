#include "operations.h"

#include "abi/gated.h"
#include "abi/gated_decode_sm90a.h"
#include "abi/gated_sm90a.h"
#include "error.h"
#include "tensor_map.h"

namespace stratum {
namespace {

// A parameter struct that this library passes.
struct ParamsStruct {
  std::string_view name;
  int64_t bytes;

  bool operator==(const ParamsStruct&) const = default;
};

struct OperationFacts {
  std::string_view name;
  const char* rows_field;              // the tile's field that the grid depends on, or null
  ParamsStruct params;                 // none of those whose kernels all take tensor maps
  ParamsStruct params_with_maps = {};  // of training and decode
};

constexpr ParamsStruct kForwardWithMaps{"GatedForwardSm90aParams", sizeof(abi::GatedForwardSm90aParams)};
constexpr ParamsStruct kDecodeWithMaps{"GatedDecodeSm90aParams", sizeof(abi::GatedDecodeSm90aParams)};
constexpr ParamsStruct kBackward{"GatedBackwardParams", sizeof(abi::GatedBackwardParams)};
constexpr ParamsStruct kBackwardWithMaps{"GatedBackwardSm90aParams", sizeof(abi::GatedBackwardSm90aParams)};

// In the order of Operation.
constexpr std::array<OperationFacts, kOperations> kFacts = {{
    {"forward", "tile_m", {"GatedForwardParams", sizeof(abi::GatedForwardParams)}, kForwardWithMaps},
    {"backward_dq", "tile_m", kBackward, kBackwardWithMaps},
    {"backward_dkv", "tile_m", kBackward, kBackwardWithMaps},
    {"backward_delta", "tile_n", {}, kBackwardWithMaps},
    {"backward_fused", "tile_m", {}, kBackwardWithMaps},
    {"backward_round", "tile_n", {}, kBackwardWithMaps},
    {"append", "tokens", {"GatedAppendParams", sizeof(abi::GatedAppendParams)}},
    {"page_copy", nullptr, {"GatedPageCopyParams", sizeof(abi::GatedPageCopyParams)}},
    {"prefill", "tile_m", {"GatedPrefillParams", sizeof(abi::GatedPrefillParams)}},
    {"decode", "tile_m", {"GatedDecodeParams", sizeof(abi::GatedDecodeParams)}, kDecodeWithMaps},
    {"decode_merge", nullptr, {"GatedDecodeMergeParams", sizeof(abi::GatedDecodeMergeParams)}},
}};

const OperationFacts& facts(Operation operation) { return kFacts[static_cast<size_t>(operation)]; }

int32_t tile_field(const ManifestKernel& row, const char* field, int64_t max) {
  const auto value = row.tile.find(field);
  if (value != row.tile.end() && value->second >= 1 && value->second <= max) return static_cast<int32_t>(value->second);
  fail(STRATUM_PACK_ERROR, "", "kernel {}: its tile in the manifest has no {} from 1 to {}", row.name, field, max);
}

// Whether the row's struct is the one with tensor maps. A kernel built against other structs must not be launched.
bool takes_tensor_maps(const OperationFacts& expected, const ManifestKernel& row) {
  const ParamsStruct params{row.params.name, row.params.bytes};
  if (params == expected.params) return false;
  if (params == expected.params_with_maps) return true;
  const bool only_maps = expected.params == ParamsStruct{};
  const ParamsStruct& nearest =
      only_maps || params.name == expected.params_with_maps.name ? expected.params_with_maps : expected.params;
  fail(STRATUM_PACK_ERROR, "",
       "kernel {} takes {} of {} bytes, this library passes {} of {}: the pack belongs to another version", row.name,
       params.name, params.bytes, nearest.name, nearest.bytes);
}

}  // namespace

std::string_view operation_name(Operation operation) { return facts(operation).name; }

bool is_training(Operation operation) {
  return operation == Operation::kForward || operation == Operation::kBackwardDq ||
         operation == Operation::kBackwardDkv || is_optional(operation);
}

bool is_optional(Operation operation) {
  return operation == Operation::kBackwardDelta || operation == Operation::kBackwardFused ||
         operation == Operation::kBackwardRound;
}

std::vector<Operation> operations_of(const Config& config) {
  using enum Operation;
  std::vector<Operation> operations;
  const auto add = [&](bool wanted, std::initializer_list<Operation> group) {
    if (wanted) operations.insert(operations.end(), group);
  };
  operations.reserve(kOperations);
  add(config.training, {kForward, kBackwardDq, kBackwardDkv, kBackwardDelta, kBackwardFused, kBackwardRound});
  add(config.serving(), {kAppend, kPageCopy});
  add(config.prefill || (config.decode && config.batch_invariant), {kPrefill});
  add(config.decode && !config.batch_invariant, {kDecode, kDecodeMerge});
  return operations;
}

KernelTile kernel_tile(Operation operation, const ManifestKernel& row) {
  const OperationFacts& expected = facts(operation);
  const bool has_maps = takes_tensor_maps(expected, row);
  KernelTile tile;
  const bool fused_decode = has_maps && operation == Operation::kDecode;  // it knows its rows itself
  if (expected.rows_field != nullptr && !fused_decode) tile.rows = tile_field(row, expected.rows_field, INT32_MAX);
  if (has_maps) {
    if (!fused_decode) tile.box_rows = tile_field(row, "tile_n", kMaxBoxRows);
    tile.blocks_per_sm = row.tile.contains("blocks_per_sm") ? tile_field(row, "blocks_per_sm", INT16_MAX) : 1;
  }
  return tile;
}

}  // namespace stratum
