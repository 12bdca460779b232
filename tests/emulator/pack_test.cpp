// Packed kernels of the portable family: all can be decoded; append and forward do what their operations say.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <numbers>

#include "abi/gated.h"
#include "common/manifest.h"
#include "support.h"

namespace stratum::emulator {
namespace {

const Manifest& pack() {
  static const Manifest manifest = read_manifest(PACK_PATH);
  return manifest;
}

Kernel load(const ManifestKernel& kernel) { return Kernel::load(read_pack_file(PACK_PATH, kernel.ptx), kernel.name); }

// Unoptimised and with sanitizers, one kernel in four has to do.
#ifdef __SANITIZE_ADDRESS__
constexpr size_t kStep = 4;
#else
constexpr size_t kStep = 1;
#endif
std::vector<const ManifestKernel*> sampled(const std::vector<const ManifestKernel*>& all) {
  std::vector<const ManifestKernel*> some;
  for (size_t i = 0; i < all.size(); i += kStep) some.push_back(all[i]);
  return some;
}

// The kernels of an operation, always the same few: both dtypes, the four shapes, sm_80 and sm_90.
std::vector<const ManifestKernel*> kernels_of(const std::string& operation) {
  std::vector<const ManifestKernel*> found;
  for (const ManifestKernel& kernel : pack().kernels) {
    const bool arch = kernel.key.arch == "sm_80" || kernel.key.arch == "sm_90";
    if (kernel.key.operation == operation && arch) found.push_back(&kernel);
  }
  return sampled(found);
}

// 16-bit floats with their values.
struct Array {
  Array(size_t size, const std::string& dtype, uint32_t seed) : bits(size), values(size) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < size; ++i) {
      // Three significant decimals of a bfloat16 are a float16 too.
      const float value = std::bit_cast<float>(std::bit_cast<uint32_t>(normal(random)) & 0xffff0000);
      values[i] = std::abs(value) < 0.001f ? 0 : value;
      bits[i] =
          dtype == "bfloat16" ? static_cast<uint16_t>(std::bit_cast<uint32_t>(values[i]) >> 16) : half_bits(values[i]);
    }
  }

  static uint16_t half_bits(float value) {
    if (value == 0) return 0;
    const uint32_t word = std::bit_cast<uint32_t>(value);
    return static_cast<uint16_t>((word >> 16 & 0x8000) | (((word & 0x7fffffff) >> 13) - ((127 - 15) << 10)));
  }

  std::vector<uint16_t> bits;
  std::vector<float> values;
};

double value_of(uint16_t bits, const std::string& dtype) {
  if (dtype == "bfloat16") return std::bit_cast<float>(uint32_t{bits} << 16);
  const int exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
  const double magnitude = exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
  return exponent == 31 ? NAN : bits & 0x8000 ? -magnitude : magnitude;
}

// One forward call and the operation in double: softmax over the keys up to the query, each weight times
// sigmoid(qg . kg / sqrt(gate_dim)).
struct Forward {
  Forward(const ManifestKernel& kernel, int32_t seq_len)
      : kernel(kernel),
        n(static_cast<size_t>(seq_len)),
        d(static_cast<size_t>(kernel.key.head_dim)),
        r(static_cast<size_t>(kernel.key.gate_dim)),
        q(kBatch * n * kQueryHeads * d, kernel.key.dtype, 1),
        k(kBatch * n * kKeyHeads * d, kernel.key.dtype, 2),
        v(kBatch * n * kKeyHeads * d, kernel.key.dtype, 3),
        qg(kBatch * n * kQueryHeads * r, kernel.key.dtype, 4),
        kg(kBatch * n * kKeyHeads * r, kernel.key.dtype, 5) {}

  struct Result {
    std::vector<uint16_t> o;
    std::vector<abi::RowStats> stats;
  };

  Result run(const Options& options) {
    Result result{std::vector<uint16_t>(q.bits.size(), 0xffff), std::vector<abi::RowStats>(kBatch * kQueryHeads * n)};
    const auto dense = [&](std::vector<uint16_t>& bits, size_t heads, size_t dim) {
      return abi::Dense{bits.data(), int64_t(n * heads * dim), int64_t(heads * dim), int64_t(dim)};
    };
    const abi::GatedForwardParams params{
        .q = dense(q.bits, kQueryHeads, d),
        .k = dense(k.bits, kKeyHeads, d),
        .v = dense(v.bits, kKeyHeads, d),
        .qg = dense(qg.bits, kQueryHeads, r),
        .kg = dense(kg.bits, kKeyHeads, r),
        .o = dense(result.o, kQueryHeads, d),
        .stats = result.stats.data(),
        .batch = kBatch,
        .seq_len = static_cast<int32_t>(n),
        .q_heads = kQueryHeads,
        .kv_heads = kKeyHeads,
        .softmax_scale_log2 = static_cast<float>(std::numbers::log2e / std::sqrt(d)),
        .gate_half_scale = static_cast<float>(0.5 / std::sqrt(r)),
    };
    const Kernel loaded = load(kernel);
    REQUIRE(loaded.parameter_bytes() == sizeof params);
    const size_t tile = static_cast<size_t>(kernel.tile.at("tile_m"));
    emulator::run(loaded, {.grid = {static_cast<uint32_t>((n + tile - 1) / tile * kBatch * kQueryHeads), 1, 1},
                           .block = {static_cast<uint32_t>(kernel.block), 1, 1},
                           .shared_bytes = static_cast<uint32_t>(kernel.shared_bytes),
                           .parameters = &params,
                           .options = options});
    return result;
  }

  // Compares with the result: the relative L2 error of o, and each row's statistics.
  double error_of(const Result& result) const {
    double difference = 0, norm = 0;
    for (size_t b = 0; b < kBatch; ++b)
      for (size_t head = 0; head < kQueryHeads; ++head)
        for (size_t i = 0; i < n; ++i) {
          const size_t kv = head * kKeyHeads / kQueryHeads;
          const auto row = [&](const Array& array, size_t token, size_t heads, size_t h, size_t dim) {
            return array.values.data() + ((b * n + token) * heads + h) * dim;
          };
          const auto dot = [](const float* x, const float* y, size_t dim) {
            double sum = 0;
            for (size_t e = 0; e < dim; ++e) sum += double{x[e]} * y[e];
            return sum;
          };
          std::vector<double> scores(i + 1), o(d);
          for (size_t j = 0; j <= i; ++j)
            scores[j] = dot(row(q, i, kQueryHeads, head, d), row(k, j, kKeyHeads, kv, d), d);
          const double largest = *std::max_element(scores.begin(), scores.end());
          double sum = 0;
          for (size_t j = 0; j <= i; ++j) {
            const double weight = std::exp((scores[j] - largest) / std::sqrt(d));
            const double gate =
                1 /
                (1 + std::exp(-dot(row(qg, i, kQueryHeads, head, r), row(kg, j, kKeyHeads, kv, r), r) / std::sqrt(r)));
            sum += weight;
            for (size_t e = 0; e < d; ++e) o[e] += weight * gate * row(v, j, kKeyHeads, kv, d)[e];
          }
          for (size_t e = 0; e < d; ++e) {
            const double got = value_of(result.o[((b * n + i) * kQueryHeads + head) * d + e], kernel.key.dtype);
            difference += (got - o[e] / sum) * (got - o[e] / sum);
            norm += o[e] / sum * o[e] / sum;
          }
          const abi::RowStats& stats = result.stats[(b * kQueryHeads + head) * n + i];
          CAPTURE(b, head, i);
          REQUIRE(stats.max == Approx(largest).epsilon(1e-5).margin(1e-4));
          REQUIRE(stats.log2_sum == Approx(std::log2(sum)).epsilon(1e-4).margin(1e-4));
        }
    return std::sqrt(difference / norm);
  }

  static constexpr size_t kBatch = 2, kQueryHeads = 4, kKeyHeads = 2;
  const ManifestKernel& kernel;
  size_t n, d, r;
  Array q, k, v, qg, kg;
};

}  // namespace

TEST_CASE("every packed kernel of the portable family can be decoded") {
  std::vector<const ManifestKernel*> all;
  for (const ManifestKernel& kernel : pack().kernels) {
    // Those for one chip have instructions that the emulator doesn't know.
    if (!kernel.key.arch.ends_with('a')) all.push_back(&kernel);
  }
  REQUIRE(all.size() > 0);
  for (const ManifestKernel* kernel : sampled(all)) {
    CAPTURE(kernel->name);
    const Kernel loaded = load(*kernel);
    CHECK(loaded.name() == kernel->name);
    CHECK(loaded.parameter_bytes() == static_cast<size_t>(kernel->params.bytes));
    CHECK(loaded.static_shared_bytes() == static_cast<size_t>(kernel->static_shared_bytes));
  }
}

TEST_CASE("packed forward kernels compute gated attention") {
  const auto kernels = kernels_of("forward");
  REQUIRE(kernels.size() == 16 / kStep);
  for (const ManifestKernel* kernel : kernels) {
    CAPTURE(kernel->name);
    Forward forward(*kernel, 77);
    const auto late = forward.run({.checks = true});
    CHECK(forward.error_of(late) < (kernel->key.dtype == "bfloat16" ? 4e-3 : 1e-3));
    // Nothing depends on when copies arrive, nor on which warp is first.
    CHECK(forward.run({.copies = Arrival::AtIssue}).o == late.o);
    CHECK(forward.run({.checks = true, .copies = Arrival::Random, .seed = 7}).o == late.o);
  }
}

TEST_CASE("packed append kernels write new tokens into their pages") {
  const auto kernels = kernels_of("append");
  REQUIRE(kernels.size() == 16 / kStep);
  for (const ManifestKernel* kernel : kernels) {
    CAPTURE(kernel->name);
    constexpr size_t kHeads = 3, kPages = 8, kTokens = 5 + 40 + 1;
    const size_t d = static_cast<size_t>(kernel->key.head_dim), r = static_cast<size_t>(kernel->key.gate_dim);
    const size_t page = abi::kPageTokens, block = page * (2 * d + r);
    Array k(kTokens * kHeads * d, kernel->key.dtype, 1), v(kTokens * kHeads * d, kernel->key.dtype, 2);
    Array kg(kTokens * kHeads * r, kernel->key.dtype, 3);
    std::vector<uint16_t> cache(kPages * kHeads * block, 0xabcd);
    const std::vector<abi::SequenceSlice> sequences = {{0, 5, 0, 0}, {5, 40, 50, 0}, {45, 1, 128, 0}};
    const std::vector<int32_t> table = {6, 0, 0, 2, 5, 0, 1, 3, 7};
    const abi::GatedAppendParams params{
        .k = {k.bits.data(), int64_t(kHeads * d), int64_t(d)},
        .v = {v.bits.data(), int64_t(kHeads * d), int64_t(d)},
        .kg = {kg.bits.data(), int64_t(kHeads * r), int64_t(r)},
        .cache = cache.data(),
        .sequences = sequences.data(),
        .block_table = table.data(),
        .num_tokens = kTokens,
        .num_sequences = 3,
        .kv_heads = kHeads,
        .table_stride = 3,
    };
    std::vector<uint16_t> expected = cache;
    for (size_t s = 0; s < 3; ++s)
      for (size_t t = 0; t < static_cast<size_t>(sequences[s].num_tokens); ++t)
        for (size_t head = 0; head < kHeads; ++head) {
          const size_t position = static_cast<size_t>(sequences[s].cached) + t, slot = position % page;
          const size_t token = static_cast<size_t>(sequences[s].first_token) + t;
          uint16_t* to = &expected[(static_cast<size_t>(table[s * 3 + position / page]) * kHeads + head) * block];
          std::copy_n(&k.bits[(token * kHeads + head) * d], d, to + slot * d);
          std::copy_n(&v.bits[(token * kHeads + head) * d], d, to + page * d + slot * d);
          std::copy_n(&kg.bits[(token * kHeads + head) * r], r, to + 2 * page * d + slot * r);
        }
    const uint32_t tokens = static_cast<uint32_t>(kernel->tile.at("tokens"));
    run(load(*kernel), {.grid = {(uint32_t{kTokens} + tokens - 1) / tokens, kHeads, 1},
                        .block = {static_cast<uint32_t>(kernel->block), 1, 1},
                        .shared_bytes = static_cast<uint32_t>(kernel->shared_bytes),
                        .parameters = &params,
                        .options = {.checks = true}});
    CHECK(cache == expected);
  }
}

}  // namespace stratum::emulator
