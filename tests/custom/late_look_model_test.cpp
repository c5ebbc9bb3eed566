// Protects users' kernels whose role looks at a product only where it waits for a later one. Slots are those of the
// steady loop, so the first iterations look where all others do. With a slot less, the model reports a deadlock.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codegen/emit.hpp"
#include "codegen/load_unit.hpp"
#include "custom/sample_kernel.hpp"
#include "custom/sample_problem.hpp"
#include "graph/graph.hpp"
#include "model/model.hpp"
#include "ops/common/machine.hpp"
#include "sched/schedule.hpp"
#include "sched/tile_level.hpp"

namespace {

using namespace tj;

constexpr Device kCpu{DeviceKind::cpu, 0};

/// An iteration multiplies two steps of K, each by a product of its own. `second` begins so late that the role runs
/// `first` ahead of it, and only `second` is waited for.
constexpr const char* kLoop = R"(
  "instructions": [
    {"name": "load_a", "context": "Loader", "cycles": 186, "fu": "TMA", "issue_cycles": 1, "latency": 676, "variable_latency": true},
    {"name": "load_b", "context": "Loader", "cycles": 372, "fu": "TMA", "issue_cycles": 1, "latency": 862, "variable_latency": true},
    {"name": "next_a", "context": "Loader", "cycles": 186, "fu": "TMA", "issue_cycles": 1, "latency": 676, "variable_latency": true},
    {"name": "next_b", "context": "Loader", "cycles": 372, "fu": "TMA", "issue_cycles": 1, "latency": 862, "variable_latency": true},
    {"name": "begin.0", "body": "begin", "context": "Consumer", "scope": "tile_begin", "cycles": 128},
    {"name": "first.0", "body": "mma", "context": "Consumer", "async": "matrix", "cycles": 600, "fu": "TC", "issue_cycles": 88, "warp_cycles": 88, "latency": 690, "registers": 16},
    {"name": "second.0", "body": "mma", "context": "Consumer", "async": "matrix", "cycles": 600, "fu": "TC", "issue_cycles": 88, "warp_cycles": 88, "latency": 690, "registers": 16},
    {"name": "bias_gelu.0", "body": "bias_gelu", "context": "Consumer", "scope": "tile_end", "cycles": 2500}
  ],
  "values": [
    {"name": "a", "slot_bytes": 16384, "min_slots": 1, "max_slots": 4},
    {"name": "b", "slot_bytes": 32768, "min_slots": 1, "max_slots": 4},
    {"name": "c", "slot_bytes": 16384, "min_slots": 1, "max_slots": 4},
    {"name": "d", "slot_bytes": 32768, "min_slots": 1, "max_slots": 4}
  ],
  "edges": [
    {"src": "load_a", "dst": "first.0", "delay": 676, "value": "a"},
    {"src": "load_b", "dst": "first.0", "delay": 862, "value": "b"},
    {"src": "next_a", "dst": "second.0", "delay": 676, "value": "c"},
    {"src": "next_b", "dst": "second.0", "delay": 862, "value": "d"},
    {"src": "begin.0", "dst": "first.0", "delay": 0},
    {"src": "first.0", "dst": "second.0", "delay": 690, "same_role": true},
    {"src": "second.0", "dst": "second.0", "delay": 690, "delta": 1, "blocking": true},
    {"src": "first.0", "dst": "bias_gelu.0", "delay": 690, "blocking": true},
    {"src": "second.0", "dst": "bias_gelu.0", "delay": 690, "blocking": true}
  ]
})";

constexpr const char* kNext = R"(
template <class C>
TJ_DEVICE void next_a(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full) {
  dev::copy_box_4d(slot, &loader.params.a, full, (2 * i + 1) * C::kBlockK, tile.row, 0, 0);
}
template <class C>
TJ_DEVICE void next_b(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full) {
  dev::copy_box_4d(slot, &loader.params.b, full, (2 * i + 1) * C::kBlockK, tile.column, 0, 0);
}
// ---- products)";

void make_late(test::SampleKernel& sample) {
  sample.edit("(params.k + C::kBlockK - 1) / C::kBlockK", "(params.k + 2 * C::kBlockK - 1) / (2 * C::kBlockK)");
  sample.edit("full, i * C::kBlockK", "full, 2 * i * C::kBlockK");
  sample.edit("full, i * C::kBlockK", "full, 2 * i * C::kBlockK");
  sample.edit("\n// ---- products", kNext);
  std::string& graph = sample.description.graph;
  graph.replace(graph.find("\"trials\""), std::string::npos, kLoop + 1);
}

/// What the model says of the kernel with so many slots less of the rings of `first`; "" when it ends.
std::string with_fewer_slots(const test::SampleKernel& sample, const sample::gemm_gelu::Params& params, int fewer) {
  const graph::Graph graph = ops::read_graph(sample.description.graph, "late look");
  sched::Schedule schedule = sched::schedule(graph);
  CHECK(sched::verify(graph, schedule).empty());
  for (sched::Ring& ring : schedule.rings)
    if (ring.value < 2) ring.slots -= fewer;
  CHECK(sched::verify(graph, schedule).empty() == (fewer == 0));
  const codegen::Unit unit = codegen::emit(graph, schedule, "sm90");
  const std::shared_ptr<model::ModelDriver> driver = model::open_model_driver();
  const auto kernel =
      test::load_unit(*driver, unit, "sm_90a",
                      {{"gemm_gelu.cuh", testing::read_bytes(sample.folder() + "/gemm_gelu.cuh")},
                       {"gemm_gelu_params.cuh", testing::read_bytes(sample.folder() + "/gemm_gelu_params.cuh")}});
  try {
    driver->launch(0, *kernel, {{1, 1, 1}, unit.shape}, &params, sizeof(params), {});
  } catch (const Error& e) {
    CHECK(e.code == Code::deadlock);
    return e.message;
  }
  return "";
}

struct LateSample : test::SampleKernel {
  LateSample() { make_late(*this); }
};
/// The kernel on the model, with a cache of its own.
struct Late {
  testing::Scratch scratch;
  Runtime runtime{options()};
  LateSample sample;
  custom::Kernel kernel{runtime, sample.description};

  Options options() const {
    Options of;
    of.target = "model:sm_90a";
    of.cache_dir = scratch / "cache";
    of.log_level = LogLevel::off;
    return of;
  }
};

}  // namespace

TEST_CASE("the schedule runs ahead of what is waited for, and a tile has a period") {
  test::SampleKernel sample;
  make_late(sample);
  const graph::Graph graph = ops::read_graph(sample.description.graph, "late look");
  const sched::Schedule schedule = sched::schedule(graph);
  INFO(sched::to_text(graph, schedule));
  const auto cycle = [&](const char* name) { return schedule.cycle[static_cast<std::size_t>(graph.node_index(name))]; };
  CHECK(cycle("second.0") - cycle("first.0") > schedule.ii);
  CHECK(schedule.rings[0].slots == 2);
  CHECK(sched::tile_level(graph, schedule).has_value());
}

TEST_CASE("tiles of one to seven iterations are right, one after another") {
  Late late;
  for (const int k : {8, 64, 136, 264, 392, 520, 896}) {
    CAPTURE(k);
    test::SampleProblem problem(late.runtime, kCpu, 60, 520, k, 5);
    problem.run(late.kernel, 1);  // three tiles in one block
    CHECK(problem.error() < test::kMaxSampleError);
  }
}

TEST_CASE("a slot less is a deadlock, which the model reports") {
  Late late;
  const int m = 60, n = 200, k = 904;
  std::vector<std::uint16_t> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(n * k));
  std::vector<std::uint16_t> d(static_cast<std::size_t>(m * n));
  const std::vector<float> bias(static_cast<std::size_t>(n));
  sample::gemm_gelu::Params params;
  params.a = late.kernel.tensor_map(Tensor::contiguous(a.data(), kCpu, DType::f16, {1, 1, m, k}),
                                    custom::Box{{1, 1, 128, 64}});
  params.b = late.kernel.tensor_map(Tensor::contiguous(b.data(), kCpu, DType::f16, {1, 1, n, k}),
                                    custom::Box{{1, 1, 256, 64}});
  params.bias = bias.data();
  params.d = d.data();
  params.m = m, params.n = n, params.k = k;
  params.row_blocks = params.tiles = 1;
  CHECK(with_fewer_slots(late.sample, params, 0) == "");
  const std::string found = with_fewer_slots(late.sample, params, 1);
  CHECK_MESSAGE(testing::has(found, "deadlock"), found);
}
