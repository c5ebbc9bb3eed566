// A thread remembers the choices that an op made for its calls.
//
//   if (const Kernel* known = ChoiceShelf<Gemm>::find(problem, arch)) return *known;
//   ChoiceShelf<Gemm>::keep(problem, arch, kernel);
//
// Programs call with few sizes over and over, and rating every tile takes longer than all else that a hot call decides.
// Invariant: what is found was kept for this problem and this arch. Thread-safe: each thread has its own.
#pragma once

#include <algorithm>
#include <array>

#include "arch/arch.hpp"
#include "ops/op.hpp"

namespace tj::ops {

/// The choices of one op, `Of`. Allocates nothing.
template <class Of>
class ChoiceShelf {
 public:
  /// Null where nothing was kept, or something newer took its place.
  static const Kernel* find(const ProblemKey& problem, const arch::Arch& arch) noexcept {
    for (const Made& made : shelf_of(problem))
      if (made.arch == &arch && made.problem == problem) return &made.kernel;
    return nullptr;
  }
  /// The arch must stay at its address for as long as the process.
  static void keep(const ProblemKey& problem, const arch::Arch& arch, const Kernel& kernel) noexcept {
    Shelf& shelf = shelf_of(problem);
    std::move_backward(shelf.begin(), shelf.end() - 1, shelf.end());
    shelf.front() = {&arch, problem, kernel};
  }

 private:
  struct Made {
    const arch::Arch* arch = nullptr;
    ProblemKey problem;
    Kernel kernel;
  };
  using Shelf = std::array<Made, 4>;  ///< newest first
  static Shelf& shelf_of(const ProblemKey& problem) noexcept {
    thread_local constinit std::array<Shelf, 32> shelves{};
    return shelves[problem.hash() >> 59];
  }
};

}  // namespace tj::ops
