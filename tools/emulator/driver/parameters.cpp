#include "driver/parameters.h"

#include <elf.h>

#include <charconv>
#include <cstring>
#include <string_view>

namespace stratum::emulator::driver {
namespace {

// Entries of .nv.info: a byte of format, a byte of attribute, 16 bits that are a value, or the bytes that follow.
constexpr uint8_t kBytesFollow = 4;
constexpr uint8_t kParameter = 0x17;  // index, then ordinal and offset of 16 bits each, then sizes in bits
constexpr size_t kParameterBytes = 12;
constexpr int kSizeBit = 18;

template <typename T>
std::optional<T> at(std::string_view bytes, size_t offset) {
  T value;
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

// The bytes of a section; empty if there is none of that name.
std::string_view section(std::string_view image, const std::string& name) {
  const auto header = at<Elf64_Ehdr>(image, 0);
  if (!header) return {};
  const auto table = [&](size_t i) { return at<Elf64_Shdr>(image, header->e_shoff + i * sizeof(Elf64_Shdr)); };
  const auto names = table(header->e_shstrndx);
  for (size_t i = 0; names && i < header->e_shnum; ++i) {
    const auto entry = table(i);
    if (!entry || names->sh_offset + entry->sh_name >= image.size()) return {};
    const std::string_view rest = image.substr(names->sh_offset + entry->sh_name);
    if (rest.substr(0, rest.find('\0')) != name || entry->sh_offset > image.size()) continue;
    return image.substr(entry->sh_offset, entry->sh_size);
  }
  return {};
}

std::optional<std::vector<ParameterPlace>> of_cubin(std::string_view image, const std::string& kernel) {
  const std::string_view info = section(image, ".nv.info." + kernel);
  if (info.empty()) return std::nullopt;
  std::vector<ParameterPlace> places;
  for (size_t entry = 0; entry + 4 <= info.size();) {
    const auto format = static_cast<uint8_t>(info[entry]), attribute = static_cast<uint8_t>(info[entry + 1]);
    const size_t bytes = format == kBytesFollow ? *at<uint16_t>(info, entry + 2) : 0;
    if (attribute == kParameter && bytes == kParameterBytes) {
      const auto ordinal = at<uint16_t>(info, entry + 8), offset = at<uint16_t>(info, entry + 10);
      const auto sizes = at<uint32_t>(info, entry + 12);
      if (!sizes) return std::nullopt;
      if (places.size() <= *ordinal) places.resize(*ordinal + 1);
      places[*ordinal] = {*offset, *sizes >> kSizeBit};
    }
    entry += 4 + bytes;
  }
  return places;
}

}  // namespace

std::optional<std::vector<ParameterPlace>> parameter_places(const std::string& image, const std::string& kernel) {
  if (image.starts_with(ELFMAG)) return of_cubin(image, kernel);
  const size_t found = image.find(kernel + "(");
  if (found == std::string::npos) return std::nullopt;
  const char* number = image.data() + found + kernel.size() + 1;
  ParameterPlace place{};
  const auto [end, error] = std::from_chars(number, image.data() + image.size(), place.bytes);
  if (error != std::errc{} || end == image.data() + image.size() || *end != ')') return std::nullopt;
  return std::vector{place};
}

}  // namespace stratum::emulator::driver
