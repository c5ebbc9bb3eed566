// Protects the words for what hiprtc answers: a refusal of the program's text, host memory that is not there.
#include <doctest/doctest.h>

#include <string>

#include "compile/backends.hpp"
#include "compile/library_search.hpp"
#include "fakes/fake_hiprtc.hpp"
#include "support/expect.hpp"

namespace {

using namespace tj;

Error error_of_compile(const compile::Job& job) {
  const auto compiler = compile::make_hiprtc({"libhiprtc", {"libhiprtc.so.6"}, {{TJ_FAKES_DIR}}}, "gfx1100");
  return testing::error_of([&] { compiler->compile(job); });
}

}  // namespace

TEST_CASE("a text is refused, or memory is not there: each has its code, its words and its way out") {
  test::FakeHiprtc hiprtc;
  compile::Job job;
  job.name = "unit.cu";
  job.arch = "gfx1100";
  hiprtc.refuse("unit.cu:1:1: error: no\n");
  for (const int result : {2, 6, -1}) {
    hiprtc.set_refusal(result);
    const Error error = error_of_compile(job);
    CHECK(error.code == Code::compile_failed);
    CHECK(error.message ==
          "hiprtc 6.4 refused unit.cu for gfx1100 (HIPRTC_ERROR_OF_THE_FAKE): unit.cu:1:1: error: no; the whole log is "
          "in Error::log");
    CHECK(error.log == "unit.cu:1:1: error: no\n");
  }
  hiprtc.set_refusal(1);
  const Error memory = error_of_compile(job);
  CHECK(memory.code == Code::out_of_memory);
  CHECK(memory.message ==
        "hiprtcCompileProgram failed: HIPRTC_ERROR_OF_THE_FAKE (1), from " TJ_FAKES_DIR
        "/libhiprtc.so.6; free host memory, or try another ROCm by putting its folder first on LD_LIBRARY_PATH");
}
