// Copying rows: request, graph, launch; see copy_rows.hpp. One kernel serves all types and sizes.
#include "ops/copy_rows/copy_rows.hpp"

#include <algorithm>
#include <new>

#include "ops/common/tensor_checks.hpp"
#include "ops/common/touched.hpp"
#include "ops/common/trial.hpp"
#include "ops/common/walk.hpp"
#include "ops/copy_rows/params.cuh"
#include "support/fail.hpp"
#include "support/lasting.hpp"
#include "support/text.hpp"

namespace tj::ops {
namespace {

using support::cat;
using support::fail;

constexpr int kWarps = 8;                 // rows of a block
constexpr unsigned kBlocksPerSm = 16;     // more than run at a time: rows are short work
constexpr double kTypicalIterations = 1;  // of a tile

const arch::Needs& kNeeds = support::lasting<arch::Needs>({{"ALU"}, {"memory_bytes_per_cycle"}});

// One node, which waits for what it loads: blocks side by side hide that.
class Builder : WalkBuilder {
 public:
  Builder(const Request& request, const arch::Arch& arch)
      : WalkBuilder("copy_rows", "Mover", kWarps, arch, kernel_of_fields<kWalkFields, WalkKernel>(request).walk) {
    graph_.name = request.name;
  }

  Candidate build() {
    constant("kWarps", kWarps);
    constant("kLanes", arch_.warp_size);
    brings("move_row", 2.0 * kWarps * copy_rows::kPartBytes);  // read and written
    return candidate(kTypicalIterations);
  }
};

class CopyRows final : public Op {
 public:
  std::string_view name() const override { return "copy_rows"; }

  void validate(const void* args, bool) const override {
    const Tensor &source = get(args).source, &destination = get(args).destination;
    if (source.rank != destination.rank || (source.rank != 2 && source.rank != 3))
      fail(Stage::argument, Code::invalid_argument,
           cat("copy_rows: source and destination have ranks ", source.rank, " and ", destination.rank,
               "; allowed: 2 or 3, the same"));
    std::int64_t rows = 1;
    bool sized = true;
    for (int i = 0; i < source.rank; ++i) {
      const std::int64_t size = source.shape[static_cast<std::size_t>(i)];
      sized = sized && size >= 1 && size <= kMaxSize && (i == source.rank - 1 || rows <= kMaxSize / size);
      if (sized && i < source.rank - 1) rows *= size;
    }
    const auto last = static_cast<std::size_t>(source.rank - 1);
    const bool alike =
        source.shape == destination.shape && source.dtype == destination.dtype && source.device == destination.device;
    const bool dense =
        (source.shape[last] == 1 || source.strides[last] == 1) && copy_aligned(destination, destination.rank - 1);
    if (!alike || !sized || !dense || source.data == nullptr || destination.data == nullptr)
      fail(Stage::argument, Code::invalid_argument,
           cat("copy_rows: source and destination are ", shape_text(source), " and ", shape_text(destination),
               "; allowed: equal shapes, types and devices, sizes from 1, at most ", kMaxSize,
               " rows, the last dimension dense, the destination's rows at multiples of 16 bytes"));
  }
  Device device_of(const void* args) const override { return get(args).destination.device; }
  bool serves(const arch::Arch& arch) const override { return arch::serves(arch, {kNeeds}); }

  ProblemKey problem_key(const void*) const override { return {}; }
  Request request_of(const Kernel& kernel) const override {
    return request(kernel_of_key<kWalkFields, WalkKernel>(kernel.small_key));
  }
  std::vector<Request> requests(const std::map<std::string, std::vector<std::string>>& flags) const override {
    if (!flags.empty())
      fail(Stage::argument, Code::invalid_argument,
           cat("--", support::shown(flags.begin()->first), " means nothing to copy_rows; allowed are no flags"));
    return {request()};
  }

  std::vector<Trial> trials(const std::map<std::string, std::vector<std::string>>& given,
                            const arch::Arch&) const override {
    Flags flags = given;
    const Sizes sizes(name(), flags, {{"batch", 1}, {"rows", 33}, {"columns", 700}});
    requests(flags);  // refuses all others
    const std::int64_t batch = sizes.at("batch"), rows = sizes.at("rows"), columns = sizes.at("columns"),
                       pitch = (columns + 7) / 8 * 8;
    Trial trial;
    trial.name = cat(batch, "x", rows, "x", columns);
    trial.flags = sizes.flags();
    trial.tensors = {dense("source", DType::f16, {batch, rows, columns}),
                     {"destination", {DType::f16, {batch, rows, columns}, {rows * pitch, pitch, 1}}, true}};
    trial.tensors[1].room = static_cast<std::size_t>(batch * rows * pitch);
    trial.with_args = [tensors = trial.tensors](Device device, std::span<void* const> places,
                                                const std::function<void(const void*)>& use) {
      const CopyRowsArgs args{tensors[0].operand.view(device, places[0]), tensors[1].operand.view(device, places[1])};
      use(&args);
    };
    return {std::move(trial)};
  }

  std::vector<Candidate> candidates(const Request& request, const arch::Arch& arch) const override {
    arch::require(arch, "copy_rows", kNeeds);
    return {Builder(request, arch).build()};
  }
  GeometryFields geometry_fields() const override { return kWalkGeometry; }

  void touches(const void* args, Touched& memory) const override {
    memory.reads(get(args).source, 4);         // by aligned words
    memory.writes(get(args).destination, 16);  // the rest of a row's last 16 bytes becomes zero
  }
  void plan(const void* args, const Kernel&, const Geometry& geometry, LaunchPlan& plan) const override {
    const auto& [source, destination, max_sms] = get(args);
    const auto rows = static_cast<std::size_t>(source.rank - 2), columns = rows + 1;
    const std::int64_t batch = source.rank == 3 ? source.shape[0] : 1, bytes = size_of(source.dtype);
    auto& p = *new (plan.params.data()) copy_rows::Params{};
    plan.params_bytes = sizeof(copy_rows::Params);
    p.source = source.data;
    p.destination = destination.data;
    p.source_batch_bytes = source.rank == 3 && batch > 1 ? source.strides[0] * bytes : 0;
    p.source_row_bytes = source.shape[rows] > 1 ? source.strides[rows] * bytes : 0;
    p.row_pitch = destination.strides[rows] * bytes;
    p.row_bytes = source.shape[columns] * bytes;
    p.rows = static_cast<int>(source.shape[rows]);
    p.all_rows = static_cast<int>(source.shape[rows] * batch);
    const std::int64_t row_blocks = (p.all_rows + kWarps - 1) / kWarps,
                       parts = (p.row_bytes + copy_rows::kPartBytes - 1) / copy_rows::kPartBytes;
    // A part each, but for so many that they could not be counted.
    const std::int64_t most = std::min<std::int64_t>(parts, kMaxSize / row_blocks), each = (parts + most - 1) / most;
    p.row_parts = static_cast<int>(parts);
    p.tile_parts = static_cast<int>(each);
    p.row_tiles = static_cast<int>((parts + each - 1) / each);
    p.tiles = static_cast<int>(row_blocks) * p.row_tiles;
    walk_tiles(p.tiles, kBlocksPerSm, geometry, max_sms, plan);
  }

 private:
  static const CopyRowsArgs& get(const void* args) { return *static_cast<const CopyRowsArgs*>(args); }
  static Request request(const WalkKernel& kernel = {}) { return request_of_fields<kWalkFields>("copy_rows", kernel); }
};

}  // namespace

const Op& copy_rows_op() {
  static constinit support::Lasting<const CopyRows> op;
  return op.get();
}

Kernel copy_rows_kernel(bool draws) {
  return {key_of_fields<kWalkFields>(WalkKernel{draws ? WalkChoice::dynamic : WalkChoice::usual})};
}

}  // namespace tj::ops
