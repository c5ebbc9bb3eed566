// Protects chunk output on the families of warps and of waves, on the CPU model against f64: copies by threads (sm_80)
// and by the engine (sm_90, sm_120a), each kind of AMD's waves and of LDS. Lengths at the edges of chunks, both orders
// of h, ratios of heads, lists that say anything, a limit on multiprocessors; and what such archs refuse.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "common/random.hpp"
#include "ops/chunk_o/problem.hpp"
#include "support/expect.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::ChunkOProblem;
using test::ChunkOShape;

namespace {

constexpr std::array kArchs = {"sm_80", "sm_90", "sm_120a", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"};
constexpr std::array kOwnCopies = {"sm_80", "gfx942", "gfx1100", "sm_90+copies=threads"};

Runtime& runtime_of(const std::string& arch) { return testing::model_runtime("model:" + arch); }

std::string run(const std::string& arch, const ChunkOShape& shape, std::uint64_t seed) {
  ChunkOProblem problem(shape, seed);
  runtime_of(arch).run(problem.args);
  return problem.problem();
}

}  // namespace

TEST_CASE("lengths at the edges of chunks; what lies around sequences is neither read nor written") {
  const std::vector<std::vector<int>> lists = {{64}, {1}, {63}, {65}, {0, 64, 0, 1, 0}, {128, 7, 57}, {129, 1, 63, 2}};
  std::uint64_t seed = 1;
  for (std::size_t a = 0; a < kArchs.size(); ++a)
    for (std::size_t l = 0; l < lists.size(); ++l, ++seed) {
      if (testing::sampled_out(static_cast<int>(a + l), 4)) continue;
      ChunkOShape shape{.lengths = lists[l], .heads = 1, .v_heads = 2};
      shape.lead = 3;
      shape.tail = 5;
      shape.padding = l % 2 == 0 ? 8 : 0;
      CAPTURE(kArchs[a]);
      CAPTURE(shape.text());
      CHECK(run(kArchs[a], shape, seed) == "");
    }
}

TEST_CASE("each order of h, with gates and without, lists and equal lengths, ratios of heads, any scale") {
  std::uint64_t seed = 100;
  for (std::size_t a = 0; a < kArchs.size(); ++a)
    for (int form = 0; form < 8; ++form, ++seed) {
      if (testing::sampled_out(static_cast<int>(a) + form, 5)) continue;
      ChunkOShape shape{.lengths = {100, 100}, .heads = 1 + form % 2, .gated = (form & 1) == 0};
      shape.v_heads = shape.heads * (form % 3 + 1);
      shape.variable = (form & 2) == 0;
      shape.h_transposed = (form & 4) != 0;
      shape.gate_scale = form % 4 == 0 ? 40 : 0.3;  // factors above the diagonal are infinite
      shape.spare_chunks = form % 2;
      shape.scale = form % 3 == 0 ? -0.75f : 0;
      CAPTURE(kArchs[a]);
      CAPTURE(shape.text());
      CHECK(run(kArchs[a], shape, seed) == "");
    }
}

TEST_CASE("no chunk, no sequence, many more items than blocks, one multiprocessor") {
  std::uint64_t seed = 200;
  int place = 0;
  for (const std::string arch : kArchs) {
    if (testing::sampled_out(place++)) continue;
    CAPTURE(arch);
    ChunkOShape nothing{.lengths = {0, 0}};
    nothing.tail = 70;
    CHECK(run(arch, nothing, ++seed) == "");
    ChunkOShape many{.lengths = {}, .heads = 1, .v_heads = 2};
    CHECK(run(arch, many, ++seed) == "");
    for (int i = 0; i < 8; ++i) many.lengths.push_back(i * 37 % 131);
    ChunkOProblem problem(many, ++seed);
    problem.args.max_sms = 1;
    runtime_of(arch).run(problem.args);
    CHECK(problem.problem() == "");
  }
}

TEST_CASE("lists that say anything: nothing outside the tensors is read, what is not there is left out") {
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max(),
                         kOdd[] = {0, 1, 2, 3, 4, 63, 64, 65, 200, 1 << 25, 1 << 30, kMost, -1, -64, -kMost - 1};
  std::uint64_t seed = 300;
  for (const std::string arch : kOwnCopies) {
    CAPTURE(arch);
    ChunkOShape shape{.lengths = {64, 70, 1, 64}, .heads = 1, .v_heads = 2};
    shape.lead = 1;
    for (const std::int32_t row : {-3, 1, kMost}) {
      CAPTURE(row);
      ChunkOProblem problem(shape, ++seed);
      static_cast<std::int32_t*>(problem.args.chunk_indices->data)[9] = row;  // the last chunk's number
      runtime_of(arch).run(problem.args);
      CHECK(problem.problem(problem.chunks() - 1) == "");
    }
    for (int round = 0; round < testing::drawn(6); ++round) {
      ChunkOProblem problem(shape, ++seed);
      for (const Tensor& list : {*problem.args.cu_seqlens, *problem.args.chunk_indices})
        for (std::int64_t i = 0; i < list.shape[0] * (list.rank == 2 ? 2 : 1); ++i)
          static_cast<std::int32_t*>(list.data)[i] =
              kOdd[samples::random_bits(seed, static_cast<std::uint64_t>(i)) % std::size(kOdd)];
      runtime_of(arch).run(problem.args);  // the model checks each access against the tensors
    }
  }
}

TEST_CASE("stages and hints where there is room, and what they are refused with") {
  for (const std::string arch : {"sm_80", "sm_90", "sm_120a", "gfx942", "gfx1100"}) {
    CAPTURE(arch);
    const bool engine = arch == "sm_90" || arch == "sm_120a", deep = arch == "sm_80" || arch == "sm_90";
    ChunkOProblem problem({.lengths = {130, 1}}, 400);
    problem.args.num_stages = deep ? 2 : 1;
    problem.args.evict_first = engine;
    runtime_of(arch).run(problem.args);
    CHECK(problem.problem() == "");
    if (engine) continue;
    problem.args.evict_first = true;
    const Error hint = testing::error_of([&] { runtime_of(arch).run(problem.args); });
    CHECK_MESSAGE(hint.message.find("evict_first is true; allowed on " + arch) != std::string::npos, hint.message);
  }
  ChunkOProblem problem({}, 401);
  problem.args.num_stages = 2;
  for (const auto& each : {std::pair{"sm_120a", 99}, {"gfx1100", 64}, {"gfx90a", 64}}) {
    const char* const arch = each.first;
    const int kilobytes = each.second;
    const Error deep = testing::error_of([&] { runtime_of(arch).run(problem.args); });
    CHECK_MESSAGE(deep.message.find("num_stages is 2; allowed on " + std::string(arch)) != std::string::npos,
                  deep.message);
    CHECK_MESSAGE(deep.message.find(std::to_string(kilobytes * 1024) + " bytes") != std::string::npos, deep.message);
  }
}

TEST_CASE("random problems") {
  const std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  CAPTURE(seed);
  std::uint64_t next = 0;
  const auto below = [&](int bound) {
    return static_cast<int>(samples::random_bits(seed, next++) % static_cast<std::uint64_t>(bound));
  };
  for (int round = 0; round < testing::drawn(12); ++round) {
    const std::string arch = kArchs[static_cast<std::size_t>(below(static_cast<int>(kArchs.size())))];
    ChunkOShape shape{.lengths = {}, .heads = 1 + below(2)};
    for (int i = below(3); i >= 0; --i) shape.lengths.push_back(below(3) == 0 ? below(3) * 64 : below(140));
    shape.v_heads = shape.heads * (1 + below(3));
    shape.gated = below(4) != 0;
    shape.h_transposed = below(2) == 0;
    shape.gate_scale = below(2) == 0 ? 0.05 : 3.0;
    shape.lead = below(3);
    shape.tail = below(3);
    shape.padding = 8 * below(2);
    CAPTURE(arch);
    CAPTURE(shape.text());
    CHECK(run(arch, shape, seed + static_cast<std::uint64_t>(round)) == "");
  }
}
