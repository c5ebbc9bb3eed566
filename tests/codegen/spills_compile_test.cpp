// Protects what the maker does where a call's texts spill registers: the next smaller tile is tried, taken while it
// spills less, and the log says the kernel, both tiles and both numbers. Skips itself without NVRTC.
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "codegen/device_kernel.hpp"
#include "ops/fmha/fmha.hpp"
#include "pipeline.hpp"
#include "support/environment.hpp"
#include "support/log.hpp"

using namespace tj;

namespace {

/// A text that needs so many floats at a time: powers of a score, used from the last to the first.
std::string text_of(int floats) {
  const std::string count = std::to_string(floats);
  return "float a[" + count + "], sum = 0;\na[0] = score;\nfor (int i = 1; i < " + count +
         "; ++i) a[i] = dev::multiply_add(a[i - 1], score, 1.0f);\nfor (int i = 1; i < " + count +
         "; ++i) sum = dev::multiply_add(sum, a[" + count + " - i], score);\nreturn sum;";
}

}  // namespace

TEST_CASE("a text that spills has the next smaller tile, and the log says so") {
  const auto compiler = test::nvrtc_or_skip();
  std::vector<std::string> lines;
  const support::Log log(LogLevel::warn, [&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  const std::string text = text_of(72);
  ops::FmhaKernel kernel;
  kernel.dtype = DType::bf16, kernel.head_dim = 128;
  kernel.score_mod = text;
  const ops::Request request = ops::fmha_request(kernel);
  const arch::Target target{arch::find("sm_90a"), false};
  const Artifact artifact = make(ops::fmha_op(), request, target, *compiler, support::Settings{}, log);
  REQUIRE(!lines.empty());
  const std::string& line = lines.front();
  CAPTURE(line);
  CHECK(line.starts_with(request.name + " on sm_90a: "));
  CHECK(line.find(" spills ") != std::string::npos);
  CHECK(line.find(" bytes with the texts of the call; ") != std::string::npos);
  CHECK(line.find(", the next smaller tile, spills ") != std::string::npos);
  CHECK((line.ends_with(" and is taken") || line.ends_with(" and is not taken")));
}
