// The family of chunk_o's kernels that serves an arch, and the items that are tried there; see family.hpp.
#include "ops/chunk_o/family.hpp"
#include "ops/chunk_o/fields.hpp"

#include <algorithm>
#include <utility>

#include "support/fail.hpp"

// One line for each family: src/ops/chunk_o/<name>.cpp defines const ChunkOFamily& chunk_o_<name>().
#define TJ_CHUNK_O_FAMILIES(FAMILY) \
  FAMILY(sm80)                      \
  FAMILY(sm90)                      \
  FAMILY(sm100)                     \
  FAMILY(amd)

namespace tj::ops {

#define TJ_DECLARE(name) const ChunkOFamily& chunk_o_##name();
TJ_CHUNK_O_FAMILIES(TJ_DECLARE)
#undef TJ_DECLARE

using support::cat;

namespace {

constexpr double kTypicalItems = 128 * 32;  // value heads and chunks: 8192 tokens of 32 heads

#define TJ_LIST(name) chunk_o_##name,
constexpr const ChunkOFamily& (*kFamilies[])() = {TJ_CHUNK_O_FAMILIES(TJ_LIST)};
#undef TJ_LIST

const ChunkOFamily& family_of(const arch::Arch& arch) {
  for (const auto& family : kFamilies)
    if (family().name == arch.family) return family();
  support::fail(Stage::target, Code::unsupported,
                cat("chunk_o has no node bodies for family '", arch.family, "' of '", arch.name, "'"));
}

void require_heads(const ChunkOFamily& family, int heads, const arch::Arch& arch) {
  if (heads <= family.most_heads) return;
  std::string allowed = "auto";
  for (int each = 1; each <= family.most_heads; ++each) allowed += cat(", ", each);
  support::fail(Stage::argument, Code::unsupported,
                cat("--item-heads is '", heads, "'; allowed on ", arch.name, ": ", allowed));
}

ChunkOLaunch launch_of(const ChunkOFamily& family, int heads, const arch::Arch& arch) {
  ChunkOLaunch launch = family.launch == nullptr ? ChunkOLaunch{} : family.launch(arch);
  launch.heads = heads;
  return launch;
}

/// Hints to L2 are the copy engine's.
void require_hints(const ChunkOKernel& kernel, const ChunkOLaunch& launch, const arch::Arch& arch) {
  if (!kernel.evict_first || launch.bulk_copies) return;
  support::fail(Stage::argument, Code::unsupported,
                cat("chunk_o: evict_first is true; allowed on ", arch.name,
                    ", whose threads copy: false, as hints to L2 are the copy engine's"));
}

/// Have all rings of the graph room for their fewest slots?
bool rings_fit(const graph::Graph& graph) {
  constexpr std::int64_t kBarrierBytes = 1024;
  std::int64_t bytes = kBarrierBytes;
  for (const graph::Value& value : graph.values)
    if (value.space == graph::Space::shared) bytes += value.min_slots * value.slot_bytes;
  return bytes <= graph.machine.memory_bytes.at("SMEM");
}

/// The heads of items that a kernel may have.
std::vector<int> heads_of(const ChunkOKernel& kernel, const ChunkOFamily& family, const arch::Arch& arch) {
  std::vector<int> list;
  for (const int heads : {2, 3, 1})
    if (kernel.divisor % heads == 0 && (kernel.heads == 0 || kernel.heads == heads) && heads <= family.most_heads &&
        (kernel.stages == 0 || rings_fit(family.graph(kernel, heads, arch))))
      list.push_back(heads);
  return list;
}

[[noreturn]] void refuse_stages(ChunkOKernel kernel, const ChunkOFamily& family, const arch::Arch& arch) {
  const int asked = kernel.stages;
  std::string allowed = "0 (as many as fit)";
  for (kernel.stages = 1; kernel.stages <= kMostChunkOStages; ++kernel.stages)
    if (!heads_of(kernel, family, arch).empty()) allowed += cat(", ", kernel.stages);
  support::fail(
      Stage::argument, Code::unsupported,
      cat("chunk_o: num_stages is ", asked, "; allowed on ", arch.name,
          kernel.heads == 0 ? "" : cat(" with ", kernel.heads, kernel.heads == 1 ? " head" : " heads", " an item"),
          ", whose blocks have ", arch.smem_per_block_bytes, " bytes of shared memory: ", allowed));
}

}  // namespace

graph::Graph chunk_o_graph(const ChunkOKernel& kernel, int heads, const arch::Arch& arch) {
  return family_of(arch).graph(kernel, heads, arch);
}

std::vector<arch::Needs> chunk_o_needs(const arch::Arch& arch) {
  std::vector<arch::Needs> list;
  for (const auto& family : kFamilies) list.push_back(family().needs(arch));
  return list;
}

std::vector<Candidate> chunk_o_candidates(const ChunkOKernel& kernel, const arch::Arch& arch) {
  arch::require(arch, "chunk_o", chunk_o_needs(arch));
  const ChunkOFamily& family = family_of(arch);
  require_heads(family, kernel.heads, arch);
  require_hints(kernel, launch_of(family, 1, arch), arch);
  const std::vector<int> items = heads_of(kernel, family, arch);
  if (items.empty() && kernel.stages != 0) refuse_stages(kernel, family, arch);
  std::vector<Candidate> list;
  for (const int heads : items) {
    Candidate candidate{family.graph(kernel, heads, arch), kTypicalItems / heads / std::max(1, arch.sm_count), 0,
                        false};
    candidate.copies_apart = arch.shared_barriers;
    candidate.geometry = Geometry::of(launch_of(family, heads, arch));
    candidate.useful_flops = candidate.graph.flops_per_iteration * candidate.typical_iterations;
    if (family.definitions != nullptr) candidate.definitions = family.definitions();
    list.push_back(std::move(candidate));
  }
  return list;
}

}  // namespace tj::ops
