// Protects that what codegen writes for the family whose products are a warp's compiles for each of its archs: no call
// of what they lack.
#include <doctest/doctest.h>

#include "compile/compiler.hpp"
#include "custom/warp_kernel.hpp"
#include "support/skip.hpp"

using namespace tj;

TEST_CASE("the unit of a user's graph compiles for every arch of the family") {
  if (!compile::make_compiler("nvrtc", {})->identity().present())
    testing::skip("no NVRTC on this machine; install the CUDA toolkit or its wheel");
  bool copies = false;
  for (const char* arch : {"sm_80", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90", "sm_120a", "sm_121a"}) {
    CAPTURE(arch);
    copies = !copies;
    const testing::Scratch scratch;
    Options options;
    options.cache_dir = scratch / "cache";
    options.log_level = LogLevel::off;
    Runtime runtime(options);
    const test::WarpKernel source(arch, copies);
    const KernelReport report = custom::Kernel(runtime, source.description).warm(arch);
    CHECK(report.target == arch);
  }
}
