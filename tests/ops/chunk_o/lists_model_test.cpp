// Protects what chunk output does where the lists say more, or less, than the tensors have: chunks that are not there
// are left out, the others are right, nothing else of o is written, and nothing outside the tensors is read.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "common/random.hpp"
#include "ops/chunk_o/problem.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::ChunkOProblem;
using test::ChunkOShape;

namespace {

constexpr int kChunks = 5;

/// Five chunks, three of them whole.
ChunkOShape shape() {
  ChunkOShape shape;
  shape.lengths = {64, 70, 1, 64};
  shape.v_heads = 2;
  shape.lead = 1;
  shape.tail = 2;
  return shape;
}

const char* const kTargets[] = {"model:sm_90a", "model:sm_100a"};

std::string run(const char* target, ChunkOProblem& problem, int chunks) {
  testing::model_runtime(target).run(problem.args);
  return problem.problem(chunks);
}

}  // namespace

TEST_CASE("total_chunks below 0, 0, and anything up to all: so many chunks") {
  for (const char* target : kTargets) {
    CAPTURE(target);
    for (const std::int32_t total : {std::numeric_limits<std::int32_t>::min(), -1, 0, 1, 3, kChunks}) {
      CAPTURE(total);
      ChunkOProblem problem(shape(), 9901);
      REQUIRE(problem.chunks() == kChunks);
      *static_cast<std::int32_t*>(problem.args.total_chunks->data) = total;
      CHECK(run(target, problem, total < 0 ? 0 : total) == "");
    }
  }
}

TEST_CASE("lists that are wrong: nothing before or behind o is written") {
  for (const char* target : kTargets) {
    CAPTURE(target);
    constexpr int kInt = std::numeric_limits<std::int32_t>::max();
    struct Wrong {
      std::int32_t begin, number;  // of the first sequence and of its first chunk
    };
    for (const Wrong& wrong : {Wrong{-10, 0},
                               {40, -1},
                               {-200, 3},
                               {-kInt - 1, 0},
                               {kInt, 1},
                               {64, kInt},
                               {0, 1 << 25},
                               {64, -(1 << 25)},
                               {-64, 1}}) {
      CAPTURE(wrong.begin);
      CAPTURE(wrong.number);
      ChunkOProblem problem(shape(), 9921);
      auto* ends = static_cast<std::int32_t*>(problem.args.cu_seqlens->data);
      ends[0] = wrong.begin;
      ends[1] = 20;  // what is no whole chunk is stored row by row
      static_cast<std::int32_t*>(problem.args.chunk_indices->data)[1] = wrong.number;
      Tensor& o = problem.args.o;
      constexpr std::size_t kRows = 300;  // around it
      const auto row = static_cast<std::size_t>(o.strides[0]), rows = static_cast<std::size_t>(o.shape[0]);
      std::vector<std::uint16_t> memory((rows + 2 * kRows) * row, 0x7fc1);
      o.data = memory.data() + kRows * row;
      testing::model_runtime(target).run(problem.args);
      const auto untouched = [&](std::size_t from) {
        return std::all_of(memory.begin() + static_cast<std::ptrdiff_t>(from * row),
                           memory.begin() + static_cast<std::ptrdiff_t>((from + kRows) * row),
                           [](std::uint16_t each) { return each == 0x7fc1; });
      };
      CHECK(untouched(0));
      CHECK(untouched(kRows + rows));
    }
  }
}

TEST_CASE(
    "a row of the list is ignored whose sequence or chunk is not there: the others are right, its tokens keep what "
    "they held") {
  constexpr int kMost = std::numeric_limits<std::int32_t>::max(), kLeast = std::numeric_limits<std::int32_t>::min();
  constexpr int kTokens = 1 + 64 + 70 + 1 + 64 + 2;
  struct Row {
    std::int32_t sequence, number;  // in the last place, a chunk that is not there
  };
  for (const char* target : kTargets) {
    CAPTURE(target);
    for (const Row& row :
         {Row{3, -3}, {3, kLeast}, {3, 1}, {3, kTokens / 64}, {3, kMost}, {-1, 0}, {4, 0}, {kMost, 1}}) {
      CAPTURE(row.sequence);
      CAPTURE(row.number);
      ChunkOProblem problem(shape(), 9931);
      auto* indices = static_cast<std::int32_t*>(problem.args.chunk_indices->data);
      indices[2 * (kChunks - 1)] = row.sequence;
      indices[2 * (kChunks - 1) + 1] = row.number;
      CHECK(run(target, problem, kChunks - 1) == "");
    }
  }
}

TEST_CASE("a sequence is ignored that begins at the last token's end or behind, or that ends before it begins") {
  constexpr int kMost = std::numeric_limits<std::int32_t>::max(), kLeast = std::numeric_limits<std::int32_t>::min();
  constexpr int kBegin = 1 + 64 + 70 + 64, kTokens = kBegin + 64 + 2;
  struct Ends {
    std::int32_t begin,
        end;  // of the last sequence; the begin is the end of the one before, whose chunk is whole all the same
  };
  ChunkOShape whole = shape();
  whole.lengths[2] = 64;
  for (const char* target : kTargets) {
    CAPTURE(target);
    for (const Ends& ends :
         {Ends{kMost, kLeast}, {kMost, kMost}, {kTokens, kMost}, {kBegin, kLeast}, {kBegin, -1}, {kBegin, kBegin}}) {
      CAPTURE(ends.begin);
      CAPTURE(ends.end);
      ChunkOProblem problem(whole, 9941);
      auto* list = static_cast<std::int32_t*>(problem.args.cu_seqlens->data);
      list[3] = ends.begin;
      list[4] = ends.end;
      CHECK(run(target, problem, kChunks - 1) == "");
    }
  }
}

TEST_CASE("a sequence is ignored that begins below 0") {
  for (const char* target : kTargets) {
    CAPTURE(target);
    for (const std::int32_t begin : {-1, std::numeric_limits<std::int32_t>::min()}) {
      CAPTURE(begin);
      ChunkOProblem problem(shape(), 9951);
      static_cast<std::int32_t*>(problem.args.cu_seqlens->data)[0] = begin;
      testing::model_runtime(target).run(problem.args);
      const auto* o = static_cast<const std::uint16_t*>(problem.args.o.data);
      const std::int64_t row = problem.args.o.strides[0];
      CHECK(std::all_of(o, o + 65 * row, [](std::uint16_t each) { return each == 0xffff; }));
      CHECK(std::any_of(o + 65 * row, o + 66 * row, [](std::uint16_t each) { return each != 0xffff; }));
    }
  }
}

TEST_CASE("lists of random numbers: no access outside the tensors") {
  const std::uint64_t seed = samples::fresh_seed();
  CAPTURE(seed);
  constexpr std::int32_t kOdd[] = {0,   1,       2,       3,
                                   4,   5,       63,      64,
                                   65,  128,     200,     202,
                                   203, 1 << 25, 1 << 30, std::numeric_limits<std::int32_t>::max(),
                                   -1,  -3,      -64,     std::numeric_limits<std::int32_t>::min()};
  for (std::uint64_t round = 0; round < 12; ++round) {
    CAPTURE(round);
    ChunkOShape random = shape();
    random.gated = round % 2 == 0;
    ChunkOProblem problem(random, 9961);
    std::uint64_t at = round * 64;
    const auto forge = [&](const Tensor& list) {
      auto* data = static_cast<std::int32_t*>(list.data);
      for (std::int64_t i = 0; i < list.shape[0] * (list.rank == 2 ? 2 : 1); ++i)
        data[i] = kOdd[samples::random_bits(seed, at++) % std::size(kOdd)];
    };
    forge(*problem.args.cu_seqlens);
    forge(*problem.args.chunk_indices);
    if (round % 4 == 0) forge(*problem.args.total_chunks);
    testing::model_runtime(kTargets[round / 2 % 2])
        .run(problem.args);  // the model checks each access against the tensors
  }
}

TEST_CASE("states, values or rows of the list for fewer chunks than are counted") {
  for (const char* target : kTargets) {
    CAPTURE(target);
    for (const int room : {1, 2, 4}) {
      CAPTURE(room);
      ChunkOProblem states(shape(), 9911), values(shape(), 9912), rows(shape(), 9913);
      states.args.h.shape[0] = room;
      values.args.v_new.shape[0] = 64 * room + 63;  // what begins no whole chunk is none
      rows.args.chunk_indices->shape[0] = room;
      for (ChunkOProblem* problem : {&states, &values, &rows}) CHECK(run(target, *problem, room) == "");
    }
  }
}
