// Protects that the kernel of sample 09_rmsnorm_gemm compiles for the real archs of each family, with the compilers at
// hand, and without a warning.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>

#include <tilejit/custom.hpp>
#include <tilejit/graph.hpp>

#include "compile/backends.hpp"
#include "support/scratch.hpp"
#include "support/skip.hpp"

using namespace tj;

namespace {

constexpr const char* kFolder = TJ_REPO_DIR "/samples/09_rmsnorm_gemm";

/// The report of the sample's kernel for an arch, in a form of its graph.
KernelReport warm(const char* file, const char* arch, const char* form = "") {
  const testing::Scratch scratch;
  std::string warnings;
  Options options;
  options.cache_dir = scratch / "cache";
  options.log_level = LogLevel::warn;
  options.log_sink = [&](LogLevel, std::string_view text) { warnings += text; };
  Runtime runtime(options);
  std::ifstream text(std::string(kFolder) + "/" + file);
  Graph graph = Graph::parse(std::string{std::istreambuf_iterator<char>(text), std::istreambuf_iterator<char>()}, file);
  graph.machine.name = arch;
  KernelReport report = custom::Kernel(runtime, {"rmsnorm_gemm", graph.resolved("", form).json(), kFolder}).warm(arch);
  CHECK_MESSAGE(warnings.empty(), warnings);
  return report;
}

}  // namespace

TEST_CASE("for NVIDIA's archs") {
  if (!compile::make_compiler("nvrtc", {})->identity().present()) testing::skip("no NVRTC on this machine");
  for (const auto& each :
       {std::pair{"sm90.json", "sm_90a"}, {"sm80.json", "sm_80"}, {"sm80.json", "sm_100"}, {"sm80.json", "sm_120a"}}) {
    const char* const file = each.first;
    const char* const arch = each.second;
    CAPTURE(arch);
    const KernelReport report = warm(file, arch);
    CHECK(report.target == arch);
    CHECK(report.registers > 0);
  }
  for (const char* form : {"wide", "middle", "low", "small"}) {
    CAPTURE(form);
    CHECK(warm("sm90.json", "sm_90a", form).registers > 0);
  }
}

TEST_CASE("for AMD's archs, where a compiler knows them") {
  for (const char* arch : {"gfx1100", "gfx1201", "gfx90a"}) {
    CAPTURE(arch);
    if (!compile::make_hip({"auto", arch})->identity().present()) continue;
    CHECK(warm("amd.json", arch).registers > 0);
  }
}
