// y = a x + b as an op: requests, graph, launch.
//
//   load_x -> transform -> write      copy engine, four warps, two warps; a ring between each two
#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include <tilejit/affine.hpp>

#include "ops/affine/params.cuh"
#include "ops/common/described.hpp"
#include "ops/common/graph_builder.hpp"
#include "ops/common/tensor_args.hpp"
#include "ops/common/tensor_list.hpp"
#include "ops/common/trial.hpp"
#include "ops/op.hpp"
#include "support/c_structs.hpp"
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

AffineArgs affine_from_c(const void* structure) {
  using namespace support::c_structs;
  const tj_affine_args c = read(static_cast<const tj_affine_args*>(structure), "args");
  return {to_tensor(c.x, "x"), to_tensor(c.y, "y"), c.a, c.b};
}

void check(const char* name, const Tensor& tensor) {
  const bool fits = tensor.data != nullptr && tensor.dtype == DType::f32 && tensor.rank == 2 && tensor.shape[0] >= 1 &&
                    tensor.shape[1] >= 1 && tensor.shape[0] <= 1 << 24 && tensor.shape[1] <= 1 << 24 &&
                    tensor.strides[1] == 1 && tensor.strides[0] >= tensor.shape[1] && tensor.strides[0] % 4 == 0 &&
                    reinterpret_cast<std::uintptr_t>(tensor.data) % 16 == 0;
  if (!fits)
    fail(Stage::argument, Code::invalid_argument,
         cat(name, " must be a f32 matrix, rows contiguous, aligned and apart by multiples of 16 bytes"));
}

class Builder : GraphBuilder {
 public:
  explicit Builder(const arch::Arch& arch) : GraphBuilder("affine", arch.family, arch) {
    graph_.name = cat("affine_", kRows, "x", kColumns);
    graph_.machine.units.push_back({"WRITER", 1});
    graph_.flops_per_iteration = 2.0 * kRows * kColumns;
    known("kRows", launch_.rows, kRows);
    constant("kColumns", kColumns);
    constant("kWorkerWarps", arch.warps_per_group);
    constant("kWriterWarps", kWriterWarps);
  }

  Candidate build() {
    const std::int64_t bytes = kRows * kColumns * kElementBytes;
    const int x = value("x", bytes, Scope::iteration, 1, 6, 128), y = value("y", bytes, Scope::iteration, 1, 4, 128);
    const int work = cycles(kRows * kColumns / arch_.fact("f32_per_cycle")) + 40;  // and the latency of shared memory
    Node load = single("Loader", "load_x", 1), transform = single("Worker", "transform", arch_.warps_per_group),
         write = single("Writer", "write", kWriterWarps);
    const Copier engine(Copier::Way::engine, arch_);
    engine.issue(load, 1);
    load.latency = cycles(engine.arrival_cycles(static_cast<double>(bytes)));
    load.reservations = {of("TMA", cycles(engine.run_cycles(static_cast<double>(bytes))))};
    transform.cycles = transform.latency = work;
    transform.reservations = {of("ALU", work)};
    write.copy = 1;
    write.cycles = write.latency = 2 * work;
    write.reservations = {of("WRITER", 2 * work)};
    write.range = {graph::kFastVariant, graph::kFastBegin, {}};
    const int loaded = add(std::move(load)), transformed = add(std::move(transform)), written = add(std::move(write));
    then(loaded, transformed, 0, x);
    then(transformed, written, 0, y);
    Candidate made{std::move(graph_), 32, 2.0 * kRows * kColumns * 32};
    made.geometry = Geometry::of(launch_);
    return made;
  }

 private:
  AffineLaunch launch_;
};

class Affine final : public Described<AffineArgs, affine_from_c> {
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
  void tensors(void* args, TensorList& list) const override {
    list.reads("x", get(args).x);
    list.writes("y", get(args).y);
  }
  std::vector<NeededKernel> needed_kernels(const void*, const ChooseKernel& choose) const override {
    return {{this, choose({})}};
  }
  ProblemKey problem_key(const void*) const override { return {}; }
  Request request_of(const Kernel&) const override { return {"affine", {{"dtype", "f32"}}, "affine_f32"}; }
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
    return {Builder(arch).build()};
  }
  GeometryFields geometry_fields() const override { return kAffineGeometry; }
  void plan(const void* args, const Kernel&, const Geometry& geometry, LaunchPlan& plan) const override {
    const AffineArgs& in = get(args);
    auto& p = *new (plan.params.data()) affine::Params{};
    plan.params_bytes = sizeof(p);
    support::TensorMapDesc map = tensor_map(in.x, {1, 0, kNoDimension, kNoDimension}, {kColumns, kRows});
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
