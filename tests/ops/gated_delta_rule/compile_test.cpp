// Protects that kernels of the gated delta rule in chunks compile for the real arch with NVRTC, without spills and
// without the compiler serialising the matrix instructions: its stages, and its steps with each type of states.
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "codegen/device_kernel.hpp"
#include "ops/chunk_wu/chunk_wu.hpp"
#include "ops/delta_chunks/delta_chunks.hpp"
#include "support/full.hpp"

using namespace tj;

namespace {

using Flags = std::map<std::string, std::vector<std::string>>;

void check(const ops::Op& op, const Flags& flags) {
  const auto compiler = test::nvrtc_or_skip();
  for (const ops::Request& request : op.requests(flags)) test::check_compiles(*compiler, op, request);
}

}  // namespace

TEST_CASE("chunk_wu: types and widths") { check(ops::chunk_wu_op(), {}); }

TEST_CASE("delta_chunks: states of e4m3, in blocks of 64 and of 128 rows, also kept ones; maps of them") {
  const char* const steps[] = {"state", "wide-state"};
  const char* const truth[] = {"false", "true"};
  Flags flags = {{"dtype", {"bf16"}}, {"state", {"e4m3"}}, {"head-dim", {"128"}}};
  for (int step = 0; step < 2; ++step)
    for (int keeps = 0; keeps < 2; ++keeps)
      for (int transposed = 0; transposed < 2; ++transposed) {
        if (testing::sampled_out(step + keeps + transposed)) continue;
        flags["step"] = {steps[step]}, flags["keeps"] = {truth[keeps]}, flags["state-transposed"] = {truth[transposed]};
        check(ops::delta_chunks_op(), flags);
      }
  flags["step"] = {"map"}, flags["keeps"] = flags["state-transposed"] = {"false"};
  check(ops::delta_chunks_op(), flags);
  flags["step"] = {"state"}, flags["keeps"] = {"true"}, flags["channel-gate"] = {"true"};
  check(ops::delta_chunks_op(), flags);
}

TEST_CASE("delta_chunks: records, what lies between segments, and states of f32 in blocks of 128 rows") {
  check(ops::delta_chunks_op(), {{"step", {"solve"}}, {"dtype", {"f16"}}, {"head-dim", {"64"}}});
  check(ops::delta_chunks_op(),
        {{"step", {"solve", "carry"}}, {"dtype", {"bf16"}}, {"head-dim", {"128"}}, {"channel-gate", {"true"}}});
  for (const char* channels : {"false", "true"})
    check(ops::delta_chunks_op(), {{"step", {"wide-state"}},
                                   {"dtype", {"bf16"}},
                                   {"state", {"f32"}},
                                   {"head-dim", {"128"}},
                                   {"keeps", {"true"}},
                                   {"channel-gate", {channels}}});
}

TEST_CASE("delta_chunks without the delta: records, states in blocks of 64 and of 128 rows, also kept ones; maps") {
  check(ops::delta_chunks_op(),
        {{"step", {"solve"}}, {"dtype", {"f16"}}, {"head-dim", {"64", "128"}}, {"delta", {"false"}}});
  for (const char* channels : {"false", "true"}) {
    Flags flags = {{"step", {"solve", "state", "map"}}, {"dtype", {"bf16"}}, {"state", {"f32"}}, {"head-dim", {"128"}}};
    flags["delta"] = {"false"}, flags["channel-gate"] = {channels};
    check(ops::delta_chunks_op(), flags);
    flags["step"] = {"wide-state"};
    flags["keeps"] = {"false", "true"};
    check(ops::delta_chunks_op(), flags);
    flags["state"] = {"e4m3"}, flags["keeps"] = {"true"}, flags["step"] = {"state"};
    check(ops::delta_chunks_op(), flags);
  }
}
