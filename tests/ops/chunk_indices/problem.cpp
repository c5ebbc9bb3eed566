// See chunk_indices_problem.hpp.
#include "ops/chunk_indices/problem.hpp"

#include <algorithm>
#include <memory>
#include <sstream>

#include "common/random.hpp"

namespace tj::test {
namespace {

constexpr Device kHost{DeviceKind::cpu, 0};
constexpr std::int32_t kPoison = -77;
constexpr std::size_t kGuard = 16;

/// Device memory with numbers in it and poison around them.
struct Numbers {
  Numbers(Runtime& r, Device d, const Ints& values)
      : runtime(r), device(d), memory(r.allocate(d, (values.size() + 2 * kGuard) * sizeof(std::int32_t))) {
    Ints all(values.size() + 2 * kGuard, kPoison);
    std::copy(values.begin(), values.end(), all.begin() + kGuard);
    runtime.copy(memory.get(), device, all.data(), kHost, all.size() * sizeof(all[0]));
    elements = all.size();
  }
  void* data() const { return static_cast<std::int32_t*>(memory.get()) + kGuard; }
  /// With what is around.
  Ints all() const {
    Ints values(elements);
    runtime.copy(values.data(), kHost, memory.get(), device, values.size() * sizeof(values[0]));
    return values;
  }
  Runtime& runtime;
  Device device;
  std::shared_ptr<void> memory;
  std::size_t elements = 0;
};

std::string differences(const char* name, const Ints& got, const Ints& wanted) {
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (got[i] != wanted[i]) {
      std::ostringstream text;
      text << name << ": element " << static_cast<std::ptrdiff_t>(i) - static_cast<std::ptrdiff_t>(kGuard) << " is "
           << got[i] << " instead of " << wanted[i] << "\n";
      return text.str();
    }
  return "";
}

}  // namespace

Ints ends_of(const Ints& lengths, std::int32_t start) {
  Ints ends = {start};
  for (const std::int32_t length : lengths) ends.push_back(ends.back() + length);
  return ends;
}

Ints chunks_of(const Ints& ends) {
  Ints list;
  for (std::size_t s = 0; s + 1 < ends.size(); ++s)
    for (std::int64_t c = 0; c * kChunkTokens < std::int64_t{ends[s + 1]} - ends[s]; ++c)
      list.insert(list.end(), {static_cast<std::int32_t>(s), static_cast<std::int32_t>(c)});
  return list;
}

std::string list_chunks(Runtime& runtime, Device device, const Ints& ends, std::size_t capacity, std::size_t pitch) {
  const Ints wanted = chunks_of(ends), empty((capacity - 1) * pitch + 2, kPoison);
  const Numbers cu_seqlens(runtime, device, ends), pairs(runtime, device, empty), total(runtime, device, {kPoison});
  const ChunkIndicesArgs args{
      Tensor::contiguous(cu_seqlens.data(), device, DType::i32, {static_cast<std::int64_t>(ends.size())}),
      Tensor::strided(pairs.data(), device, DType::i32, {static_cast<std::int64_t>(capacity), 2},
                      {static_cast<std::int64_t>(pitch), 1}),
      Tensor::contiguous(total.data(), device, DType::i32, {1})};
  runtime.run(args);
  runtime.synchronize(device);
  Ints all_pairs(empty.size() + 2 * kGuard, kPoison), all_total(1 + 2 * kGuard, kPoison);
  for (std::size_t i = 0; i < std::min(capacity, wanted.size() / 2); ++i)
    std::copy_n(wanted.begin() + static_cast<std::ptrdiff_t>(2 * i), 2,
                all_pairs.begin() + static_cast<std::ptrdiff_t>(kGuard + i * pitch));
  all_total[kGuard] = static_cast<std::int32_t>(wanted.size() / 2);
  return differences("total_chunks", total.all(), all_total) + differences("chunk_indices", pairs.all(), all_pairs);
}

std::string list_chunks_of(Runtime& runtime, Device device, const Ints& lengths, std::int32_t start) {
  const Ints ends = ends_of(lengths, start);
  return list_chunks(runtime, device, ends, std::max<std::size_t>(1, chunks_of(ends).size() / 2));
}

Ints random_lengths(std::size_t count, std::uint64_t seed) {
  Ints lengths(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = samples::random_bits(seed, i);
    lengths[i] = bits % 5 == 0 ? 0 : static_cast<std::int32_t>(bits / 5 % 200);
  }
  lengths[samples::random_bits(seed, count) % count] = 20000;
  return lengths;
}

}  // namespace tj::test
