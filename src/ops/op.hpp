// The interface that every op gives the pipeline, and the list of ops.
//
// Decides requests, tile candidates, graphs with costs, and launch parameters. Sees neither schedules nor text.
// Invariant: equal requests give equal graphs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tilejit/tensor.hpp>

#include "arch/arch.hpp"
#include "graph/graph.hpp"
#include "ops/common/geometry.hpp"
#include "ops/common/touched.hpp"
#include "support/function_ref.hpp"
#include "support/tensor_map.hpp"
#include "support/walk_param.hpp"

namespace tj::ops {

/// The fields that choose a kernel: canonical, part of the cache key.
struct Request {
  std::string op;
  std::vector<std::pair<std::string, std::string>> fields;  ///< in a fixed order
  /// "fmha_f16_d128_causal"
  std::string name;
  bool beside = false;  ///< made for calls of other sizes, beside the kernel that flags name
};

/// One tile shape of a request, with what is needed to rate it.
struct Candidate {
  graph::Graph graph;
  double typical_iterations = 1;  ///< of a tile, at the op's typical size
  double useful_flops = 0;        ///< of that tile
  bool turns = true;              ///< hold roles that alternate on a unit to their turns
  int max_stages = 0;             ///< most iterations in flight; 0: any
  int max_slots = 0;              ///< most slots of a ring; 0: what its value allows
  bool one_role = false;          ///< copies, products and all else in one role
  bool copies_apart = false;      ///< each copy of what computes in a role of its own
  std::uint64_t node_budget =
      0;  ///< of a second search, where the usual one does not settle the interval of the shape that is taken; 0: none
  /// Preprocessor names for its unit: text that it does not use is left out. It compiles to the same without.
  std::vector<std::string> definitions = {};
  Geometry geometry = {};  ///< numbers of its kernel beside the graph
};

/// Everything for one launch; fixed size, so that a hot call allocates nothing.
struct LaunchPlan {
  static constexpr std::size_t kMaxParamsBytes = 1152;
  /// Those of an op: blocks that draw or share tiles have a parameter of their own behind them.
  static constexpr std::size_t kMaxOwnBytes = kMaxParamsBytes - sizeof(support::WalkParam);
  static constexpr std::size_t kMaxMaps = 8;
  struct Map {
    std::size_t offset = 0;  ///< in params
    support::TensorMapDesc desc;
  };
  alignas(64) std::array<std::byte, kMaxParamsBytes> params{};
  std::size_t params_bytes = 0;
  std::array<Map, kMaxMaps> maps{};
  std::size_t map_count = 0;
  unsigned blocks = 0;
  unsigned sm_count = 0;       ///< of the device, set before plan() is called; 0: not known
  unsigned blocks_per_sm = 1;  ///< of the kernel, set likewise
  bool limited = false;        ///< to fewer multiprocessors than there are
  bool overlaps = true;        ///< its blocks may take their places before the launches before it are done
  /// Leaves the launch no more multiprocessors than a call's max_sms says; 0 changes nothing. sm_count counts those, or
  /// blocks of clusters, which have one each.
  void limit_sms(int max_sms) {
    const auto most = static_cast<unsigned>(max_sms);
    if (max_sms > 0 && (sm_count == 0 || most < sm_count)) {
      sm_count = most;
      limited = true;
    }
  }
  /// Blocks that run at once: the grid of a kernel whose blocks walk tiles.
  unsigned resident_blocks() const { return sm_count * blocks_per_sm; }
};

/// A file that units may include, beside those of the library: "gemm.cuh".
struct TemplateText {
  std::string name, text;
};

/// A maker of graphs, from which the pipeline makes kernels.
class Maker {
 public:
  virtual ~Maker() = default;
  virtual std::string_view name() const = 0;
  /// Tile shapes that can work on this arch, best guess first. Throws tj::Error(target, unsupported) when none does.
  virtual std::vector<Candidate> candidates(const Request& request, const arch::Arch& arch) const = 0;
  /// The numbers of a candidate's kernel that plan() must know.
  virtual Geometry geometry(const Request& /*request*/, const Candidate& candidate) const { return candidate.geometry; }
  /// Members of the geometry, for the cache entry: an entry that lacks one, or has another, is made anew.
  virtual GeometryFields geometry_fields() const { return {}; }
  /// Files of its own, which live as long as the maker; none has the name of a file of the library.
  virtual const std::vector<TemplateText>& templates() const;
};

class Tunable;
class Op;
class TensorList;
struct Trial;

/// The problem of a call in numbers: the small key of its kernel without what is to be chosen, then sizes that the
/// choice depends on. An op with one kernel for each call leaves the sizes 0.
struct ProblemKey {
  std::uint64_t kind = 0;
  std::array<std::int64_t, 5> sizes{};
  friend bool operator==(const ProblemKey&, const ProblemKey&) = default;

  std::uint64_t hash() const noexcept {
    const auto mixed = [](std::uint64_t h, std::uint64_t value) {
      h = (h ^ value) * 0x9e3779b97f4a7c15ull;  // Fibonacci hashing
      return h ^ h >> 29;
    };
    std::uint64_t h = mixed(0, kind);
    for (const std::int64_t size : sizes) h = mixed(h, static_cast<std::uint64_t>(size));
    return h;
  }
};

/// A kernel of an op, and how it serves a call. Arguments are resolved to it once; everything after that takes the
/// kernel.
struct Kernel {
  std::uint64_t small_key = 0;  ///< all fields of its request, in 64 bits
  int choice = 0;               ///< a number of the op's own; 0 where there is nothing to choose
  friend bool operator==(const Kernel&, const Kernel&) = default;
};

/// A call of an op, or one of the launches that serve it.
struct Step {
  const Op* op = nullptr;
  const void* args = nullptr;
  Kernel kernel;
};

/// The receiver of each launch that serves a call, in order.
using EachStep = support::FunctionRef<void(const Step& step)>;

/// A kernel that calls need, to be made before the first of them.
struct NeededKernel {
  const Op* op = nullptr;  ///< the op whose launches look it up
  Kernel kernel;
};

/// The kernel that is taken for a problem: on a device by what was measured there, for a target as predicted.
struct ChooseKernel {
  std::function<Kernel(const ProblemKey&)> of;
  std::function<const arch::Arch&()> arch;  ///< that it is taken for; throws where there is none
  Kernel operator()(const ProblemKey& problem) const { return of(problem); }
};
/// Reads a list of i32 from its first to its last, gaps included, wherever it is.
using ReadList = support::FunctionRef<std::vector<std::int32_t>(const Tensor& list)>;
/// A receiver of the op's public descriptor.
using UseArgs = support::FunctionRef<void(const void* args)>;

/// A maker that ships with the library, and what its public descriptor means.
class Op : public Maker {
 public:
  // ---- its public descriptors; common/described.hpp has what follows from their types -------------------------------
  /// Has it any? Ops that are only steps of others have none.
  virtual bool described() const { return false; }
  /// A copy of args whose tensors' addresses may be set: what plans are made of.
  virtual std::shared_ptr<void> copy(const void* args) const;
  /// The tensors of args that calls look at, in the descriptor's order.
  virtual void tensors(void* args, TensorList& list) const;
  /// The descriptor that a structure of tilejit.h stands for. Throws tj::Error(argument) for what the C++ type cannot
  /// hold.
  virtual void from_c(const void* structure, const UseArgs& use) const;
  /// The kernels of a configuration, without any memory; the op's own last. Throws tj::Error(argument).
  virtual std::vector<NeededKernel> needed_kernels(const void* config, const ChooseKernel& choose) const;
  /// The kernels that flags of a command line name. Throws tj::Error(argument) naming flag, value and what is allowed.
  virtual std::vector<NeededKernel> needed_kernels(const std::map<std::string, std::vector<std::string>>& flags,
                                                   const arch::Arch& arch, const ChooseKernel& choose) const;

  /// `args` is the op's public descriptor (FmhaArgs, ...). Throws tj::Error(argument).
  virtual void validate(const void* args, bool on_model) const = 0;
  /// Reads the lists of validated args, and throws tj::Error(argument) that names the first bad entry. Asked where a
  /// user wants that; kernels take lists as they are.
  virtual void check_lists(const void* /*args*/, const ReadList& /*read*/) const {}
  virtual Device device_of(const void* args) const = 0;
  /// Has nothing that validated args ask for an element? Then nothing is looked up, made or launched. On the hot path.
  virtual bool asks_for_nothing(const void* /*args*/) const { return false; }
  /// Whether the arch has a kernel of this op at all; candidates() says what another lacks. Asked once for a device.
  virtual bool serves(const arch::Arch& /*arch*/) const { return true; }

  // ---- from args to a kernel: validated args, no allocation, on the hot path ----------------------------------------
  virtual ProblemKey problem_key(const void* args) const = 0;
  /// The kernel that is taken on this arch where nothing was measured.
  virtual Kernel choose(const ProblemKey& problem, const arch::Arch& /*arch*/) const { return {problem.kind}; }
  virtual Kernel kernel_of(const ProblemKey& problem, int choice) const { return {problem.kind, choice}; }
  /// Has it a ladder: kernels to compare its own with (tilejit/ladder.hpp)?
  virtual bool has_ladder() const { return false; }
  /// The choice of a rung of the op's ladder. None for a rung that is the op's own kernel. Throws tj::Error(argument)
  /// for a rung that does not exist or serve the sizes. Where the arch has no ladder of the op, products throw
  /// argument, others target.
  virtual std::optional<int> rung_choice(const ProblemKey& problem, int rung, const arch::Arch& arch) const;
  /// Is the op's own kernel, which may be a measured one, such a rung too? Then it is taken in place of rung_choice().
  virtual bool is_rung(const Kernel& /*own*/, int /*rung*/, const arch::Arch& /*arch*/) const { return false; }

  virtual Request request_of(const Kernel& kernel) const = 0;
  /// The kernel of a request that requests() gave; its choice is not told.
  virtual Kernel kernel_of(const Request& /*request*/) const { return {}; }
  /// Command-line form: every combination of the given flags, the op's default set for those left out (at most 16).
  /// Throws tj::Error(argument) naming flag, value and what is allowed.
  virtual std::vector<Request> requests(const std::map<std::string, std::vector<std::string>>& flags) const = 0;
  /// The requests of one arch, for flags whose meaning depends on it. A default set may also have what only this arch
  /// serves (at most 48).
  virtual std::vector<Request> requests_for(const std::map<std::string, std::vector<std::string>>& flags,
                                            const arch::Arch& /*arch*/) const {
    return requests(flags);
  }

  /// Does serving args take other launches than one of this op's kernel?
  virtual bool in_steps(const void* /*args*/, const Kernel& /*kernel*/) const { return false; }
  /// Device memory that the steps take besides the tensors of args; 0 where one launch of this op serves them.
  virtual std::size_t scratch_bytes(const void* /*args*/, const Kernel& /*kernel*/) const { return 0; }
  /// Calls each(step) for each launch that serves args, in order. scratch: scratch_bytes(args, kernel) at a multiple of
  /// kScratchAlignment. Arguments that validate() passes make valid steps. A step of this op itself is one launch of
  /// the same kernel.
  virtual void steps(const void* args, const Kernel& kernel, void* /*scratch*/, const EachStep& each) const {
    each({this, args, kernel});
  }

  /// The memory that one launch of this op for args may touch; nothing where that is not known. For drivers that check
  /// accesses.
  virtual void touches(const void* /*args*/, Touched& /*memory*/) const {}

  /// Plans one launch. geometry is what geometry() returned for the kernel.
  virtual void plan(const void* args, const Kernel& kernel, const Geometry& geometry, LaunchPlan& plan) const = 0;

  /// Measurements that choose among several kernels of a problem (tunable.hpp). Null where there is no choice.
  virtual const Tunable* tunable() const { return nullptr; }

  /// Problems to check its kernels by, on the CPU model (trial.hpp). Each kernel that flags name has one of the sizes
  /// that they name, else a few small ones that reach all of it: each ring's slots come round, a block does several
  /// tiles, iterations are few and many. Throws tj::Error(argument) as requests() does; unsupported where the op has
  /// none.
  virtual std::vector<Trial> trials(const std::map<std::string, std::vector<std::string>>& flags,
                                    const arch::Arch& arch) const;
};

/// The kernel that serves args by a choice; without one, by what the op takes where nothing was measured.
Kernel resolve(const Op& op, const void* args, std::optional<int> choice, const arch::Arch& arch);

/// The kernel of a rung, where own() gives the problem's own kernel; throws as Op::rung_choice() does.
template <class Own>
Kernel rung_kernel(const Op& op, const ProblemKey& problem, int rung, const arch::Arch& arch, const Own& own) {
  const std::optional<int> choice = op.rung_choice(problem, rung, arch);
  const Kernel usual = own();
  return choice && !op.is_rung(usual, rung, arch) ? op.kernel_of(problem, *choice) : usual;
}
/// The same where nothing was measured.
Kernel rung_kernel(const Op& op, const ProblemKey& problem, int rung, const arch::Arch& arch);

/// Tells which of a call's launches, shown in order, stands for the call: the last of the op's own. A call without any
/// has the last of all.
class OwnStep {
 public:
  explicit OwnStep(const Op& op) : op_(&op) {}
  /// Does this one stand for it, rather than those before?
  bool is(const Step& step) {
    const bool own = step.op == op_, better = own || !found_;
    found_ = found_ || own;
    return better;
  }

 private:
  const Op* op_;
  bool found_ = false;
};

/// Scratch memory begins at a multiple of so many bytes.
inline constexpr std::size_t kScratchAlignment = 256;

/// Stands for scratch memory where nothing is launched. No processor and no GPU has addresses like it: what is made up
/// there, however large, overlaps no tensor.
inline void* nowhere() { return reinterpret_cast<void*>(std::uintptr_t{1} << 62); }

/// All ops, in a fixed order.
const std::vector<const Op*>& all();
/// Null when unknown.
const Op* find(std::string_view name);

}  // namespace tj::ops
