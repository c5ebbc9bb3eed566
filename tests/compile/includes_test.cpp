// Protects what a binary's key covers of the headers: every file that a compiler could read, however the text says it,
// and no file that it cannot.
#include "compile/includes.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace {

using tj::compile::Header;
using tj::compile::included_by;

std::string names(std::string_view text, const std::vector<Header>& headers) {
  std::string all;
  for (const Header& header : included_by(text, headers)) all += header.name + " ";
  return all;
}

const std::vector<Header> kFiles = {{"a.cuh", "#include \"ops/b.cuh\"\n"},
                                    {"c.cuh", "int c;"},
                                    {"ops/b.cuh", "#pragma once\n#include \"types.cuh\"  // a remark\n"},
                                    {"ops/types.cuh", ""},
                                    {"types.cuh", ""}};

TEST_CASE("what is included, directly or not, is found, under each path that the name may stand for") {
  CHECK(names("int x;", kFiles).empty());
  CHECK(names("#include \"c.cuh\"", kFiles) == "c.cuh ");
  CHECK(names("  #  include <c.cuh>\r\n", kFiles) == "c.cuh ");
  CHECK(names("#include \"a.cuh\"\nint x;\n", kFiles) == "a.cuh ops/b.cuh ops/types.cuh types.cuh ");
  CHECK(names("#if 0\n#include \"c.cuh\"\n#endif\n", kFiles) == "c.cuh ");
  CHECK(names("#include <cstdint>\n", kFiles).empty());
  CHECK(names("// what others include: c.cuh\nint included;\n", kFiles).empty());
  CHECK(names("#define X \\\n  1\n#include \"c.cuh\"\n", kFiles) == "c.cuh ");
  CHECK(names("#define X(n) \\\n  f##n(#n) \\\n  1\n#include \"c.cuh\"\n", kFiles) == "c.cuh ");
  CHECK(names("# define X(n)   \\\r\n  f##n \\\r\n  1\r\n#include \"c.cuh\"\r\n", kFiles) == "c.cuh ");
}

TEST_CASE("files that include each other end the search") {
  CHECK(names("#include \"x\"", {{"x", "#include \"y\"\n"}, {"y", "#include \"x\"\n"}, {"z", ""}}) == "x y ");
}

TEST_CASE("a text that may include in another way counts as including every file") {
  const std::string all = "a.cuh c.cuh ops/b.cuh ops/types.cuh types.cuh ";
  for (const char* text : {"#include NAME\n",
                           "#define NAME \"c.cuh\"\n#include NAME\n",
                           "#if __has_include(\"c.cuh\")\n#endif\n",
                           "#include_next <c.cuh>\n",
                           "%:include \"c.cuh\"\n",
                           "?\?=include \"c.cuh\"\n",
                           "#include \\\n\"c.cuh\"\n",
                           "#\\\ninclude \"c.cuh\"\n",
                           "#incl\\\nude \"c.cuh\"\n",
                           "#include \"ops/../c.cuh\"\n",
                           "#include \"./c.cuh\"\n",
                           "/* x */ #include \"c.cuh\"\n",
                           "#include \"c.cuh\" /* x */\n",
                           "#/**/include \"c.cuh\"\n",
                           "#define I include \"c.cuh\"\n",
                           "#include \"ops//b.cuh\"\n",
                           "#define X \\\n#include \"c.cuh\"\n",
                           "#define X \\ \n#incl\\\nude \"c.cuh\"\n",
                           "/*\n#define X \\\n*/ #incl\\\nude \"c.cuh\"\n",
                           "#defined \\\n#incl\\\nude \"c.cuh\"\n"}) {
    const std::string said = text;
    CAPTURE(said);
    CHECK(names(text, kFiles) == all);
  }
}

}  // namespace
