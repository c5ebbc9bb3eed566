// Protects the promise that no barrier can be left out unnoticed. One kernel of each kind of matrix instruction has
// every site off or weakened and every ring of another depth. The model reports each, or it is no fault for a reason
// that is written down. Then sites alone, of many kernels with short rings: a sample of them, all with TJ_TEST_FULL=1.
// The full set of mutants is tj-check --all --mutate.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "arch/arch.hpp"
#include "check/full_set.hpp"
#include "check/kernels.hpp"
#include "check/mutants.hpp"
#include "support/environment.hpp"
#include "tests/check/short_rings.hpp"
#include "tests/support/full.hpp"
#include "tests/support/scratch.hpp"

using namespace tj;

namespace {

struct Score {
  std::size_t mutants = 0, equivalent = 0;
};

/// So many of them, in their order, the same in each run.
std::vector<check::Mutant> sample_of(std::vector<check::Mutant> mutants, std::size_t count) {
  std::vector<check::Mutant> sample;
  std::mt19937 random(1);
  std::sample(std::make_move_iterator(mutants.begin()), std::make_move_iterator(mutants.end()),
              std::back_inserter(sample), static_cast<std::ptrdiff_t>(count), random);
  return sample;
}

/// The mutants of a kernel that are judged.
enum class Part { all, sites, walk, end };
bool belongs(const check::Mutant& mutant, Part part) {
  if (part == Part::all) return true;
  if (part == Part::end)
    return mutant.text.empty() &&
           (mutant.what.find("tile end: ") != std::string::npos || mutant.what.find(": end: ") != std::string::npos);
  bool of_walk = false;
  for (const char* word : {"next tile", "begin, number", "the sums", "pieces", "these are read"})
    of_walk = of_walk || mutant.what.find(word) != std::string::npos;
  return mutant.text.empty() && (part == Part::sites || of_walk);
}

/// most: 0 judges all mutants.
Score judge_some(const ops::Op& op, const char* target, const char* flags, Part part, std::size_t most) {
  const testing::Scratch scratch;
  Options options;
  options.cache_dir = scratch.path();
  check::Kernels kernels(support::resolve_settings(options), arch::parse_target(target),
                         support::Log(LogLevel::off, {}));
  std::vector<check::Subject> subjects;
  for (ops::Trial& trial : op.trials(ops::flags_of_text(flags), *kernels.target().arch))
    subjects.push_back(check::make_subject(op, std::move(trial), kernels));
  std::vector<const check::Subject*> problems;
  for (const check::Subject& subject : subjects) problems.push_back(&subject);
  check::Seeds seeds;
  seeds.count = 60;
  Score score;
  check::Judged late;  // a site that took the most seeds
  std::vector<check::Mutant> mutants = check::mutants_of(subjects.front(), kernels);
  mutants.erase(std::remove_if(mutants.begin(), mutants.end(),
                               [&](const check::Mutant& mutant) { return !belongs(mutant, part); }),
                mutants.end());
  if (most != 0) mutants = sample_of(std::move(mutants), most);
  for (const check::Judged& judged : check::judge(problems, kernels, std::move(mutants), seeds)) {
    ++score.mutants;
    score.equivalent += judged.verdict == check::Verdict::equivalent;
    CAPTURE(std::string(target));
    CAPTURE(judged.mutant.kernel->name);
    CAPTURE(judged.mutant.what);
    CHECK(judged.verdict != check::Verdict::survived);
    if (judged.seed > late.seed && judged.mutant.disabled + judged.mutant.weakened > 0) late = judged;
  }
  if (late.seed > seeds.first) {  // the seed that is told catches it by itself
    CAPTURE(late.mutant.what);
    check::Seeds alone = seeds;
    alone.first = late.seed;
    alone.count = 1;
    const check::Judged again = check::judge(problems, kernels, {late.mutant}, alone).at(0);
    CHECK(again.seed == late.seed);
    CHECK(again.message == late.message);
  }
  return score;
}

Score judge_all(const char* op_name, const char* target, const char* flags, Part part = Part::all) {
  return judge_some(*ops::find(op_name), target, flags, part, 0);
}

constexpr bool kSampled = true, kFullOnly = false;
constexpr std::nullopt_t kOwnWalk = std::nullopt;
constexpr std::size_t kSample = 8;  // sites of a kernel

/// A kernel whose sites are judged.
struct Row {
  bool sampled;  ///< else in a full run alone
  const char* op;
  const char* target;
  const char* flags;  ///< of one kernel
  int slots = 2;
  /// With one tile a block, rings of what is filled once a tile would never come round. None: the op's own.
  std::optional<graph::Walk> walk = graph::Walk::persistent;
  testing::Shape shape = testing::Shape::any;
};

void judge_rows(const std::vector<Row>& rows) {
  const bool full = testing::full_run();
  for (const Row& row : rows) {
    if (!full && !row.sampled) continue;
    const testing::ShortRings op(*ops::find(row.op), row.slots, row.walk, row.shape);
    const Score score = judge_some(op, row.target, row.flags, Part::sites, full ? 0 : kSample);
    const std::string where = std::string(row.op) + " on " + row.target + " " + row.flags;
    CAPTURE(where);
    CHECK(score.mutants > 0);
    CHECK(score.equivalent * 4 <= score.mutants + 8);  // an excuse is the exception
    if (full) MESSAGE(where, ": ", score.mutants, " sites, ", score.equivalent, " equivalent");
  }
}

}  // namespace

TEST_CASE("a warpgroup's matrix instructions: every mutant of a product is caught") {
  const Score score = judge_all("gemm", "model:sm_90a", "--tile 64x32x128");
  CHECK(score.mutants >= 30);
  CHECK(score.equivalent == 0);
}

TEST_CASE(
    "one role that fills, reads and multiplies: every mutant is caught, though a ring's barriers tell of another's "
    "slots, but what two products of a role do for each other") {
  const Score once = judge_all("gemm", "model:sm_90a", "--rung v1"),
              slots = judge_all("gemm", "model:sm_90a", "--rung v2"),
              columns = judge_all("fmha", "model:sm_80", "--head-dim 64 --causal true --rung basic");
  CHECK(once.mutants < slots.mutants);  // its only iteration needs less
  CHECK(columns.mutants >= 40);
  CHECK(columns.equivalent == 0);
  CHECK(once.equivalent == 2);  // a fence and a commit between the two products
  CHECK(slots.equivalent == 2);
}

TEST_CASE(
    "one role that stores by one of its threads: every site of a tile's end is caught, but the kernel's last sync") {
  // The thread that stores is one that a seed draws, and seldom the one that hands the slot back.
  CHECK(judge_all("gemm", "model:sm_90a", "--rung v6", Part::end).equivalent == 0);
  for (const char* rung : {"--rung v4", "--rung v6"}) {
    const Score score = judge_all("gemm", "model:sm_100a", rung, Part::end);
    CHECK(score.mutants >= 9);
    CHECK(score.equivalent == 1);
  }
}

TEST_CASE("the unit that works in tensor memory: every mutant of a product is caught") {
  const Score score = judge_all("gemm", "model:sm_100a", "--tile 128x64x64");
  CHECK(score.mutants >= 40);
  CHECK(score.equivalent == 0);
}

TEST_CASE("the unit that works in tensor memory: every site of attention is missed") {
  // One problem, in which all of a block's rows have keys; rings of other depths, which are compiled each, are in the
  // full set.
  const Score score =
      judge_all("fmha", "model:sm_100a", "--head-dim 64 --causal true --heads 1 --seq-q 258 --seq-k 600", Part::sites);
  CHECK(score.mutants >= 150);
  CHECK(score.equivalent == 0);
}

TEST_CASE("a warp's: every mutant of a product is caught") {
  const Score score = judge_all("gemm", "model:sm_120a", "--dtype f16");
  CHECK(score.mutants >= 15);
  CHECK(score.equivalent == 0);
}

TEST_CASE("a wave's: every mutant of attention and of a product is caught") {
  CHECK(judge_all("fmha", "model:gfx1100", "--head-dim 64 --causal true").equivalent == 0);
  CHECK(judge_all("gemm", "model:gfx90a", "--dtype f16").equivalent == 0);
}

TEST_CASE("sites of attention with short rings, on a warpgroup's products") {
  judge_rows({{kSampled, "fmha", "model:sm_90a", "--head-dim 64 --causal true"},
              {kFullOnly, "fmha", "model:sm_90a", "--head-dim 64 --causal true --ranges guarded"},
              {kFullOnly, "fmha", "model:sm_90a", "--head-dim 64 --causal false"}});
}

TEST_CASE("sites of attention with rings of one slot, on a warp's products: copies by threads, by the copy engine") {
  judge_rows({{kSampled, "fmha", "model:sm_80", "--head-dim 128 --causal true", 1, kOwnWalk, testing::Shape::last},
              {kFullOnly, "fmha", "model:sm_80", "--head-dim 64 --causal false", 1, kOwnWalk, testing::Shape::last},
              {kFullOnly, "fmha", "model:sm_120a", "--head-dim 128 --causal true", 1, kOwnWalk, testing::Shape::last},
              {kSampled, "fmha", "model:sm_120a", "--head-dim 64 --causal true --pieces 16", 1, kOwnWalk,
               testing::Shape::last},
              {kSampled, "fmha", "model:sm_120a", "--head-dim 64 --causal false", 1, kOwnWalk, testing::Shape::last}});
}

TEST_CASE("sites of attention on a wave's products") {
  judge_rows({{kFullOnly, "fmha", "model:gfx1100", "--head-dim 128 --causal true", 0, kOwnWalk},
              {kFullOnly, "fmha", "model:gfx1100", "--head-dim 64 --causal false", 0, kOwnWalk},
              {kSampled, "fmha", "model:gfx90a", "--head-dim 128 --causal true", 0, kOwnWalk},
              {kFullOnly, "fmha", "model:gfx90a", "--head-dim 64 --causal false", 0, kOwnWalk}});
}

TEST_CASE("sites of chunk output with short rings, on a warpgroup's products and in tensor memory") {
  judge_rows({{kFullOnly, "chunk_o", "model:sm_90a", "--head-ratio 1"},
              {kSampled, "chunk_o", "model:sm_90a", "--head-ratio 2"},
              {kFullOnly, "chunk_o", "model:sm_90a", "--head-ratio 3"},
              {kFullOnly, "chunk_o", "model:sm_100a", "--head-ratio 1"},
              {kSampled, "chunk_o", "model:sm_100a", "--head-ratio 2"}});
}

TEST_CASE("sites of chunk output on products of warps, by threads and by the engine, and of waves") {
  judge_rows({{kSampled, "chunk_o", "model:sm_80", "--head-ratio 1", 2, kOwnWalk},
              {kSampled, "chunk_o", "model:sm_90", "--head-ratio 1", 2, kOwnWalk},
              {kFullOnly, "chunk_o", "model:sm_120a", "--head-ratio 1 --gated false", 1, kOwnWalk},
              {kFullOnly, "chunk_o", "model:gfx1100", "--head-ratio 1", 0, kOwnWalk},
              {kSampled, "chunk_o", "model:gfx90a", "--head-ratio 1 --h-transposed true", 0, kOwnWalk},
              {kFullOnly, "chunk_o", "model:gfx950", "--head-ratio 1 --h-transposed true", 0, kOwnWalk}});
}

TEST_CASE(
    "sites of products with short rings: two consumer roles; one; clusters that share b, a, and both; sums that are "
    "promoted") {
  judge_rows({{kSampled, "gemm", "model:sm_90a", "--dtype f16 --tile 128x128x64"},
              {kFullOnly, "gemm", "model:sm_90a", "--dtype f16 --tile 64x32x128"},
              {kFullOnly, "gemm", "model:sm_90a", "--dtype f16 --tile 128x128x64c2x1"},
              {kFullOnly, "gemm", "model:sm_90a", "--dtype f16 --tile 128x128x64c1x2"},
              {kSampled, "gemm", "model:sm_90a", "--dtype f16 --tile 128x128x64c2x2"},
              {kSampled, "gemm", "model:sm_90a", "--dtype e4m3 --out bf16 --tile 128x128x128"},
              {kFullOnly, "gemm", "model:sm_90a", "--dtype e4m3 --out bf16 --tile 64x64x256"}});
}

TEST_CASE("sites of rungs of one role: stores by all warps; copies by one thread, one slot and two") {
  judge_rows({{kFullOnly, "gemm", "model:sm_90a", "--rung v3", 0},
              {kSampled, "gemm", "model:sm_90a", "--rung v4", 0},
              {kFullOnly, "gemm", "model:sm_90a", "--rung v5", 0}});
}

TEST_CASE(
    "sites of products of warps with short rings: copies by threads and by the copy engine, by a role of their own and "
    "by the one that multiplies") {
  std::vector<Row> rows;
  for (const char* tile : {"--dtype f16 --tile 64x64x128", "--dtype f16 --tile 64x128x64"}) {
    const bool sampled = rows.empty();
    rows.push_back({kFullOnly, "gemm", "model:sm_80", tile, 2, graph::Walk::persistent, testing::Shape::last});
    rows.push_back({sampled, "gemm", "model:sm_80", tile, 2, graph::Walk::persistent, testing::Shape::first});
    rows.push_back({sampled, "gemm", "model:sm_90", tile, 2, graph::Walk::persistent, testing::Shape::first});
    rows.push_back({kFullOnly, "gemm", "model:sm_90", tile, 2, graph::Walk::persistent, testing::Shape::last});
    rows.push_back({kFullOnly, "gemm", "model:sm_120a", tile, 2, graph::Walk::persistent, testing::Shape::last});
  }
  const char* narrow = "--dtype e4m3 --out bf16 --scales block --tile 64x128x128";
  rows.push_back({kSampled, "gemm", "model:sm_89", narrow, 2, graph::Walk::persistent, testing::Shape::first});
  rows.push_back({kFullOnly, "gemm", "model:sm_120a", narrow, 2, graph::Walk::persistent, testing::Shape::last});
  judge_rows(rows);
}

TEST_CASE("tiles that are drawn: every site of the way to the next tile is missed") {
  struct Drawn {
    const char* op;
    const char* target;
    const char* flags;
    std::size_t sites;
  };
  for (const Drawn& each :
       {Drawn{"fmha", "model:sm_90a", "--head-dim 64 --causal true --heads 8 --seq-q 258", 6},
        Drawn{"gemm", "model:sm_80", "--dtype f16 --tile 64x64x128 --m 500 --n 300 --k 260", 6},
        Drawn{"gemm", "model:gfx90a", "--dtype f16 --m 500 --n 500 --k 70", 2},
        Drawn{"gemm", "model:sm_90a", "--dtype f16 --tile 128x128x64c2x1 --m 1100 --n 600 --k 130", 8}}) {
    CAPTURE(std::string(each.op));
    CAPTURE(std::string(each.target));
    const testing::ShortRings op(*ops::find(each.op), 2, graph::Walk::dynamic, testing::Shape::first);
    const Score score = judge_some(op, each.target, each.flags, Part::walk, 0);
    CHECK(score.mutants >= each.sites);
    CHECK(score.equivalent == 0);
  }
}

TEST_CASE("tiles that blocks share: every site of the way to a tile's sums is missed") {
  struct Shared {
    const char* target;
    const char* flags;
    std::size_t sites;
  };
  for (const Shared& each : {Shared{"model:sm_80", "--tile 64x64x128 --m 250 --n 60 --k 1304", 9},
                             Shared{"model:gfx90a", "--tile 64x64x128 --m 250 --n 60 --k 1304", 8},
                             Shared{"model:sm_90a", "--tile 128x128x64c2x1 --m 400 --n 104 --k 1000", 11}}) {
    CAPTURE(std::string(each.target));
    const testing::ShortRings op(*ops::find("gemm"), 2, std::nullopt, testing::Shape::first);
    const Score score =
        judge_some(op, each.target, (std::string("--dtype f16 --walk split ") + each.flags).c_str(), Part::walk, 0);
    CHECK(score.mutants >= each.sites);
    CHECK(score.equivalent == 0);
  }
}
