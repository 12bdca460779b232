#include "common/sha256.h"

#include <sha2.h>

namespace stratum {

std::string sha256_hex(std::string_view bytes) {
  SHA2_CTX context;
  SHA256Init(&context);
  SHA256Update(&context, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  char text[SHA256_DIGEST_STRING_LENGTH];
  return SHA256End(&context, text);
}

}  // namespace stratum
