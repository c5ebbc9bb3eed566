// Protects the listing of chunks on the CPU model against a loop over the sequences: odd lengths, none at all, more
// sequences than a block and than an iteration take, a list that is too short, lengths that are no lengths; what lies
// around stays as it was.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>

#include "common/random.hpp"
#include "ops/chunk_indices/problem.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::Ints;

namespace {

constexpr Device kCpu{DeviceKind::cpu, 0};
constexpr std::int64_t kMostCounted = std::numeric_limits<std::uint32_t>::max();

std::string of_lengths(const Ints& lengths, std::int32_t start = 0) {
  return test::list_chunks_of(testing::model_runtime(), kCpu, lengths, start);
}
std::string of_ends(const Ints& ends, std::size_t capacity, std::size_t pitch = 2) {
  return test::list_chunks(testing::model_runtime(), kCpu, ends, capacity, pitch);
}

}  // namespace

TEST_CASE("one sequence of odd lengths") {
  for (const std::int32_t length : {0, 1, 63, 64, 65, 127, 128, 129, 64 * 33, 64 * 100 + 1}) {
    CAPTURE(length);
    CHECK(of_lengths({length}) == "");
  }
}

TEST_CASE("on archs without a copy engine, and with warps of 64, too") {
  // gfx90a alone of these has warps of 64: two units of 32 in each.
  for (const char* target : {"model:sm_80", "model:sm_120a", "model:gfx1100", "model:gfx90a"}) {
    CAPTURE(std::string(target));
    CHECK(test::list_chunks_of(testing::model_runtime(target), kCpu, {0, 64, 1, 65, 3000, 0, 7}, 3) == "");
    for (const std::size_t count : {31, 33, 63, 65, 257, 600})
      CHECK_MESSAGE(test::list_chunks_of(testing::model_runtime(target), kCpu, test::random_lengths(count, 5)) == "",
                    count);
  }
}

TEST_CASE("no sequence, and none with a token") {
  CHECK(of_ends({0}, 1) == "");
  CHECK(of_ends({5}, 3) == "");
  CHECK(of_lengths(Ints(300, 0)) == "");
}

TEST_CASE("sequences without tokens between others, at the ends, and a list that does not begin at 0") {
  CHECK(of_lengths({0, 64, 0, 0, 65, 1, 0}) == "");
  CHECK(of_lengths({3000, 0, 1}, 7) == "");
}

TEST_CASE("as many sequences as a warp, a block and an iteration take, and one more or less; thousands") {
  std::uint64_t seed = samples::fresh_seed();
  CAPTURE(seed);
  for (const std::size_t count : {1, 31, 32, 33, 255, 256, 257, 511, 512, 513, 769, 1025, 5000}) {
    CAPTURE(count);
    CHECK(of_lengths(test::random_lengths(count, seed++)) == "");
  }
}

TEST_CASE("room for fewer: the rest is left out, the number is that of all") {
  const Ints ends = test::ends_of({100, 0, 640, 1, 64, 65});  // 2 + 0 + 10 + 1 + 1 + 2
  for (const std::size_t capacity : {1, 2, 3, 11, 12, 13, 15}) {
    CAPTURE(capacity);
    CHECK(of_ends(ends, capacity) == "");
  }
  CHECK(of_ends(test::ends_of(Ints(600, 130)), 700) == "");
}

TEST_CASE("room for more, and pairs with gaps between them: nothing else is touched") {
  const Ints ends = test::ends_of({100, 0, 640, 1});
  CHECK(of_ends(ends, 40) == "");
  CHECK(of_ends(ends, 13, 6) == "");
}

TEST_CASE("an end before its beginning counts as no token") { CHECK(of_ends({0, 100, 50, 200}, 10) == ""); }

TEST_CASE("no list is left by numbers that make no sense") {
  constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min(),
                         kMost = std::numeric_limits<std::int32_t>::max();
  constexpr std::size_t kGuard = 16;
  constexpr std::int32_t kPoison = -77;
  alignas(8) std::int32_t pairs[10 + 2 * kGuard], total = 0;
  std::fill(std::begin(pairs), std::end(pairs), kPoison);
  Ints ends = {kLeast, kMost, kLeast, kMost, 0, kMost};
  testing::model_runtime().run(ChunkIndicesArgs{Tensor::contiguous(ends.data(), kCpu, DType::i32, {6}),
                                                Tensor::contiguous(pairs + kGuard, kCpu, DType::i32, {5, 2}),
                                                Tensor::contiguous(&total, kCpu, DType::i32, {1})});
  const auto poison = [](std::int32_t value) { return value == kPoison; };
  CHECK(std::all_of(pairs, pairs + kGuard, poison));
  CHECK(std::all_of(std::end(pairs) - kGuard, std::end(pairs), poison));
}

TEST_CASE(
    "random numbers in place of lengths: no access outside the tensors, the number is the sum of all up to 2^32 - 1") {
  constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min(),
                         kMost = std::numeric_limits<std::int32_t>::max(), kPoison = -77;
  constexpr std::int32_t kOdd[] = {0,       1,     63,        64, 65,  1000,   1 << 25,
                                   1 << 30, kMost, kMost - 1, -1, -64, kLeast, kLeast + 1};
  const std::uint64_t seed = samples::fresh_seed();
  CAPTURE(seed);
  std::uint64_t at = 0;
  for (const std::size_t count : {1, 2, 31, 33, 257, 300}) {
    for (const std::size_t capacity : {1, 5, 64}) {
      Ints ends(count + 1), pairs(2 * capacity + 32, kPoison);
      for (std::int32_t& end : ends) end = kOdd[samples::random_bits(seed, at++) % std::size(kOdd)];
      std::int32_t total = 0;
      std::int32_t* list = pairs.data() + 16;
      testing::model_runtime().run(
          ChunkIndicesArgs{Tensor::contiguous(ends.data(), kCpu, DType::i32, {static_cast<std::int64_t>(count) + 1}),
                           Tensor::contiguous(list, kCpu, DType::i32, {static_cast<std::int64_t>(capacity), 2}),
                           Tensor::contiguous(&total, kCpu, DType::i32, {1})});
      std::int64_t expected = 0;
      for (std::size_t s = 0; s < count; ++s)
        expected += (std::max<std::int64_t>(0, std::int64_t{ends[s + 1]} - ends[s]) + 63) / 64;
      CHECK(static_cast<std::uint32_t>(total) == std::min(expected, kMostCounted));
      const auto poison = [](std::int32_t value) { return value == kPoison; };
      CHECK(std::all_of(pairs.begin(), pairs.begin() + 16, poison));
      CHECK(std::all_of(pairs.end() - 16, pairs.end(), poison));
    }
  }
}

TEST_CASE("no chunk takes the row of another one, whatever the list adds up to") {
  constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min(),
                         kMost = std::numeric_limits<std::int32_t>::max();
  for (const std::size_t count :
       {131, 300}) {  // 64 sequences of 2^26 chunks and more; behind them one that would have row 1
    Ints ends = {0, 1, kLeast}, pairs(6, -77);
    while (ends.size() < count) ends.insert(ends.end(), {kMost, kLeast});
    ends.insert(ends.end(), {kLeast + 1});
    std::int32_t total = 0;
    testing::model_runtime().run(ChunkIndicesArgs{
        Tensor::contiguous(ends.data(), kCpu, DType::i32, {static_cast<std::int64_t>(ends.size())}),
        Tensor::contiguous(pairs.data(), kCpu, DType::i32, {3, 2}), Tensor::contiguous(&total, kCpu, DType::i32, {1})});
    CHECK(static_cast<std::uint32_t>(total) == kMostCounted);
    CHECK(pairs == Ints{0, 0, 2, 0, 2, 1});
  }
}

TEST_CASE("prepared ahead, from its arguments and from nothing") {
  alignas(8) std::int32_t ends[] = {0, 64}, pairs[] = {-1, -1}, total = -1;
  const ChunkIndicesArgs args{Tensor::contiguous(ends, kCpu, DType::i32, {2}),
                              Tensor::contiguous(pairs, kCpu, DType::i32, {1, 2}),
                              Tensor::contiguous(&total, kCpu, DType::i32, {1})};
  Runtime& runtime = testing::model_runtime();
  CHECK(runtime.prepare(args).name == "chunk_indices");
  CHECK(runtime.prepare(ChunkIndicesConfig{}, kCpu).origin == KernelOrigin::memory);
  CHECK(runtime.warm(ChunkIndicesConfig{}, "model:sm_90a").origin == KernelOrigin::disk);
  CHECK(total == -1);
}
