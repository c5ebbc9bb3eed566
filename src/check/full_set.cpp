// The list; see full_set.hpp.
#include "check/full_set.hpp"

#include <algorithm>
#include <utility>

namespace tj::check {
namespace {

struct Entry {
  const char* op;
  std::vector<const char*> archs;
  const char* flags;
};

std::vector<Entry> entries() {
  const std::vector<const char*> kWarpgroup = {"sm_90a"}, kTensor = {"sm_100a"}, kWarp = {"sm_80", "sm_120a"},
                                 kAmd = {"gfx1100", "gfx1201", "gfx90a", "gfx942"},
                                 kAll = {"sm_90a", "sm_80", "sm_120a", "gfx1100", "gfx1201", "gfx90a", "gfx942"};
  return std::vector<Entry>{
      {"fmha", kAll, "--dtype f16 --head-dim 64,128 --causal both"},
      {"fmha", kTensor, "--dtype f16 --head-dim 64,128 --causal both"},
      {"fmha", {"sm_103a"}, "--dtype bf16 --head-dim 64,128 --causal both"},
      {"fmha", kWarpgroup, "--dtype bf16 --head-dim 128 --general-scale true"},
      {"fmha", kWarpgroup, "--dtype bf16 --head-dim 64,128 --causal true --ranges guarded"},
      // Head dims that end inside a block of columns, and those of values apart.
      {"fmha", kAll, "--dtype f16 --head-dim 40 --value-dim 72 --causal both"},
      {"fmha", kTensor, "--dtype f16 --head-dim 40 --value-dim 72 --causal both"},
      {"fmha", {"sm_90a", "sm_80", "sm_120a", "gfx90a"}, "--dtype bf16 --head-dim 192,256 --causal true"},
      // A window, which walks to the middle of the keys; and what softcap, slopes and sinks add.
      {"fmha", kAll, "--dtype f16 --head-dim 64 --causal both --windowed true"},
      {"fmha", kTensor, "--dtype f16 --head-dim 64 --causal both --windowed true"},
      {"fmha",
       {"sm_90a", "sm_80", "sm_100a", "gfx1100", "gfx90a"},
       "--dtype bf16 --head-dim 128 --causal true --softcap true --alibi true --sinks true"},
      {"fmha",
       {"sm_80", "gfx1100"},
       "--dtype f16 --head-dim 64 --rung basic,exp2,transposed_k,latency,occupancy,division"},
      {"fmha", {"sm_90a", "sm_80", "sm_100a", "gfx1100", "gfx90a"}, "--dtype f16 --head-dim 64 --out f32"},
      {"fmha", kWarp, "--dtype f16 --head-dim 64,128 --causal both --pieces 16,32"},
      // Shapes of wgmma: the usual ones, one consumer, clusters that share b, a and both, sums that are promoted.
      {"gemm", kWarpgroup, "--dtype f16"},
      {"gemm", kWarpgroup, "--dtype f16 --tile 128x128x64,64x32x128,128x128x64c2x1,128x128x64c1x2,128x128x64c2x2"},
      {"gemm", kWarpgroup, "--dtype f16 --tile 32x64x128c1x1x2s"},
      {"gemm", kWarpgroup, "--dtype e4m3 --out bf16 --tile 128x128x128,64x64x256"},
      {"gemm", kWarpgroup,
       "--dtype bf16 --tile 128x128x64 --a-major m --b-major n --bias true --add-c true --activation gelu --batch 2"},
      {"gemm", kWarpgroup, "--dtype f16 --tile 128x128x64 --d-aligned false --out f32"},
      {"gemm", kWarpgroup, "--dtype f16 --tile 64x64x128 --parts true"},
      {"gemm", kWarpgroup, "--dtype f16 --m 100 --n 70 --k 321"},
      {"gemm", kWarpgroup, "--rung v1,v2,v3,v4,v5,v6,v7,v8,v9"},
      {"gemm", kWarp, "--dtype f16"},
      {"gemm", kWarp, "--dtype bf16 --a-major m --b-major n --bias true --add-c true --activation silu"},
      {"gemm", kWarp, "--dtype f16 --parts true"},
      {"gemm", kAmd, "--dtype f16"},
      {"gemm", kAmd, "--dtype bf16 --a-major m --b-major n --bias true --add-c true"},
      {"gemm", kAmd, "--dtype f16 --parts true"},
      {"gemm", kTensor, "--dtype f16 --tile 128x256x64,128x128x64,256x128x64"},
      {"gemm", kTensor,
       "--dtype bf16 --tile 128x128x64 --a-major m --b-major n --bias true --add-c true --activation gelu --batch 2 "
       "--d-aligned both"},
      {"gemm", kTensor, "--dtype f16 --tile 128x64x64 --parts true"},
      // Clusters that share a, or a and b; pairs of blocks, of one product and of two, in each order of the operands.
      {"gemm", kTensor,
       "--dtype f16 --tile 64x32x128,128x256x64c1x2,128x128x64c2x2,128x128x64c2x1,256x128x64c2x1,256x256x64c2x1"},
      {"gemm", kTensor, "--dtype bf16 --tile 128x256x64c2x1 --a-major k,m --b-major k,n"},
      {"gemm", kTensor, "--rung v1,v2,v3,v4,v5,v6,v7,v8,v9"},
      {"gemm", kTensor, "--dtype f16 --rung v7 --load-columns 16,8"},
      {"copy_rows", kAll, ""},
      {"sum_parts", kAll, "--out f16,f32"},
  };
}

/// The gated delta rule: output of chunks, states, gates of key channels, checkpoints.
std::vector<Entry> entries_of_rules() {
  const std::vector<const char*> archs = {"sm_90a", "sm_80", "sm_120a", "gfx1100", "gfx1201", "gfx90a", "gfx942"};
  return std::vector<Entry>{
      {"chunk_o", {"sm_90a"}, "--head-ratio 1,2,3 --gated both --variable both"},
      {"chunk_o", {"sm_90a"}, "--head-ratio 2 --h-transposed true"},
      {"chunk_o", {"sm_90a"}, "--head-ratio 2 --num-stages 1,2 --evict-first true"},
      {"chunk_o", {archs.begin() + 1, archs.end()}, "--head-ratio 1 --gated both --variable both"},
      {"chunk_o", {"sm_80", "sm_120a", "gfx1100", "gfx90a"}, "--head-ratio 1 --h-transposed true"},
      {"chunk_o", {"sm_100a"}, "--head-ratio 1,2,3 --gated both --variable both"},
      {"chunk_o", {"sm_100a"}, "--head-ratio 2 --h-transposed true"},
      {"chunk_o", {"sm_100a"}, "--head-ratio 2 --num-stages 1,2 --evict-first true"},
      {"chunk_indices", archs, ""},
      {"gated_delta_rule", archs, "--dtype bf16 --state f32,bf16"},
      {"gated_delta_rule", {"sm_90a", "sm_100a", "gfx90a"}, "--dtype f16 --head-dim 64 --state-transposed true"},
      {"gated_delta_rule", {"sm_90a", "sm_80", "gfx1100"}, "--dtype bf16 --state bf16 --channel-gate true"},
      {"gated_delta_rule", {"sm_90a", "sm_80", "gfx1100"}, "--dtype bf16 --state e4m3 --state-transposed both"},
      {"chunk_cumsum", archs, ""},
      {"chunk_wu", archs, ""},
      {"chunk_states", {"sm_90a"}, "--state-transposed both"},
      {"chunk_solve", {"sm_90a"}, "--dtype bf16,f16"},
      {"delta_chunks", {"sm_90a"}, "--step state,wide-state --keeps true --dtype bf16"},
      {"delta_chunks", {"sm_90a"}, "--step state,wide-state --state e4m3 --keeps both --dtype bf16"},
      {"delta_chunks", {"sm_90a"}, "--step solve,state,wide-state,map --channel-gate true --dtype bf16"},
      {"delta_chunks", {"sm_90a"}, "--step solve,state,wide-state,map --delta false --channel-gate both --dtype bf16"},
  };
}

/// Layers of experts: a gate, of halves of b in one slot; scales of blocks; groups, with c, whose boxes end with them.
std::vector<Entry> entries_of_experts() {
  return std::vector<Entry>{
      {"gemm", {"sm_90a"}, "--dtype bf16 --gate silu --bias true --tile 128x128x64,128x128x64c2x1"},
      {"gemm",
       {"sm_90a"},
       "--dtype e4m3 --out bf16 --scales block --scale-type f32,ue8m0 --gate none,silu --tile 128x128x128"},
      {"quantise", {"sm_90a"}, "--dtype bf16 --transposed true"},
      {"gemm", {"sm_90a"}, "--dtype bf16 --out e4m3 --gate none,silu --bias true --tile 64x256x64"},
      {"gemm", {"sm_90a"}, "--dtype e4m3 --out e4m3 --scales tensor,block --gate silu --tile 64x256x128"},
      {"grouped_gemm",
       {"sm_90a"},
       "--dtype e4m3 --out f32 --groups depths --scales row --add-c true --tile 128x128x128"},
      {"grouped_gemm", {"sm_90a"}, "--dtype bf16 --groups ends,depths --add-c true --tile 64x128x64"},
      {"gemm", {"sm_89", "sm_120a", "gfx1201"}, "--dtype e4m3 --out bf16 --scales tensor --tile 64x128x128"},
      {"gemm", {"sm_89", "sm_120a"}, "--dtype e4m3 --out f32 --scales block,row --tile 64x128x128"},
      {"grouped_gemm",
       {"sm_89", "sm_120a", "gfx1201"},
       "--dtype e4m3 --out bf16 --groups ends --scales block --tile 64x128x128"},
      {"grouped_gemm",
       {"sm_80", "sm_120a", "sm_100a", "gfx1100", "gfx90a"},
       "--dtype bf16 --groups ends,counts,depths --bias true --tile 64x128x64"},
  };
}

}  // namespace

std::vector<Case> full_set() {
  std::vector<Case> cases;
  std::vector<Entry> all = entries();
  for (auto* const more : {entries_of_rules, entries_of_experts})
    for (Entry& entry : more()) all.push_back(std::move(entry));
  for (const Entry& entry : all)
    for (const char* arch : entry.archs)
      cases.push_back({entry.op, std::string("model:") + arch, ops::flags_of_text(entry.flags)});
  return cases;
}

}  // namespace tj::check
