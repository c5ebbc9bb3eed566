// A wait for other ranks: request, graph, launch; see peer_wait.hpp.
//
//   await_ranks     one role of one warp, one iteration: a lane for each rank
#include "ops/peer_wait/peer_wait.hpp"

#include <new>

#include "ops/common/walk.hpp"
#include "support/fail.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

constexpr const char* kOp = "peer_wait";

const arch::Needs& kNeeds = support::lasting<arch::Needs>({{"ALU"}, {"memory_bytes_per_cycle"}});

class Builder : WalkBuilder {
 public:
  explicit Builder(const arch::Arch& arch) : WalkBuilder(kOp, "Watcher", 1, arch, WalkChoice::usual) {}
  Candidate build() {
    brings("await_ranks", peer_wait::kMostRanks * double{sizeof(unsigned)});
    return candidate(1);
  }
};

class PeerWait final : public Op {
 public:
  std::string_view name() const override { return kOp; }
  void validate(const void* args, bool) const override {
    const peer_wait::Params& p = get(args).params;
    if (p.epochs == nullptr || p.broken == nullptr || p.missed == nullptr || (p.mask != 0 && p.words == nullptr))
      support::fail(
          Stage::argument, Code::invalid_argument,
          "peer_wait: an address is null; allowed: epochs, broken, missed, and words where the mask is not 0");
  }
  Device device_of(const void* args) const override { return get(args).device; }
  bool serves(const arch::Arch& arch) const override { return arch::serves(arch, {kNeeds}); }

  ProblemKey problem_key(const void*) const override { return {}; }
  Request request_of(const Kernel&) const override { return {kOp, {}, kOp}; }
  std::vector<Request> requests(const std::map<std::string, std::vector<std::string>>&) const override {
    return {request_of({})};
  }
  std::vector<Candidate> candidates(const Request&, const arch::Arch& arch) const override {
    arch::require(arch, kOp, kNeeds);
    return {Builder(arch).build()};
  }
  GeometryFields geometry_fields() const override { return kWalkGeometry; }

  void plan(const void* args, const Kernel&, const Geometry&, LaunchPlan& plan) const override {
    auto& p = *new (plan.params.data()) peer_wait::Params(get(args).params);
    plan.params_bytes = sizeof(peer_wait::Params);
    p.tiles = 1;
    plan.blocks = 1;
  }

 private:
  static const PeerWaitArgs& get(const void* args) { return *static_cast<const PeerWaitArgs*>(args); }
};

}  // namespace

const Op& peer_wait_op() {
  static constinit support::Lasting<const PeerWait> op;
  return op.get();
}

}  // namespace tj::ops
