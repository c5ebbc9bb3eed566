// Protects running sums of gates on the CPU model, against f64: each family, each form of gates, lengths around a
// chunk's end, lists with zero lengths and bad bounds, and what is refused by name.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "ops/chunk_stages/problem.hpp"
#include "support/expect.hpp"
#include "support/model_runtime.hpp"
#include "support/scratch.hpp"

using namespace tj;
using test::StageProblem;
using test::StageShape;

namespace {

TEST_CASE("sums restart in each chunk and sequence") {
  for (const std::int64_t tokens : {1, 63, 64, 65, 200})
    for (const std::int64_t batch : {0, 3}) {
      CAPTURE(tokens);
      CHECK(StageProblem({.batch = batch, .tokens = tokens, .heads = 5}, 1).run_cumsum() == "");
    }
  CHECK(StageProblem({.lengths = {70, 0, 1, 0, 64, 129}, .lead = 3, .tail = 5, .heads = 3}, 2).run_cumsum() == "");
  CHECK(StageProblem({.lengths = {0, 0}, .heads = 3}, 2).run_cumsum() == "");
}

TEST_CASE("gates have any form and type, on each family") {
  for (const char* target : {"model:sm_90a", "model:sm_80", "model:sm_100a", "model:gfx90a", "model:gfx1100"})
    for (const GateForm form : {GateForm::log, GateForm::exp, GateForm::raw}) {
      CAPTURE(target);
      StageShape shape{.lengths = {65, 0, 30}, .heads = 9, .half_numbers = form != GateForm::log, .form = form};
      if (form == GateForm::raw) shape.dtype = DType::f16;
      CHECK(StageProblem(shape, 3).run_cumsum(target) == "");
    }
}

TEST_CASE("strong gates, and a decay of nothing") {
  CHECK(StageProblem({.tokens = 100, .heads = 2, .gate_size = 40}, 4).run_cumsum() == "");
  StageProblem nothing({.tokens = 66, .heads = 1, .form = GateForm::exp}, 5);
  static_cast<float*>(nothing.cumsum.gate.data)[0] = 0;
  CHECK(nothing.run_cumsum() == "");
  for (const bool half : {false, true}) {  // its logarithm
    StageProblem infinite({.tokens = 66, .heads = 1, .half_numbers = half}, 5);
    if (half)
      static_cast<std::uint16_t*>(infinite.cumsum.gate.data)[4] = 0xff80;
    else
      static_cast<float*>(infinite.cumsum.gate.data)[4] = -std::numeric_limits<float>::infinity();
    CHECK(infinite.run_cumsum() == "");
  }
}

TEST_CASE("bad bounds stay inside, and TJ_CHECK names the first") {
  StageProblem problem({.lengths = {40, 30, 20}, .heads = 2}, 6);
  problem.ends[1] = 1 << 30;
  problem.ends[2] = -7;
  CHECK_NOTHROW(testing::model_runtime("model:sm_90a").run(problem.cumsum));
  Options options;
  options.target = "model:sm_90a";
  options.check_lists = true;
  testing::Scratch cache;
  options.cache_dir = cache.path();
  Runtime checked(options);
  CHECK(
      testing::has(testing::said_by([&] { checked.run(problem.cumsum); }), "cu_seqlens[1] is 1073741824; allowed: 0"));
  problem.ends = {0, 40, 70, 90};
  problem.cumsum.cu_seqlens = test::list_tensor(problem.ends);
  CHECK_NOTHROW(checked.run(problem.cumsum));
}

TEST_CASE("what cannot be served is refused by name") {
  StageProblem problem({.batch = 2, .tokens = 70, .heads = 3}, 7);
  const auto refused = [&](const std::string& text, auto change) {
    ChunkCumsumArgs args = problem.cumsum;
    change(args);
    const std::string said = testing::said_by([&] { testing::model_runtime("model:sm_90a").run(args); });
    CAPTURE(said);
    CHECK(testing::has(said, text));
  };
  refused("gate.dtype is i32; allowed: f16, bf16, f32", [](auto& a) { a.gate.dtype = DType::i32; });
  refused("g_cu.dtype is bf16; allowed: f32", [](auto& a) { a.g_cu.dtype = DType::bf16; });
  refused("g_cu.shape[2] (H) is 2", [](auto& a) { a.g_cu.shape[2] = 2; });
  refused("g_cu.shape[1] (T) is 69", [](auto& a) { a.g_cu.shape[1] = 69; });
  refused("chunk_cumsum: a_log is absent and gate_form is 2 (raw)", [](auto& a) { a.gate_form = GateForm::raw; });
  refused("a_log is given and gate_form is 0", [](auto& a) { a.a_log = a.gate; });
  refused("dt_bias is given and gate_form is 1", [](auto& a) { a.dt_bias = a.gate, a.gate_form = GateForm::exp; });
  refused("a_log.dtype is bf16; allowed: f32",
          [](auto& a) { a.a_log = a.gate, a.a_log->dtype = DType::bf16, a.gate_form = GateForm::raw; });
  refused("gate_form is 5", [](auto& a) { a.gate_form = static_cast<GateForm>(5); });
  refused("gate.rank is 3 with cu_seqlens", [&](auto& a) {
    problem.ends = {0, 70};
    a.cu_seqlens = test::list_tensor(problem.ends);
  });
  refused("overlap", [](auto& a) { a.g_cu.data = a.gate.data; });
  refused("max_sms is -1", [](auto& a) { a.max_sms = -1; });
}

}  // namespace
