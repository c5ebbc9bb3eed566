// Protects files of facts in the runtime and its tools: kernels of two files never mix, those without a file keep their
// keys, and measured choices, manifests and reports bear the facts' hash. A file of another arch is refused.
#include <doctest/doctest.h>

#include <tilejit/tilejit.h>

#include <string>
#include <vector>

#include "arch/fact_file.hpp"
#include "custom/sample_kernel.hpp"
#include "manifest.hpp"
#include "runtime/runtime_fixture.hpp"
#include "support/json.hpp"
#include "support/variable.hpp"
#include "tools/run_tool.hpp"

namespace {

using namespace tj::test;
using tj::KernelOrigin;
using tj::Runtime;

struct FactsMachine : Machine {
  std::string write(const std::string& name, const std::string& facts, const std::string& arch = "sm_90a") const {
    const std::string path = scratch / name;
    tj::testing::write_bytes(path, R"({"tilejit_facts": 1, "arch": ")" + arch + R"(", "facts": {)" + facts + "}}");
    return path;
  }
  const std::string first = write("first.json", R"("copy_latency_cycles": 700)");
  const std::string second = write("second.json", R"("copy_latency_cycles": 701)");
  tj::Options with(const std::string& file) {
    tj::Options options = this->options();
    options.facts_file = file;
    return options;
  }
  static std::string target(const std::string& file) {
    return "sm_90a+facts=" + tj::arch::load_facts(file, "test").hash;
  }
};

constexpr tj::Device kGpu{tj::DeviceKind::cuda, 0};

TEST_CASE("kernels of two files, and of none, are different kernels, each found again") {
  FactsMachine machine;
  for (const std::string& file : {std::string(), machine.first, machine.second}) {
    CAPTURE(file);
    Runtime runtime(machine.with(file));
    const tj::KernelReport report = runtime.prepare(attention());
    CHECK(report.origin == KernelOrigin::compiled);
    CHECK(report.target == (file.empty() ? "sm_90a" : FactsMachine::target(file)));
    CHECK(runtime.target_of(kGpu) == report.target);
    runtime.run(attention());
    CHECK(Runtime(machine.with(file)).prepare(attention()).origin == KernelOrigin::disk);
    CHECK(Runtime(machine.with(file)).warm(config_of(), "sm_90a").target == report.target);
  }
  CHECK(machine.warnings.empty());
}

TEST_CASE("TJ_FACTS names the file, and an option wins over it") {
  FactsMachine machine;
  const tj::testing::Variable variable("TJ_FACTS", machine.first.c_str());
  CHECK(Runtime(machine.options()).target_of(kGpu) == FactsMachine::target(machine.first));
  CHECK(Runtime(machine.with(machine.second)).target_of(kGpu) == FactsMachine::target(machine.second));
  CHECK(Runtime(machine.with("")).target_of(kGpu) == "sm_90a");
}

TEST_CASE("in C the file is an option, too") {
  FactsMachine machine;
  tj_options how;
  tj_options_init(&how);
  how.facts_file = machine.first.c_str();
  how.target = "model:sm_90a";
  tj_runtime* runtime = nullptr;
  REQUIRE(tj_runtime_create(&how, &runtime) == TJ_OK);
  const char* target = nullptr;
  CHECK(tj_target_of(runtime, {TJ_CPU, 0}, &target) == TJ_OK);
  CHECK(std::string(target) == "model:" + FactsMachine::target(machine.first));
  tj_runtime_destroy(runtime);
  how.target = "sm_80";
  CHECK(tj_runtime_create(&how, &runtime) != TJ_OK);
  CHECK(has(tj_last_error(), "the target is 'sm_80'"));
}

TEST_CASE("a file of another arch is refused, of a target and of a device; the model without a target goes on") {
  FactsMachine machine;
  const std::string other = machine.write("other.json", R"("exp2_per_cycle": 15)", "sm_80");
  tj::Options options = machine.with(other);
  const tj::Error device = error_of([&] { Runtime(options).prepare(attention()); });
  CHECK_MESSAGE(has(device.message, "'arch' 'sm_80', and the target is 'sm_90a'"), device.message);
  CHECK(has(device.message, other));
  CHECK(Runtime(options).target_of({tj::DeviceKind::cpu, 0}) == "model:sm_90a");
  CHECK(Runtime(machine.with(machine.first)).target_of({tj::DeviceKind::cpu, 0}) ==
        "model:" + FactsMachine::target(machine.first));
  options.target = "model:sm_90a";
  CHECK(error_of([&] { Runtime runtime(options); }).stage == tj::Stage::target);
  const tj::Error bad = error_of([&] { Runtime runtime(machine.with(machine.write("bad.json", R"("exp2": 1)"))); });
  CHECK_MESSAGE(has(bad.message, "Options::facts_file: facts of "), bad.message);
  CHECK(has(bad.message, "'facts.exp2' is '1'"));
}

TEST_CASE("a measured choice holds for the facts that it was measured under alone") {
  FactsMachine machine;
  machine.cuda.set_param_bytes(0);
  machine.cuda.set_block_ms(0.001);
  tj::Options options = machine.with(machine.first);
  options.record_file = machine.scratch / "run.tjm";
  tj::TuneOptions how;
  how.rounds = 1;
  how.limit = 2;
  {
    Runtime runtime(options);
    REQUIRE(runtime.tune(square_product(1024), how).kept);
  }
  const ToolRun listed = run_warm({"--list", "--cache-dir", machine.cache_dir(), "--json"});
  CHECK_MESSAGE(has(listed.out, R"("target": ")" + FactsMachine::target(machine.first) + R"(")"), listed.out);
  CHECK_FALSE(has(listed.out, R"("target": "sm_90a")"));
  const std::string lines = tj::testing::read_bytes(*options.record_file);
  CHECK(has(lines, R"("arch":")" + FactsMachine::target(machine.first)));
  const tj::Manifest manifest = tj::read_manifest(lines);
  CHECK(manifest.bad.empty());
  REQUIRE(manifest.tunings.size() == 1);
  CHECK(manifest.tunings[0].machine.arch->fact("copy_latency_cycles") == 700);
}

TEST_CASE("a user's graph, whose costs are its own, runs under facts, as another kernel") {
  FactsMachine machine;
  machine.cuda.set_param_bytes(0);
  const SampleKernel sample;
  Runtime plain(machine.options()), runtime(machine.with(machine.first));
  CHECK(tj::custom::Kernel(plain, sample.description).prepare(kGpu).target == "sm_90a");
  const tj::KernelReport report = tj::custom::Kernel(runtime, sample.description).prepare(kGpu);
  CHECK(report.target == FactsMachine::target(machine.first));
  CHECK(report.origin == KernelOrigin::compiled);
}

TEST_CASE("tj-warm makes a file's kernels, and those of manifests by the facts that their lines name") {
  FactsMachine machine;
  const std::string cache = machine.cache_dir(), target = FactsMachine::target(machine.first);
  const ToolRun made = run_warm({"--op", "fmha", "--dtype", "f16", "--head-dim", "64", "--causal", "true", "--target",
                                 "sm_90a", "--facts", machine.first, "--cache-dir", cache});
  CHECK_MESSAGE(made.code == tj::tools::kExitOk, made.err);
  CHECK_MESSAGE(has(made.out, target), made.out);
  tj::Options options = machine.with(machine.first);
  options.record_file = machine.scratch / "run.tjm";
  CHECK(Runtime(options).prepare(config_of(true, 64), kGpu).origin == KernelOrigin::disk);
  const std::string file = *options.record_file, elsewhere = machine.scratch / "elsewhere";
  CHECK(run_warm({"--covers", file, "--cache-dir", cache, "--facts", machine.first}).code == tj::tools::kExitOk);
  const ToolRun again = run_warm({"--manifest", file, "--cache-dir", elsewhere, "--facts", machine.first});
  CHECK_MESSAGE(again.code == tj::tools::kExitOk, again.err);
  options.cache_dir = elsewhere;
  CHECK(Runtime(options).prepare(config_of(true, 64), kGpu).origin == KernelOrigin::disk);
  const ToolRun wrong = run_warm({"--op", "fmha", "--target", "sm_80", "--facts", machine.first, "--cache-dir", cache});
  CHECK(wrong.code == tj::tools::kExitBadUse);
  CHECK_MESSAGE(has(wrong.err, "the target is 'sm_80'"), wrong.err);
}

TEST_CASE("tj-schedule works a graph's expressions out by the file's facts, and leaves its numbers") {
  const FactsMachine machine;
  const std::string file = machine.write("drawn.json", R"("copy_latency_cycles": 704)");
  const auto graph = [&](const std::string& name, const std::string& on, const std::string& cycles) {
    const std::string path = machine.scratch / name;
    tj::testing::write_bytes(path, R"({"machine": ")" + on + R"(", "instructions": [{"name": "a", "cycles": )" +
                                       cycles + R"(, "fu": "TC"}]})");
    return path;
  };
  const std::string told = graph("told.json", "sm_90a", R"("copy_latency_cycles")"),
                    plain = graph("plain.json", "sm_90a", "9");
  const std::string cut = graph("cut.json", "sm_90a+smem=204800", R"("copy_latency_cycles")");
  const auto run = [](std::vector<std::string> words, int code = tj::tools::kExitOk) {
    words.insert(words.begin(), "--graph");
    const ToolRun result = run_schedule(words);
    CHECK_MESSAGE(result.code == code, result.err);
    return result.out + result.err;
  };
  const std::string target = FactsMachine::target(file);
  CHECK_FALSE(has(run({told}), "II 704"));
  CHECK_FALSE(has(run({told}), "facts of"));
  const std::string shown = run({told, "--facts", file});
  CHECK(has(shown, "told for " + target));
  CHECK(has(shown, "II 704 (proven)"));
  CHECK(has(shown, "704  file: " + file));
  CHECK(has(run({cut, "--facts", file}), "II 704 (proven)"));
  CHECK(has(run({plain, "--facts", file}), "II 9 (proven)"));
  CHECK(has(run({told, "--show-facts"}), "shipped, document: CUDA C++"));
  const std::string bare = graph("bare.json", "hopper", "9");
  CHECK(has(run({bare, "--facts", file}, tj::tools::kExitBadUse), "--facts means nothing to machine 'hopper'"));
  CHECK(has(run({bare, "--show-facts"}, tj::tools::kExitBadUse), "--show-facts means nothing to machine 'hopper'"));
  const std::string other = machine.write("other.json", R"("exp2_per_cycle": 15)", "sm_80");
  CHECK(has(run({told, "--facts", other}, tj::tools::kExitBadUse), "'arch' 'sm_80', and the target is 'sm_90a'"));
  const tj::testing::Variable variable("TJ_FACTS", machine.second.c_str());
  CHECK(has(run({told}), "II 701 (proven)"));
  CHECK(has(run({told, "--facts", file}), "II 704 (proven)"));
  CHECK(has(run({bare}), "II 9 (proven)"));
}

TEST_CASE("TJ_FACTS that names no file stops the modes of tj-warm that read targets, and no other") {
  FactsMachine machine;
  const std::string cache = machine.cache_dir(), pack = machine.scratch / "a.tjp", key = machine.scratch / "a.key";
  Runtime(machine.options()).prepare(attention());
  const tj::testing::Variable variable("TJ_FACTS", "/nonexistent/facts.json");
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--list"}, {"--verify"}, {"--pack", pack}, {"--unpack", pack}, {"--make-key", key}}) {
    CAPTURE(words.front());
    std::vector<std::string> all = words;
    if (words.front() != "--make-key") all.insert(all.end(), {"--cache-dir", cache});
    const ToolRun result = run_warm(all);
    CHECK_MESSAGE(result.code == tj::tools::kExitOk, result.err);
  }
  CHECK(has(run_warm({"--covers", pack, "--cache-dir", cache}).err, "TJ_FACTS is '/nonexistent/facts.json'"));
}

TEST_CASE("tj-schedule says which fact came from where, and schedules by the file's") {
  const FactsMachine machine;
  const std::string file = machine.write("shown.json", R"("copy_latency_cycles": 703)");
  const std::vector<std::string> words = {"--op", "fmha", "--target", "sm_90a", "--dtype", "f16", "--head-dim", "128"};
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    const ToolRun result = run_schedule(more);
    CHECK_MESSAGE(result.code == tj::tools::kExitOk, result.err);
    return result.out;
  };
  CHECK(has(run({}), "facts of sm_90a: shipped "));
  CHECK_FALSE(has(run({}), "copy_latency_cycles"));
  const std::string listed = run({"--facts", file, "--show-facts"});
  CHECK(has(listed, "facts of sm_90a: 1 of " + file + ", shipped "));
  CHECK(has(listed, "703  file: " + file));
  CHECK(has(listed, "16  shipped, document: CUDA C++"));
  const auto json = tj::support::Json::parse(run({"--facts", file, "--json"}));
  CHECK(json["target"] == FactsMachine::target(file));
  std::size_t of_file = 0;
  for (const auto& fact : json["facts"]) of_file += fact["from"] == "file" ? 1 : 0;
  CHECK(of_file == 1);
  const std::string slow = machine.write("slow.json", R"("exp2_per_cycle": 4)");
  CHECK(tj::support::Json::parse(run({"--facts", slow, "--json"}))["ii"] >
        tj::support::Json::parse(run({"--json"}))["ii"]);
  const ToolRun bad = run_schedule({"--graph-example", "fa_hopper", "--facts", file});
  CHECK(bad.code == tj::tools::kExitBadUse);
  CHECK(has(bad.err, "--facts means nothing to --graph-example"));
}

}  // namespace
