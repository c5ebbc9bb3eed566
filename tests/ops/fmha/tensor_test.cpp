// Protects what the schedule of attention over tensor memory is judged by: roles that are found, a matrix unit that is
// hardly ever idle, exponentials shared between special functions and arithmetic as the arch asks for, weights over
// their scores.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "codegen/layout.hpp"
#include "ops/fmha/fmha.hpp"
#include "pipeline.hpp"
#include "sched/schedule.hpp"
#include "support/expect.hpp"
#include "support/index.hpp"

using namespace tj;
using testing::has;

namespace {

using tj::support::at;

Choice chosen(const char* arch, int head_dim, bool causal) {
  return choose(ops::fmha_op(), ops::fmha_request(FmhaConfig{DType::f16, head_dim, causal, false}), *arch::find(arch));
}

std::set<std::string> members(const Choice& choice, const std::string& role) {
  std::set<std::string> names;
  for (const sched::Role& each : choice.schedule.roles)
    for (const int node : each.nodes)
      if (each.name == role) names.insert(choice.candidate.graph.nodes[at(node)].body);
  return names;
}

int busy(const Choice& choice, const char* unit) {
  const int index = choice.candidate.graph.machine.unit_index(unit);
  int cycles = 0;
  for (const graph::Node& node : choice.candidate.graph.nodes)
    for (const graph::Reservation& use : node.reservations)
      if (node.scope == graph::Scope::iteration && use.unit == index) cycles += use.cycles;
  return cycles;
}

std::string constant(const Choice& choice, const std::string& name) {
  for (const auto& [declaration, value] : choice.candidate.graph.config)
    if (declaration.size() >= name.size() &&
        declaration.compare(declaration.size() - name.size(), name.size(), name) == 0)
      return value;
  return "";
}

int column(const Choice& choice, const codegen::Layout& layout, const std::string& value) {
  for (std::size_t r = 0; r < layout.rings.size(); ++r)
    if (choice.candidate.graph.values[at(choice.schedule.rings[r].value)].name == value) return layout.rings[r].column;
  return -1;
}

}  // namespace

TEST_CASE(
    "five roles: copies, products, two of softmax, one that corrects and stores; in turns without a barrier that says "
    "so") {
  for (const int head_dim : {64, 128}) {
    CAPTURE(head_dim);
    const Choice choice = chosen("sm_100a", head_dim, true);
    const sched::Schedule& schedule = choice.schedule;
    CHECK(sched::verify(choice.candidate.graph, schedule).empty());
    CHECK(schedule.joint);
    CHECK(schedule.proven_ii);
    REQUIRE(schedule.roles.size() == 5);
    using Names = std::set<std::string>;
    CHECK(members(choice, "load") == Names{"load_q", "load_k", "load_v"});
    Names products = {"qk", "pv_0", "pv_1"}, softmax = {"begin", "maximum", "weights_0", "weights_1", "hand_sums"};
    if (head_dim == 128) products.insert({"pv_2", "pv_3"}), softmax.insert({"weights_2", "weights_3"});
    CHECK(members(choice, "mma") == products);
    CHECK(members(choice, "compute0") == softmax);
    CHECK(members(choice, "compute1") == Names{"correct", "store"});
    CHECK(members(choice, "compute2") == softmax);
    CHECK(schedule.order_barriers.empty());
  }
}

TEST_CASE("head dim 128: the matrix unit is busy nine tenths of the time; the way round from scores to scores binds") {
  for (const bool causal : {false, true}) {
    CAPTURE(causal);
    const Choice choice = chosen("sm_100a", 128, causal);
    CHECK(busy(choice, "TC") == 4 * 512);
    CHECK(10 * busy(choice, "TC") >= 9 * choice.schedule.ii);
    CHECK_MESSAGE(has(choice.schedule.certificate, "recurrence"), choice.schedule.certificate);
    // Arithmetic takes over exponentials, and neither it nor the special functions have more than the interval.
    CHECK(std::stoi(constant(choice, "kPolynomials")) > 0);
    CHECK(busy(choice, "EXP") < 2 * 1024);
    CHECK(busy(choice, "ALU") <= choice.schedule.ii);
  }
}

TEST_CASE("head dim 64: exponentials bind, whoever does them, and the certificate says so") {
  for (const bool causal : {false, true}) {
    CAPTURE(causal);
    const Choice choice = chosen("sm_100a", 64, causal);
    CHECK(busy(choice, "EXP") == choice.schedule.ii);
    CHECK(choice.schedule.ii < 2 * 1024);
    CHECK_MESSAGE(has(choice.schedule.certificate, "unit EXP"), choice.schedule.certificate);
  }
}

TEST_CASE("twice the special functions: arithmetic takes over nothing") {
  for (const int head_dim : {64, 128}) {
    CAPTURE(head_dim);
    CHECK(constant(chosen("sm_103a", head_dim, true), "kPolynomials") == "0");
  }
  const Choice choice = chosen("sm_103a", 128, false);
  CHECK(10 * busy(choice, "TC") >= 9 * choice.schedule.ii);
}

TEST_CASE(
    "columns: at head dim 128 weights lie in the upper half of their scores, at 64 beside them; all 512 are used") {
  const Choice wide = chosen("sm_100a", 128, true);
  const codegen::Layout over = codegen::make_layout(wide.candidate.graph, wide.schedule);
  CHECK(over.tensor_columns == 512);
  std::set<int> outputs = {column(wide, over, "output.0"), column(wide, over, "output.1")};
  CHECK(outputs == std::set<int>{256, 384});
  for (const char* copy : {"0", "1"}) {
    const int scores = column(wide, over, std::string("scores.") + copy);
    for (const char* part : {"0", "1", "2", "3"}) {
      const int weights = column(wide, over, std::string("weights_") + part + "." + copy);
      CHECK(weights >= scores + 64);
      CHECK(weights < scores + 128);
    }
  }
  const Choice narrow = chosen("sm_100a", 64, true);
  const codegen::Layout beside = codegen::make_layout(narrow.candidate.graph, narrow.schedule);
  CHECK(beside.tensor_columns == 512);
  std::set<int> columns;
  for (const char* value :
       {"scores.0", "scores.1", "output.0", "output.1", "weights_0.0", "weights_0.1", "weights_1.0", "weights_1.1"})
    columns.insert(column(narrow, beside, value));
  CHECK(columns.size() == 8);  // none over another: these are multiples of their widths that differ
}

TEST_CASE("every interval is proven") {
  for (const char* arch : {"sm_100a", "sm_103a"})
    for (const int head_dim : {64, 128}) {
      const Choice choice = chosen(arch, head_dim, false);
      CAPTURE(choice.candidate.graph.name);
      CAPTURE(choice.schedule.certificate);
      CHECK(choice.schedule.proven_ii);
    }
}
