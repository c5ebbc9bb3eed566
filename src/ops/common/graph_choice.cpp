// See graph_choice.hpp.
#include "ops/common/graph_choice.hpp"

#include <algorithm>
#include <cstring>

#include "ops/common/op_flags.hpp"
#include "support/fail.hpp"
#include "support/hash.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

constexpr const char* kCandidates = "candidates";  ///< the last field: names with ',' between them

[[noreturn]] void nothing_to_launch() {
  support::fail(Stage::argument, Code::internal, "a record of a graph's choice was taken for its kernel");
}

class GraphChoice final : public Op, public Tunable {
 public:
  std::string_view name() const override { return kGraphOpName; }
  const Tunable* tunable() const override { return this; }

  ProblemKey key_of(const Problem& problem) const override { return graph_problem_key(problem); }
  std::vector<Variant> variants(const Problem& problem, const arch::Arch&) const override {
    return graph_variants(problem);
  }
  std::span<const char* const> size_flags() const override { return {}; }
  std::vector<Problem> problems(const Flags&) const override { return {}; }
  std::optional<Problem> problem_of(const std::vector<std::pair<std::string, std::string>>& fields) const override {
    if (fields.size() < 2 || fields.front().first != "name" || fields.back().first != kCandidates) return std::nullopt;
    return Problem{fields, fields.front().second, 0};
  }

  // Nobody calls what follows: kernels are made and launched as the graph's own op.
  std::vector<Candidate> candidates(const Request&, const arch::Arch&) const override { nothing_to_launch(); }
  void validate(const void*, bool) const override { nothing_to_launch(); }
  Device device_of(const void*) const override { nothing_to_launch(); }
  ProblemKey problem_key(const void*) const override { nothing_to_launch(); }
  Request request_of(const Kernel&) const override { nothing_to_launch(); }
  std::vector<Request> requests(const Flags&) const override { nothing_to_launch(); }
  void plan(const void*, const Kernel&, const Geometry&, LaunchPlan&) const override { nothing_to_launch(); }
  Problem problem_of(const void*) const override { nothing_to_launch(); }
  std::vector<Operand> operands(const Problem&) const override { nothing_to_launch(); }
  void with_args(const Problem&, Device, std::span<void* const>,
                 const std::function<void(const void*)>&) const override {
    nothing_to_launch();
  }
};

}  // namespace

const Op& graph_choice() {
  static constinit support::Lasting<const GraphChoice> choice;
  return choice.get();
}

const Op* find_tuned(std::string_view name) { return name == kGraphOpName ? &graph_choice() : find(name); }

Problem graph_problem(const Request& request, const std::vector<std::string>& candidates) {
  Problem problem{request.fields, request.name, 0};
  std::string names;
  for (const std::string& each : candidates) names += (names.empty() ? "" : ",") + each;
  problem.fields.emplace_back(kCandidates, std::move(names));
  return problem;
}

ProblemKey graph_problem_key(const Problem& problem) {
  support::FieldHash hash;
  for (const auto& [field, value] : problem.fields) hash.field(field, value);
  const auto digest = hash.finish();
  ProblemKey key;
  static_assert(sizeof digest >= 4 * sizeof(std::uint64_t));
  std::memcpy(&key.kind, digest.data(), sizeof key.kind);
  for (std::size_t i = 0; i < 3; ++i)
    std::memcpy(&key.sizes[i], digest.data() + (i + 1) * sizeof(std::uint64_t), sizeof key.sizes[i]);
  return key;
}

std::vector<Variant> graph_variants(const Problem& problem) {
  std::vector<Variant> variants;
  const std::uint64_t kind = graph_problem_key(problem).kind;
  const std::string& names = problem.fields.back().second;
  for (std::size_t begin = 0; begin < names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    variants.push_back({{kind, static_cast<int>(variants.size()) + 1}, names.substr(begin, end - begin), 0});
    begin = end + 1;
  }
  return variants;
}

}  // namespace tj::ops
