// A stage of the gated delta rule as an op: kernels by a table of fields, problems over sequences of tokens.
//
// Decides which problems its kernels are checked by. Does not decide their tensors.
#pragma once

#include <optional>
#include <vector>

#include "ops/common/chunk_trial.hpp"
#include "ops/common/tabled.hpp"

namespace tj::ops {

template <class Args, Args (*kFromC)(const void* structure), const auto& kFields>
class ChunkStage : public Tabled<Args, kFromC, kFields> {
 protected:
  using Fields = typename Tabled<Args, kFromC, kFields>::Fields;

 public:
  std::vector<Trial> trials(const Flags& given, const arch::Arch&) const override {
    Flags flags = given;
    std::vector<Trial> list;
    const ChunkSizes sizes(this->name(), flags);
    for (const Fields& kernel : this->few_kernels(flags))
      for (const std::vector<std::int64_t>& lengths : sizes.lengths()) {
        ChunkTrial trial(sizes, lengths, flags_of_fields<kFields>(kernel));
        if (const std::optional<int> choice = walk_choice(kernel)) trial.choice(*choice);
        list.push_back(trial_of(trial, kernel, sizes));
      }
    return list;
  }

 protected:
  /// The trial with the tensors of a kernel.
  virtual Trial trial_of(ChunkTrial& trial, const Fields& kernel, const ChunkSizes& sizes) const = 0;
};

}  // namespace tj::ops
