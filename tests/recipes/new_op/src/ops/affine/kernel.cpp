// y = a x + b as an op: requests, graph, launch.
//
//   load_x -> transform -> write      copy engine, four warps, two warps; a ring between each two
#include <algorithm>
#include <array>
#include <cmath>
#include <new>

#include <tilejit/ops.hpp>

#include "ops/affine/params.cuh"
#include "ops/common/machine.hpp"
#include "ops/common/trial.hpp"
#include "ops/op.hpp"
#include "support/fail.hpp"

namespace tj::ops {
namespace {

using support::cat;
using support::fail;

constexpr int kRows = 32, kColumns = 32;
constexpr int kElementBytes = 4;
constexpr int kWriterWarps = 2;

/// Numbers of its kernel that a launch must know.
struct AffineLaunch {
  int rows = 0;  ///< of a tile
};
constexpr std::array kAffineGeometry = {geometry_field<&AffineLaunch::rows>("rows")};

const arch::Needs kNeeds = {{"TMA", "ALU"}, {"copy_latency_cycles", "copy_cycles_per_kb", "f32_per_cycle"}};

const AffineArgs& get(const void* args) { return *static_cast<const AffineArgs*>(args); }

void check(const char* name, const Tensor& tensor) {
  const bool fits = tensor.data != nullptr && tensor.dtype == DType::f32 && tensor.rank == 2 && tensor.shape[0] >= 1 &&
                    tensor.shape[1] >= 1 && tensor.shape[0] <= 1 << 24 && tensor.shape[1] <= 1 << 24 &&
                    tensor.strides[1] == 1 && tensor.strides[0] >= tensor.shape[1] && tensor.strides[0] % 4 == 0 &&
                    reinterpret_cast<std::uintptr_t>(tensor.data) % 16 == 0;
  if (!fits)
    fail(Stage::argument, Code::invalid_argument,
         cat(name, " must be a f32 matrix, rows contiguous, aligned and apart by multiples of 16 bytes"));
}

int ceil_cycles(double value) { return static_cast<int>(std::ceil(value)); }

graph::Node node(const char* name, const char* context, int copy, int warps, int unit, int cycles) {
  graph::Node n;
  n.name = n.body = name;
  n.context = context;
  n.copy = copy;
  n.warps = warps;
  n.reservations = {{unit, 0, cycles, 1}};
  n.cycles = n.latency = cycles;
  return n;
}

graph::Graph affine_graph(const arch::Arch& arch) {
  graph::Graph g;
  g.name = cat("affine_", kRows, "x", kColumns);
  g.machine = machine_of(arch);
  g.machine.units.push_back({"WRITER", 1});
  g.namespace_name = "tj::ops::affine";
  g.includes = {cat("ops/affine/", arch.family, ".cuh")};
  g.params_type = "tj::ops::affine::Params";
  g.config = {{"static constexpr int kRows", cat(kRows)},
              {"static constexpr int kColumns", cat(kColumns)},
              {"static constexpr int kWorkerWarps", cat(arch.warps_per_group)},
              {"static constexpr int kWriterWarps", cat(kWriterWarps)}};
  const std::int64_t bytes = kRows * kColumns * kElementBytes;
  g.values = {{"x", bytes, 128, graph::Scope::iteration, 1, 6}, {"y", bytes, 128, graph::Scope::iteration, 1, 4}};
  const int copy = ceil_cycles(static_cast<double>(bytes) / 1024 * arch.fact("copy_cycles_per_kb"));
  const int work = ceil_cycles(kRows * kColumns / arch.fact("f32_per_cycle")) + 40;  // and the latency of shared memory
  g.nodes = {node("load_x", "Loader", 0, 1, g.machine.unit_index("TMA"), copy),
             node("transform", "Worker", 0, arch.warps_per_group, g.machine.unit_index("ALU"), work),
             node("write", "Writer", 1, kWriterWarps, g.machine.unit_index("WRITER"), 2 * work)};
  g.nodes[0].async = graph::Async::copy;
  g.nodes[0].variable_latency = g.nodes[0].streaming = true;
  g.nodes[0].cycles = 1;
  g.nodes[0].latency = copy + ceil_cycles(arch.fact("copy_latency_cycles"));
  g.nodes[2].has_fast_variant = true;
  g.edges = {{0, 1, g.nodes[0].latency, 0, false, 0}, {1, 2, work, 0, false, 1}};
  g.flops_per_iteration = 2.0 * kRows * kColumns;
  return g;
}

class Affine final : public Op {
 public:
  std::string_view name() const override { return "affine"; }
  void validate(const void* args, bool) const override {
    check("x", get(args).x);
    check("y", get(args).y);
    if (get(args).x.shape != get(args).y.shape)
      fail(Stage::argument, Code::invalid_argument, "x and y must have one shape");
    if (!(get(args).x.device == get(args).y.device))
      fail(Stage::argument, Code::invalid_argument, "x and y must be on one device");
  }
  Device device_of(const void* args) const override { return get(args).x.device; }
  std::uint64_t small_key(const void*, const arch::Arch&) const override { return 0; }
  Request request_of(const void*, const arch::Arch&) const override {
    return {"affine", {{"dtype", "f32"}}, "affine_f32"};
  }
  std::vector<Request> requests(const std::map<std::string, std::vector<std::string>>& flags) const override {
    if (!flags.empty())
      fail(Stage::argument, Code::invalid_argument,
           cat("--", flags.begin()->first, " means nothing to affine; it has no flags"));
    return {{"affine", {{"dtype", "f32"}}, "affine_f32"}};
  }
  std::vector<Trial> trials(const std::map<std::string, std::vector<std::string>>& given,
                            const arch::Arch&) const override {
    Flags flags = given;
    const Sizes sizes(name(), flags, {{"rows", 70}, {"columns", 320}});
    requests(flags);  // refuses all others
    const std::int64_t rows = sizes.at("rows"), columns = (sizes.at("columns") + 3) / 4 * 4;
    Trial trial;
    trial.name = cat(rows, "x", columns);
    trial.flags = sizes.flags();
    trial.tensors = {dense("x", DType::f32, {rows, columns}), dense("y", DType::f32, {rows, columns}, true)};
    trial.with_args = [tensors = trial.tensors](Device device, std::span<void* const> places,
                                                const std::function<void(const void*)>& use) {
      const AffineArgs args{tensors[0].operand.view(device, places[0]), tensors[1].operand.view(device, places[1]), 2,
                            1};
      use(&args);
    };
    return {std::move(trial)};
  }
  std::vector<Candidate> candidates(const Request&, const arch::Arch& arch) const override {
    arch::require(arch, "affine", kNeeds);
    return {{affine_graph(arch), 32, 2.0 * kRows * kColumns * 32}};
  }
  Geometry geometry(const Request&, const Candidate&) const override { return Geometry::of(AffineLaunch{kRows}); }
  GeometryFields geometry_fields() const override { return kAffineGeometry; }
  void plan(const void* args, const Geometry& geometry, LaunchPlan& plan) const override {
    const AffineArgs& in = get(args);
    auto& p = *new (plan.params.data()) affine::Params{};
    plan.params_bytes = sizeof(p);
    support::TensorMapDesc map;
    map.base = in.x.data;
    map.dtype = DType::f32;
    map.rank = 4;
    const auto rows = static_cast<std::uint64_t>(in.x.shape[0]),
               pitch = static_cast<std::uint64_t>(in.x.strides[0]) * kElementBytes;
    map.dims = {static_cast<std::uint64_t>(in.x.shape[1]), rows, 1, 1, 0};
    map.stride_bytes = {kElementBytes, pitch, pitch * rows, pitch * rows, 0};
    map.box = {kColumns, kRows, 1, 1, 0};
    map.swizzle_bytes = 0;
    plan.maps[0] = {offsetof(affine::Params, x), map};
    plan.map_count = 1;
    p.y = static_cast<float*>(in.y.data);
    p.y_stride_row = in.y.strides[0];
    p.rows = static_cast<int>(in.x.shape[0]);
    p.columns = static_cast<int>(in.x.shape[1]);
    p.a = in.a;
    p.b = in.b;
    const int rows_of_tile = geometry.as<AffineLaunch>().rows;
    const auto tiles = static_cast<unsigned>((p.rows + rows_of_tile - 1) / rows_of_tile);
    plan.blocks = plan.sm_count == 0 ? tiles : std::min(tiles, plan.sm_count);
  }
};

}  // namespace

const Op& affine_op() {
  static const Affine op;
  return op;
}

}  // namespace tj::ops
