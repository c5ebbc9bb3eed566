// See workloads.hpp: a line for each op that says more than its trials do.
#include "ops/common/workloads.hpp"

#include <utility>

#include "ops/chunk_o/chunk_o.hpp"
#include "ops/fmha/fmha.hpp"
#include "ops/gemm/gemm.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

struct Says {
  const Op* op;
  std::vector<Workload> (*workloads)(const Flags& flags, const arch::Arch& arch);
  std::vector<TileCount> (*tiles)(const void* args, const Geometry& geometry, unsigned blocks);
  double (*predicted_cycles)(const void* args, int choice, const arch::Arch& arch);
  std::string (*choice_text)(int choice);
};

/// Null for the others.
const Says* says(const Op& op) {
  static constinit support::Lasting<const std::vector<Says>> all;
  const auto make = [] {
    return std::vector<Says>{
        {&fmha_op(), fmha_workloads, fmha_tiles, nullptr, nullptr},
        {&gemm_op(), gemm_workloads, nullptr, gemm_predicted_cycles, gemm_choice_text},
        {&chunk_o_op(), chunk_o_workloads, chunk_o_tiles, nullptr, nullptr},
    };
  };
  for (const Says& each : all.get(make))
    if (each.op == &op) return &each;
  return nullptr;
}

}  // namespace

std::vector<Workload> workloads(const Op& op, const Flags& flags, const arch::Arch& arch) {
  if (const Says* of = says(op)) return of->workloads(flags, arch);
  std::vector<Workload> list;
  for (Trial& trial : op.trials(flags, arch)) list.push_back({std::move(trial), 0});
  return list;
}

std::vector<TileCount> tiles_of(const Op& op, const void* args, const Geometry& geometry, unsigned blocks) {
  const Says* of = says(op);
  return of != nullptr && of->tiles != nullptr ? of->tiles(args, geometry, blocks) : std::vector<TileCount>();
}

double predicted_cycles(const Op& op, const void* args, int choice, const arch::Arch& arch) {
  const Says* of = says(op);
  return of != nullptr && of->predicted_cycles != nullptr ? of->predicted_cycles(args, choice, arch) : 0;
}

std::string choice_text(const Op& op, int choice) {
  const Says* of = says(op);
  return of != nullptr && of->choice_text != nullptr ? of->choice_text(choice) : std::string();
}

}  // namespace tj::ops
