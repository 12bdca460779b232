#include <catch2/catch.hpp>

#include "common/input_error.h"
#include "common/json_fields.h"

namespace stratum {
namespace {

using nlohmann::json;

TEST_CASE("json: syntax errors and keys given twice") {
  CHECK_THROWS_WITH(parse_json("{\"a\": 1,}", "x.json"),
                    Catch::StartsWith("x.json: not valid JSON: parse error at line 1, column 9: "));
  CHECK_THROWS_WITH(parse_json("{\"a\": {\"b\": 1, \"b\": 2}}", "x.json"),
                    "x.json: the key \"b\" is given twice in one object");
  CHECK_NOTHROW(parse_json("[{\"a\": {\"a\": 1}}, {\"a\": 2}]", "x.json"));
  CHECK_THROWS_AS(parse_json("", "x.json"), InputError);
  CHECK_THROWS_WITH(parse_json(std::string(1 << 20, '['), "x.json"), "x.json: nested more than 64 deep");
  const std::string deep = std::string(64, '[') + std::string(64, ']');
  CHECK(parse_json(deep, "x.json").dump() == deep);
}

TEST_CASE("json: what the parser refuses is an error that names the field") {
  CHECK_THROWS_WITH(parse_json("{\"a\": [{}, {\"b\": 1, \"c\": 1e400}]}", "x.json"),
                    Catch::StartsWith("x.json: a[1].c: not valid JSON: number overflow parsing '1e400'"));
  CHECK_THROWS_WITH(parse_json("{\"a\": [1, [2, 3], -1e999]}", "x.json"), Catch::StartsWith("x.json: a[2]: not valid"));
  CHECK_THROWS_WITH(parse_json("1e400", "x.json"), Catch::StartsWith("x.json: not valid JSON: number overflow"));
  for (const char* text : {"\\ud800", "\\udc00x", "\xff", "\xed\xa0\x80", "\xc3"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(parse_json(std::string("{\"a\": {\"b\": \"") + text + "\"}}", "x.json"),
                      Catch::StartsWith("x.json: not valid JSON: parse error at line 1, column "));
    CHECK_THROWS_AS(parse_json(std::string("{\"") + text + "\": 1}", "x.json"), InputError);
  }
  CHECK(parse_json("{\"a\": \"\\ud83d\\ude00\"}", "x.json")["a"] == "\xf0\x9f\x98\x80");
}

TEST_CASE("json: a name with control characters is shown whole") {
  const json document = {{std::string("a\0b", 3), 1}, {"c\x1b[31m", 2}};
  JsonFields fields(document, "x.json");
  fields.has("c\x1b[31m");
  CHECK_THROWS_WITH(fields.finish(), "x.json: a\\u0000b: unknown field; accepted: c\\u001b[31m");
  CHECK_THROWS_WITH(parse_json("{\"a\\u0000b\": 1, \"a\\u0000b\": 2}", "x.json"),
                    "x.json: the key \"a\\u0000b\" is given twice in one object");
}

TEST_CASE("json: the nearest word is one that a slip of the hand could make") {
  const std::vector<std::string> words = {"tile_m", "tile_n", "stages"};
  CHECK(nearest_word("tiel_m", words) == "tile_m");
  CHECK(nearest_word("stage", words) == "stages");
  CHECK(nearest_word("head_dim", words) == "");
  CHECK(nearest_word("x", {"y", "z"}) == "y");
}

TEST_CASE("json: fields by type") {
  const json document = {{"text", "a"}, {"empty", ""},         {"number", 5},
                         {"real", 5.0}, {"huge", UINT64_MAX},  {"flag", true},
                         {"list", {1}}, {"words", {"a", "b"}}, {"object", {{"x", -1}}}};
  JsonFields fields(document, "x.json", "top");
  CHECK(fields.text("text") == "a");
  CHECK(fields.text_or("missing", "b") == "b");
  CHECK(fields.integer("number", 5, 5) == 5);
  CHECK(fields.texts("words") == std::vector<std::string>{"a", "b"});
  CHECK(fields.object("object").integer("x", INT64_MIN, INT64_MAX) == -1);
  CHECK_THROWS_WITH(fields.text("empty"), "x.json: top.empty: expected a text, got \"\"");
  CHECK_THROWS_WITH(fields.text("number"), "x.json: top.number: expected a text, got 5");
  CHECK_THROWS_WITH(fields.integer("number", 6, 9), "x.json: top.number: expected an integer from 6 to 9, got 5");
  CHECK_THROWS_WITH(fields.integer("number", 6, INT64_MAX),
                    "x.json: top.number: expected an integer of at least 6, got 5");
  CHECK_THROWS_WITH(fields.integer("real", 0, 9), "x.json: top.real: expected an integer from 0 to 9, got 5.0");
  CHECK_THROWS_WITH(fields.integer("flag", 0, 9), "x.json: top.flag: expected an integer from 0 to 9, got true");
  CHECK_THROWS_AS(fields.integer("huge", INT64_MIN, INT64_MAX), InputError);
  CHECK_THROWS_WITH(fields.texts("list"), "x.json: top.list: expected a list of texts, got [1]");
  CHECK_THROWS_WITH(fields.object("list"), "x.json: top.list: expected an object, got [1]");
  CHECK_THROWS_WITH(fields.array("text"), "x.json: top.text: expected a list, got \"a\"");
  CHECK_THROWS_WITH(fields.value("gone"), "x.json: top.gone: required, but missing");
}

TEST_CASE("json: unknown fields, with a suggestion") {
  const json document = {{"stages", 2}, {"tile", 1}};
  JsonFields fields(document, "x.json");
  fields.integer("stages", 0, 9);
  CHECK_THROWS_WITH(fields.finish(), "x.json: tile: unknown field; accepted: stages");
  fields.value("tile");
  CHECK_NOTHROW(fields.finish());
  CHECK_THROWS_WITH(JsonFields(document["tile"], "x.json"), "x.json: top level: expected an object, got 1");
}

}  // namespace
}  // namespace stratum
