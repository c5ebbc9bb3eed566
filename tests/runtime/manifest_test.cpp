// Protects the lines that a run writes under TJ_RECORD: what calls ask for is there, once, also from hot calls. Lines
// are read as what they were written from, and no damaged line is taken for another request.
#include "manifest.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "ops/common/op_flags.hpp"
#include "ops/gemm/gemm.hpp"
#include "runtime/runtime_fixture.hpp"
#include "support/full.hpp"
#include "support/json.hpp"

namespace {

using namespace tj::test;
using tj::Manifest;
using tj::Runtime;

const std::string kLine =
    R"({"kernel":"fmha","target":"sm_90a","fields":{"dtype":"f16","head-dim":"128","causal":"true","general-scale":"false"}})";

std::vector<std::string> recorded(const std::string& path) {
  std::vector<std::string> lines;
  std::istringstream text(tj::testing::read_bytes(path));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

/// The text of what was read, for everything that was accepted.
std::vector<std::string> written_again(const Manifest& manifest) {
  std::vector<std::string> lines;
  for (const auto& kernel : manifest.kernels) lines.push_back(tj::manifest_line(kernel.request, kernel.target));
  for (const auto& tuning : manifest.tunings)
    lines.push_back(tj::manifest_line(tuning.machine, *tuning.op, tuning.problem, tuning.choice));
  return lines;
}

TEST_CASE("every kernel of every op and target is read from its line as it was asked for") {
  std::size_t count = 0, place = 0;
  for (const tj::arch::Arch* arch : tj::arch::all())
    for (const tj::ops::Op* op : tj::ops::all()) {
      if (!op->serves(*arch)) continue;
      for (const tj::ops::Request& request : op->requests_for({}, *arch)) {
        if (place++ % 4 != 0 && tj::testing::left_out()) continue;
        const std::string line = tj::manifest_line(request, {arch, count % 2 != 0});
        const Manifest read = tj::read_manifest(line + "\n");
        REQUIRE_MESSAGE(read.kernels.size() == 1, line, read.bad.empty() ? "" : read.bad.front().second);
        CHECK(read.kernels[0].request.name == request.name);
        CHECK(read.kernels[0].request.fields == request.fields);
        CHECK(written_again(read) == std::vector<std::string>{line});
        ++count;
      }
    }
  CHECK(count > tj::testing::share(100u));
}

TEST_CASE("so are kernels that only flags name: rungs, walks, tiles, parts, types") {
  const std::vector<std::pair<const char*, tj::ops::Flags>> named = {
      {"gemm", {{"tile", {"128x256x64", "72x64x128s", "128x256x64c1x2"}}, {"walk", {"dynamic", "split"}}}},
      {"gemm", {{"rung", {"v1", "v4"}}}},
      {"gemm", {{"parts", {"both"}}, {"bias", {"true"}}, {"activation", {"gelu_tanh"}}, {"out", {"f32"}}}},
      {"gemm", {{"dtype", {"e4m3"}}, {"a-major", {"k"}}, {"d-aligned", {"both"}}}},
      {"fmha", {{"rung", {"basic"}}}},
      {"fmha", {{"tile", {"128x128"}}, {"walk", {"dynamic"}}, {"general-scale", {"both"}}}},
      {"chunk_o", {{"head-ratio", {"2"}}, {"item-heads", {"auto", "2"}}, {"gated", {"both"}}}}};
  const tj::arch::Arch& arch = *tj::arch::find("sm_90a");
  for (const auto& [op, flags] : named)
    for (const tj::ops::Request& request : tj::ops::find(op)->requests_for(flags, arch)) {
      const std::string line = tj::manifest_line(request, {&arch, false});
      const Manifest read = tj::read_manifest(line);
      REQUIRE_MESSAGE(read.kernels.size() == 1, line, read.bad.empty() ? "" : read.bad.front().second);
      CHECK(read.kernels[0].request.name == request.name);
      CHECK(written_again(read) == std::vector<std::string>{line});
    }
}

TEST_CASE("lines: comments, empty ones and line ends of other systems; the same line once; bad ones by their number") {
  const Manifest read = tj::read_manifest("# made by hand\n\n" + kLine + "\r\n" + kLine + "\n" + "{}\n{\"kernel\":\n" +
                                          R"({"kernel":"fmhb","target":"sm_90a","fields":{}})" + "\n" +
                                          R"({"kernel":"fmha","target":"sm_90a","fields":{},"more":1})" + "\n" + kLine);
  REQUIRE(read.kernels.size() == 1);
  CHECK(read.kernels[0].line == 3);
  CHECK(read.kernels[0].request.name == "fmha_f16_d128_causal");
  REQUIRE(read.bad.size() == 4);
  const char* parts[] = {"neither a member 'kernel'", "cut short", "did you mean 'fmha'?", "'more' is not known"};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(read.bad[i].first == 5 + i);
    CHECK_MESSAGE(has(read.bad[i].second, parts[i]), read.bad[i].second);
  }
  for (const char* line :
       {R"({"kernel":"fmha","target":"sm_9","fields":{}})",
        R"({"kernel":"fmha","target":"sm_90a","fields":{"dtype":"f64"}})",
        R"({"kernel":"fmha","target":"sm_90a","fields":{"dtype":1}})",
        R"({"kernel":"fmha","target":"sm_90a","fields":[]})", R"({"kernel":"fmha","target":7,"fields":{}})",
        R"({"kernel":"fmha","target":"sm_90a"})",
        R"({"kernel":"fmha","target":"sm_90a","fields":{"dtype":"f16","head-dim":"128","other":"1"}})",
        R"({"kernel":"chunk_o","target":"gfx1100","fields":{}})",
        R"({"kernel":"custom","target":"sm_90a","fields":{"name":"a"}})",
        R"({"tuning":"sum_parts","arch":"sm_90a","device":"d","sm_count":1,"fields":{},"choice":"x"})",
        R"({"tuning":"gemm","arch":"sm_90a","device":"d","sm_count":0,"fields":{},"choice":"x"})",
        R"({"tuning":"gemm","arch":"sm_90a","device":"d","sm_count":1,"fields":{},"choice":"x"})", "[1]", "7", "\xff"})
    CHECK_MESSAGE(tj::read_manifest(line).bad.size() == 1, line);
  CHECK(tj::read_manifest(std::string(100000, '{')).bad.size() == 1);
  std::string twice = kLine;
  twice.insert(twice.rfind("}}"), R"(,"causal":"true")");  // the last one would count
  REQUIRE(tj::read_manifest(twice).bad.size() == 1);
  CHECK(tj::read_manifest(twice).bad[0].second.find("'causal' stands there twice") != std::string::npos);
  // The line is the first level, so that one more than is allowed has as many brackets as levels are.
  const auto nested = [](int levels, const std::string& inside) {
    const std::string before(static_cast<std::size_t>(levels), '['), after(static_cast<std::size_t>(levels), ']');
    return tj::read_manifest(R"({"kernel":"fmha","deep":)" + before + inside + after + "}").bad.at(0).second;
  };
  for (const std::string inside : {"", "7", R"("text")", "null"}) {
    const std::string deeper = nested(tj::support::kMostJsonDepth, inside);
    CHECK_MESSAGE(deeper.find("it is nested deeper than 64 levels") == 0, deeper);
    const std::string deepest = nested(tj::support::kMostJsonDepth - 1, inside);
    CHECK_MESSAGE(deepest.find("it has no member 'target'") == 0, deepest);
  }
  const std::string object = nested(tj::support::kMostJsonDepth - 2, R"({"name":7})");
  CHECK_MESSAGE(object.find("it has no member 'target'") == 0, object);
}

TEST_CASE("every flipped bit and every truncation of a line is refused, or is a line of its own") {
  tj::ops::Problem problem = tj::ops::gemm_tunable().problems({{"sizes", {"1024"}}, {"dtype", {"f16"}}}).front();
  const tj::TunedMachine machine{tj::arch::find("sm_90a"), "NVIDIA H200", 132, "CUDA 13.0"};
  const tj::ops::Op& gemm = *tj::ops::find("gemm");
  const std::string choice = gemm.tunable()->variants(problem, *machine.arch).front().name;
  const std::size_t step = tj::testing::left_out() ? 7 : 1;
  std::size_t taken = 0;
  for (const std::string& whole : {kLine, tj::manifest_line(machine, gemm, problem, choice)}) {
    CHECK(written_again(tj::read_manifest(whole)) == std::vector<std::string>{whole});
    for (std::size_t at = 0; at < whole.size(); at += step) {
      const Manifest cut = tj::read_manifest(std::string_view(whole).substr(0, at));
      CHECK(written_again(cut).empty());
      for (int bit = 0; bit < 8; ++bit) {
        std::string flipped = whole;
        flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
        const Manifest read = tj::read_manifest(flipped);
        for (const std::string& again : written_again(read)) CHECK(again == flipped);
        CHECK(read.kernels.size() + read.tunings.size() + read.bad.size() >= 1);
        taken += read.kernels.size() + read.tunings.size();
      }
    }
  }
  CHECK(taken > 0);  // the device's name may be another
}

TEST_CASE("a runtime records each kernel that calls ask for, once, also one that the disk has or that cannot be made") {
  Machine machine;
  tj::Options options = machine.options();
  options.record_file = machine.scratch / "record";
  {
    Runtime runtime(options);
    for (int i = 0; i < 2; ++i) runtime.prepare(config_of(true), {tj::DeviceKind::cuda, 0});
  }
  const std::vector<std::string> lines = recorded(*options.record_file);
  CHECK(std::count(lines.begin(), lines.end(), kLine) == 1);
  CHECK(std::set<std::string>(lines.begin(), lines.end()).size() == lines.size());
  {
    Runtime again(options);  // of the same process
    again.prepare(config_of(true), {tj::DeviceKind::cuda, 0});
    CHECK(recorded(*options.record_file) == lines);
    again.run(attention({}, false));
    CHECK(recorded(*options.record_file).size() > lines.size());
  }
  options.record_file = machine.scratch / "second";
  Runtime from_disk(options);
  CHECK(from_disk.prepare(config_of(true), {tj::DeviceKind::cuda, 0}).origin == tj::KernelOrigin::disk);
  const std::vector<std::string> found = recorded(*options.record_file);
  CHECK(std::is_permutation(found.begin(), found.end(), lines.begin(), lines.end()));  // threads find them
  machine.nvrtc.refuse("no");
  CHECK_THROWS_AS(from_disk.prepare(config_of(true, 64), {tj::DeviceKind::cuda, 0}), tj::Error);
  CHECK(has(recorded(*options.record_file).back(), R"("head-dim":"64")"));
}

TEST_CASE("a record that cannot be written fails no call, and is one warning") {
  Machine machine;
  tj::Options options = machine.options();
  options.record_file = machine.scratch / "none/record";
  Runtime runtime(options);
  runtime.prepare(config_of(true), {tj::DeviceKind::cuda, 0});
  runtime.run(attention());
  const auto told = std::count_if(machine.warnings.begin(), machine.warnings.end(),
                                  [](const std::string& text) { return has(text, "TJ_RECORD"); });
  CHECK(told == 1);
}

TEST_CASE("a measured choice is recorded when it is measured and when a call first takes it, also a hot one") {
  Machine machine;
  machine.cuda.set_param_bytes(0);
  machine.cuda.set_block_ms(0.001);
  tj::Options options = machine.options();
  options.record_file = machine.scratch / "measured";
  tj::TuneOptions how;
  how.rounds = 1;
  how.limit = 3;
  const auto choices = [](const std::string& path) {
    std::vector<std::string> lines = recorded(path);
    std::erase_if(lines, [](const std::string& line) { return !has(line, R"({"tuning":"gemm","arch":"sm_90a")"); });
    return lines;
  };
  {
    Runtime runtime(options);
    for (const std::int64_t size : {1024, 2048}) REQUIRE(runtime.tune(square_product(size), how).kept);
  }
  const std::vector<std::string> measured = choices(*options.record_file);
  REQUIRE(measured.size() == 2);
  CHECK(has(measured[0], R"("device":"Fake H200","sm_count":)"));
  CHECK(has(measured[0], R"("driver":"CUDA 13.0"})"));
  options.record_file = machine.scratch / "taken";
  Runtime runtime(options);
  runtime.run(square_product(512));
  CHECK(choices(*options.record_file).empty());  // nothing was measured for it
  for (int i = 0; i < 3; ++i)
    for (const std::int64_t size : {2048, 1024}) runtime.run(square_product(size));
  std::vector<std::string> taken = choices(*options.record_file);
  std::reverse(taken.begin(), taken.end());
  CHECK(taken == measured);
  CHECK(tj::read_manifest(taken[0] + "\n" + taken[1]).tunings.size() == 2);
  options.record_file = machine.scratch / "off";
  options.use_tuning = false;
  Runtime without(options);
  without.run(square_product(1024));
  CHECK(choices(*options.record_file).empty());
}

}  // namespace
