#include <catch2/catch.hpp>

#include "generator/plan/expression.h"
#include "tests/generator/project.h"

namespace stratum::gen {
namespace {

int64_t value(const std::string& text, const Variables& variables = {}) {
  return Expression::parse(text).evaluate(variables);
}

std::string error(const std::string& text, const Variables& variables = {}) {
  return input_error([&] { value(text, variables); });
}

TEST_CASE("expressions: values") {
  CHECK(value("7") == 7);
  CHECK(value("1 + 2 * 3") == 7);
  CHECK(value("(1 + 2) * 3") == 9);
  CHECK(value("10 - 4 - 3") == 3);
  CHECK(value("100 / 7 / 2") == 7);
  CHECK(value("-7 / 2") == -3);
  CHECK(value("-7 % 2") == -1);
  CHECK(value("--5") == 5);
  CHECK(value("2 * -3") == -6);
  CHECK(value("min(4, 3) + max(4, 3)") == 7);
  CHECK(value("ceil_div(7, 2)") == 4);
  CHECK(value("ceil_div(8, 2)") == 4);
  CHECK(value("ceil_div(-7, 2)") == -3);
  CHECK(value("if(1, 2, 3) + if(0, 20, 30)") == 32);
  CHECK(value("a_1*(head_dim+8)*2", {{"a_1", 128}, {"head_dim", 64}}) == 18432);
}

TEST_CASE("expressions: comparisons and logic give 0 or 1, and bind looser than sums") {
  CHECK(value("1 + 1 == 2") == 1);
  CHECK(value("3 != 3") == 0);
  CHECK(value("2 <= 2 && 3 >= 4") == 0);
  CHECK(value("2 < 1 || 2 > 1") == 1);
  CHECK(value("1 || 0 && 0") == 1);
  CHECK(value("!0 + !5") == 1);
}

TEST_CASE("expressions: only what is needed is evaluated") {
  CHECK(value("if(0, 1 / 0, 5)") == 5);
  CHECK(value("0 && 1 / 0") == 0);
  CHECK(value("2 || 1 / 0") == 1);
}

TEST_CASE("expressions: errors tell the position") {
  CHECK(error("1 + * 2") == "\"1 + * 2\" at position 5: expected a number, a name or '(', got '*'");
  CHECK(error("(1 + 2") == "\"(1 + 2\" at position 7: expected ')', got the end");
  CHECK(error("1 2") == "\"1 2\" at position 3: expected an operator or the end, got '2'");
  CHECK(error("") == "\"\" at position 1: expected a number, a name or '(', got the end");
  CHECK(error("4 / (2 - 2)") == "\"4 / (2 - 2)\" at position 3: division by zero");
  CHECK(error("4 % 0") == "\"4 % 0\" at position 3: division by zero");
  CHECK(error("1 + tile") == "\"1 + tile\" at position 5: no value for tile");
  CHECK(error("pow(2, 3)") == "\"pow(2, 3)\" at position 1: unknown function pow; there are min, max, ceil_div, if");
  CHECK(error("min(1)") == "\"min(1)\" at position 1: min takes 2 values, got 1");
  CHECK(error("1 < 2 < 3") == "\"1 < 2 < 3\" at position 7: comparisons do not chain; join two of them with &&");
  CHECK(error("9223372036854775808") ==
        "\"9223372036854775808\" at position 1: not a 64-bit decimal integer: 9223372036854775808");
  CHECK(error("9223372036854775807 + 1") ==
        "\"9223372036854775807 + 1\" at position 21: the value does not fit 64 bits");
  CHECK(error("1 = 1") == "\"1 = 1\" at position 3: expected an operator or the end, got '='");
  CHECK(error(std::string(5000, '(')).find("nested too deeply") != std::string::npos);
  CHECK(error(std::string(5000, '-') + "1").find("nested too deeply") != std::string::npos);
}

TEST_CASE("expressions: the smallest integer") {
  const Variables variables = {{"least", INT64_MIN}};
  CHECK(error("-least", variables) == "\"-least\" at position 1: the value does not fit 64 bits");
  CHECK(error("least / -1", variables) == "\"least / -1\" at position 7: the value does not fit 64 bits");
  CHECK(value("least % 10", variables) == -8);
}

}  // namespace
}  // namespace stratum::gen
