// See chunk_trial.hpp.
#include "ops/common/chunk_trial.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "ops/chunks/params.cuh"
#include "support/fail.hpp"

namespace tj::ops {

using support::cat;

ChunkSizes::ChunkSizes(std::string_view op, Flags& flags) : sizes_(op, flags, {{"heads", 1}, {"v-heads", 2}}) {
  lengths_ = {take_list(flags, "lengths", {})};
  if (lengths_[0].empty()) lengths_ = {{70, 70}, {65, 0, 3}};
}

ChunkTrial::ChunkTrial(const ChunkSizes& sizes, const std::vector<std::int64_t>& lengths, std::string kernel_flags)
    : lengths_(lengths),
      listed_(std::adjacent_find(lengths.begin(), lengths.end(), std::not_equal_to<>()) != lengths.end()) {
  std::string text;
  for (const std::int64_t length : lengths) text += cat(text.empty() ? "" : ",", length);
  trial_.name = cat("lengths ", text, ", heads ", sizes.heads(), " and ", sizes.v_heads());
  trial_.flags = cat(kernel_flags, " ", sizes.flags(), " --lengths ", text);
  trial_.kernel_flags = std::move(kernel_flags);
}

std::vector<std::int64_t> ChunkTrial::shaped(const std::vector<std::int64_t>& last) const {
  std::int64_t all = 0;
  for (const std::int64_t length : lengths_) all += length;
  std::vector<std::int64_t> shape = listed_ ? std::vector{std::max<std::int64_t>(1, all)}
                                            : std::vector{sequences(), std::max<std::int64_t>(1, lengths_[0])};
  shape.insert(shape.end(), last.begin(), last.end());
  return shape;
}

std::size_t ChunkTrial::add(std::string name, DType dtype, const std::vector<std::int64_t>& last, bool written) {
  return add_dense(std::move(name), dtype, shaped(last), written);
}

std::size_t ChunkTrial::add_bits(std::string name, const std::vector<std::int64_t>& last, float value) {
  const std::vector<std::int64_t> shape = shaped(last);
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  trial_.tensors.push_back(
      list_of(std::move(name), shape,
              std::vector<std::int32_t>(static_cast<std::size_t>(count), std::bit_cast<std::int32_t>(value))));
  return trial_.tensors.size() - 1;
}

std::size_t ChunkTrial::add_dense(std::string name, DType dtype, std::vector<std::int64_t> shape, bool written) {
  trial_.tensors.push_back(dense(std::move(name), dtype, std::move(shape), written));
  return trial_.tensors.size() - 1;
}

std::optional<std::size_t> ChunkTrial::add_ends() {
  if (!listed_) return {};
  std::vector<std::int32_t> ends = {0};
  for (const std::int64_t length : lengths_) ends.push_back(static_cast<std::int32_t>(ends.back() + length));
  trial_.tensors.push_back(list_of("cu_seqlens", {sequences() + 1}, std::move(ends)));
  return trial_.tensors.size() - 1;
}

std::int64_t ChunkTrial::chunks() const {
  std::int64_t count = 0;
  for (const std::int64_t length : lengths_)
    count += (std::max<std::int64_t>(listed_ ? 0 : 1, length) + chunks::kChunk - 1) / chunks::kChunk;
  return std::max<std::int64_t>(1, count);
}

Trial ChunkTrial::build(std::function<void(const View& view, const Use& use)> with) const {
  Trial trial = trial_;
  trial.with_args = [tensors = trial_.tensors, with = std::move(with)](Device device, std::span<void* const> places,
                                                                       const Use& use) {
    with([&](std::size_t i) { return tensors[i].operand.view(device, places[i]); }, use);
  };
  return trial;
}

}  // namespace tj::ops
