// Any text is a manifest that is written and read back as it is, or an InputError. Its hash is mended first, so that
// what lies behind that check is reached.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "common/input_error.h"
#include "common/json_fields.h"
#include "common/manifest.h"
#include "common/sha256.h"

namespace {

std::string with_its_hash(const std::string& text) {
  nlohmann::json document = stratum::parse_json(text, "manifest");
  if (!document.is_object()) return text;
  document.erase("sha256");
  document["sha256"] = stratum::sha256_hex(document.dump());
  return document.dump();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string text = with_its_hash({reinterpret_cast<const char*>(data), size});
    const stratum::Manifest manifest = stratum::parse_manifest(text, "manifest");
    if (stratum::parse_manifest(stratum::serialise_manifest(manifest), "again") != manifest) std::abort();
  } catch (const stratum::InputError&) {
  }
  return 0;
}
