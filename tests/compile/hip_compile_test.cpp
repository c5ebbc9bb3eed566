// Protects: HIP C++ becomes a code object by hiprtc and by clang alike, for each arch that is served, with all that was
// asked for in it. An arch that a compiler does not know is refused by name and never ends the process.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "compile/backends.hpp"
#include "compile/clang_search.hpp"
#include "compile/hip_here.hpp"
#include "compile/hip_kernel.hpp"
#include "compile/hip_version.hpp"
#include "support/code_object.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace {

using tj::Code;
using tj::Error;
using tj::compile::Binary;
using tj::testing::error_of;
using tj::testing::has;
using tj::testing::hip_job;

void check_doubled(const Binary& binary, const std::string& arch) {
  std::string problem;
  const auto object = tj::support::read_code_object(binary.bytes, &problem);
  REQUIRE_MESSAGE(object.has_value(), problem);
  CHECK(object->processor == arch);
  REQUIRE(object->kernels.size() == 1);
  const tj::support::CodeObjectKernel& kernel = object->kernels.front();
  CHECK(kernel.name == "doubled");
  CHECK(kernel.wave == (arch.starts_with("gfx9") ? 64 : 32));
  CHECK(kernel.max_threads == 64);
  CHECK(kernel.lds_bytes == 256);
  CHECK(kernel.params_bytes == 24);
  CHECK(kernel.kernarg_bytes == 24);
  CHECK_FALSE(kernel.hidden_arguments);
  CHECK_FALSE(kernel.two_units);
  CHECK_FALSE(kernel.dynamic_stack);
  CHECK(kernel.scratch_bytes == 0);
  CHECK(kernel.vgprs > 0);
  CHECK(binary.registers == kernel.vgprs);
  CHECK(binary.spill_bytes == 0);
  CHECK(binary.warnings.empty());
  CHECK(has(binary.log, "doubled on " + arch));
  CHECK(binary.milliseconds > 0);
}

// First, so that a failure is never hidden by it.
TEST_CASE("a machine without a compiler of HIP is skipped") { tj::testing::need_hip_compiler({"gfx90a", "gfx1100"}); }

TEST_CASE("clang makes code objects of one compute unit for every arch that it knows, and leaves nothing behind") {
  const tj::testing::Scratch scratch;
  const std::string before = std::getenv("TMPDIR") != nullptr ? std::getenv("TMPDIR") : "";
  for (const char* arch :
       {"gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1200", "gfx1201", "gfx90a", "gfx942"}) {
    CAPTURE(arch);
    const auto clang = tj::compile::make_hip({"clang", arch});
    if (!clang->identity().present()) continue;
    ::setenv("TMPDIR", scratch.path().c_str(), 1);
    check_doubled(clang->compile(hip_job(arch)), arch);
    ::setenv("TMPDIR", before.empty() ? "/tmp" : before.c_str(), 1);
    CHECK(tj::testing::names_in(scratch.path()).empty());
    CHECK(clang->identity().helpers.size() == 1);
    CHECK(has(clang->version(), "clang"));
  }
}

TEST_CASE("clang refuses by name an arch that it does not know, and source with a mistake") {
  const auto clang = tj::compile::make_clang({"clang", "gfx1100"});
  if (!clang->identity().present()) return;
  const Error unknown = error_of([&] { clang->compile(hip_job("gfx1999")); });
  CHECK(unknown.code == Code::unsupported);
  CHECK_MESSAGE(has(unknown.message, "gfx1999"), unknown.message);
  CHECK_MESSAGE(has(unknown.message, "install"), unknown.message);
  const Error mistake = error_of([&] { clang->compile(hip_job("gfx1100", "int f() { return undefined_name; }\n")); });
  CHECK(mistake.code == Code::compile_failed);
  CHECK_MESSAGE(has(mistake.message, "undefined_name"), mistake.message);
  CHECK(has(mistake.log, "doubled.cu"));
}

TEST_CASE("a kernel that spills says so") {
  const auto clang = tj::compile::make_clang({"clang", "gfx1100"});
  if (!clang->identity().present()) return;
  // Asks for so few registers that values of a lane have to leave them.
  const std::string text =
      "extern \"C\" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(64, 64), amdgpu_num_vgpr(24))) "
      "void many(float* p) {\n"
      "  float v[64];\n  for (int i = 0; i < 64; ++i) v[i] = p[i * 64];\n  __builtin_amdgcn_s_barrier();\n"
      "  for (int i = 0; i < 64; ++i)\n    for (int j = 0; j < 64; ++j) p[i * 64 + j] = v[i] * v[j];\n}\n";
  const Binary binary = clang->compile(hip_job("gfx1100", text));
  CHECK(binary.spill_bytes > 0);
  REQUIRE(binary.warnings.size() == 1);
  CHECK_MESSAGE(has(binary.warnings.front(), "bytes of scratch memory"), binary.warnings.front());
}

TEST_CASE("hiprtc makes the same kernel for gfx90a; what would end the process it is not asked") {
  const auto hiprtc = tj::compile::make_hip({"hiprtc", "gfx90a"});
  if (!hiprtc->identity().present()) return;
  check_doubled(hiprtc->compile(hip_job("gfx90a")), "gfx90a");
  const Error mistake = error_of([&] { hiprtc->compile(hip_job("gfx90a", "int f() { return undefined_name; }\n")); });
  CHECK(mistake.code == Code::compile_failed);
  CHECK_MESSAGE(has(mistake.message, "undefined_name"), mistake.message);
  if (tj::compile::version_in_file_name(hiprtc->identity().path) >= tj::compile::first_release("gfx1201")) return;
  const Error old = error_of([&] { hiprtc->compile(hip_job("gfx1201")); });
  CHECK(old.code == Code::unsupported);
  CHECK_MESSAGE(has(old.message, "needs hiprtc 6.4"), old.message);
}

TEST_CASE("threads may ask at once, also through compilers of their own") {
  if (!tj::compile::make_hip({"hiprtc", "gfx90a"})->identity().present()) return;
  std::vector<std::thread> threads;
  std::atomic<int> made = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      const auto hiprtc = tj::compile::make_hip({"hiprtc", "gfx90a"});
      for (int i = 0; i < 2; ++i) made += hiprtc->compile(hip_job("gfx90a")).bytes.empty() ? 0 : 1;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(made == 8);
}

TEST_CASE("left open, an old hiprtc compiles what it knows and clang the rest; both have the same options in the key") {
  for (const char* arch : {"gfx90a", "gfx1151"}) {
    CAPTURE(arch);
    const auto chosen = tj::testing::hip_compiler(arch);
    if (!chosen) continue;
    check_doubled(chosen->compile(hip_job(arch)), arch);
    CHECK(chosen->base_options(arch) == tj::compile::make_clang({"clang", arch})->base_options(arch));
  }
}

}  // namespace
