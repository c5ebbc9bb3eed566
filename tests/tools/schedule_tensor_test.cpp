// Protects tj-schedule's view of attention over tensor memory, as a user asks for it: five roles, sub-tiles half a
// period apart, how much of the interval the matrix unit works and what binds it. A picture names all of it. Also the
// roles of the other ops.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "sched/svg_check.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"
#include "tools/schedule.hpp"

namespace {

using tj::testing::has;
using Json = nlohmann::json;
using Names = std::set<std::string>;

struct Shown {
  Json json;
  Names texts;  ///< of the picture
};

Shown show(const std::vector<std::string>& flags) {
  const tj::testing::Scratch scratch;
  std::vector<std::string> words = flags;
  words.insert(words.end(), {"--json", "--svg", scratch / "schedule.svg"});
  std::ostringstream out, err;
  const int code = tj::tools::schedule(words, out, err);
  REQUIRE_MESSAGE(code == 0, err.str());
  Shown shown{Json::parse(out.str()), {}};
  for (const tj::test::Element& each : tj::test::SvgReader(tj::testing::read_bytes(scratch / "schedule.svg")).read())
    shown.texts.insert(each.text);
  return shown;
}

Shown attention(const char* target, const char* head_dim, const char* causal) {
  return show({"--op", "fmha", "--target", target, "--dtype", "f16", "--head-dim", head_dim, "--causal", causal});
}

int busy(const Json& json, const std::string& unit) {
  for (const Json& each : json["units"])
    if (each["name"] == unit) return each["cycles"];
  return -1;
}
int cycle(const Json& json, const std::string& node) {
  for (const Json& each : json["nodes"])
    if (each["name"] == node) return each["cycle"];
  FAIL("no node " << node);
  return -1;
}
/// First parts of the names of what the role runs: qk of qk.0, weights of weights_2.1.
Names kinds(const Json& role) {
  Names names;
  for (const std::string node : role["nodes"]) names.insert(node.substr(0, node.find_first_of("._")));
  return names;
}

}  // namespace

TEST_CASE("five roles, drawn by name: copies, products, softmax of each sub-tile, correction and stores of both") {
  for (const char* head_dim : {"64", "128"})
    for (const char* causal : {"true", "false"}) {
      CAPTURE(head_dim);
      CAPTURE(causal);
      const Shown shown = attention("sm_100a", head_dim, causal);
      const Json& roles = shown.json["roles"];
      REQUIRE(roles.size() == 5);
      CHECK(kinds(roles[0]) == Names{"load"});
      CHECK(kinds(roles[1]) == Names{"qk", "pv"});
      CHECK(kinds(roles[2]) == Names{"maximum", "weights", "begin", "hand"});
      CHECK(kinds(roles[3]) == Names{"correct", "store"});
      CHECK(kinds(roles[4]) == kinds(roles[2]));
      for (const Json& role : roles) CHECK(shown.texts.count(role["name"].get<std::string>()) == 1);
      const std::string proof = "certificate: " + shown.json["certificate"].get<std::string>().substr(
                                                      0, 20);  // a long one takes several lines
      CHECK(std::any_of(shown.texts.begin(), shown.texts.end(),
                        [&](const std::string& text) { return text.starts_with(proof); }));
      CHECK(shown.json["proven_ii"] == true);
    }
}

TEST_CASE("sub-tiles in ping-pong: a quarter to three quarters of a period lie between the same step of either") {
  for (const char* head_dim : {"64", "128"})
    for (const char* causal : {"true", "false"}) {
      CAPTURE(head_dim);
      CAPTURE(causal);
      const Json json = attention("sm_100a", head_dim, causal).json;
      const int ii = json["ii"], apart = std::abs(cycle(json, "weights_0.1") - cycle(json, "weights_0.0")) % ii;
      CHECK(4 * apart >= ii);
      CHECK(4 * apart <= 3 * ii);
      CHECK(json["order_barriers"].empty());  // what they wait for keeps them so
    }
}

TEST_CASE(
    "head dim 128: nine tenths of the interval are the matrix unit's, causal and full, on both kinds of special "
    "functions") {
  for (const char* target : {"sm_100a", "sm_103a", "model:sm_100a"})
    for (const char* causal : {"true", "false"}) {
      CAPTURE(target);
      CAPTURE(causal);
      const Shown shown = attention(target, "128", causal);
      const int ii = shown.json["ii"], products = busy(shown.json, "TC");
      CHECK(10 * products >= 9 * ii);
      CHECK(shown.texts.count("busy " + std::to_string(100 * products / ii) + "%") == 1);
    }
}

TEST_CASE("head dim 64: special functions bind, and the certificate names them") {
  for (const char* causal : {"true", "false"}) {
    const Shown shown = attention("sm_100a", "64", causal);
    CHECK(busy(shown.json, "EXP") == shown.json["ii"]);
    CHECK_MESSAGE(has(shown.json["certificate"].get<std::string>(), "unit EXP"), shown.json["certificate"]);
    CHECK(shown.texts.count("busy 100%") == 1);
  }
}

TEST_CASE("products and chunk output: roles for copies, products, sums and stores") {
  const Json gemm = show({"--op", "gemm", "--target", "sm_100a", "--dtype", "f16", "--tile", "256x128x64"}).json;
  CHECK(busy(gemm, "TC") == gemm["ii"]);
  for (const Json& ring : gemm["rings"])
    if (has(ring["value"].get<std::string>(), "sums"))
      CHECK(ring["slots"] == 2);  // one is stored while the other is filled
  const Shown staged = show({"--op", "gemm", "--target", "sm_100a", "--dtype", "f16", "--tile", "128x128x64"});
  Names names;
  for (const Json& role : staged.json["roles"]) names.insert(role["name"].get<std::string>());
  CHECK(names == Names{"load", "mma", "compute0", "store"});
  const Shown chunks = show({"--op", "chunk_o", "--target", "sm_100a", "--head-ratio", "2"});
  names.clear();
  for (const Json& role : chunks.json["roles"]) names.insert(role["name"].get<std::string>());
  CHECK(names == Names{"load", "mma", "compute0", "compute1", "store"});
  CHECK(has(chunks.json["certificate"].get<std::string>(), "unit TMA"));
}
