// Protects that the wait for a user's own program is told of, also where the program has closed its output.
#include "check/program.hpp"

#include <doctest/doctest.h>

#include <string>

#include "support/scratch.hpp"

namespace {

/// The runs' findings, of a program that goes on until somebody hears that it is waited for.
std::vector<tj::check::Finding> run_until_told(const std::string& before) {
  const tj::testing::Scratch scratch;
  const std::string file = scratch / "told";
  const std::string words = before + "while ! test -e \"$0\"; do sleep 0.01; done; exit 3";
  double told_s = 0;
  auto report =
      tj::check::try_program({{"sh", "-c", words, file}, "model:sm_90a", {}, {}}, {1, 1}, {}, [&](double waited_s) {
        told_s = waited_s;
        tj::testing::write_bytes(file, "");
      });
  CHECK(told_s >= 1);
  return report.findings;
}

TEST_CASE("who waits for a program hears of it, whether it has closed its output or not") {
  for (const char* before : {"", "exec >&- 2>&-; "}) {
    const auto findings = run_until_told(before);
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].fault.message.starts_with("ended with status 3"));
  }
}

}  // namespace
