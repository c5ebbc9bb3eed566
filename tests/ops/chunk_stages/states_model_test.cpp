// Protects states before each chunk on the CPU model, against f64: types, widths, both orders of matrices, v_new by
// chunks and by tokens, lists with zero lengths and bad bounds, few rows of h, and what is refused by name. Lengths of
// a list that falls have any sum.
#include <sys/mman.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/chunk_stages/problem.hpp"
#include "support/expect.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::StageProblem;
using test::StageShape;

namespace {

TEST_CASE("states agree with f64") {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const std::int64_t width : {64, 128})
      for (const bool transposed : {false, true}) {
        CAPTURE(width);
        CAPTURE(transposed);
        CHECK(StageProblem({.batch = 2,
                            .tokens = 130,
                            .k_heads = 1,
                            .heads = 2,
                            .width = width,
                            .dtype = dtype,
                            .transposed = transposed,
                            .by_tokens = transposed},
                           1)
                  .run_states() == "");
        CHECK(StageProblem({.lengths = {65, 0, 1, 64},
                            .lead = 3,
                            .tail = 5,
                            .heads = 1,
                            .width = width,
                            .dtype = dtype,
                            .state = DType::bf16,
                            .transposed = transposed,
                            .by_tokens = !transposed,
                            .padding = 8},
                           2)
                  .run_states() == "");
      }
}

TEST_CASE("gates and initial states may be absent, and gates strong") {
  CHECK(StageProblem({.tokens = 70, .width = 64, .gated = false}, 3).run_states() == "");
  CHECK(StageProblem({.tokens = 129, .width = 64, .initial = false}, 4).run_states() == "");
  CHECK(StageProblem({.tokens = 70, .width = 64, .gate_size = 20}, 5).run_states() == "");
  CHECK(StageProblem({.lengths = {70, 0, 3}, .width = 64, .state = DType::f16}, 6).run_states() == "");
}

TEST_CASE("bad bounds, and few rows, stay inside") {
  StageProblem problem({.lengths = {40, 100, 20}, .heads = 2, .width = 64}, 7);
  problem.states.h.shape[0] = 1;
  problem.states.v_new->shape[0] = 70;
  const auto* const h = static_cast<const unsigned char*>(problem.states.h.data);
  const std::int64_t bytes = 2 * problem.states.h.strides[0];
  CHECK_NOTHROW(testing::model_runtime().run(problem.states));
  CHECK(std::all_of(h + bytes, h + 2 * bytes, [](unsigned char byte) { return byte == test::kPoison; }));
  problem.ends = {-5, 1 << 30, -7, 160};
  problem.states.cu_seqlens = test::list_tensor(problem.ends);
  CHECK_NOTHROW(testing::model_runtime().run(problem.states));
}

TEST_CASE("a chunk behind those that can be counted has no row, whatever its list adds up to") {
  constexpr std::int64_t kTokens = (std::int64_t{1} << 28) - 64, kWidth = 64, kRows = 64, kApart = 8;
  constexpr std::size_t kBytes = 2 * (kTokens * kApart + kWidth);  // rows overlap: nothing but the first ones is read
  const auto free = [](void* memory) { munmap(memory, kBytes); };
  const std::unique_ptr<void, decltype(free)> zeros(
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0), free);
  REQUIRE(zeros.get() != MAP_FAILED);
  const Device cpu{DeviceKind::cpu, 0};
  for (const int power : {24, 25, 26}) {
    if (power != 26 && testing::left_out()) continue;
    CAPTURE(power);
    const std::int64_t chunks = std::int64_t{1} << power, most = kTokens / kChunkTokens, whole = chunks / most;
    // All sequences but the last count as empty: half the bounds alternate, and those behind the middle are zeros.
    std::vector<std::int32_t> ends;
    for (std::int64_t n = 0; n < whole; ++n) ends.insert(ends.end(), {0, static_cast<std::int32_t>(kTokens)});
    ends.insert(ends.end(), {0, static_cast<std::int32_t>((chunks - whole * most) * kChunkTokens)});
    ends.resize(2 * ends.size(), 0);
    ends.push_back(static_cast<std::int32_t>(kRows));
    std::vector<unsigned char> h(2 * kWidth * kWidth, test::kPoison), v_new(2 * kRows * kWidth, test::kPoison);
    ChunkStatesArgs args;
    args.k = args.w = args.u =
        Tensor::strided(zeros.get(), cpu, DType::bf16, {kTokens, 1, kWidth}, {kApart, kApart, 1});
    args.h = Tensor::contiguous(h.data(), cpu, DType::bf16, {1, 1, kWidth, kWidth});
    args.v_new = Tensor::contiguous(v_new.data(), cpu, DType::bf16, {kRows, 1, kWidth});
    args.cu_seqlens = test::list_tensor(ends);
    CHECK_NOTHROW(testing::model_runtime().run(args));
    const auto poison = [](unsigned char byte) { return byte == test::kPoison; };
    CHECK(std::all_of(h.begin(), h.end(), poison));
    CHECK(std::all_of(v_new.begin(), v_new.end(), poison));
  }
}

TEST_CASE("what cannot be served is refused by name") {
  StageProblem problem({.batch = 2, .tokens = 70, .k_heads = 1, .heads = 2, .width = 64}, 8);
  const auto refused = [&](const std::string& text, auto change, const char* target = "model:sm_90a") {
    ChunkStatesArgs args = problem.states;
    change(args);
    const std::string said = testing::said_by([&] { testing::model_runtime(target).run(args); });
    CAPTURE(said);
    CHECK(testing::has(said, text));
  };
  refused("h.shape[0] (C) is 3", [](auto& a) { a.h.shape[0] = 3; });
  refused("h.dtype is f32", [](auto& a) { a.h.dtype = DType::f32; });
  refused("u.shape[2] (H) is 1", [](auto& a) { a.u.shape[2] = 1; });
  refused("final_state.dtype is bf16", [](auto& a) { a.final_state->dtype = DType::bf16; });
  refused("initial_state.shape[0] (N) is 1", [](auto& a) { a.initial_state->shape[0] = 1; });
  refused("v_new.rank is 3", [](auto& a) { a.values_by_tokens = true; });
  refused("overlap", [](auto& a) { a.final_state->data = a.initial_state->data; });
  refused("chunk_states", [](auto&) {}, "model:sm_80");
}

}  // namespace
