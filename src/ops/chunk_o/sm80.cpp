// The family of chunk_o's kernels whose products are a warp's (sm80); see family.hpp. An iteration is one item: a chunk
// and one value head.
//
//   load_qk, load_h, load_v into rings       by the copy engine, or by the threads of a role of their own
//   stage_rows ---> put_chunk                where the copy engine stores; else write_rows
// Decides who copies and who stores. Invariant: nothing here knows which arch of the family it is but by what it has.
#include "ops/chunk_o/family.hpp"
#include "ops/chunk_o/warps_builder.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

constexpr int kContextRegisters = 40;  // places, gates, addresses, counters
constexpr int kCopyingWarps = 4;

arch::Needs needs_of(std::vector<std::string> units, std::initializer_list<const char*> copies) {
  units.insert(units.end(), {"TC", "EXP", "ALU", "LSU"});
  arch::Needs needs{std::move(units),
                    {"matrix_flops_per_cycle", "shared_bytes_per_cycle", "exp2_per_cycle", "f32_per_cycle",
                     "minmax_per_cycle", "memory_bytes_per_cycle"},
                    {"sm80"}};
  needs.facts.insert(needs.facts.end(), copies.begin(), copies.end());
  return needs;
}
const arch::Needs& kByEngine = support::lasting(needs_of({"TMA"}, {"copy_latency_cycles", "copy_cycles_per_kb"}));
const arch::Needs& kByThreads =
    support::lasting(needs_of({}, {"thread_copy_latency_cycles", "thread_copy_cycles_per_kb"}));

class Builder : ChunkOWarpsBuilder {
 public:
  /// Half a conversion for each element, at the rate of maxima.
  Builder(const ChunkOKernel& kernel, const arch::Arch& arch)
      : ChunkOWarpsBuilder(kernel, {Multiplier::Way::warp, arch}, Copier::into_rings(arch),
                           {.context_registers = kContextRegisters, .conversions = "minmax_per_cycle"}, arch) {}

  graph::Graph build() {
    constexpr std::int64_t kTokens = 2 * kTokenBytes;
    if (!copier_.by_engine()) constant("kCopyingWarps", kCopyingWarps);
    const Filled tokens = bring("load_qk", "TokenLoader", "qk", kTokens),
                 h = bring("load_h", "StateLoader", "h", kStateBytes),
                 v = bring("load_v", "ValueLoader", "v", kTokenBytes);
    Work end = rounding();
    if (!copier_.by_engine()) {
      for (const Filled& other : {h, v}) edge(tokens.node, other.node, 0, 1, false);  // the same threads copy all
      end.shared = shared_cycles(static_cast<double>(kTokenBytes));
      chain(tokens, h, v, "write_rows", end);
      return std::move(graph_);
    }
    const int o = value("o", kTokenBytes, Scope::iteration, 1, 2);
    end.shared = shared_cycles(static_cast<double>(kTokenBytes));
    const int stage = chain(tokens, h, v, "stage_rows", end);
    then(stage, put(0), 0, o);
    return std::move(graph_);
  }

 private:
  /// A ring, and the copies that fill it.
  Filled bring(const char* body, const char* context, const char* ring, std::int64_t bytes) {
    const int first = value_count();
    copied(ring, bytes, 1);
    if (copier_.by_engine()) return {load(body, context, 0, first), first};
    Node n = single(context, body, kCopyingWarps);
    const int issue = cycles(shared_cycles(static_cast<double>(bytes)));
    copier_.issue(n, kCopyingWarps, issue);
    n.reservations = {of("LSU", issue)};
    // The SM's share of memory's rate is what the loop waits for.
    n.warp_cycles = std::max(issue, copy_cycles(bytes));
    n.latency = n.warp_cycles + cycles(copier_.latency_cycles());
    n.registers = kLoadRegisters;
    return {add(std::move(n)), first};
  }
};

}  // namespace

const ChunkOFamily& chunk_o_sm80() {
  static constexpr ChunkOFamily family{
      .name = "sm80",
      .needs = [](const arch::Arch& arch) -> const arch::Needs& {
        return Copier::into_rings(arch).by_engine() ? kByEngine : kByThreads;
      },
      .most_heads = 1,
      .graph = [](const ChunkOKernel& kernel, int, const arch::Arch& arch) { return Builder(kernel, arch).build(); },
      .launch =
          [](const arch::Arch& arch) { return ChunkOLaunch{.bulk_copies = Copier::into_rings(arch).by_engine()}; }};
  return family;
}

}  // namespace tj::ops
