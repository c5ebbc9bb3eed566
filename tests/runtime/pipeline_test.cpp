// Protects the pipeline's refusals where an op and an arch do not meet: no node bodies for the family, no primitives
// for the arch. Both come before any compiler is asked.
#include <doctest/doctest.h>

#include <string>

#include <tilejit/error.hpp>

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
