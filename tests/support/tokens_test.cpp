// Protects what "the same tokens" means: layout and comments are nothing, all else is something.
#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "support/tokens.hpp"

using tj::testing::tokens_of;
using Words = std::vector<std::string>;

namespace {

bool same(const char* one, const char* other) { return tokens_of(one).tokens == tokens_of(other).tokens; }

}  // namespace

TEST_CASE("layout and comments are no tokens") {
  CHECK(same("int f(int a,int b){return a+b;}", "int f(int a, int b) {  // adds\n  return /* a\n sum */ a + b;\n}\n"));
  CHECK(same("#define F(a) g(a)\nint x;", "#define F(a)  \\\n  g(a)  // calls\n\nint x;\n\n"));
  CHECK(same("asm(\"one\\n\\ttwo\");", "asm(\n    \"one\\n\"\n    \"\\ttwo\");"));
  CHECK(same("A<B<C>> x;", "A<B<C> > x;"));
}

TEST_CASE("a change of the meaning changes the tokens") {
  CHECK_FALSE(same("a + b", "a - b"));
  CHECK_FALSE(same("a + +b", "a ++b"));
  CHECK_FALSE(same("ab c", "a bc"));
  CHECK_FALSE(same("\"a b\"", "\"ab\""));
  CHECK_FALSE(same("x = 1;", "x = 1u;"));
  CHECK_FALSE(same("#define F(a) b", "#define F (a) b"));
  CHECK_FALSE(same("#define A\nb", "#define A b"));
  CHECK_FALSE(same("\"//\" x", "\"//\" // x"));
  CHECK_FALSE(same("'a' '\"'", "'a' '\\''"));
}

TEST_CASE("tokens are the longest that there are; numbers are whole") {
  CHECK(tokens_of("a<<=b->c::d 0x1e+2 1.5e-3f 1'000 .5f").tokens ==
        Words{"a", "<<=", "b", "->", "c", "::", "d", "0x1e", "+", "2", "1.5e-3f", "1'000", ".5f"});
}

TEST_CASE("includes in quotes are apart, and sorted; those in brackets are tokens") {
  const auto [tokens, includes] =
      tokens_of("#pragma once\n#include \"b.cuh\"\n  #  include \"a.cuh\"  // why\n#include <vector>\nint x;");
  CHECK(tokens == Words{"#", "pragma", "once", "\n", "#", "include", "<", "vector", ">", "\n", "int", "x", ";"});
  CHECK(includes == Words{"a.cuh", "b.cuh"});
}

TEST_CASE("a text that cannot be read is refused") {
  for (const char* text : {"\"no end", "'", "/* no end", "R\"(raw)\"", "u8R\"x(raw)x\""}) {
    CAPTURE(text);
    CHECK_THROWS_AS(tokens_of(text), std::invalid_argument);
  }
}
