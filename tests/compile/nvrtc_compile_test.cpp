// Protects: NVRTC makes a cubin for the real architecture with its registers known, and gives the same bytes to every
// thread. It refuses a wrong text with place and log.
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <tilejit/error.hpp>

#include "compile/backends.hpp"
#include "support/expect.hpp"
#include "support/skip.hpp"

namespace {

using tj::compile::Binary;
using tj::compile::Job;
using tj::testing::error_of;

/// Every test case here begins with it, as each can be run alone.
void need_nvrtc() {
  if (!tj::compile::make_nvrtc()->identity().present())
    tj::testing::skip("no NVRTC on this machine; install the CUDA toolkit or its wheel");
}

Job good_job() {
  Job job;
  job.name = "unit.cu";
  job.text =
      "#include \"parts/scale.cuh\"\n"
      "extern \"C\" __global__ void kernel(float* out) { out[threadIdx.x] = scale(out[threadIdx.x]); }\n";
  // The text is followed by more in memory: a view is not the end of a string.
  static const std::string parts = "inline float scale(float x) { return kTwo * x; }\nconstexpr char kNoEnd[] = \"";
  job.headers.push_back({"parts/scale.cuh", std::string_view(parts).substr(0, parts.find('\n'))});
  job.arch = "sm_90a";
  job.options = {"-DkTwo=2.f"};
  return job;
}

TEST_CASE("a kernel becomes a cubin for sm_90a") {
  need_nvrtc();
  const auto nvrtc = tj::compile::make_compiler("nvrtc", {});
  const Binary binary = nvrtc->compile(good_job());
  CHECK(binary.bytes.starts_with("\177ELF"));
  CHECK(binary.bytes.find("kernel") != std::string::npos);
  CHECK(binary.registers >= 4);
  CHECK(binary.registers <= 64);
  CHECK(binary.spill_bytes == 0);
  CHECK(binary.warnings.empty());
  CHECK(binary.milliseconds > 0);
  CHECK(binary.log.find("sm_90a") != std::string::npos);
  CHECK(nvrtc->version().find('.') != std::string::npos);
}

TEST_CASE("a kernel of sm_90a's own instructions compiles") {
  need_nvrtc();
  Job job = good_job();
  job.text = "extern \"C\" __global__ void kernel() { asm volatile(\"wgmma.fence.sync.aligned;\"); }";
  CHECK(tj::compile::make_nvrtc()->compile(job).registers > 0);
}

TEST_CASE("a broken source gives unit, line and log") {
  need_nvrtc();
  Job job = good_job();
  job.text = "extern \"C\" __global__ void kernel(float* out) {\n  out[0] = nonsense;\n}\n";
  const tj::Error error = error_of([&] { tj::compile::make_nvrtc()->compile(job); });
  CHECK(error.stage == tj::Stage::compile);
  CHECK(error.code == tj::Code::compile_failed);
  CHECK_MESSAGE(error.message.find("unit.cu(2)") != std::string::npos, error.message);
  CHECK(error.message.find("nonsense") != std::string::npos);
  CHECK(error.message.find('\n') == std::string::npos);
  CHECK(error.log.find("nonsense") != std::string::npos);
}

TEST_CASE("a missing header, a wrong option and an unknown architecture are named") {
  need_nvrtc();
  const auto nvrtc = tj::compile::make_nvrtc();
  Job job = good_job();
  job.headers.clear();
  CHECK(error_of([&] { nvrtc->compile(job); }).message.find("parts/scale.cuh") != std::string::npos);
  job = good_job();
  job.options = {"--no-such-option"};
  CHECK(error_of([&] { nvrtc->compile(job); }).message.find("--no-such-option") != std::string::npos);
  for (const char* arch : {"sm_97a", "gfx1100", "sm_", ""}) {
    job = good_job();
    job.arch = arch;
    const tj::Error error = error_of([&] { nvrtc->compile(job); });
    CHECK(error.code == tj::Code::unsupported);
    CHECK(error.message.find("sm_90") != std::string::npos);
    CHECK(error.message.find('"' + std::string(arch) + '"') != std::string::npos);
  }
}

TEST_CASE("four threads at once get the same bytes") {
  need_nvrtc();
  const auto nvrtc = tj::compile::make_nvrtc();
  std::vector<std::string> bytes(4);
  std::vector<std::thread> threads;
  for (std::string& own : bytes) threads.emplace_back([&] { own = nvrtc->compile(good_job()).bytes; });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& own : bytes) {
    CHECK(!own.empty());
    CHECK(own == bytes[0]);
  }
}

}  // namespace
