// Requests of chunk_o; see chunk_o.hpp.
#include "ops/chunk_o/chunk_o.hpp"

#include <algorithm>

#include "ops/common/op_flags.hpp"
#include "ops/common/touched.hpp"
#include "ops/common/trial.hpp"
#include "ops/common/workloads.hpp"
#include "support/fail.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using support::cat;
using support::fail;

const std::vector<FlagChoice>& choices() {
  static constinit support::Lasting<const std::vector<FlagChoice>> all;
  return all.get([] {
    return std::vector<FlagChoice>{{"head-ratio", {"2", "1", "3", "6"}, 3},
                                   {"gated", {"true", "false", "both"}},
                                   {"variable", {"true", "false", "both"}},
                                   {"h-transposed", {"false", "true", "both"}},
                                   {"item-heads", {"auto", "1", "2", "3"}}};
  });
}

/// A field of a request, under its name on the command line.
void set(ChunkOKernel& kernel, std::string_view name, const std::string& value) {
  if (name == "head-ratio") kernel.divisor = value[0] - '0';
  if (name == "gated") kernel.gated = value == "true";
  if (name == "variable") kernel.variable = value == "true";
  if (name == "h-transposed") kernel.h_transposed = value == "true";
  if (name == "item-heads") kernel.heads = value == "auto" ? 0 : value[0] - '0';
}

bool fits(const ChunkOKernel& kernel) { return kernel.heads == 0 || kernel.divisor % kernel.heads == 0; }

class ChunkO final : public Op {
 public:
  std::string_view name() const override { return "chunk_o"; }

  void validate(const void* args, bool on_model) const override { ops::validate(get(args), on_model); }
  Device device_of(const void* args) const override { return get(args).q.device; }
  bool serves(const arch::Arch& arch) const override { return arch::serves(arch, chunk_o_needs()); }

  Request request_of(const void* args, const arch::Arch&) const override {
    return chunk_o_request(chunk_o_kernel(get(args)));
  }
  std::uint64_t small_key(const void* args, const arch::Arch&) const override {
    return chunk_o_small_key(chunk_o_kernel(get(args)));
  }

  std::vector<Request> requests(const Flags& flags) const override {
    const std::vector<ChunkOKernel> kernels = combinations<ChunkOKernel>("chunk_o", flags, choices(), set);
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
  Geometry geometry(const Request&, const Candidate& candidate) const override {
    for (const auto& [member, value] : candidate.graph.config)
      if (member == "static constexpr int kHeads") return {{"heads", std::stoi(value)}};
    return {};
  }
  std::vector<Trial> trials(const Flags& flags, const arch::Arch&) const override {
    Flags kernels = flags;
    const Sizes sizes(name(), kernels, {{"heads", 1}});
    const std::vector<std::int64_t> lengths = take_list(kernels, "lengths", {});
    std::vector<Trial> list;
    for (const ChunkOKernel& kernel : combinations<ChunkOKernel>(name(), kernels, first_of_each(choices()), set))
      for (const std::vector<std::int64_t>& each :
           lengths.empty() ? std::vector<std::vector<std::int64_t>>{{70, 64, 130}, {128, 128, 128}}
                           : std::vector<std::vector<std::int64_t>>{lengths})  // parts of chunks, whole ones
        list.push_back(chunk_o_trial(kernel, sizes.at("heads"), each));
    return list;
  }
  void touches(const void* args, Touched& memory) const override {
    const ChunkOArgs& of = get(args);
    for (const Tensor* each : {&of.q, &of.k, &of.v_new, &of.h}) memory.reads(*each);
    for (const auto* each : {&of.g_cu, &of.cu_seqlens, &of.chunk_indices, &of.total_chunks}) memory.reads(*each);
    memory.writes(of.o);
  }
  void plan(const void* args, const std::vector<std::int64_t>& geometry, LaunchPlan& plan) const override {
    chunk_o_plan(get(args), static_cast<int>(geometry[0]), plan);
  }

 private:
  static const ChunkOArgs& get(const void* args) { return *static_cast<const ChunkOArgs*>(args); }
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
  for (const ChunkOKernel& kernel : combinations<ChunkOKernel>("chunk_o", kernels, first_of_each(choices()), set))
    list.push_back({chunk_o_trial(kernel, sizes.at("heads"), lengths), 0});
  return list;
}

std::vector<TileCount> chunk_o_tiles(const void* args, const std::vector<std::int64_t>& geometry, unsigned blocks) {
  const auto& of = *static_cast<const ChunkOArgs*>(args);
  // A block walks its share of items as one tile. How many chunks the lists have is read on the device: as many as
  // there is room for.
  const std::int64_t items = of.h.shape[0] * (of.o.shape[1] / geometry[0]), walkers = std::max<std::int64_t>(blocks, 1);
  return {{std::min(items, walkers), (items + walkers - 1) / walkers}};
}

int chunk_o_divisor(std::int64_t heads) { return (heads % 2 == 0 ? 2 : 1) * (heads % 3 == 0 ? 3 : 1); }

ChunkOKernel chunk_o_kernel(const ChunkOArgs& args) {
  ChunkOKernel kernel;
  kernel.divisor = chunk_o_divisor(args.o.shape[1] / args.q.shape[1]);
  kernel.gated = args.g_cu.has_value();
  kernel.variable = args.cu_seqlens.has_value();
  kernel.h_transposed = args.h_transposed;
  return kernel;
}

ChunkOKernel chunk_o_kernel(const ChunkOConfig& config) {
  validate(config);
  return {chunk_o_divisor(config.v_heads_per_head), config.gated, config.variable_length, config.h_transposed, 0};
}

ChunkOKernel chunk_o_kernel(const Request& request) {
  ChunkOKernel kernel;
  for (const auto& [name, value] : request.fields) set(kernel, name, value);
  return kernel;
}

Request chunk_o_request(const ChunkOKernel& kernel) {
  const auto truth = [](bool value) { return value ? "true" : "false"; };
  Request request;
  request.op = "chunk_o";
  request.fields = {{"head-ratio", cat(kernel.divisor)},
                    {"gated", truth(kernel.gated)},
                    {"variable", truth(kernel.variable)},
                    {"h-transposed", truth(kernel.h_transposed)},
                    {"item-heads", kernel.heads == 0 ? "auto" : cat(kernel.heads)}};
  request.name = cat("chunk_o_r", kernel.divisor, kernel.gated ? "" : "_ungated", kernel.variable ? "" : "_equal",
                     kernel.h_transposed ? "_kv" : "", kernel.heads == 0 ? "" : cat("_h", kernel.heads));
  return request;
}

std::uint64_t chunk_o_small_key(const ChunkOKernel& kernel) {
  std::uint64_t key = static_cast<std::uint64_t>(kernel.divisor);
  for (const bool flag : {kernel.gated, kernel.variable, kernel.h_transposed})
    key = key << 1 | static_cast<std::uint64_t>(flag);
  return key << 2 | static_cast<std::uint64_t>(kernel.heads);
}

}  // namespace tj::ops
