// Protects tuning among the candidates of a user's graph: they are timed by a trial of the document, launches take the
// fastest, of this runtime and of others with the same cache, in C++ and in C; mistakes are named.
#include <doctest/doctest.h>

#include <tilejit/custom.h>
#include <tilejit/tilejit.h>

#include <cstring>
#include <string>

#include <tilejit/tilejit.hpp>

#include "custom/custom.hpp"
#include "custom/sample_kernel.hpp"
#include "manifest.hpp"
#include "ops/common/graph_choice.hpp"
#include "runtime/runtime_fixture.hpp"

namespace {

using namespace tj::test;

constexpr tj::Device kFirstGpu{tj::DeviceKind::cuda, 0};

/// The sample with two candidates, whose rings have four slots and two.
void add_slots(SampleKernel& sample) {
  sample.edit_graph("\"machine\": \"sm_90a\",", R"("machine": "sm_90a", "parameters": {"slots": 4}, "candidates": [
    {"name": "deep", "parameters": {}}, {"name": "flat", "parameters": {"slots": 2}}],)");
  sample.edit_graph("\"max_slots\": 4", "\"max_slots\": \"slots\"");
}

std::string name_on(const tj::Options& options, const tj::custom::Description& description) {
  tj::Runtime runtime(options);
  return tj::custom::Kernel(runtime, description).prepare(kFirstGpu).name;
}

}  // namespace

TEST_CASE("candidates of a graph are timed, and launches and other runtimes take the fastest") {
  Machine machine;
  machine.cuda.set_param_bytes(0);
  machine.cuda.set_block_ms(0.001);
  SampleKernel sample;
  add_slots(sample);
  tj::Runtime runtime(machine.options());
  const tj::custom::Kernel kernel(runtime, sample.description);
  CHECK(kernel.prepare(kFirstGpu).name == "gemm_gelu");
  tj::TuneOptions how;
  how.rounds = 1;
  const tj::TuneReport both = kernel.tune(kFirstGpu, how);
  CHECK(both.variants.size() == 2);
  CHECK(both.usual == 0);
  CHECK(both.kept);
  for (const std::string name : {"flat", "deep"}) {
    how.only = {name};
    const tj::TuneReport report = kernel.tune(kFirstGpu, how);
    REQUIRE(report.chosen == 0);
    CHECK(report.variants[0].name == name);
    CHECK(report.variants[0].measured_us > 0);
    CHECK(kernel.prepare(kFirstGpu).name == "gemm_gelu_" + name);
    CHECK(name_on(machine.options(), sample.description) == "gemm_gelu_" + name);
  }
  tj::Options predicted = machine.options();
  predicted.use_tuning = false;
  CHECK(name_on(predicted, sample.description) == "gemm_gelu");
  how.only = {"wide"};
  CHECK_THROWS_WITH(kernel.tune(kFirstGpu, how), doctest::Contains("'wide' does not serve gemm_gelu"));
  CHECK_THROWS_WITH(kernel.tune({tj::DeviceKind::cpu, 0}), doctest::Contains("tuning measures on a GPU"));
  // Another graph of the same name has choices of its own.
  sample.edit_graph("\"slots\": 2", "\"slots\": 3");
  CHECK(name_on(machine.options(), sample.description) == "gemm_gelu");
}

TEST_CASE("what a graph lacks for being tuned is named") {
  Machine machine;
  tj::Runtime runtime(machine.options());
  SampleKernel plain;
  const tj::custom::Kernel one(runtime, plain.description);
  CHECK_THROWS_WITH(one.tune(kFirstGpu), doctest::Contains("graph 'gemm_gelu' has no candidates"));
  SampleKernel checked;
  add_slots(checked);
  checked.edit_graph("\"name\": \"edges\"", "\"name\": \"edges\", \"use\": \"check\"");
  const tj::custom::Kernel never(runtime, checked.description);
  CHECK_THROWS_WITH(never.tune(kFirstGpu), doctest::Contains("has no trial whose 'use' is 'time' or 'both'"));
}

TEST_CASE("a graph's candidates are tuned from C") {
  Machine machine;
  machine.cuda.set_param_bytes(0);
  machine.cuda.set_block_ms(0.001);
  SampleKernel sample;
  add_slots(sample);
  const std::string cache = machine.cache_dir();
  tj_options options;
  tj_options_init(&options);
  options.cache_dir = cache.c_str();
  options.log_level = TJ_LOG_OFF;
  tj_runtime* runtime = nullptr;
  REQUIRE(tj_runtime_create(&options, &runtime) == TJ_OK);
  tj_custom_description description{};
  description.size = sizeof description;
  description.name = "gemm_gelu";
  description.graph = sample.description.graph.c_str();
  description.folder = sample.description.folder.c_str();
  tj_custom* kernel = nullptr;
  REQUIRE_MESSAGE(tj_custom_create(runtime, &description, &kernel) == TJ_OK, tj_last_error());
  tj_tune_options how{};
  how.size = sizeof how;
  how.only = "flat";
  how.rounds = 1;
  tj_tune_report told{};
  told.size = sizeof told;
  REQUIRE_MESSAGE(tj_custom_tune(kernel, {TJ_CUDA, 0}, &how, &told) == TJ_OK, tj_last_error());
  CHECK(std::string(told.chosen) == "flat");
  CHECK(told.kept == 1);
  CHECK(tj_custom_tune(nullptr, {TJ_CUDA, 0}, &how, &told) == TJ_INVALID_ARGUMENT);
  tj_custom_destroy(kernel);
  tj_runtime_destroy(runtime);
}

TEST_CASE(
    "a manifest's line of a graph's choice is read back, and a request of a candidate is one of a user's kernel") {
  SampleKernel sample;
  add_slots(sample);
  const auto maker = tj::read_custom(sample.description);
  REQUIRE(maker->problem() != nullptr);
  const tj::TunedMachine machine{tj::arch::find("sm_90a"), "NVIDIA H200", 132, "CUDA 13.0"};
  const std::string line = tj::manifest_line(machine, tj::ops::graph_choice(), *maker->problem(), "flat");
  const tj::Manifest manifest = tj::read_manifest(line);
  CHECK(manifest.bad.empty());
  REQUIRE(manifest.tunings.size() == 1);
  CHECK(manifest.tunings[0].choice == "flat");
  CHECK(manifest.tunings[0].problem.fields == maker->problem()->fields);
  const auto request = tj::custom_request(maker->request_of(2).fields);
  REQUIRE(request);
  CHECK(request->name == "gemm_gelu_flat");
}
