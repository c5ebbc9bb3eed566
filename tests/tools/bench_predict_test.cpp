// Protects the prediction of a call from its schedule: waves of equal tiles, the longest first where they differ, and
// none where an op says nothing.
#include <doctest/doctest.h>

#include <cmath>

#include "bench_fixture.hpp"
#include "ops/common/workloads.hpp"
#include "ops/fmha/fmha.hpp"
#include "tools/bench_predict.hpp"

namespace {

using namespace tj::test;

/// Cycles of attention whose head dim is 64, with a block of 128 rows and 64 keys on a device that runs so many blocks.
double predicted(int queries, int heads, unsigned sms, unsigned beside, bool causal = false) {
  const tj::arch::Arch& arch = *tj::arch::find("sm_90a");
  const auto list = tj::ops::workloads(*tj::ops::find("fmha"),
                                       {{"batch", {"1"}},
                                        {"heads", {std::to_string(heads)}},
                                        {"seq-q", {std::to_string(queries)}},
                                        {"head-dim", {"64"}},
                                        {"causal", {causal ? "true" : "false"}}},
                                       arch);
  tj::LoadedKernel kernel;
  kernel.sm_count = sms;
  kernel.shape.blocks_per_sm = beside;
  kernel.geometry = tj::ops::Geometry::of(tj::ops::FmhaLaunch{.rows_per_block = 128, .block_n = 64});
  kernel.report.schedule_json = R"({"ii": 1000, "length": 3000, "overhead_cycles": 500})";
  tj::PreparedCall call;
  call.launches.emplace_back().kernel = &kernel;
  double us = 0;
  std::vector<void*> places;
  for (std::size_t i = 0; i < list.front().trial.tensors.size(); ++i)
    places.push_back(reinterpret_cast<void*>((i + 1) << 40));
  list.front().trial.with_args({tj::DeviceKind::cuda, 0}, places, [&](const void* args) {
    us = tj::tools::predicted_us(*tj::ops::find("fmha"), args, call, arch);
  });
  return us * arch.clock_ghz * 1e3;
}

TEST_CASE("equal tiles come in waves, and blocks side by side on an SM take no longer than one") {
  // 4 tiles of 4 iterations, 500 + 3 x 1000 + 3000 cycles each.
  CHECK(predicted(256, 2, 4, 1) == doctest::Approx(6500));
  CHECK(predicted(256, 2, 3, 1) == doctest::Approx(2 * 6500));
  CHECK(predicted(256, 2, 1, 1) == doctest::Approx(4 * 6500));
  CHECK(predicted(256, 2, 2, 2) == doctest::Approx(6500));
}

TEST_CASE("tiles that differ are dealt longest first, each to who is free first") {
  // 128, 256 and 384 rows: 2, 4 and 6 blocks of keys; 4500, 6500 and 8500 cycles.
  CHECK(predicted(384, 1, 3, 1, true) == doctest::Approx(8500));
  CHECK(predicted(384, 1, 2, 1, true) == doctest::Approx(11000));
  CHECK(predicted(384, 1, 1, 1, true) == doctest::Approx(19500));
}

TEST_CASE("what an op says nothing of is not predicted") {
  tj::LoadedKernel kernel;
  kernel.sm_count = 132;
  kernel.report.schedule_json = R"({"ii": 1, "length": 1, "overhead_cycles": 0})";
  tj::PreparedCall call;
  call.launches.emplace_back().kernel = &kernel;
  const tj::arch::Arch& arch = *tj::arch::find("sm_90a");
  const auto list = tj::ops::workloads(*tj::ops::find("copy_rows"), {}, arch);
  std::vector<void*> places(list.front().trial.tensors.size(), reinterpret_cast<void*>(std::uintptr_t{1} << 40));
  list.front().trial.with_args({tj::DeviceKind::cuda, 0}, places, [&](const void* args) {
    CHECK(std::isnan(tj::tools::predicted_us(*tj::ops::find("copy_rows"), args, call, arch)));
  });
}

}  // namespace
