// An op whose kernels are told apart by a table of fields alone, without tiles: what follows from the table.
//
//   class ChunkWu final : public Tabled<ChunkWuArgs, chunk_wu_from_c, kFields>
//
// Decides keys, requests and walks. Decides neither what a call's key is, nor the graph of a kernel.
// Invariant: a call without max_sms is served by the kernel of its key.
#pragma once

#include <array>
#include <type_traits>
#include <vector>

#include "ops/common/described.hpp"
#include "ops/common/fields.hpp"
#include "ops/common/trial.hpp"
#include "ops/common/walk_field.hpp"

namespace tj::ops {

/// The structure that the rows of a table are of.
template <class Of, std::size_t N>
Of structure_of(const std::array<Field<Of>, N>& fields);

/// The choice that stands for a kernel's walk: none for the usual one.
template <class Fields>
std::optional<int> walk_choice(const Fields& kernel) {
  if constexpr (requires { kernel.walk; })
    if (kernel.walk != WalkChoice::usual) return static_cast<int>(kernel.walk);
  return {};
}

/// A trial with a kernel's flags and choice; its name and tensors are the op's to add.
template <const auto& kFields, class Fields>
Trial trial_with(const Fields& kernel, const Sizes& sizes) {
  Trial trial;
  trial.kernel_flags = flags_of_fields<kFields>(kernel);
  trial.flags = trial.kernel_flags + " " + sizes.flags();
  trial.choice = walk_choice(kernel);
  return trial;
}

/// A call's key has max_sms as its first size where limited calls take another walk, else 0. Such a table has the row
/// of walk_field(). Combinations of flags that are no kernel are those whose structure says possible() is false.
template <class Args, Args (*kFromC)(const void* structure), const auto& kFields>
class Tabled : public Described<Args, kFromC> {
 protected:
  using Config = typename Args::Config;
  using Fields = decltype(structure_of(kFields));
  static constexpr bool kWalks = requires(Fields kernel) { kernel.walk; };

 public:
  bool serves(const arch::Arch& arch) const override { return arch::serves(arch, {needs()}); }
  Kernel choose(const ProblemKey& problem, const arch::Arch& arch) const override {
    if (problem.sizes[0] == 0) return {problem.kind};
    return kernel_of(problem, static_cast<int>(limited_walk(arch, arch.shared_barriers)));
  }
  Kernel kernel_of(const ProblemKey& problem, int choice) const override {
    if constexpr (kWalks) {
      auto kernel = kernel_of_key<kFields, Fields>(problem.kind);
      kernel.walk = static_cast<WalkChoice>(choice);
      return {key_of_fields<kFields>(kernel), choice};
    } else {
      return {problem.kind, choice};
    }
  }
  Kernel kernel_of(const Request& request) const override {
    return {key_of_fields<kFields>(kernel_of_fields<kFields, Fields>(request))};
  }
  Request request_of(const Kernel& kernel) const override {
    return request_of_fields<kFields>(this->name(), kernel_of_key<kFields, Fields>(kernel.small_key));
  }
  std::vector<NeededKernel> needed_kernels(const void* config, const ChooseKernel& choose) const override {
    const Fields kernel = fields_of(*static_cast<const Config*>(config));
    return {{this, choose({key_of_fields<kFields>(kernel)})}};
  }
  using Op::needed_kernels;
  std::vector<Request> requests(const Flags& flags) const override {
    std::vector<Request> list;
    for (const Fields& kernel : kernels_of_flags<kFields, Fields>(this->name(), flags, choices_of_fields<kFields>())) {
      if constexpr (requires { kernel.possible(); })
        if (!kernel.possible()) continue;
      list.push_back(request_of_fields<kFields>(this->name(), kernel));
    }
    return list;
  }
  std::vector<Candidate> candidates(const Request& request, const arch::Arch& arch) const override {
    arch::require(arch, this->name(), needs());
    return {candidate(kernel_of_fields<kFields, Fields>(request), arch)};
  }
  GeometryFields geometry_fields() const override {
    if constexpr (kWalks)
      return kWalkGeometry;
    else
      return Op::geometry_fields();
  }

 protected:
  virtual const arch::Needs& needs() const = 0;
  /// Throws tj::Error(argument), as validate(config) does.
  virtual Fields fields_of(const Config& config) const = 0;
  virtual Candidate candidate(const Fields& kernel, const arch::Arch& arch) const = 0;

  /// The kernels that flags name, one where they name none: of trials.
  std::vector<Fields> few_kernels(const Flags& flags) const {
    return kernels_of_flags<kFields, Fields>(this->name(), flags, first_of_each(choices_of_fields<kFields>()));
  }
};

}  // namespace tj::ops
