// Launches of a call's steps on the model, with as many blocks as a test likes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "codegen/emitted_kernel.hpp"
#include "ops/op.hpp"
#include "support/walk_param.hpp"

namespace tj::test {

/// Memory for what steps leave for each other, poisoned like what lies around it.
class StepScratch {
 public:
  explicit StepScratch(std::size_t bytes) : bytes_(bytes), memory_(bytes + 2 * kGuard, kPoison) {}
  unsigned char* data() {
    return memory_.data() + (kGuard - reinterpret_cast<std::uintptr_t>(memory_.data()) % kGuard);
  }
  bool kept_around() {
    const unsigned char* const from = data();
    for (const unsigned char* at = memory_.data(); at < memory_.data() + memory_.size(); ++at)
      if ((at < from || at >= from + bytes_) && *at != kPoison) return false;
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 256;
  static constexpr unsigned char kPoison = 0xff;  // a NaN in every type
  std::size_t bytes_;
  std::vector<unsigned char> memory_;
};

class StepLauncher {
 public:
  explicit StepLauncher(const std::string& arch) : arch_(*arch::find(arch)) {}

  /// "" or a fault.
  std::string launch(const ops::Step& step, std::uint64_t seed, unsigned blocks) {
    const auto& [op, args, by] = step;
    if (!(ops::resolve(*op, args, by.choice, arch_) == by)) return "a step's kernel is not that of its args";
    const ops::Request request = op->request_of(by);
    launches.push_back(request.name);
    Made& made = make(*op, request);
    ops::LaunchPlan plan;
    plan.sm_count = blocks * made.kernel->unit.shape.cluster;
    op->plan(args, by, made.geometry, plan);
    const WalkBytes walk(made.kernel->unit.shape, plan);
    ops::Touched memory(op, args);
    memory.scratch(walk.pieces(), walk.pieces_bytes());
    std::string fault = made.kernel->launch(plan, plan.blocks, seed, {}, memory.ranges());
    if (fault.empty() && !walk.kept()) fault = "the memory of the walk is not as it was";
    left_sums = walk.left_sums();
    return fault;
  }

  std::vector<std::string> launches;  ///< names of their kernels, in order
  bool left_sums = false;             ///< blocks of the last launch left sums for others

 protected:
  const arch::Arch& arch() const { return arch_; }

 private:
  static constexpr std::size_t kGuard = 256;
  static constexpr unsigned char kPoison = 0xff;  // a NaN in every type
  /// The memory of a launch whose blocks draw their tiles: counters of zeros, poison for sums and around them.
  class WalkBytes {
   public:
    WalkBytes(const support::LaunchShape& shape, ops::LaunchPlan& plan)
        : needs_(support::walk_memory(shape, plan.blocks)), bytes_(needs_.bytes() + 2 * kGuard, kPoison) {
      if (shape.across_blocks == 0) return;
      std::memset(begin(), 0, needs_.zeroed);
      plan.params_bytes = support::add_walk(plan.params, plan.params_bytes, {begin(), needs_.zeroed}, plan.blocks);
    }
    /// Counters are zeros again, and nothing beside it was written.
    bool kept() const {
      const unsigned char *from = begin(), *end = from + needs_.bytes(), *last = bytes_.data() + bytes_.size();
      const auto is = [](unsigned char value) { return [value](unsigned char each) { return each == value; }; };
      return std::all_of(from, from + needs_.zeroed, is(0)) && std::all_of(bytes_.data(), from, is(kPoison)) &&
             std::all_of(end, last, is(kPoison));
    }

    const unsigned char* pieces() const { return begin() + needs_.zeroed; }
    std::size_t pieces_bytes() const { return needs_.pieces; }
    bool left_sums() const {
      return std::any_of(pieces(), pieces() + needs_.pieces, [](unsigned char each) { return each != kPoison; });
    }

   private:
    unsigned char* begin() const {
      auto* first = const_cast<unsigned char*>(bytes_.data());
      return first + (kGuard - reinterpret_cast<std::uintptr_t>(first) % kGuard);
    }
    support::WalkMemory needs_;
    std::vector<unsigned char> bytes_;
  };
  struct Made {
    std::unique_ptr<EmittedKernel> kernel;
    ops::Geometry geometry;
  };
  Made& make(const ops::Op& op, const ops::Request& request) {
    Made& made = made_[request.name];
    if (made.kernel) return made;
    const Choice choice = choose(op, request, arch_);
    made.kernel = std::make_unique<EmittedKernel>(choice.candidate.graph, choice.schedule, arch_);
    made.geometry = op.geometry(request, choice.candidate);
    return made;
  }

  const arch::Arch& arch_;
  std::map<std::string, Made> made_;
};

}  // namespace tj::test
