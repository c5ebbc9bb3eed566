// Protects what all graphs are written by: names and warps of nodes, edges without a value, a node's work as
// reservations; who copies and who multiplies, and when their results are there; and tensors as launch parameters see
// them.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "arch/arch.hpp"
#include "ops/common/graph_builder.hpp"
#include "ops/common/tensor_args.hpp"

using namespace tj;
using ops::Copier;
using ops::Multiplier;
using ops::Work;

namespace {

const arch::Arch& arch_of(const char* name) { return *arch::find(name); }

struct Builder : ops::GraphBuilder {
  explicit Builder(const arch::Arch& arch) : GraphBuilder("affine", "any", arch, 2) {}
  using GraphBuilder::add;
  using GraphBuilder::constant;
  using GraphBuilder::flag;
  using GraphBuilder::graph_;
  using GraphBuilder::hold;
  using GraphBuilder::known;
  using GraphBuilder::multiply;
  using GraphBuilder::node;
  using GraphBuilder::numbered;
  using GraphBuilder::order;
  using GraphBuilder::single;
  using GraphBuilder::then;
  using GraphBuilder::through_registers;
  using GraphBuilder::value;
  using GraphBuilder::wait;
};

}  // namespace

TEST_CASE("a unit has its op's text and names, its constants in order, and what the launch must know is written once") {
  Builder builder(arch_of("sm_90"));
  int rows = 0;
  builder.constant("kWarps", 4);
  builder.known("kRows", rows, 64);
  builder.flag("kFast", true);
  const graph::Graph& graph = builder.graph_;
  CHECK(graph.namespace_name == "tj::ops::affine");
  CHECK(graph.params_type == "tj::ops::affine::Params");
  CHECK(graph.includes == std::vector<std::string>{"ops/affine/any.cuh"});
  CHECK(graph.blocks_per_sm == 2);
  CHECK(graph.machine.registers == ops::machine_of(arch_of("sm_90"), 2).registers);
  CHECK(rows == 64);
  using Line = std::pair<std::string, std::string>;
  CHECK(graph.config == std::vector<Line>{{"static constexpr int kWarps", "4"},
                                          {"static constexpr int kRows", "64"},
                                          {"static constexpr bool kFast", "true"}});
}

TEST_CASE("nodes and edges: one of its kind, one of several, in registers, by a value, for order alone") {
  Builder builder(arch_of("sm_90a"));
  graph::Node load = builder.single("Loader", "load", 1), compute = builder.numbered("Consumer", "compute", 3);
  CHECK(load.name == "load");
  CHECK(compute.name == "compute.3");
  CHECK(compute.body == "compute");
  CHECK(compute.copy == 3);
  CHECK(compute.warps == arch_of("sm_90a").warps_per_group);
  builder.hold(compute, {.matrix = 10.5, .exp = 20.2});
  CHECK(compute.cycles == 21);
  CHECK(compute.latency == 21);
  CHECK(compute.warp_cycles == 21);
  REQUIRE(compute.reservations.size() == 2);  // none of what it does not use
  CHECK(compute.reservations[0].unit == builder.graph_.machine.unit_index("TC"));
  CHECK(compute.reservations[0].cycles == 11);
  CHECK(compute.reservations[1].cycles == 21);
  load.latency = 100;
  const int a = builder.add(load), b = builder.add(compute),
            x = builder.value("x", 4096, graph::Scope::iteration, 1, 4);
  builder.then(a, b, 0, x);
  builder.wait(b, a, 1);
  builder.order(a, b, 7);
  const std::vector<graph::Edge>& edges = builder.graph_.edges;
  CHECK(edges[0].delay == 100);
  CHECK_FALSE(edges[0].blocking);
  CHECK_FALSE(edges[0].same_role);
  CHECK(edges[0].value == x);
  CHECK(edges[1].delay == 21);
  CHECK(edges[1].distance == 1);
  CHECK(edges[1].blocking);
  CHECK(edges[1].same_role);
  CHECK(edges[2].delay == 7);
  CHECK_FALSE(edges[2].same_role);
}

TEST_CASE("a copier marks its node by its way, and knows its own facts") {
  const arch::Arch &tma = arch_of("sm_90"), &amd = arch_of("gfx942");
  CHECK(Copier::into_rings(tma).by_engine());
  CHECK(Copier::into_rings(arch_of("sm_80")).way() == Copier::Way::threads);
  const Copier engine(Copier::Way::engine, tma), threads(Copier::Way::threads, tma);
  graph::Node by_engine, by_threads, by_registers;
  engine.issue(by_engine, 8, 30);
  threads.issue(by_threads, 8, 30);
  Copier(Copier::Way::registers, amd).issue(by_registers, 8, 30);
  CHECK(by_engine.async == graph::Async::copy);
  CHECK(by_engine.warps == 1);
  CHECK(by_engine.cycles == 1);  // whoever asks is not held
  CHECK(by_engine.variable_latency);
  CHECK(by_threads.async == graph::Async::threads);
  CHECK(by_threads.warps == 8);
  CHECK(by_threads.warp_cycles == 30);
  CHECK(by_threads.streaming);
  CHECK(by_registers.async == graph::Async::none);  // the put that follows says when they are there
  CHECK_FALSE(by_registers.variable_latency);
  CHECK(by_registers.warp_cycles == 30);
  CHECK(engine.arrival_cycles(2048) == tma.fact("copy_latency_cycles") + 2 * tma.fact("copy_cycles_per_kb"));
  CHECK(threads.latency_cycles() == tma.fact("thread_copy_latency_cycles"));

  Builder builder(amd);
  by_registers.latency = 700;
  const int load = builder.add(by_registers), put = builder.add(builder.single("Loader", "put", 8));
  builder.through_registers(load, put);
  REQUIRE(builder.graph_.edges.size() == 2);
  CHECK(builder.graph_.edges[0].delay == 700);
  CHECK(builder.graph_.edges[1].dst == load);  // whose registers are free again
  CHECK(builder.graph_.edges[1].distance == 1);
}

TEST_CASE("a multiplier: who asks, how long the unit is held, when sums are there") {
  const arch::Arch &groups = arch_of("sm_90a"), &tensor = arch_of("sm_100a");
  const double flops = 2.0 * 64 * 128 * 128;
  const Multiplier group(Multiplier::Way::warpgroup, groups), unit(Multiplier::Way::tensor_memory, tensor);
  const ops::Product of_group = group.product(flops, 128), of_unit = unit.product(flops, 128);
  CHECK(of_group.issue == ops::cycles(groups.fact("matrix_group_cycles")));
  CHECK(of_group.held == ops::cycles(flops / groups.fact("matrix_flops_per_cycle")));
  CHECK(of_group.latency == of_group.issue + of_group.held + ops::cycles(groups.fact("matrix_drain_cycles")));
  CHECK(group.product(flops, 128, 1).held < of_group.held);  // 8-bit elements
  CHECK(of_unit.issue == ops::cycles(tensor.fact("matrix_issue_cycles") * 128 / 16));
  CHECK(unit.product(1, 1024).held == unit.product(1, 1024).issue);  // no shorter than its instructions are asked for

  Builder builder(tensor);
  graph::Node n = builder.numbered("Product", "mma", 0);
  builder.multiply(n, unit, of_unit);
  CHECK(n.async == graph::Async::unit);
  CHECK(n.warps == 1);
  CHECK(n.latency == of_unit.latency);
  CHECK(n.reservations.front().cycles == of_unit.held);

  const arch::Arch &wave = arch_of("gfx1100"), &warp = arch_of("sm_80");
  const Work of_wave = Multiplier(Multiplier::Way::wave, wave).work(flops, 4096),
             of_warp = Multiplier(Multiplier::Way::warp, warp).work(flops, 4096);
  CHECK(of_warp.shared == 4096 / warp.fact("shared_bytes_per_cycle"));
  CHECK(of_warp.alu == 0);
  CHECK(of_wave.shared == 4096 * wave.fact("operand_copies") / wave.fact("shared_bytes_per_cycle"));
  CHECK(of_wave.alu == of_wave.matrix * wave.fact("matrix_lane_share"));  // its products run on the lanes that compute
}

TEST_CASE("a dimension of size 1 has no stride, and in a map a legal one, whatever the tensor says") {
  alignas(16) static std::uint16_t memory[64];
  Tensor tensor = Tensor::contiguous(memory, {DeviceKind::cpu, 0}, DType::f16, {1, 4, 16});
  tensor.strides[0] = 7;
  CHECK(ops::stride(tensor, 0) == 0);
  CHECK(ops::stride(tensor, 1) == 16);
  CHECK(ops::batch_stride(tensor, 3) == 0);
  tensor.shape[0] = 2;
  CHECK(ops::batch_stride(tensor, 3) == 7);
  CHECK(ops::batch_stride(tensor, 2) == 0);  // the tensor has no batch
  CHECK_FALSE(ops::wide(tensor, 16));        // matrices 14 bytes apart
  tensor.shape[0] = 1;
  CHECK(ops::wide(tensor, 16));
  const support::TensorMapDesc map = ops::tensor_map(tensor, {2, 1, 0, ops::kNoDimension}, {8, 2});
  CHECK(map.rank == 4);
  CHECK(map.dims == std::array<std::uint64_t, 5>{16, 4, 1, 1, 0});
  CHECK(map.stride_bytes == std::array<std::uint64_t, 5>{2, 32, 16, 16, 0});
  CHECK(map.box == std::array<std::uint32_t, 5>{8, 2, 1, 1, 0});
}
