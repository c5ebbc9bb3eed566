// Protects the listing of chunks on the CPU model against a loop over the sequences: odd lengths, none at all, more sequences than a
// block and than an iteration take, a list that is too short, lengths that are no lengths; what lies around stays as it was.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "support/model_runtime.hpp"

using namespace tj;

namespace {

constexpr Device kCpu{DeviceKind::cpu, 0};
constexpr std::int32_t kPoison = -77;
using Ints = std::vector<std::int32_t>;

/// Memory at a multiple of 8 bytes with poison before and behind it.
struct Guarded {
  explicit Guarded(std::size_t count) : memory(count + 2 * kGuard + 1, kPoison), shift(reinterpret_cast<std::uintptr_t>(memory.data()) % 8 / 4) {}
  static constexpr std::size_t kGuard = 16;
  std::int32_t* data() { return memory.data() + kGuard + shift; }
  Ints memory;
  std::size_t shift;
};

Ints ends_of(const Ints& lengths, std::int32_t start = 0) {
  Ints ends = {start};
  for (const std::int32_t length : lengths) ends.push_back(ends.back() + length);
  return ends;
}

/// The list as a loop over the sequences makes it.
Ints expected(const Ints& ends) {
  Ints list;
  for (std::size_t s = 0; s + 1 < ends.size(); ++s)
    for (std::int64_t c = 0; c * kChunkTokens < std::int64_t{ends[s + 1]} - ends[s]; ++c) list.insert(list.end(), {static_cast<std::int32_t>(s), static_cast<std::int32_t>(c)});
  return list;
}

/// Runs with room for `capacity` pairs, `pitch` elements apart, and checks all that is in memory afterwards.
void check(Ints ends, std::size_t capacity, std::size_t pitch = 2) {
  const std::size_t sequences = ends.size() - 1;
  CAPTURE(sequences);
  CAPTURE(capacity);
  const Ints wanted = expected(ends);
  Guarded pairs((capacity - 1) * pitch + 2), total(1);
  ChunkIndicesArgs args{Tensor::contiguous(ends.data(), kCpu, DType::i32, {static_cast<std::int64_t>(ends.size())}),
                        Tensor::strided(pairs.data(), kCpu, DType::i32, {static_cast<std::int64_t>(capacity), 2}, {static_cast<std::int64_t>(pitch), 1}),
                        Tensor::contiguous(total.data(), kCpu, DType::i32, {1})};
  testing::model_runtime().chunk_indices(args);
  Guarded all((capacity - 1) * pitch + 2), count(1);
  for (std::size_t i = 0; i < std::min(capacity, wanted.size() / 2); ++i) std::copy_n(wanted.data() + 2 * i, 2, all.data() + i * pitch);
  count.data()[0] = static_cast<std::int32_t>(wanted.size() / 2);
  const auto alike = [](Guarded& a, Guarded& b, std::size_t size) { return std::equal(a.data() - Guarded::kGuard, a.data() + size + Guarded::kGuard, b.data() - Guarded::kGuard); };
  CHECK(total.data()[0] == count.data()[0]);
  CHECK(alike(total, count, 1));
  CHECK(alike(pairs, all, (capacity - 1) * pitch + 2));
}
void check_lengths(const Ints& lengths, std::int32_t start = 0) { check(ends_of(lengths, start), std::max<std::size_t>(1, expected(ends_of(lengths)).size() / 2)); }

}  // namespace

TEST_CASE("one sequence of odd lengths") {
  for (const std::int32_t length : {0, 1, 63, 64, 65, 127, 128, 129, 64 * 33, 64 * 100 + 1}) check_lengths({length});
}

TEST_CASE("no sequence, and none with a token") {
  check({0}, 1);
  check({5}, 3);
  check_lengths(Ints(300, 0));
}

TEST_CASE("sequences without tokens between others, at the ends, and a list that does not begin at 0") {
  check_lengths({0, 64, 0, 0, 65, 1, 0});
  check_lengths({3000, 0, 1}, 7);
}

TEST_CASE("as many sequences as a warp, a block and an iteration take, and one more or less") {
  std::mt19937 random(1);
  for (const std::size_t count : {31, 32, 33, 255, 256, 257, 511, 512, 513, 769, 1025}) {
    Ints lengths(count);
    for (auto& length : lengths) length = static_cast<std::int32_t>(random() % 4 == 0 ? 0 : random() % 300);
    check_lengths(lengths);
  }
}

TEST_CASE("thousands of sequences, random lengths") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  Ints lengths(5000);
  for (auto& length : lengths) length = static_cast<std::int32_t>(random() % 5 == 0 ? 0 : random() % 200);
  lengths[random() % lengths.size()] = 20000;
  check_lengths(lengths);
}

TEST_CASE("room for fewer: the rest is left out, the number is that of all") {
  const Ints ends = ends_of({100, 0, 640, 1, 64, 65});  // 2 + 0 + 10 + 1 + 1 + 2
  for (const std::size_t capacity : {1, 2, 3, 11, 12, 13, 15}) check(ends, capacity);
  check(ends_of(Ints(600, 130)), 700);
}

TEST_CASE("room for more, and pairs with gaps between them: nothing else is touched") {
  const Ints ends = ends_of({100, 0, 640, 1});
  check(ends, 40);
  check(ends, 13, 6);
}

TEST_CASE("an end before its beginning counts as no token, and no list is left by numbers that make no sense") {
  check({0, 100, 50, 200}, 10);
  constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min(), kMost = std::numeric_limits<std::int32_t>::max();
  Ints ends = {kLeast, kMost, kLeast, kMost, 0, kMost};
  Guarded pairs(2 * 5), total(1);
  ChunkIndicesArgs args{Tensor::contiguous(ends.data(), kCpu, DType::i32, {6}), Tensor::contiguous(pairs.data(), kCpu, DType::i32, {5, 2}),
                        Tensor::contiguous(total.data(), kCpu, DType::i32, {1})};
  testing::model_runtime().chunk_indices(args);
  CHECK(std::all_of(pairs.data() - Guarded::kGuard, pairs.data(), [](std::int32_t value) { return value == kPoison; }));
  CHECK(std::all_of(pairs.data() + 10, pairs.data() + 10 + Guarded::kGuard, [](std::int32_t value) { return value == kPoison; }));
}

TEST_CASE("prepared ahead, from its arguments and from nothing") {
  Ints ends = {0, 64};
  Guarded pairs(2), total(1);
  const ChunkIndicesArgs args{Tensor::contiguous(ends.data(), kCpu, DType::i32, {2}), Tensor::contiguous(pairs.data(), kCpu, DType::i32, {1, 2}),
                              Tensor::contiguous(total.data(), kCpu, DType::i32, {1})};
  Runtime& runtime = testing::model_runtime();
  const KernelReport report = runtime.prepare(args);
  CHECK(report.name == "chunk_indices");
  CHECK(runtime.prepare(ChunkIndicesConfig{}, kCpu).origin == KernelOrigin::memory);
  CHECK(runtime.warm(ChunkIndicesConfig{}, "model:sm_90a").origin == KernelOrigin::disk);
  CHECK(total.data()[0] == kPoison);
}
