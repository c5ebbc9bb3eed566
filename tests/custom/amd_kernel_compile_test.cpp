// Protects: a kernel for AMD GPUs goes through the whole pipeline with whichever compiler is there, without a GPU. A
// compiler that was chosen is the one that makes it. Its binaries are kept apart from another's.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <tilejit/runtime.hpp>

#include "compile/backends.hpp"
#include "compile/hip_here.hpp"
#include "custom/amd_kernel.hpp"
#include "support/expect.hpp"

namespace {

using namespace tj;

struct Place {
  testing::Scratch scratch;
  std::vector<std::string> warnings;
  KernelReport warm(const std::string& arch, const std::string& compiler) {
    Options options;
    options.cache_dir = scratch / "cache";
    options.target = "";
    options.hip_compiler = compiler;
    options.log_level = LogLevel::warn;
    options.log_sink = [this](LogLevel, std::string_view text) { warnings.emplace_back(text); };
    Runtime runtime(options);
    const test::AmdKernel source(arch);
    return custom::Kernel(runtime, source.description).warm(arch);
  }
};

bool present(const std::string& compiler, const std::string& arch) {
  return compile::make_hip({compiler, arch})->identity().present();
}

// First, so that a failure is never hidden by it.
TEST_CASE("a machine without a compiler of HIP is skipped") { testing::need_hip_compiler({"gfx90a", "gfx1100"}); }

TEST_CASE("for every arch, without a GPU") {
  Place place;
  for (const char* arch :
       {"gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1200", "gfx1201", "gfx90a", "gfx942"}) {
    CAPTURE(arch);
    if (!present("clang", arch)) continue;
    const KernelReport report = place.warm(arch, "clang");
    CHECK(report.target == arch);
    CHECK(report.origin == KernelOrigin::compiled);
    CHECK(report.registers > 0);
    CHECK(place.warm(arch, "clang").origin == KernelOrigin::disk);
  }
  CHECK(place.warnings.empty());
}

TEST_CASE("another compiler's kernel is none of this one's") {
  if (!present("clang", "gfx90a") || !present("hiprtc", "gfx90a")) return;
  Place place;
  CHECK(place.warm("gfx90a", "clang").origin == KernelOrigin::compiled);
  CHECK(place.warm("gfx90a", "hiprtc").origin == KernelOrigin::compiled);
  CHECK(place.warm("gfx90a", "auto").origin == KernelOrigin::disk);
}

}  // namespace
