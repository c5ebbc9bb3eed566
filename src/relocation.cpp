// See relocation.hpp.
#include "relocation.hpp"

#include <algorithm>
#include <cstring>

#include "support/fail.hpp"

namespace tj {
namespace {

constexpr std::uintptr_t kStep = 4096;  // addresses keep what they are to all alignments that matter

std::uint64_t word_at(const ops::LaunchPlan& plan, std::size_t offset) {
  std::uint64_t word = 0;
  std::memcpy(&word, plan.params.data() + offset, sizeof word);
  return word;
}

std::uintptr_t distance(std::size_t tensor) { return kStep << tensor; }

/// The tensor that moves by this; `count` when there is none.
std::size_t mover(std::uint64_t difference, std::size_t count) {
  std::size_t i = 0;
  while (i < count && distance(i) != difference) ++i;
  return i;
}

bool same_shape(const ops::LaunchPlan& first, const ops::LaunchPlan& second) {
  if (first.params_bytes != second.params_bytes || first.map_count != second.map_count || first.blocks != second.blocks)
    return false;
  for (std::size_t m = 0; m < first.map_count; ++m) {
    support::TensorMapDesc desc = second.maps[m].desc;
    desc.base = first.maps[m].desc.base;
    if (first.maps[m].offset != second.maps[m].offset || !(desc == first.maps[m].desc)) return false;
  }
  return true;
}

[[noreturn]] void fail_at(std::string_view op, std::size_t offset) {
  support::fail(Stage::codegen, Code::internal,
                support::cat("a launch of ", op, " has no plan: byte ", offset,
                             " of its parameters follows from addresses and is none; call run() instead"));
}

}  // namespace

Places moved(const Places& places) {
  Places result = places;
  for (std::size_t i = 0; i < result.size(); ++i) result[i] += distance(i);
  return result;
}

Relocations relocations(std::string_view op, const ops::LaunchPlan& first, const ops::LaunchPlan& second,
                        const Places& places, std::size_t tensors) {
  if (!same_shape(first, second)) fail_at(op, 0);
  const std::size_t movers = tensors + 1;
  Relocations found;
  const auto add = [&](std::vector<Relocation>& list, std::size_t offset, std::uint64_t from, std::uint64_t to) {
    const std::size_t tensor = mover(to - from, movers);
    if (tensor == movers) fail_at(op, offset);
    list.push_back({static_cast<std::uint16_t>(offset), static_cast<std::uint16_t>(tensor),
                    static_cast<std::int64_t>(from - places[tensor])});
  };
  for (std::size_t offset = 0; offset + sizeof(std::uint64_t) <= first.params_bytes; offset += sizeof(std::uint64_t))
    if (word_at(first, offset) != word_at(second, offset))
      add(found.pointers, offset, word_at(first, offset), word_at(second, offset));
  for (std::size_t m = 0; m < first.map_count; ++m)
    add(found.maps, first.maps[m].offset, reinterpret_cast<std::uint64_t>(first.maps[m].desc.base),
        reinterpret_cast<std::uint64_t>(second.maps[m].desc.base));
  return found;
}

bool same_but_for(std::size_t tensor, std::uintptr_t moved_by, const ops::LaunchPlan& first,
                  const ops::LaunchPlan& second, const Relocations& known) {
  if (!same_shape(first, second)) return false;
  // The copy engine takes multiples of 16 bytes alone.
  if (std::any_of(known.maps.begin(), known.maps.end(), [&](const Relocation& map) { return map.tensor == tensor; }))
    return false;
  ops::LaunchPlan expected = first;
  for (const Relocation& pointer : known.pointers) {
    if (pointer.tensor != tensor) continue;
    const std::uint64_t word = word_at(first, pointer.offset) + moved_by;
    std::memcpy(expected.params.data() + pointer.offset, &word, sizeof word);
  }
  return std::equal(expected.params.begin(), expected.params.begin() + static_cast<std::ptrdiff_t>(first.params_bytes),
                    second.params.begin());
}

}  // namespace tj
