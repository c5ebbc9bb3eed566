// Protects that the sample's kernel of a user's own compiles for the real arch with NVRTC. It has no spills and no
// warning that its matrix instructions were serialised, and its source can be looked at.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <tilejit/custom.hpp>

#include "compile/compiler.hpp"
#include "support/scratch.hpp"
#include "support/skip.hpp"

TEST_CASE("the sample's kernel compiles for sm_90a, at full speed") {
  if (!tj::compile::make_compiler("nvrtc", {})->identity().present()) tj::testing::skip("no NVRTC on this machine");
  const tj::testing::Scratch scratch;
  std::string warnings;
  tj::Options options;
  options.cache_dir = scratch / "cache";
  options.dump_dir = scratch / "dump";
  options.log_level = tj::LogLevel::warn;
  options.log_sink = [&](tj::LogLevel, std::string_view text) { warnings += text; };
  tj::Runtime runtime(options);
  const std::string folder = TJ_REPO_DIR "/samples/05_custom_gemm";
  std::ifstream file(folder + "/gemm_gelu.json");
  const tj::custom::Kernel kernel(
      runtime, {"gemm_gelu", {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}, folder});
  const tj::KernelReport report = kernel.warm("sm_90a");
  CHECK(report.origin == tj::KernelOrigin::compiled);
  CHECK(report.name == "gemm_gelu");
  CHECK(report.target == "sm_90a");
  CHECK_MESSAGE(warnings.empty(), warnings);
  CHECK(std::filesystem::path(report.source_path).filename() == "gemm_gelu-sm_90a.cu");
  CHECK(report.registers > 0);
  CHECK(kernel.warm("sm_90a").origin == tj::KernelOrigin::disk);
}
