// Protects that a misspelt TJ_ variable is said once in a process, with the name that was meant, and that one of the
// library's or of the tests' is not.
#include "support/variables.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/expect.hpp"
#include "tests/support/variable.hpp"

namespace {

using tj::testing::has;
using tj::testing::Variable;
using Names = std::vector<std::string>;

TEST_CASE("names that begin with TJ_ and are none of ours") {
  CHECK(tj::support::unknown_variables() == Names{});
  const Variable tests("TJ_TEST_ANYTHING", "1"), known("TJ_TARGET", "sm_90a"), other("TJ", "1"), near("XTJ_A", "1");
  CHECK(tj::support::unknown_variables() == Names{});
  const Variable misspelt("TJ_CACHEDIR", "/x"), empty("TJ_", "");
  CHECK(tj::support::unknown_variables().size() == 2);
}

TEST_CASE("they are said once, with the name that was meant or all there are") {
  const Variable misspelt("TJ_CACHEDIR", "/x"), far("TJ_COLOUR_OF_THE_SKY", "blue");
  std::vector<std::string> said;
  const tj::support::Log log(tj::LogLevel::warn, [&](tj::LogLevel level, std::string_view text) {
    CHECK(level == tj::LogLevel::warn);
    said.emplace_back(text);
  });
  tj::support::warn_of_unknown_variables(log);
  REQUIRE(said.size() == 2);
  const bool first = has(said[0], "CACHEDIR");
  CHECK(said[first ? 0 : 1] ==
        "the variable TJ_CACHEDIR is set and means nothing to tilejit; did you mean 'TJ_CACHE_DIR'?");
  CHECK_MESSAGE(has(said[first ? 1 : 0],
                    "TJ_COLOUR_OF_THE_SKY is set and means nothing to tilejit; those that do are "
                    "TJ_CACHE_DIR, TJ_CACHE_MAX_SIZE, "),
                said[first ? 1 : 0]);
  CHECK(has(said[first ? 1 : 0], ", TJ_WAIT_LIMIT"));
  tj::support::warn_of_unknown_variables(log);
  CHECK(said.size() == 2);
}

}  // namespace
