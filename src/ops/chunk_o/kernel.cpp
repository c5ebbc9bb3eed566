// Requests of chunk_o; see chunk_o.hpp.
#include "ops/chunk_o/chunk_o.hpp"

#include <algorithm>

#include "ops/chunk_o/fields.hpp"
#include "ops/common/described.hpp"
#include "ops/common/op_flags.hpp"
#include "ops/common/tensor_list.hpp"
#include "ops/common/trial.hpp"
#include "ops/common/workloads.hpp"
#include "support/fail.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using support::cat;
using support::fail;

constexpr std::size_t kLimit = 3;  // the place of max_sms in a problem's key; no item is measured for one

/// The kernels of a command line, with one value for a field that it leaves out.
std::vector<ChunkOKernel> usual_kernels(const Flags& flags) {
  return kernels_of_flags<kChunkOFields, ChunkOKernel>("chunk_o", flags,
                                                       first_of_each(choices_of_fields<kChunkOFields>()));
}

bool fits(const ChunkOKernel& kernel) { return kernel.heads == 0 || kernel.divisor % kernel.heads == 0; }

class ChunkO final : public Described<ChunkOArgs, chunk_o_from_c> {
 public:
  std::string_view name() const override { return "chunk_o"; }

  void validate(const void* args, bool on_model) const override { ops::validate(get(args), on_model); }
  void check_lists(const void* args, const ReadList& read) const override { check_chunks(get(args), read); }
  Device device_of(const void* args) const override { return get(args).q.device; }
  bool asks_for_nothing(const void* args) const override { return chunk_o_nothing(get(args)); }
  bool serves(const arch::Arch& arch) const override { return arch::serves(arch, chunk_o_needs(arch)); }

  ProblemKey problem_key(const void* args) const override {
    ProblemKey key = chunk_o_problem_key(chunk_o_kernel(get(args)), chunk_o_sizes(get(args)));
    key.sizes[kLimit] = get(args).max_sms;
    return key;
  }
  /// A choice is the heads of an item; 0: the scheduler's.
  Kernel kernel_of(const ProblemKey& problem, int choice) const override {
    ChunkOKernel kernel = kernel_of_key<kChunkOFields, ChunkOKernel>(problem.kind);
    kernel.heads = choice;
    return {chunk_o_small_key(kernel), choice};
  }
  const Tunable* tunable() const override { return &chunk_o_tunable(); }
  Request request_of(const Kernel& kernel) const override {
    return chunk_o_request(kernel_of_key<kChunkOFields, ChunkOKernel>(kernel.small_key));
  }

  Kernel kernel_of(const Request& request) const override { return {chunk_o_small_key(chunk_o_kernel(request))}; }
  std::vector<NeededKernel> needed_kernels(const void* config, const ChooseKernel& choose) const override {
    return {{this, choose({chunk_o_small_key(chunk_o_kernel(*static_cast<const ChunkOConfig*>(config)))})}};
  }

  std::vector<Request> requests(const Flags& flags) const override {
    const std::vector<ChunkOKernel> kernels =
        kernels_of_flags<kChunkOFields, ChunkOKernel>("chunk_o", flags, choices_of_fields<kChunkOFields>());
    std::vector<Request> list;
    for (const ChunkOKernel& kernel : kernels)
      if (fits(kernel)) list.push_back(chunk_o_request(kernel));
    if (list.empty())
      fail(Stage::argument, Code::invalid_argument,
           cat("--item-heads is '", kernels.front().heads, "'; allowed with --head-ratio ", kernels.front().divisor,
               ": auto, or what divides it"));
    return list;
  }

  std::vector<Candidate> candidates(const Request& request, const arch::Arch& arch) const override {
    return chunk_o_candidates(chunk_o_kernel(request), arch);
  }
  GeometryFields geometry_fields() const override { return kChunkOGeometry; }
  std::vector<Trial> trials(const Flags& flags, const arch::Arch&) const override {
    Flags kernels = flags;
    const Sizes sizes(name(), kernels, {{"heads", 1}});
    const std::vector<std::int64_t> lengths = take_list(kernels, "lengths", {});
    std::vector<Trial> list;
    for (const ChunkOKernel& kernel : usual_kernels(kernels))
      for (const std::vector<std::int64_t>& each :
           lengths.empty()
               ? std::vector<std::vector<std::int64_t>>{{70, 64, 130}, {128, 128, 128}, {1}}
               : std::vector<std::vector<std::int64_t>>{lengths})  // parts of chunks, whole ones, blocks of one item
        list.push_back(chunk_o_trial(kernel, sizes.at("heads"), each));
    return list;
  }
  void tensors(void* args, TensorList& list) const override {
    ChunkOArgs& of = get(args);
    list.reads("q", of.q);
    list.reads("k", of.k);
    list.reads("v_new", of.v_new);
    list.reads("h", of.h);
    list.writes("o", of.o);
    list.reads("g_cu", of.g_cu);
    list.reads("cu_seqlens", of.cu_seqlens);
    list.reads("chunk_indices", of.chunk_indices);
    list.reads("total_chunks", of.total_chunks);
  }
  void plan(const void* args, const Kernel&, const Geometry& geometry, LaunchPlan& plan) const override {
    chunk_o_plan(get(args), geometry.as<ChunkOLaunch>(), plan);
  }
};

}  // namespace

const Op& chunk_o_op() {
  static constinit support::Lasting<const ChunkO> op;
  return op.get();
}

std::vector<Workload> chunk_o_workloads(const Flags& flags, const arch::Arch&) {
  Flags kernels = flags;
  const Sizes sizes("chunk_o", kernels, {{"heads", 16}});
  const std::vector<std::int64_t> lengths = take_list(kernels, "lengths", {8192});
  std::vector<Workload> list;
  for (const ChunkOKernel& kernel : usual_kernels(kernels))
    list.push_back({chunk_o_trial(kernel, sizes.at("heads"), lengths), 0});
  return list;
}

std::vector<TileCount> chunk_o_tiles(const void* args, const Geometry& geometry, unsigned blocks) {
  const auto& of = *static_cast<const ChunkOArgs*>(args);
  // A block walks its share of items as one tile. How many chunks the lists have is read on the device: as many as
  // there is room for.
  const auto kernel = geometry.as<ChunkOLaunch>();
  const std::int64_t items = of.h.shape[0] * (of.o.shape[1] / kernel.heads * kernel.parts),
                     walkers = std::max<std::int64_t>(blocks, 1);
  return {{std::min(items, walkers), (items + walkers - 1) / walkers}};
}

int chunk_o_divisor(std::int64_t heads) { return (heads % 2 == 0 ? 2 : 1) * (heads % 3 == 0 ? 3 : 1); }

ChunkOKernel chunk_o_kernel(const ChunkOArgs& args) {
  ChunkOKernel kernel;
  kernel.divisor = chunk_o_divisor(args.o.shape[1] / args.q.shape[1]);
  kernel.gated = args.g_cu.has_value();
  kernel.variable = args.cu_seqlens.has_value();
  kernel.h_transposed = args.h_transposed;
  kernel.stages = args.num_stages;
  kernel.evict_first = args.evict_first;
  return kernel;
}

ChunkOKernel chunk_o_kernel(const ChunkOConfig& config) {
  validate(config);
  return {chunk_o_divisor(config.v_heads_per_head),
          config.gated,
          config.variable_length,
          config.h_transposed,
          0,
          config.num_stages,
          config.evict_first};
}

ChunkOKernel chunk_o_kernel(const Request& request) { return kernel_of_fields<kChunkOFields, ChunkOKernel>(request); }

Request chunk_o_request(const ChunkOKernel& kernel) { return request_of_fields<kChunkOFields>("chunk_o", kernel); }

std::uint64_t chunk_o_small_key(const ChunkOKernel& kernel) { return key_of_fields<kChunkOFields>(kernel); }

}  // namespace tj::ops
