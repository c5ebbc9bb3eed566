// Protects what samples say of a schedule's promise: tiles of a problem, their time on the device that the arch is
// described with, and why a step is slower than the one before.
#include <doctest/doctest.h>

#include <string>

#include "common/ladder_report.hpp"
#include "common/prediction.hpp"
#include "common/step_report.hpp"
#include "support/expect.hpp"

namespace {

using tj::samples::ScheduleFacts;
using tj::testing::has;
namespace samples = tj::samples;

ScheduleFacts facts(const std::string& graph) {
  ScheduleFacts of;
  of.graph = graph;
  of.ii = 100, of.length = 300, of.overhead_cycles = 50;
  of.sm_count = 4, of.clock_ghz = 2;
  of.certificate = "II 100: unit TC";
  return of;
}

TEST_CASE("tiles are those that the graph's name says") {
  const auto product = samples::gemm_tiles(facts("gemm_f16_kk_128x256x64c2x1_v9"), 300, 512, 200);
  REQUIRE(product.size() == 1);
  CHECK(product[0].count == 3 * 2);
  CHECK(product[0].iterations == 4);
  CHECK(samples::gemm_tiles(facts("gemm_own"), 300, 512, 200).empty());
  CHECK(samples::gemm_tiles(facts("gemm_0x0x99999999999999999999"), 1, 1, 1).size() == 1);  // nothing is divided by 0
  const auto full = samples::fmha_tiles(facts("fmha_f16_d128_64x32_4waves_basic"), 6, 200, false);
  REQUIRE(full.size() == 4);
  CHECK(full[0].count == 6);
  CHECK(full[0].iterations == 7);
  const auto causal = samples::fmha_tiles(facts("fmha_f16_d64_causal_3x64x128"), 6, 400, true);
  REQUIRE(causal.size() == 3);  // of 192 rows
  CHECK(causal[0].iterations == 2);
  CHECK(causal[1].iterations == 3);
  CHECK(causal[2].iterations == 4);
}

TEST_CASE("waves of tiles, the longest first; blocks side by side take as long as one; nothing of what is unknown") {
  ScheduleFacts of = facts("x");
  const double alone = (50 + 9 * 100 + 300) / 2e6;  // ms of a tile of ten iterations
  CHECK(samples::predicted_ms(of, {{4, 10}}) == doctest::Approx(alone));
  CHECK(samples::predicted_ms(of, {{5, 10}}) == doctest::Approx(2 * alone));
  CHECK(samples::predicted_ms(of, {{1, 1}, {4, 10}}) == doctest::Approx(alone + 350 / 2e6));
  CHECK(samples::predicted_ms(of, {{1, 0}}) == doctest::Approx(50 / 2e6));
  of.blocks_per_sm = 2;
  CHECK(samples::predicted_ms(of, {{8, 10}}) == doctest::Approx(alone));
  of.cluster = 3;  // two clusters of three
  CHECK(samples::predicted_ms(of, {{7, 10}}) == doctest::Approx(2 * alone));
  CHECK(samples::predicted_ms(of, {}) == 0);
  of.clock_ghz = 0;
  CHECK(samples::predicted_ms(of, {{4, 10}}) == 0);
  CHECK(samples::predicted_ms(ScheduleFacts(), {{4, 10}}) == 0);
}

TEST_CASE("a slower step says whether its schedule foretells it, what binds it, and what changed that costs time") {
  ScheduleFacts before = facts("x"), now = facts("x");
  CHECK(samples::why_slower(before, now, 1.02, 0.9).empty());
  CHECK(samples::why_slower(before, now, 0, 0.9).empty());
  CHECK(samples::why_slower(before, now, 0.9, 0.92) ==
        "measured 0.90x, predicted 0.92x: the schedule says so; bound by II 100: unit TC");
  before.slots = {{"a", 4}, {"b", 4}}, now.slots = {{"a", 4}, {"b", 3}};
  before.sharers = {{"b", 1}}, now.sharers = {{"b", 2}};
  before.busy = {{"TC", 80}}, now.busy = {{"TC", 97}};
  before.blocks_per_sm = 2;
  CHECK(
      samples::why_slower(before, now, 0.96, 1.0) ==
      "measured 0.96x, predicted 1.00x: the schedule does not say so; what it does not see costs more; bound by II "
      "100: unit TC; a copy of b serves 2 blocks, and waits until all of them have a free slot; ring b has 3 slots, in "
      "the place of 4; 1 block side by side on an SM, in the place of 2; TC is held for 97% of the time, 80% before");
  CHECK(samples::why_slower(before, before, 0.96, 0) == "measured 0.96x; bound by II 100: unit TC");
}

TEST_CASE("ladders show rates and gains as predicted, and why a rung is slower") {
  samples::Ladder ladder;
  ladder.rungs.resize(2);
  for (std::size_t i = 0; i < 2; ++i) {
    samples::Rung& rung = ladder.rungs[i];
    rung.name = "v" + std::to_string(i + 1);
    rung.m = rung.n = rung.k = 1000;
    rung.schedule = facts("gemm_f16_kk_128x256x64");
    rung.predicted_ms = i == 0 ? 2 : 1;
    rung.ms = i == 0 ? 3 : 4;
  }
  CHECK(ladder.predicted_gain(0) == 0);
  CHECK(ladder.predicted_gain(1) == doctest::Approx(2));
  const std::string line = "v2 is slower than v1: measured 0.75x, predicted 2.00x: the schedule does not say so";
  for (const std::string& text : {samples::ladder_text(ladder), samples::ladder_markdown(ladder, 8)})
    for (const std::string& part : {std::string("predicted TFLOP/s"), std::string("2.00x"), line})
      CHECK_MESSAGE(has(text, part), text);
  CHECK(has(samples::ladder_json(ladder), "\"predicted_tflops\": 2.0"));
  ladder.on_model = true;
  CHECK(ladder.why_slower(1).empty());

  samples::StepReport report;
  report.results.resize(2);
  for (std::size_t i = 0; i < 2; ++i) {
    samples::StepResult& result = report.results[i];
    result.schedule = facts("fmha_f16_d128_64x64_4warps");
    result.predicted_ms = i == 0 ? 2 : 1;
    result.latency_ms = i == 0 ? 3 : 4;
  }
  samples::set_gains(report.results, 2e9, true);
  CHECK(report.results[1].predicted_tflops == doctest::Approx(2));
  std::string lines;
  for (const std::string& each : samples::step_lines(report, report.results[1])) lines += each + "\n";
  CHECK_MESSAGE(has(lines, "TFLOP/s, predicted 2\n"), lines);
  CHECK_MESSAGE(has(lines, "over the step before, predicted 2.00x\nSlower:      measured 0.75x, predicted 2.00x"),
                lines);
  CHECK(has(samples::steps_json(report), "\"why_slower\": \"measured 0.75x"));
}

}  // namespace
