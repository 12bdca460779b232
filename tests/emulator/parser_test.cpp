#include "ptx/parser.h"

#include <catch2/catch.hpp>

namespace stratum::emulator::ptx {
namespace {

using Catch::Contains;

Entry entry_with(const std::string& body) {
  return parse(".version 9.0 .target sm_80 .address_size 64\n.visible .entry e() {\n" + body + "\n}").entries.at(0);
}

Instruction instruction(const std::string& text) {
  return entry_with(".reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<4>;\n" + text)
      .instructions.at(0);
}

}  // namespace

TEST_CASE("a module's directives") {
  const Module module = parse(R"(
// a comment
.version 9.0
.target sm_90a, texmode_independent /* another
   over lines */
.address_size 64
.global .align 4 .u32 _ZN1aE = 64;
.global .align 4 .f32 infinity = 0f7F800000;
.extern .shared .align 16 .b8 dynamic[];
.visible .entry first(
  .param .u32 a,
  .param .align 8 .b8 b[20],
  .param .u64 c
)
.maxntid 128, 1, 1
.minnctapersm 2
{
  .shared .align 8 .b8 fixed[24];
  ret;
}
.entry second() { ret; }
)");
  CHECK(module.target == "sm_90a");
  REQUIRE(module.variables.size() == 3);
  CHECK(module.variables[0].space == "global");
  CHECK(module.variables[2].name == "dynamic");
  CHECK(module.variables[2].align == 16);
  CHECK(module.variables[2].bytes == 0);
  REQUIRE(module.entries.size() == 2);
  const Entry& entry = module.entries[0];
  CHECK(entry.name == "first");
  REQUIRE(entry.parameters.size() == 3);
  CHECK(entry.parameters[0].offset == 0);
  CHECK(entry.parameters[1].offset == 8);
  CHECK(entry.parameters[1].bytes == 20);
  CHECK(entry.parameters[2].offset == 32);
  CHECK(entry.parameter_bytes == 40);
  REQUIRE(entry.variables.size() == 1);
  CHECK(entry.variables[0].bytes == 24);
  CHECK(entry.variables[0].align == 8);
  CHECK(module.entries[1].name == "second");
  CHECK(module.entries[1].parameter_bytes == 0);
}

TEST_CASE("registers one by one and by count") {
  const Entry entry = entry_with(".reg .pred p; .reg .b32 %r<3>, x; .reg .f64 y, z;");
  CHECK(entry.registers ==
        std::map<std::string, std::string>{
            {"p", "pred"}, {"%r0", "b32"}, {"%r1", "b32"}, {"%r2", "b32"}, {"x", "b32"}, {"y", "f64"}, {"z", "f64"}});
}

TEST_CASE("opcodes, guards and lines") {
  const Instruction plain = instruction("\n add.s32 %r0, %r1, %r2;");
  CHECK(plain.opcode == "add.s32");
  CHECK(plain.guard == "");
  CHECK(plain.line == 5);
  CHECK(plain.operands.size() == 3);
  const Instruction guarded = instruction("@!%p1 bra.uni OUT; OUT:");
  CHECK(guarded.guard == "%p1");
  CHECK(guarded.guard_negated);
  CHECK(guarded.operands.at(0).kind == Kind::Label);
  CHECK_FALSE(instruction("@%p1 ret;").guard_negated);
  CHECK(instruction("cp.async.bulk.shared::cluster.global [%r0], [%rd0];").opcode ==
        "cp.async.bulk.shared::cluster.global");
}

TEST_CASE("operands of every kind") {
  CHECK(instruction("x %r3;").operands[0].kind == Kind::Register);
  CHECK(instruction("x %tid.x;").operands[0].kind == Kind::Special);
  CHECK(instruction("x %tid.x;").operands[0].name == "%tid.x");
  CHECK(instruction("x symbol;").operands[0].kind == Kind::Symbol);
  CHECK(instruction("x 12;").operands[0].bits == 12);
  CHECK(instruction("x -12;").operands[0].bits == uint64_t(-12));
  CHECK(instruction("x 0xfFU;").operands[0].bits == 255);
  CHECK(instruction("x 0f3F800000;").operands[0].bits == 0x3f800000);
  CHECK(instruction("x 0f3F800000;").operands[0].is_float);
  CHECK(instruction("x 0d3FF0000000000000;").operands[0].bits == 0x3ff0000000000000);
  CHECK(instruction("x !%p0;").operands[0].negated);
  const Operand vector = instruction("x {%r0, 5, %r1};").operands[0];
  CHECK(vector.kind == Kind::Vector);
  REQUIRE(vector.elements.size() == 3);
  CHECK(vector.elements[1].bits == 5);
  const Operand pair = instruction("x %r0|%p0, %r1;").operands[0];
  CHECK(pair.kind == Kind::Vector);
  CHECK(pair.elements.at(1).name == "%p0");
}

TEST_CASE("addresses") {
  const auto address = [](const std::string& text) { return instruction("x " + text + ";").operands[0]; };
  CHECK(address("[%rd1]").kind == Kind::Address);
  CHECK(address("[%rd1]").name == "%rd1");
  CHECK(address("[%rd1+16]").offset == 16);
  CHECK(address("[%rd1+-16]").offset == -16);
  CHECK(address("[%rd1-16]").offset == -16);
  CHECK(address("[symbol+8]").name == "symbol");
  CHECK(address("[4096]").offset == 4096);
  CHECK(address("[4096]").name == "");
}

TEST_CASE("a scope has names of its own, a vector opens none") {
  const Entry entry = entry_with(R"(
.reg .b32 x, y;
{ .reg .b32 x; mov.u32 x, y; L: bra L; }
{ .reg .b32 x; mov.u32 x, y; L: bra L; { mov.u32 x, y; } }
mov.u32 x, y;
L: bra L;
mov.b32 {x, y}, x;
)");
  std::vector<std::string> targets, written;
  for (const Instruction& one : entry.instructions) {
    (one.opcode == "bra" ? targets : written).push_back(one.operands[0].name);
  }
  REQUIRE(targets.size() == 3);
  CHECK(entry.labels.at(targets[0]) == 1);
  CHECK(entry.labels.at(targets[1]) == 3);
  CHECK(entry.labels.at(targets[2]) == 6);
  REQUIRE(written.size() == 5);
  CHECK(written[3] == "x");
  CHECK(written[0] != "x");
  CHECK(written[1] != "x");
  CHECK(written[0] != written[1]);
  CHECK(written[2] == written[1]);
  CHECK(entry.registers.size() == 4);
}

TEST_CASE("a label may come after its branch and at the end") {
  const Entry entry = entry_with("bra END;\n{ bra INNER; INNER: ret; }\nEND:");
  CHECK(entry.labels.at("END") == 3);
  CHECK(entry.labels.at(entry.instructions[1].operands[0].name) == 2);
}

TEST_CASE("what can't be read is an error with its line") {
  const auto error = [](const std::string& body) -> std::string {
    try {
      entry_with(body);
    } catch (const ParseError& found) {
      return found.what();
    }
    return "";
  };
  CHECK_THAT(error("\nadd.s32 %r0 %r1;"), Contains("PTX line 4: expected ',' or ';', got '%r1'"));
  CHECK_THAT(error("add.s32 %r0, ;"), Contains("line 3: expected a name, got ';'"));
  CHECK_THAT(error("@%p0 ret;"), Contains("the guard isn't a register"));
  CHECK_THAT(error("x 12z;"), Contains("expected an integer, got '12z'"));
  CHECK_THAT(error("x !%p9;"), Contains("expected a predicate after '!'"));
  CHECK_THAT(error("x [%r0;"), Contains("expected ']'"));
  CHECK_THAT(error("x {{%r0}};"), Contains("a vector in a vector"));
  CHECK_THAT(error("L: ret; L: ret;"), Contains("a second label 'L'"));
  CHECK_THAT(error(".reg .b32 %r<2000000000>;"), Contains("expected at most"));
  CHECK_THAT(error(".shared .align 3 .b8 x[4];"), Contains("expected a power of two, got 3"));
  CHECK_THAT(error(".shared .align 4 .pred x;"), Contains("unknown type"));
  CHECK_THAT(error(".shared .b8 x[4][4];"), Contains("expected '=' or ';', got '['"));
  CHECK_THAT(error(".shared .b32 x, y;"), Contains("expected '=' or ';', got ','"));
  CHECK_THAT(error("x \x01;"), Contains("has no place in PTX"));
  CHECK_THAT(error("/* x"), Contains("a comment doesn't end"));
  CHECK_THAT(error(".pragma \"x"), Contains("a string doesn't end"));
  CHECK_THAT(error(std::string(200, '{')), Contains("nested too deeply"));
  CHECK_THAT(error(".reg . %r<2>;"), Contains("expected a directive or type, got '.'"));
  CHECK_THAT(error(".reg .b32 %r<2>, x; .reg .b32 %s<1048574>;"), Contains("expected at most 1048573, got 1048574"));
  CHECK_THROWS_WITH(parse(".entry e(.param .u64 a[1073741824]) {}"), Contains("the parameters have 8589934592 bytes"));
  CHECK_THROWS_WITH(parse(".func f() {}"), Contains("line 1: expected a directive, got '.func'"));
  CHECK_THROWS_AS(parse(""
                        ".visible .entry e("),
                  ParseError);
  for (const std::string cut : {".entry e(.param .u32 a", ".entry e()", ".entry e() {", ".entry e() { .reg .b32",
                                ".entry e() { x %r0", ".entry e() { .pragma", ".global .align 4 .u32 a ="}) {
    CAPTURE(cut);
    CHECK_THROWS_AS(parse(cut), ParseError);
  }
}

}  // namespace stratum::emulator::ptx
