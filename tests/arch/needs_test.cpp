// Protects the data-driven refusal. An arch that lacks what an op reads is refused by name, before anything is computed
// from it. The message says where the op does run.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <tilejit/error.hpp>

#include "arch/arch.hpp"
#include "ops/fmha/fmha.hpp"
#include "ops/op.hpp"
#include "support/expect.hpp"

using namespace tj;
using testing::has;

namespace {

const FmhaConfig kConfig{DType::f16, 128, false, false};

/// The message of the refusal; empty when nothing was refused.
std::string refusal(const arch::Arch& arch) {
  try {
    ops::fmha_candidates(kConfig, arch);
  } catch (const Error& e) {
    CHECK(e.stage == Stage::target);
    CHECK(e.code == Code::unsupported);
    return e.message;
  }
  return {};
}

}  // namespace

TEST_CASE("an arch without a unit is refused, naming the unit and the archs that serve the op") {
  arch::Arch lacking = *arch::find("sm_90a");
  lacking.name = "sm_0";
  std::erase_if(lacking.units, [](const arch::Unit& unit) { return unit.name == "TC"; });
  const std::string message = refusal(lacking);
  CHECK(has(message, "'sm_0'"));
  CHECK(has(message, "unit 'TC'"));
  CHECK(has(message, "sm_90a, model:sm_90a"));
}

TEST_CASE(
    "no fact that the graph reads is missing from the needs: without any one, the arch is served or refused, never a "
    "defect") {
  const arch::Arch& whole = *arch::find("sm_90a");
  int refused = 0;
  for (const auto& [name, fact] : whole.facts) {
    arch::Arch lacking = whole;
    lacking.facts.erase(name);
    const std::string message = refusal(lacking);
    if (message.empty()) continue;
    CHECK(has(message, "fact '" + name + "'"));
    ++refused;
  }
  CHECK(refused > 0);
  CHECK(refusal(whole).empty());
}

TEST_CASE("the same of each op, on an arch of each kind: a fact that a kernel is computed from is among its needs") {
  int refused = 0;
  for (const char* name : {"sm_80", "sm_90", "sm_90a", "sm_100a", "gfx1100", "gfx1201", "gfx90a", "gfx942"}) {
    const arch::Arch& whole = *arch::find(name);
    for (const ops::Op* op : ops::all()) {
      if (!op->serves(whole)) continue;
      const std::vector<ops::Request> requests = op->requests_for({}, whole);
      const auto request = std::find_if(requests.begin(), requests.end(), [&](const ops::Request& each) {
        try {
          return !op->candidates(each, whole).empty();
        } catch (const Error&) {
          return false;
        }
      });
      REQUIRE(request != requests.end());
      for (const auto& fact : whole.facts) {
        CAPTURE(whole.name);
        CAPTURE(std::string(op->name()));
        CAPTURE(fact.first);
        arch::Arch lacking = whole;
        lacking.facts.erase(fact.first);
        try {
          const std::vector<ops::Candidate> served = op->candidates(*request, lacking);
          CHECK_FALSE(served.empty());
        } catch (const Error& e) {
          CHECK_MESSAGE((e.code == Code::unsupported && has(e.message, "fact '" + fact.first + "'")), e.message);
          ++refused;
        }
      }
    }
  }
  CHECK(refused > 100);
}

TEST_CASE("a target that nobody knows is refused with the list of those that are known") {
  try {
    arch::parse_target("model:sm_0");
    FAIL("was accepted");
  } catch (const Error& e) {
    CHECK(e.stage == Stage::target);
    CHECK(has(e.message, "model:sm_0"));
    CHECK(has(e.message, "did you mean 'model:sm_"));
    for (const arch::Arch* arch : arch::all()) CHECK(has(e.message, arch->name));
    CHECK(has(e.message, "each with model: before it"));
  }
}

TEST_CASE("every arch names its files and gives each fact a source") {
  for (const arch::Arch* arch : arch::all()) {
    CHECK(!arch->family.empty());
    CHECK(!arch->primitives.empty());
    CHECK(!arch->compiler.empty());
    for (const auto& entry : arch->facts) {
      CAPTURE(entry.first);
      CHECK(entry.second.value > 0);
      CHECK(!entry.second.source.empty());
    }
  }
}
