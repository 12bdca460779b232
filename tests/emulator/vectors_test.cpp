// What an H200 computed for each instruction form (tools/emulator/conformance), against the interpreter: to the bit.
// Forms that the emulator does not have are counted: there may not be more of them.
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "ptx/module.h"
#include "support.h"

namespace stratum::emulator {
namespace {

constexpr size_t kOperandWords = 12, kRecordWords = 8;
constexpr size_t kForms = 753, kUnknownForms = 203;

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<uint32_t> read_words(const std::string& path) {
  const std::string bytes = read_text(path);
  std::vector<uint32_t> words(bytes.size() / 4);
  std::copy_n(bytes.data(), words.size() * 4, reinterpret_cast<char*>(words.data()));
  return words;
}

// The words of a thread's record that a form leaves.
const std::map<std::string, std::vector<size_t>> kResultWords = {
    {"w", {0}}, {"2w", {0, 1}}, {"4w", {0, 1, 2, 3}}, {"q", {4, 5}}, {"p", {6}}, {"wp", {0, 6}}, {"h", {7}}};

std::string entry_of(std::string text, const std::string& form) {
  const auto put = [&](const std::string& hole, const std::string& value) {
    text.replace(text.find(hole), hole.size(), value);
  };
  put("@NAME@", "form");
  put("@FORM@", form);
  return ".version 9.0\n.target sm_90\n.address_size 64\n" + text;
}

bool is_known(const std::string& ptx) {
  try {
    Kernel::load(ptx, "form");
    return true;
  } catch (const ptx::ParseError& error) {
    REQUIRE_THAT(error.what(), Catch::Contains("unknown instruction form") || Catch::Contains("don't fit"));
    return false;
  }
}

uint32_t* aligned(std::vector<uint32_t>& words) {
  return reinterpret_cast<uint32_t*>((reinterpret_cast<uint64_t>(words.data()) + 15) / 16 * 16);
}

}  // namespace

TEST_CASE("every form computes what an H200 computed") {
  const std::string folder = VECTORS_PATH;
  const std::string entry = read_text(ENTRY_PATH);
  const std::vector<uint32_t> operands = read_words(folder + "/operands.bin");
  const std::vector<uint32_t> results = read_words(folder + "/results.bin");
  std::istringstream lines(read_text(folder + "/forms.txt"));
  std::map<std::string, size_t> pools;  // name → first word
  size_t operand = 0, result = 0, forms = 0, unknown = 0;
  std::string pool, kind, text;
  for (size_t threads; lines >> pool >> threads >> kind && std::getline(lines, text); ++forms) {
    const auto [place, is_new] = pools.try_emplace(pool, operand);
    if (is_new) operand += threads * kOperandWords;
    REQUIRE(operand <= operands.size());
    const std::vector<size_t>& words = kResultWords.at(kind);
    const uint32_t* expected = results.data() + result;
    result += threads * words.size();
    REQUIRE(result <= results.size());

    const std::string ptx = entry_of(entry, text);
    if (!is_known(ptx)) {
      ++unknown;
      continue;
    }
    std::vector<uint32_t> given(threads * kOperandWords + 4), left(threads * kRecordWords + 4);  // room to align both
    std::copy_n(&operands[place->second], threads * kOperandWords, aligned(given));
    const void* parameters[] = {aligned(given), aligned(left)};
    const uint32_t blocks = static_cast<uint32_t>(threads / 32);
    run(Kernel::load(ptx, "form"), {.grid = {blocks, 1, 1}, .block = {32, 1, 1}, .parameters = parameters});
    for (size_t thread = 0; thread < threads; ++thread) {
      for (const size_t word : words) {
        CAPTURE(text, thread, word);
        REQUIRE(aligned(left)[thread * kRecordWords + word] == *expected++);
      }
    }
  }
  CHECK(operand == operands.size());
  CHECK(result == results.size());
  CHECK(forms == kForms);
  CHECK(unknown <= kUnknownForms);
}

}  // namespace stratum::emulator
