// Protects the gated delta rule's chunk output, on every kind of matrix unit that it runs on: odd lengths, many
// sequences, one chunk, fewer items than blocks and many more, all ratios of heads, gates from none to strongly
// negative, NaN wherever no token is, both orders of h, on the CPU model, against f64, with a poisoned output inside
// guard bands.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "common/random.hpp"
#include "ops/chunk_o/params.cuh"
#include "ops/chunk_o/problem.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::ChunkOProblem;
using test::ChunkOShape;

namespace {

constexpr const char* kTargets[] = {"model:sm_90a", "model:sm_100a"};

Runtime& on_model(const std::string& target) { return testing::model_runtime(target); }

std::string run(const std::string& target, const ChunkOShape& shape, std::uint64_t seed) {
  ChunkOProblem problem(shape, seed);
  on_model(target).run(problem.args);
  return problem.problem();
}

ChunkOShape lengths(std::vector<int> list, int heads = 1, int v_heads = 2) {
  ChunkOShape shape;
  shape.lengths = std::move(list);
  shape.heads = heads;
  shape.v_heads = v_heads;
  return shape;
}

}  // namespace

TEST_CASE("lengths at the edges of chunks; what lies around sequences is neither read nor written") {
  int place = 0;
  for (const char* target : kTargets) {
    CAPTURE(target);
    std::uint64_t seed = 9001;
    int index = place++;
    for (const auto& list : std::vector<std::vector<int>>{
             {64}, {1}, {63}, {65}, {128, 64}, {0, 64, 0, 1, 0}, {8, 9, 7, 56, 57}, {129, 1, 63, 64, 65, 2}}) {
      if (testing::sampled_out(index++)) continue;  // each for one of the two
      ChunkOShape shape = lengths(list);
      shape.lead = 3;
      shape.tail = 5;
      CAPTURE(shape.text());
      CHECK(run(target, shape, seed++) == "");
    }
  }
}

TEST_CASE("no chunk at all, no sequence at all: nothing is written") {
  for (const char* target : kTargets) {
    CAPTURE(target);
    ChunkOShape shape = lengths({0, 0});
    shape.tail = 70;
    CHECK(run(target, shape, 9101) == "");
    ChunkOProblem none(lengths({}), 9801);
    on_model(target).run(none.args);
    CHECK(none.problem() == "");
  }
}

TEST_CASE("ratios of heads, in items of one, two and three") {
  for (const char* target : kTargets) {
    CAPTURE(target);
    std::uint64_t seed = 9201;
    for (const int ratio : {1, 2, 3, 4, 6})
      for (const int heads : {1, 2}) {
        if (testing::sampled_out(ratio + heads)) continue;
        const ChunkOShape shape = lengths({70, 64}, heads, heads * ratio);
        CAPTURE(shape.text());
        CHECK(run(target, shape, seed++) == "");
      }
  }
}

TEST_CASE("stages that are asked for, and hints to L2: the same results") {
  for (const char* target : kTargets)
    for (const int stages : {0, 1, 2}) {
      ChunkOProblem problem(lengths({130, 1, 64}, 1, 2), 9251);
      problem.args.num_stages = stages;
      problem.args.evict_first = stages != 1;
      CAPTURE(target);
      CAPTURE(stages);
      on_model(target).run(problem.args);
      CHECK(problem.problem() == "");
    }
}

TEST_CASE("gates from 0 to where factors above the diagonal are infinite") {
  for (const char* target : kTargets) {
    CAPTURE(target);
    std::uint64_t seed = 9301;
    for (const double gate : {0.0, 1e-3, 0.5, 5.0, 40.0}) {
      ChunkOShape shape = lengths({64, 20});
      shape.gate_scale = gate;
      CAPTURE(shape.text());
      CHECK(run(target, shape, seed++) == "");
    }
  }
}

TEST_CASE("without gates, equal lengths, h as K x V, a scale, rows that are further apart, room for more chunks") {
  int place = 0;
  for (const char* target : kTargets) {
    CAPTURE(target);
    std::uint64_t seed = 9401;
    ++place;
    for (int form = 0; form < 16; ++form) {
      if (testing::sampled_out(place + std::popcount(static_cast<unsigned>(form)))) continue;  // any two of the four
      ChunkOShape shape = lengths({100, 100, 100}, 1, form % 3 + 1);
      shape.gated = (form & 1) == 0;
      shape.variable = (form & 2) == 0;
      shape.h_transposed = (form & 4) != 0;
      if ((form & 8) != 0) {
        shape.padding = 24;
        shape.scale = -0.75f;
        shape.spare_chunks = 2;
      }
      CAPTURE(shape.text());
      CHECK(run(target, shape, seed++) == "");
    }
  }
}

TEST_CASE("many more items than blocks, whole and partial chunks mixed") {
  for (const char* target : kTargets) {
    CAPTURE(target);
    ChunkOShape shape;
    shape.lengths.clear();
    for (int i = 0; i < 40; ++i) shape.lengths.push_back(i * 37 % 131);
    shape.heads = 1;
    shape.v_heads = 2;
    CHECK(run(target, shape, 9501) == "");
  }
}

TEST_CASE("chunks that there is no room for are left out") {
  for (const char* target : kTargets) {
    CAPTURE(target);
    ChunkOShape shape = lengths({64, 64, 64});
    ChunkOProblem problem(shape, 9601);
    const std::int32_t more = 1000;
    *static_cast<std::int32_t*>(problem.args.total_chunks->data) = more;
    on_model(target).run(problem.args);
    CHECK(problem.problem() == "");
  }
}

TEST_CASE("lists that are wrong: nothing outside them is read, nothing outside o written") {
  for (const char* target : kTargets) {
    CAPTURE(target);
    ChunkOShape shape = lengths({64, 30, 128});
    ChunkOProblem problem(shape, 9701);
    auto* indices = static_cast<std::int32_t*>(problem.args.chunk_indices->data);
    indices[2] = 1 << 30;  // a sequence that there is none of: the last one's chunk 0 in the place of the second's
    on_model(target).run(problem.args);
    CHECK(problem.problem() != "");
    ChunkOProblem far(shape, 9702);
    static_cast<std::int32_t*>(far.args.chunk_indices->data)[1] = 1000;  // behind the end of its sequence: no rows
    on_model(target).run(far.args);
    CHECK(far.problem().find("chunk 0 row 0") != std::string::npos);
  }
}

TEST_CASE("random problems") {
  const std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  CAPTURE(seed);
  for (const char* target : kTargets) {
    CAPTURE(target);
    std::uint64_t next = 0;
    const auto below = [&](int bound) {
      return static_cast<int>(samples::random_bits(seed, next++) % static_cast<std::uint64_t>(bound));
    };
    for (int round = 0; round < testing::drawn(12); ++round) {
      ChunkOShape shape;
      shape.lengths.clear();
      for (int i = below(4); i >= 0; --i) shape.lengths.push_back(below(3) == 0 ? below(3) * 64 : below(140));
      shape.heads = 1 + below(2);
      shape.v_heads = shape.heads * (1 + below(4));
      shape.gated = below(4) != 0;
      shape.h_transposed = below(2) == 0;
      shape.gate_scale = below(2) == 0 ? 0.05 : 3.0;
      shape.lead = below(3);
      shape.tail = below(3);
      shape.padding = 8 * below(2);
      shape.spare_chunks = below(2);
      CAPTURE(shape.text());
      CHECK(run(target, shape, seed + static_cast<std::uint64_t>(round)) == "");
    }
  }
}

TEST_CASE("divisions by products are exact") {
  for (const int divisor :
       {1, 2, 3, 5, 6, 7, 16, 31, 48, 63, 64, 65, 127, 1000, 65535, 65537, 1 << 20, (1 << 30) - 1, 1 << 30}) {
    const auto by = divisor_of(divisor);
    for (std::int64_t multiple = 0; multiple < (std::int64_t{1} << 31);
         multiple += std::max<std::int64_t>(divisor, (std::int64_t{1} << 31) / 50 / divisor * divisor))
      for (const std::int64_t n : {multiple - 1, multiple, multiple + 1})
        if (n >= 0 && n < (std::int64_t{1} << 31))
          CHECK(divided(static_cast<int>(n), by) == static_cast<int>(n) / divisor);
    CHECK(divided(2147483647, by) == 2147483647 / divisor);
  }
}
