// Protects the promise that no barrier can be left out unnoticed: of one kernel of each kind of matrix instruction, every site off or
// weakened and every ring of another depth is reported by the model, or is no fault for a reason that is written down. The full set is
// tj-check --all --mutate.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "arch/arch.hpp"
#include "check/full_set.hpp"
#include "check/kernels.hpp"
#include "check/mutants.hpp"
#include "support/environment.hpp"
#include "tests/support/scratch.hpp"

using namespace tj;

namespace {

struct Score {
  std::size_t mutants = 0, equivalent = 0;
};

Score judge_all(const char* op_name, const char* target, const char* flags, bool sites_alone = false) {
  const testing::Scratch scratch;
  Options options;
  options.cache_dir = scratch.path();
  check::Kernels kernels(support::resolve_settings(options), arch::parse_target(target), support::Log(LogLevel::off, {}));
  const ops::Op& op = *ops::find(op_name);
  std::vector<check::Subject> subjects;
  for (ops::Trial& trial : op.trials(check::flags_of(flags), *kernels.target().arch)) subjects.push_back(check::make_subject(op, std::move(trial), kernels));
  std::vector<const check::Subject*> problems;
  for (const check::Subject& subject : subjects) problems.push_back(&subject);
  check::Seeds seeds;
  seeds.count = 60;
  Score score;
  std::vector<check::Mutant> mutants = check::mutants_of(subjects.front(), kernels);
  if (sites_alone) mutants.erase(std::remove_if(mutants.begin(), mutants.end(), [](const check::Mutant& mutant) { return !mutant.text.empty(); }), mutants.end());
  for (const check::Judged& judged : check::judge(problems, kernels, std::move(mutants), seeds)) {
    ++score.mutants;
    score.equivalent += judged.verdict == check::Verdict::equivalent;
    CAPTURE(judged.mutant.kernel->name);
    CAPTURE(judged.mutant.what);
    CHECK(judged.verdict != check::Verdict::survived);
  }
  return score;
}

}  // namespace

TEST_CASE("a warpgroup's matrix instructions: every mutant of a product is caught") {
  const Score score = judge_all("gemm", "model:sm_90a", "--tile 64x32x128");
  CHECK(score.mutants >= 30);
  CHECK(score.equivalent == 0);
}

TEST_CASE("one role that fills, reads and multiplies: every mutant is caught, though a ring's barriers tell of another's slots") {
  const Score once = judge_all("gemm", "model:sm_90a", "--rung v1"), slots = judge_all("gemm", "model:sm_90a", "--rung v2"), columns = judge_all("fmha", "model:sm_80", "--head-dim 64 --causal true --step basic");
  CHECK(once.mutants < slots.mutants);  // its only iteration needs less
  CHECK(columns.mutants >= 40);
  CHECK(once.equivalent + slots.equivalent + columns.equivalent == 0);
}

TEST_CASE("the unit that works in tensor memory: every mutant of a product is caught") {
  const Score score = judge_all("gemm", "model:sm_100a", "--tile 128x64x64");
  CHECK(score.mutants >= 40);
  CHECK(score.equivalent == 0);
}

TEST_CASE("the unit that works in tensor memory: every site of attention is missed") {
  // One problem, in which all of a block's rows have keys; rings of other depths, which are compiled each, are in the full set.
  const Score score = judge_all("fmha", "model:sm_100a", "--head-dim 64 --causal true --heads 1 --seq-q 258 --seq-k 600", true);
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
