// Problems to check ops over chunks of tokens by: sizes of a command line, and tensors of tokens; see trial.hpp.
//
// Decides that sequences of equal lengths are a batch, and that others have a list. Does not decide an op's tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ops/common/trial.hpp"

namespace tj::ops {

/// --heads (of keys), --v-heads and --lengths, taken out of the flags. Throws as Sizes does.
class ChunkSizes {
 public:
  ChunkSizes(std::string_view op, Flags& flags);
  std::int64_t heads() const { return sizes_.at("heads"); }
  std::int64_t v_heads() const { return sizes_.at("v-heads"); }
  const std::vector<std::vector<std::int64_t>>& lengths() const { return lengths_; }
  std::string flags() const { return sizes_.flags(); }

 private:
  Sizes sizes_;
  std::vector<std::vector<std::int64_t>> lengths_;
};

/// One problem: tensors are added, and then seen by their numbers.
class ChunkTrial {
 public:
  using View = std::function<Tensor(std::size_t)>;
  using Use = std::function<void(const void*)>;

  ChunkTrial(const ChunkSizes& sizes, const std::vector<std::int64_t>& lengths, std::string kernel_flags);
  /// [.., T, last], of tokens; its number.
  std::size_t add(std::string name, DType dtype, const std::vector<std::int64_t>& last, bool written = false);
  /// [.., T, last] of i32 whose bits are those of a number in f32, for inputs that random values would make infinite.
  std::size_t add_bits(std::string name, const std::vector<std::int64_t>& last, float value);
  /// A tensor of any shape.
  std::size_t add_dense(std::string name, DType dtype, std::vector<std::int64_t> shape, bool written = false);
  /// The list, where there is one.
  std::optional<std::size_t> add_ends();
  void choice(int number) { trial_.choice = number; }
  std::int64_t sequences() const { return static_cast<std::int64_t>(lengths_.size()); }
  std::int64_t chunks() const;  ///< of all sequences
  Trial build(std::function<void(const View& view, const Use& use)> with) const;

 private:
  std::vector<std::int64_t> shaped(const std::vector<std::int64_t>& last) const;

  Trial trial_;
  std::vector<std::int64_t> lengths_;
  bool listed_;
};

}  // namespace tj::ops
