#include "driver/settings.h"

#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

#include "common/manifest.h"
#include "driver/devices.h"

namespace stratum::emulator::driver {
namespace {

constexpr int kExitCode = 2;

[[noreturn]] void refuse(const char* variable, const std::string& expected, std::string_view got) {
  std::fprintf(stderr, "emulator: %s: expected %s, got '%s'\n", variable, expected.c_str(), std::string(got).c_str());
  _exit(kExitCode);
}

// A variable's value; nothing if it is unset or empty.
std::optional<std::string_view> value_of(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

// Takes everything up to a separator off the text.
std::string_view take(std::string_view& text, char separator) {
  const std::string_view part = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(text.size(), part.size() + 1));
  return part;
}

template <typename T>
bool parse_number(std::string_view text, T& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

std::vector<std::pair<int, int>> parse_capabilities(std::string_view list) {
  const std::string expected = "compute capabilities of " + known_capabilities() + ", divided by commas";
  std::vector<std::pair<int, int>> capabilities;
  const std::string ended = std::string(list) + ',';
  for (std::string_view rest = ended; !rest.empty();) {
    std::string_view minor = take(rest, ',');
    const std::string_view major = take(minor, '.');
    auto& [x, y] = capabilities.emplace_back();
    if (!parse_number(major, x) || !parse_number(minor, y) || device_facts(x, y) == nullptr) {
      refuse("STRATUM_EMULATOR_CC", expected, list);
    }
  }
  return capabilities;
}

Failure parse_failure(std::string_view text) {
  std::string_view rest = text;
  Failure failure;
  failure.function = take(rest, ':');
  const std::string_view nth = take(rest, ':');
  if (!failure.function.starts_with("cu") || !parse_number(nth, failure.nth) || failure.nth < 1 ||
      !parse_number(rest, failure.code) || failure.code < 1) {
    refuse("STRATUM_EMULATOR_FAIL", "FUNCTION:NTH:CODE, such as cuMemAlloc_v2:3:2", text);
  }
  return failure;
}

}  // namespace

Settings Settings::from_environment() {
  Settings settings;
  if (const auto list = value_of("STRATUM_EMULATOR_CC")) settings.capabilities = parse_capabilities(*list);
  if (const auto text = value_of("STRATUM_EMULATOR_MULTIPROCESSORS")) {
    if (!parse_number(*text, settings.multiprocessors) || settings.multiprocessors < 1) {
      refuse("STRATUM_EMULATOR_MULTIPROCESSORS", "a number from 1", *text);
    }
  }
  if (const auto folder = value_of("STRATUM_EMULATOR_PACK")) {
    settings.pack = *folder;
    if (!std::filesystem::is_regular_file(std::filesystem::path(*folder) / kManifestFile)) {
      refuse("STRATUM_EMULATOR_PACK", "a folder with a manifest.json", *folder);
    }
  }
  if (const auto text = value_of("STRATUM_EMULATOR_MMA")) {
    if (*text != "exact" && *text != "plain") refuse("STRATUM_EMULATOR_MMA", "exact or plain", *text);
    settings.mma = *text == "exact" ? Mma::Exact : Mma::Plain;
  }
  if (const auto text = value_of("STRATUM_EMULATOR_EXECUTE")) {
    if (*text != "0" && *text != "1") refuse("STRATUM_EMULATOR_EXECUTE", "0 or 1", *text);
    settings.execute = *text == "1";
  }
  if (const auto text = value_of("STRATUM_EMULATOR_SCHEDULE")) {
    constexpr std::string_view kRandom = "random:";
    if (*text == "late") {
      settings.schedule = Schedule::Late;
    } else if (text->starts_with(kRandom) && parse_number(text->substr(kRandom.size()), settings.seed)) {
      settings.schedule = Schedule::Random;
    } else if (*text != "eager") {
      refuse("STRATUM_EMULATOR_SCHEDULE", "eager, late or random:SEED", *text);
    }
  }
  if (const auto text = value_of("STRATUM_EMULATOR_FAIL")) settings.failure = parse_failure(*text);
  if (const auto text = value_of("STRATUM_EMULATOR_LEAKS")) {
    if (*text != "ignore" && *text != "report" && *text != "error") {
      refuse("STRATUM_EMULATOR_LEAKS", "ignore, report or error", *text);
    }
    settings.leaks = *text == "ignore" ? Leaks::Ignore : *text == "report" ? Leaks::Report : Leaks::Error;
  }
  if (const auto text = value_of("STRATUM_EMULATOR_LOG")) {
    settings.log = *text;
    std::FILE* file = std::fopen(settings.log.c_str(), "w");
    if (file == nullptr) refuse("STRATUM_EMULATOR_LOG", "a file that can be written", *text);
    std::fclose(file);
  }
  return settings;
}

}  // namespace stratum::emulator::driver
