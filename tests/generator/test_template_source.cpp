#include <catch2/catch.hpp>

#include "generator/plan/template_source.h"
#include "tests/generator/project.h"

namespace stratum::gen {
namespace {

TEST_CASE("templates: holes are filled, other uses of @ stay") {
  const Holes holes = {{"name", "f"}, {"tile_m", "64"}};
  CHECK(fill_holes("void @name@(int x[@tile_m@]) { asm(\"@p bra L; @!q bra L;\"); } // a@b.c", holes, {"tile_m"},
                   "t.cu") == "void f(int x[64]) { asm(\"@p bra L; @!q bra L;\"); } // a@b.c");
  CHECK(input_error([&] { fill_holes("\n\n@tile_n@", holes, {}, "t.cu"); }) ==
        "t.cu:3: no value for the hole @tile_n@; there are name, tile_m");
  CHECK(input_error([&] { fill_holes("@name@", holes, {"tile_m"}, "t.cu"); }) ==
        "t.cu: the tile field tile_m has no hole @tile_m@: plans would set what nothing reads");
}

TEST_CASE("templates: a kernel's holes") {
  KernelSpec spec;
  spec.key = {"fake", "scale", "sm_90a", "float16", 64, 32, 4, {"turbo", "v2"}};
  spec.name = "n";
  spec.tile = {{"threads", 64}};
  spec.block = 64;
  spec.shared_bytes = 128;
  CHECK(holes_of(spec) == Holes{{"name", "n"},
                                {"arch", "90"},
                                {"dtype", "float16"},
                                {"head_dim", "64"},
                                {"gate_dim", "32"},
                                {"group", "4"},
                                {"flags", "turbo, v2"},
                                {"threads", "64"},
                                {"block", "64"},
                                {"shared_bytes", "128"}});
}

TEST_CASE("templates: includes are found outside comments only") {
  CHECK(scan_includes("#include \"a.h\"\n  #  include  \"b/c.h\" // why\n"
                      "// #include \"no.h\"\n/* #include \"no.h\"\n#include <no> */\n"
                      "const char* s = \"// not a comment\";\n#include \"d.h\"",
                      "t.cu") == std::vector<std::string>{"a.h", "b/c.h", "d.h"});
  CHECK(input_error([] { scan_includes("\n#include <cuda.h>\n", "t.cu"); }) ==
        "t.cu:2: expected #include \"...\" with a path relative to the templates folder, got #include <cuda.h>");
  CHECK(input_error([] { scan_includes("#include HEADER", "t.cu"); }).find("got #include HEADER") != std::string::npos);
}

TEST_CASE("templates: headers are gathered through others, and stay inside the folder") {
  const Project project;
  SourceTree tree(project.templates());
  const auto headers = tree.headers_of("#include \"abi/fake.h\"", "t.cu");
  REQUIRE(headers.size() == 2);
  CHECK(headers.at("abi/fake_types.h") == project.read("templates/abi/fake_types.h"));
  CHECK(input_error([&] {
          tree.headers_of("#include \"../toolchain.json\"", "t.cu");
        }).find("t.cu: cannot include \"../toolchain.json\": ../toolchain.json: expected a plain path relative to ") ==
        0);
  CHECK(input_error([&] { tree.headers_of("#include \"abi/./fake.h\"", "t.cu"); }).find("expected a plain path") !=
        std::string::npos);
  CHECK(input_error([&] {
          tree.headers_of("#include \"abi/nowhere.h\"", "t.cu");
        }).find("t.cu: cannot include \"abi/nowhere.h\": ") == 0);
}

}  // namespace
}  // namespace stratum::gen
