// Protects the purpose of the joint search. From costs, memory and registers alone it finds the roles that people wrote
// by hand for attention on Hopper and on Blackwell. It says for each pair of roles which constraint keeps the two
// apart.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "graph/examples.hpp"
#include "ops/common/machine.hpp"
#include "ops/fmha/sm90.hpp"
#include "ops/op.hpp"
#include "pipeline.hpp"
#include "sched/joint/joint.hpp"
#include "sched/schedule.hpp"
#include "support/index.hpp"

namespace {

using tj::support::at;

using namespace tj;

int up(double cycles) { return static_cast<int>(std::lround(std::ceil(cycles))); }

graph::Graph hopper(int head_dim, int block_n) {
  return ops::fmha_group_graph(FmhaConfig{DType::f16, head_dim, false, false}, {2, block_n}, *arch::find("sm_90a"));
}

/// Two sub-tiles of 128 rows, blocks of 128 keys, 16-bit inputs, every cost from the facts of sm_100a.
graph::TensorMemoryAttention blackwell_costs(const arch::Arch& arch, int head_dim) {
  constexpr double kRows = 128, kKeys = 128, kDepth = 16;  // rows and keys of a tile, depth of one matrix instruction
  const double scores = kRows * kKeys, outputs = kRows * head_dim, block_kb = kKeys * head_dim * 2 / 1024;
  const auto exchange = [&](double words) {
    return up(arch.fact("exchange_cycles") + arch.fact("exchange_cycles_per_kb") * 4 * words / 1024);
  };
  graph::TensorMemoryAttention c;
  c.load_cycles = up(block_kb * arch.fact("copy_cycles_per_kb"));
  c.load_latency = c.load_cycles + up(arch.fact("copy_latency_cycles"));
  c.load_bytes = static_cast<std::int64_t>(block_kb * 1024);
  c.matrix_cycles = up(2 * scores * head_dim / arch.fact("matrix_flops_per_cycle"));
  c.matrix_latency = c.matrix_cycles + up(arch.fact("matrix_drain_cycles"));
  c.matrix_issue = up(kKeys / kDepth * arch.fact("matrix_issue_cycles"));
  c.score_read = up(4 * scores / arch.fact("tensor_memory_bytes_per_cycle"));
  c.weight_write = up(2 * scores / arch.fact("tensor_memory_bytes_per_cycle"));
  c.maximum = up(scores / arch.fact("minmax_per_cycle"));
  c.exponential = up(scores / arch.fact("exp2_per_cycle"));
  // A multiply-add and an addition for each score, half a conversion.
  c.arithmetic = up(2 * scores / arch.fact("f32_per_cycle") + 0.5 * scores / arch.fact("convert_per_cycle"));
  c.output_read = c.output_write = up(4 * outputs / arch.fact("tensor_memory_bytes_per_cycle"));
  c.output_scale = up(outputs / arch.fact("f32_per_cycle"));
  c.score_bytes = static_cast<std::int64_t>(4 * scores);
  c.weight_bytes = static_cast<std::int64_t>(2 * scores);
  c.output_bytes = static_cast<std::int64_t>(4 * outputs);
  c.score_registers = 128;  // a row a thread
  c.state_registers = 32;   // as attention's consumers on sm_90a: maxima, sums, addresses, counters, temporaries
  c.output_registers = 32;  // corrected 32 columns at a time
  c.signal = up(arch.fact("barrier_cycles"));
  c.score_exchange = exchange(scores);
  c.factor_exchange = exchange(kRows);
  return c;
}

/// `bodies`: written as the instructions want them, products and loads for one warp, the rest for a group of four.
graph::Graph blackwell(int head_dim, bool bodies) {
  const arch::Arch& arch = *arch::find("sm_100a");
  graph::Machine machine = ops::machine_of(arch);
  machine.memory_bytes["SMEM"] -= std::int64_t{2} * 128 * head_dim * 2;  // the queries
  graph::Graph graph = graph::attention_with_tensor_memory(blackwell_costs(arch, head_dim), machine);
  if (bodies)
    for (graph::Node& node : graph.nodes) node.context = node.warps == 1 ? "OneWarp" : "Group";
  return graph;
}

int role_of(const graph::Graph& graph, const sched::JointResult& result, const std::string& name) {
  return result.role[at(graph.node_index(name))];
}

std::set<std::string> members(const graph::Graph& graph, const sched::JointResult& result, const std::string& of) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (graph.nodes[i].scope == graph::Scope::iteration && result.role[i] == role_of(graph, result, of))
      names.insert(graph.nodes[i].name);
  return names;
}

/// The families that keep the roles of two nodes apart.
std::vector<std::string> between(const graph::Graph& graph, const sched::JointResult& result, const char* a,
                                 const char* b) {
  const int first = role_of(graph, result, a), second = role_of(graph, result, b);
  for (const sched::RolePair& pair : sched::why_apart(graph, result))
    if (std::minmax(pair.first, pair.second) == std::minmax(first, second)) return pair.kept_by;
  return {"one role"};
}

bool has(const std::vector<std::string>& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

using Names = std::vector<std::string>;
using Members = std::set<std::string>;

sched::JointResult proven(const graph::Graph& graph, const sched::JointOptions& options = {}) {
  const sched::JointResult result = sched::joint_schedule(graph, options);
  INFO(result.certificate);
  REQUIRE(result.found);
  CHECK(result.proven_ii);
  CHECK(result.proven_length);
  CHECK(result.proven_roles);
  return result;
}

}  // namespace

TEST_CASE(
    "Hopper, two sub-tiles: loads apart, two consumers in turns on the tensor core, the next scores ahead of this "
    "output") {
  for (const auto& tile : {std::pair(128, 128), std::pair(128, 160), std::pair(64, 128)}) {
    const int head_dim = tile.first, block_n = tile.second;
    CAPTURE(head_dim);
    CAPTURE(block_n);
    const graph::Graph graph = hopper(head_dim, block_n);
    const sched::Schedule schedule = sched::schedule(graph);
    CHECK(sched::verify(graph, schedule).empty());
    CHECK(schedule.joint);
    REQUIRE(schedule.roles.size() == 4);
    CHECK(schedule.roles[0].name == "load");
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const graph::Node& node = graph.nodes[i];
      CHECK(schedule.roles[at(schedule.role[i])].name == (node.async == graph::Async::copy ? std::string("load")
                                                          : node.async == graph::Async::store
                                                              ? std::string("store")
                                                              : "compute" + std::to_string(node.copy)));
    }
    REQUIRE(schedule.order_barriers.size() == 1);
    CHECK(graph.machine.units[at(schedule.order_barriers[0].unit)].name == "TC");
    CHECK(schedule.order_barriers[0].roles.size() == 2);
    for (const char* copy : {"0", "1"}) {
      const auto cycle = [&](const char* body) {
        return schedule.cycle[at(graph.node_index(std::string(body) + "." + copy))];
      };
      CHECK(cycle("qk") + schedule.ii <= cycle("pv"));
    }
  }
}

TEST_CASE("Hopper: what keeps each pair of roles apart") {
  const graph::Graph graph = hopper(128, 128);
  const sched::JointResult result = proven(graph);
  CHECK(result.roles == 3);
  CHECK(between(graph, result, "load_k", "load_v") == Names{"one role"});
  CHECK(between(graph, result, "load_k", "qk.0") == Names{"variable latency", "bodies"});
  CHECK(between(graph, result, "load_k", "qk.1") == Names{"variable latency", "bodies"});
  CHECK(between(graph, result, "qk.0", "qk.1") == Names{"warps", "registers"});
}

// Attention's graph says that scores have one register copy. Without that, registers themselves decide. The warps are
// busy throughout then, so nothing is gained by going further ahead than this.
TEST_CASE(
    "Hopper: without the edge that says so, registers decide whether the next scores come ahead of the end of this "
    "softmax") {
  const auto without_edge = [](graph::Graph graph) {
    std::erase_if(graph.edges, [&](const graph::Edge& edge) {
      return graph.nodes[at(edge.src)].body == "rescale" && graph.nodes[at(edge.dst)].body == "qk";
    });
    return graph;
  };
  const graph::Graph narrow = without_edge(hopper(64, 128));
  const sched::JointResult one = proven(hopper(64, 128)), two = proven(narrow);
  CHECK(has(one.binding, "recurrence"));
  CHECK(two.ii < one.ii);
  CHECK(has(two.binding, "registers"));
  CHECK(has(two.binding, "warps"));
  for (const char* copy : {"0", "1"}) {
    const auto cycle = [&](const char* body) {
      return two.cycle[at(narrow.node_index(std::string(body) + "." + copy))];
    };
    CHECK(cycle("qk") + two.ii < cycle("rescale"));
  }
  // Two copies of 80 registers beside 64 of output, 40 of weights and 32 of state are more than a thread can have.
  const graph::Graph wide = without_edge(hopper(128, 160));
  const sched::JointResult full = proven(wide);
  for (const char* copy : {"0", "1"}) {
    const auto cycle = [&](const char* body) {
      return full.cycle[at(wide.node_index(std::string(body) + "." + copy))];
    };
    const int done = cycle("rescale") + wide.nodes[at(wide.node_index("rescale.0"))].latency;
    CHECK(cycle("qk") + full.ii >= done);
  }
}

TEST_CASE("Blackwell, head dim 64: a load role, a product role, two softmax roles, one correction role") {
  const graph::Graph graph = blackwell(64, true);
  const sched::JointResult result = proven(graph);
  CHECK(result.ii == 2048);
  CHECK(has(result.binding, "unit"));  // exponentials: 2 x 1024
  CHECK(result.roles == 5);
  CHECK(members(graph, result, "load_k") == Members{"load_k", "load_v"});
  CHECK(members(graph, result, "s.0") == Members{"s.0", "s.1", "o.0", "o.1"});
  CHECK(members(graph, result, "exp.0") == Members{"read_s.0", "max.0", "exp.0", "write_p.0"});
  CHECK(members(graph, result, "exp.1") == Members{"read_s.1", "max.1", "exp.1", "write_p.1"});
  CHECK(members(graph, result, "correct.0") == Members{"correct.0", "correct.1"});
  CHECK(sched::verify(graph, sched::to_schedule(graph, result)).empty());
}

TEST_CASE("Blackwell: what keeps each pair of roles apart") {
  const graph::Graph graph = blackwell(64, true);
  const sched::JointResult result = proven(graph);
  CHECK(between(graph, result, "load_k", "s.0") == Names{"variable latency"});
  CHECK(between(graph, result, "load_k", "exp.0") == Names{"variable latency", "bodies"});
  CHECK(between(graph, result, "load_k", "exp.1") == Names{"variable latency", "bodies"});
  CHECK(between(graph, result, "load_k", "correct.0") == Names{"variable latency", "bodies"});
  CHECK(between(graph, result, "s.0", "correct.0") == Names{"bodies"});
  CHECK(between(graph, result, "s.0", "exp.0") == Names{"bodies", "warps"});
  CHECK(between(graph, result, "s.0", "exp.1") == Names{"bodies", "warps"});
  CHECK(between(graph, result, "exp.0", "correct.0") == Names{"warps", "concurrency"});
  CHECK(between(graph, result, "exp.1", "correct.0") == Names{"warps", "concurrency"});
  CHECK(between(graph, result, "exp.0", "exp.1") == Names{"warps", "registers", "concurrency"});
}

TEST_CASE("Blackwell: bodies for any number of warps leave the products to the roles around them") {
  const graph::Graph graph = blackwell(64, false);
  const sched::JointResult result = proven(graph);
  CHECK(result.ii == 2048);
  CHECK(result.roles == 4);
  CHECK(members(graph, result, "load_k") == Members{"load_k", "load_v"});
  for (const char* copy : {"0", "1"})
    for (const char* body : {"max.", "exp.", "write_p."})
      CHECK(role_of(graph, result, std::string(body) + copy) == role_of(graph, result, std::string("read_s.") + copy));
  CHECK(role_of(graph, result, "correct.0") == role_of(graph, result, "correct.1"));
  for (const char* product : {"s.0", "s.1", "o.0", "o.1"})
    CHECK(role_of(graph, result, product) != role_of(graph, result, "load_k"));
}

TEST_CASE(
    "Blackwell, head dim 128: tensor memory binds, and the slack that it leaves takes the correction into the softmax "
    "roles") {
  const graph::Graph graph = blackwell(128, true);
  const sched::JointResult result = proven(graph);
  CHECK(has(result.binding, "TMEM"));
  CHECK(result.roles == 4);
  for (const char* copy : {"0", "1"}) {
    const std::string c = copy;
    CHECK(members(graph, result, "exp." + c) ==
          Members{"read_s." + c, "max." + c, "exp." + c, "write_p." + c, "correct." + c});
    int busy = 0;
    for (const std::string& name : members(graph, result, "exp." + c))
      busy += graph.nodes[at(graph.node_index(name))].warp_cycles;
    CHECK(busy <= result.ii);
  }
  sched::JointOptions more;
  more.relaxed.space = "TMEM";
  const sched::JointResult lifted = proven(graph, more);
  CHECK(lifted.ii < result.ii);
  CHECK(lifted.roles == 5);
  CHECK(members(graph, lifted, "correct.0") == Members{"correct.0", "correct.1"});
  CHECK(members(graph, lifted, "s.0") == Members{"s.0", "s.1", "o.0", "o.1"});
}

// The shipped graph, whose schedule is made with Candidate::copies_apart. For these head dims nothing hangs on that.
TEST_CASE("Blackwell, the shipped loop: five roles from costs alone, as with copies that are held apart") {
  const arch::Arch& arch = *arch::find("sm_100a");
  const ops::Op& op = *ops::find("fmha");
  for (const char* head_dim : {"64", "128"}) {
    CAPTURE(head_dim);
    const ops::Request request = op.requests_for({{"dtype", {"f16"}}, {"head-dim", {head_dim}}}, arch).front();
    const graph::Graph graph = choose(op, request, arch).candidate.graph;
    sched::Options apart;
    apart.copies_apart = true;
    const sched::Schedule held = sched::schedule(graph, apart), found = sched::schedule(graph);
    CHECK(found.proven_ii);
    CHECK(found.proven_length);
    CHECK(found.ii == held.ii);
    CHECK(found.length == held.length);
    REQUIRE(found.roles.size() == 5);
    const auto role = [&](const char* name) { return found.role[at(graph.node_index(name))]; };
    CHECK(role("load_k") == role("load_v"));
    CHECK(role("qk.0") == role("pv_0.1"));
    CHECK(role("maximum.0") == role("weights_0.0"));
    CHECK(role("maximum.1") == role("weights_0.1"));
    CHECK(role("correct.0") == role("correct.1"));
    CHECK(std::set<int>{role("load_k"), role("qk.0"), role("maximum.0"), role("maximum.1"), role("correct.0")}.size() ==
          5);
    // A correction that never moved the output would have room in a softmax role at head dim 128.
    graph::Graph light = graph;
    for (graph::Node& node : light.nodes)
      if (node.body == "correct") node.warp_cycles = node.cycles;
    CHECK(sched::schedule(light).roles.size() == (head_dim == std::string("128") ? 4 : 5));
  }
}

TEST_CASE("one limit at a time: the certificate names what binds") {
  const auto binding = [](const graph::Graph& graph) { return sched::joint_schedule(graph).binding; };
  CHECK(has(binding(hopper(128, 160)), "unit"));
  CHECK(has(binding(hopper(64, 128)), "recurrence"));
  graph::Graph few = hopper(128, 128);
  few.machine.registers = 49152;
  CHECK(has(binding(few), "registers"));
  CHECK(has(binding(blackwell(128, true)), "TMEM"));
  graph::Graph small = blackwell(64, true);
  small.machine.memory_bytes["SMEM"] = std::int64_t{24} * 1024;  // one and a half blocks
  CHECK(has(binding(small), "SMEM"));
}
