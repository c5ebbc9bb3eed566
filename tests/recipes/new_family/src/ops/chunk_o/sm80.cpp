// The dependence graph of chunk_o on matrix instructions of a warp, for archs that have a copy engine beside them. An
// iteration is one item: a chunk and one value head.
//
//   load_qk -> qk, qh      load_h -> qh      load_v -> pv      fetch -> weigh
//   qk -> weigh -> pv -> stage_rows ---> put_chunk             qh -> pv: what the state gives is faded there
// Four warps do all but copies. Decides costs from the arch's facts alone. Invariant: from one item to the next only
// registers are shared, each free before it is filled again.
#include "ops/chunk_o/builder.hpp"
#include "ops/chunk_o/family.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using chunk_o::kChunk;
using chunk_o::kWidth;

constexpr int kWarps = 4;
constexpr int kContextRegisters = 40;  // places, gates, addresses, counters

const arch::Needs& kNeeds = support::lasting<arch::Needs>(
    {{"TC", "EXP", "ALU", "LSU", "TMA"},
     {"matrix_flops_per_cycle", "shared_bytes_per_cycle", "exp2_per_cycle", "f32_per_cycle", "minmax_per_cycle",
      "copy_latency_cycles", "copy_cycles_per_kb", "memory_bytes_per_cycle"},
     {"sm80"}});

class Builder : ChunkOBuilder {
 public:
  Builder(const ChunkOKernel& kernel, const arch::Arch& arch) : ChunkOBuilder(kernel, 1, arch) {}

  graph::Graph build() {
    const int tokens = of_heads("qk", 2 * kTokenBytes, 1, kMaxSlots), h = of_heads("h", kStateBytes, 1, kMaxSlots),
              v = of_heads("v", kTokenBytes, 1, kMaxSlots), o = of_heads("o", kTokenBytes, 1, 2);
    const int load_qk = load("load_qk", "TokenLoader", 0, tokens), load_h = load("load_h", "StateLoader", 0, h),
              load_v = load("load_v", "ValueLoader", 0, v);
    const int fetch = compute("fetch", {.alu = 1}, kContextRegisters);
    node(fetch).latency += cycles(copier_.latency_cycles());
    const int qk = compute("qk", product(kChunk, kWidth, true), words(kChunk)),
              qh = compute("qh", product(kWidth, kWidth, true), words(kWidth)),
              weigh = compute("weigh", weights(), words(kChunk) / 2),
              pv = compute("pv", product(kWidth, kChunk, false)), stage = compute("stage_rows", rounding());
    const int out = put(0);
    then(load_qk, qk, 0, tokens);
    then(load_qk, qh, 0, tokens);
    then(load_h, qh, 0, h);
    then(load_v, pv, 0, v);
    then(fetch, weigh);
    then(qk, weigh);
    then(weigh, pv);
    then(qh, pv);
    then(pv, stage);
    then(fetch, stage);
    then(stage, out, 0, o);
    then(stage, fetch, 1);
    then(weigh, qk, 1);
    then(stage, qh, 1);
    then(pv, weigh, 1);
    return std::move(graph_);
  }

 private:
  static int words(int columns) { return kChunk * columns / (kWarps * 32); }
  /// Each warp loads all of the right operand, and of the left one its own rows.
  Work product(int columns, int depth, bool left_from_shared) const {
    const double right = double{kWarps} * columns * depth * kElementBytes,
                 left = left_from_shared ? double{kChunk} * depth * kElementBytes : 0;
    return Multiplier(Multiplier::Way::warp, arch_).work(2.0 * kChunk * columns * depth, right + left);
  }
  /// Half a conversion for each score, at the rate of maxima.
  Work weights() const {
    constexpr double kScores = double{kChunk} * kChunk;
    Work work;
    if (kernel_.gated) work.exp = kScores / arch_.fact("exp2_per_cycle");
    work.alu = kScores * ((kernel_.gated ? 4 : 1) / arch_.fact("f32_per_cycle") + 0.5 / arch_.fact("minmax_per_cycle"));
    return work;
  }
  Work rounding() const {
    constexpr double kOutputs = double{kChunk} * kWidth;
    Work work;
    work.shared = shared_cycles(static_cast<double>(kTokenBytes));
    work.alu = kOutputs * (1 / arch_.fact("f32_per_cycle") + 0.5 / arch_.fact("minmax_per_cycle"));
    return work;
  }
  int compute(const char* body, const Work& work, int registers = 0) {
    Node n = single("Consumer", body, kWarps);
    hold(n, work);
    n.registers = registers;
    return add(std::move(n));
  }
};

}  // namespace

const ChunkOFamily& chunk_o_sm80() {
  static constexpr ChunkOFamily family{
      "sm80", [](const arch::Arch&) -> const arch::Needs& { return kNeeds; }, 1,
      [](const ChunkOKernel& kernel, int, const arch::Arch& arch) { return Builder(kernel, arch).build(); }};
  return family;
}

}  // namespace tj::ops
