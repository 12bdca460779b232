#include "select.h"

#include <algorithm>
#include <cstdlib>
#include <tuple>

#include "common/arch_coverage.h"
#include "error.h"

namespace stratum {
namespace {

KernelKey make_key(const Stratum& stratum, std::string_view operation, const std::string& arch) {
  return {.family = stratum.family,
          .operation = std::string(operation),
          .arch = arch,
          .dtype = stratum.dtype,
          .head_dim = stratum.head_dim,
          .gate_dim = stratum.gate_dim,
          .group = stratum.group,
          .flags = {}};
}

std::vector<const ManifestKernel*> variants_of(const Manifest& manifest, const KernelKey& key) {
  std::vector<const ManifestKernel*> variants;
  for (const ManifestKernel& kernel : manifest.kernels) {
    if (kernel.key == key) variants.push_back(&kernel);
  }
  std::ranges::sort(variants, {}, &ManifestKernel::variant);
  return variants;
}

// The fields in which a key of the pack does not serve a wanted one, on a device that runs `archs`.
std::vector<std::string> differences(const KernelKey& wanted, const KernelKey& key,
                                     const std::vector<std::string>& archs) {
  std::vector<std::string> fields;
  const auto differ = [&](const char* name, bool differs) {
    if (differs) fields.emplace_back(name);
  };
  differ("head_dim", key.head_dim != wanted.head_dim);
  differ("gate_dim", key.gate_dim != wanted.gate_dim);
  differ("group", key.group != wanted.group && key.group != 0);
  differ("dtype", key.dtype != wanted.dtype);
  differ("flags", key.flags != wanted.flags);
  differ("arch", std::ranges::find(archs, key.arch) == archs.end());
  return fields;
}

[[noreturn]] void fail_not_found(const Manifest& manifest, const KernelKey& wanted, ComputeCapability capability,
                                 const std::vector<std::string>& archs) {
  using Distance = std::tuple<size_t, int64_t>;  // fields that differ, then how far the dimensions are
  const KernelKey* nearest = nullptr;
  Distance least;
  for (const ManifestKernel& kernel : manifest.kernels) {
    if (kernel.key.family != wanted.family || kernel.key.operation != wanted.operation) continue;
    const Distance distance{differences(wanted, kernel.key, archs).size(),
                            std::abs(int64_t{kernel.key.head_dim} - wanted.head_dim) +
                                std::abs(int64_t{kernel.key.gate_dim} - wanted.gate_dim)};
    if (nearest == nullptr || distance < least) {
      nearest = &kernel.key;
      least = distance;
    }
  }
  const std::string device = fmt::format("compute capability {}.{}", capability.major, capability.minor);
  std::string message =
      fmt::format("the pack has no kernel for {} {} {} head_dim {} gate_dim {} group {} on {}", wanted.family,
                  wanted.operation, wanted.dtype, wanted.head_dim, wanted.gate_dim, wanted.group, device);
  message += archs.empty() ? ", which Stratum builds no kernels for" : fmt::format(" ({})", fmt::join(archs, ", "));
  if (nearest != nullptr) {
    message += fmt::format("; the nearest it has is {}, which differs in {}", describe_key(*nearest),
                           fmt::join(differences(wanted, *nearest, archs), ", "));
  }
  if (!archs.empty()) {
    message += fmt::format(
        "; to add it, write plans/{}_d{}_r{}_{}.json in the project's root as README.md says (Add a stratum), and run "
        "there: make submission PLANS=plans",
        wanted.family, wanted.head_dim, wanted.gate_dim, short_arch(archs.back()));
  }
  throw Error(STRATUM_NO_KERNEL, "", message);
}

}  // namespace

std::vector<std::string> archs_for(ComputeCapability capability) {
  return archs_for_device(capability.major, capability.minor);
}

std::vector<const ManifestKernel*> find_kernels(const Manifest& manifest, const Stratum& stratum,
                                                std::string_view operation, ComputeCapability capability) {
  std::vector<const ManifestKernel*> kernels;
  for (const std::string& arch : archs_for(capability)) {
    KernelKey key = make_key(stratum, operation, arch);
    auto variants = variants_of(manifest, key);
    if (variants.empty()) {
      key.group = 0;
      variants = variants_of(manifest, key);
    }
    kernels.insert(kernels.end(), variants.begin(), variants.end());
  }
  return kernels;
}

std::vector<const ManifestKernel*> select_kernels(const Manifest& manifest, const Stratum& stratum,
                                                  std::string_view operation, ComputeCapability capability) {
  std::vector<const ManifestKernel*> kernels = find_kernels(manifest, stratum, operation, capability);
  if (!kernels.empty()) return kernels;
  fail_not_found(manifest, make_key(stratum, operation, ""), capability, archs_for(capability));
}

}  // namespace stratum
