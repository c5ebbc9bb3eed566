// Protects the pipeline's refusals where an op and an arch do not meet: no node bodies for the family, no primitives
// for the arch. Both come before any compiler is asked.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include <tilejit/error.hpp>

#include "compile/includes.hpp"
#include "pipeline.hpp"
#include "support/expect.hpp"

using namespace tj;
using testing::has;

namespace {

/// An op whose every candidate asks for the given file of node bodies.
class Asking final : public ops::Op {
 public:
  explicit Asking(std::vector<std::string> includes, int last_blocks_per_sm = 1)
      : includes_(std::move(includes)), last_blocks_per_sm_(last_blocks_per_sm) {}
  std::string_view name() const override { return "asking"; }
  void validate(const void*, bool) const override {}
  Device device_of(const void*) const override { return {}; }
  ops::ProblemKey problem_key(const void*) const override { return {}; }
  ops::Request request_of(const ops::Kernel&) const override { return {"asking", {}, "asking"}; }
  std::vector<ops::Request> requests(const std::map<std::string, std::vector<std::string>>&) const override {
    return {{"asking", {}, "asking"}};
  }
  std::vector<ops::Candidate> candidates(const ops::Request&, const arch::Arch& arch) const override {
    std::vector<ops::Candidate> list;
    for (const std::string& include : includes_) {
      ops::Candidate candidate;
      candidate.graph.name = include;
      candidate.graph.machine.name = arch.name;
      candidate.graph.includes = {include};
      graph::Node node;
      node.name = node.body = "work";
      node.context = "Worker";
      candidate.graph.nodes = {node};
      candidate.useful_flops = 1;
      list.push_back(candidate);
    }
    list.back().graph.blocks_per_sm = last_blocks_per_sm_;
    return list;
  }
  void plan(const void*, const ops::Kernel&, const ops::Geometry&, ops::LaunchPlan&) const override {}

 private:
  std::vector<std::string> includes_;
  int last_blocks_per_sm_;
};

sched::Schedule searched(const ops::Candidate& candidate) {
  sched::Options options;
  options.order_barriers = candidate.turns;
  options.max_stages = candidate.max_stages;
  options.max_slots = candidate.max_slots;
  options.copies_apart = candidate.copies_apart;
  if (candidate.one_role) options.mixed_roles = true, options.max_roles = 1;
  return sched::schedule(candidate.graph, options);
}

double rate_of(const ops::Candidate& candidate, const sched::Schedule& schedule) {
  return candidate.useful_flops * candidate.graph.blocks_per_sm /
         (candidate.graph.overhead_cycles + candidate.typical_iterations * schedule.ii +
          (schedule.length - schedule.ii));
}

class Unasked final : public compile::Compiler {
 public:
  compile::Identity identity() const override { return {}; }
  std::vector<std::string> base_options(std::string_view) const override { return {}; }
  std::string version() override { return {}; }
  compile::Binary compile(const compile::Job&) override {
    FAIL("the compiler was asked");
    return {};
  }
};

}  // namespace

TEST_CASE("an op without node bodies for the arch's family is refused by name") {
  const Asking op({"ops/asking_sm90.cuh"});
  try {
    choose(op, op.request_of({}), *arch::find("sm_90a"));
    FAIL("was accepted");
  } catch (const Error& e) {
    CHECK(e.stage == Stage::target);
    CHECK(e.code == Code::unsupported);
    CHECK(has(e.message, "op 'asking' has no kernel for the arch family 'sm90'"));
    CHECK(has(e.message, "kernel_templates/ops/asking_sm90.cuh"));
  }
}

TEST_CASE("a candidate without node bodies does not stand in the way of one that has them") {
  const Asking op({"ops/asking_sm90.cuh", "ops/fmha/sm90.cuh"});
  CHECK(choose(op, op.request_of({}), *arch::find("sm_90a")).candidate.graph.name == "ops/fmha/sm90.cuh");
}

TEST_CASE("blocks side by side count when candidates are rated, and stay known to the cache and to the launch") {
  const arch::Arch& arch = *arch::find("sm_90a");
  for (const int blocks : {1, 2}) {
    const Asking op({"ops/fmha/sm90.cuh", "ops/gemm/sm90.cuh"}, blocks);  // alike but for that
    CHECK(choose(op, op.request_of({}), arch).candidate.graph.blocks_per_sm == blocks);
  }
  const Asking op({});
  Artifact artifact;
  artifact.report.name = artifact.report.target = artifact.shape.symbol = artifact.report.schedule_json = "x";
  artifact.shape = {384, 4, 2, 1, 12, 65536, 98765, "x"};
  artifact.report.registers = 168;
  artifact.binary = "bytes";
  const auto again = from_entry(to_entry(artifact, op), op);
  REQUIRE(again);
  CHECK(again->shape == artifact.shape);
  CHECK(again->report.registers == 168);
  CHECK(again->binary == "bytes");
  ops::LaunchPlan plan;
  plan.sm_count = 100;
  plan.blocks_per_sm = again->shape.blocks_per_sm;
  CHECK(plan.resident_blocks() == 200);
}

TEST_CASE("the choice is the one that full searches of all candidates give") {
  const ops::Op& op = *ops::find("fmha");
  for (const char* target : {"sm_90a", "sm_100a", "sm_90", "gfx1100"})
    for (const char* head_dim : {"64", "80", "128"}) {
      const arch::Arch& arch = *arch::find(target);
      const ops::Request request = op.requests_for({{"head-dim", {head_dim}}, {"causal", {"true"}}}, arch).back();
      INFO(target, ' ', request.name);
      double best_rate = 0;
      std::string best;
      for (const ops::Candidate& each : op.candidates(request, arch)) try {
          sched::Schedule schedule = searched(each);
          const double rate = rate_of(each, schedule);
          if (rate <= best_rate) continue;
          best_rate = rate;
          schedule.solve_ms = 0;
          best = sched::to_json(each.graph, schedule);
        } catch (const Error& error) {  // it finds no room
          CHECK(error.stage == Stage::schedule);
        }
      Choice choice = choose(op, request, arch);
      choice.schedule.solve_ms = 0;
      CHECK(sched::to_json(choice.candidate.graph, choice.schedule) == best);
    }
}

TEST_CASE("the text of an op leaves the templates of other ops alone") {
  const std::pair<std::string, std::string> ops[] = {{"fmha", "gemm"}, {"gemm", "fmha"}};
  const std::pair<const char*, const char*> archs[] = {
      {"sm_90a", "sm90"}, {"sm_100a", "sm100"}, {"sm_80", "sm80"}, {"gfx1100", "amd"}};
  for (const auto& [op, other] : ops)
    for (const auto& [target, family] : archs) {
      const std::string text = "#include \"arch/" + arch::find(target)->primitives + ".cuh\"\n#include \"ops/" + op +
                               "/" + family + ".cuh\"\n";
      const std::string place = std::string(target) + " " + op;
      CAPTURE(place);
      bool own = false, others = false;
      for (const compile::Header& header : compile::included_by(text, headers_for({arch::find(target), false}))) {
        own = own || header.name.starts_with("ops/" + op);
        others = others || header.name.starts_with("ops/" + other);
      }
      CHECK(own);
      CHECK_FALSE(others);
    }
}

TEST_CASE("an arch without primitives is refused, on the device and on the model") {
  arch::Arch bare = *arch::find("sm_90a");
  bare.name = "sm_0";
  bare.primitives = "sm0";
  const Asking op({"ops/fmha/sm90.cuh"});
  Unasked compiler;
  for (const bool model : {false, true}) {
    try {
      make(op, op.request_of({}), {&bare, model}, compiler, {}, support::Log(LogLevel::off, {}));
      FAIL("was accepted");
    } catch (const Error& e) {
      CHECK(e.stage == Stage::target);
      CHECK(e.code == Code::unsupported);
      CHECK(has(e.message, model ? "kernel_templates/model/arch/sm0.cuh" : "kernel_templates/arch/sm0.cuh"));
    }
  }
}
