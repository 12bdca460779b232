#include "generator/compile/tool_version.h"

namespace stratum::gen {

std::string find_tool_version(const std::string& text) {
  const size_t release = text.find("Cuda compilation tools, release ");
  if (release == text.npos) return "";
  const size_t version = text.find(", V", release);
  if (version == text.npos) return "";
  const size_t begin = version + 3;
  return text.substr(begin, text.find_first_not_of("0123456789.", begin) - begin);
}

}  // namespace stratum::gen
