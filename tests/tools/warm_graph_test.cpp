// Protects tj-warm --tune --graph on a machine of fakes: candidates in the table and in the cache's list, and bad use.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "custom/sample_kernel.hpp"
#include "runtime/runtime_fixture.hpp"
#include "tools/run_tool.hpp"
#include "tools/warm.hpp"

namespace {

using namespace tj::test;
using tj::test::run_warm;
using tj::test::ToolRun;

/// The sample with two candidates, as files.
struct TunedFiles : Machine {
  TunedFiles() {
    cuda.set_param_bytes(0);
    cuda.set_block_ms(0.001);
    sample.edit_graph("\"machine\": \"sm_90a\",", R"("machine": "sm_90a", "parameters": {"slots": 4}, "candidates": [
      {"name": "deep", "parameters": {}}, {"name": "flat", "parameters": {"slots": 2}}],)");
    sample.edit_graph("\"max_slots\": 4", "\"max_slots\": \"slots\"");
    sample.write("gelu.json", sample.description.graph);
  }
  ToolRun tune(std::vector<std::string> words) const {
    const std::vector<std::string> common = {"--tune", "--graph", sample.folder() + "/gelu.json", "--cache-dir",
                                             cache_dir()};
    words.insert(words.begin(), common.begin(), common.end());
    return run_warm(words);
  }
  SampleKernel sample;
};

}  // namespace

TEST_CASE("a graph's candidates are timed, and the cache has the choice") {
  const TunedFiles files;
  const ToolRun result = files.tune({"--tune-rounds", "1"});
  CHECK_MESSAGE(result.code == tj::tools::kExitOk, result.err);
  for (const char* part : {"gelu\n", "  deep ", "  flat ", "chosen", "1 problems on Fake H200"})
    CHECK_MESSAGE(has(result.out, part), std::string(part), " is not in: ", result.out);
  const ToolRun listed = run_warm({"--list", "--cache-dir", files.cache_dir()});
  CHECK_MESSAGE(has(listed.out, "gelu on Fake H200: "), listed.out);
  CHECK(has(listed.out, "1 measured choices"));
  const ToolRun one = files.tune({"--tune-only", "flat", "--json"});
  CHECK(one.code == tj::tools::kExitOk);
  CHECK_MESSAGE(has(one.out, "\"chosen\": \"flat\""), one.out);
}

TEST_CASE("bad use of --graph with --tune is named") {
  const TunedFiles files;
  const auto refused = [&](const std::vector<std::string>& words, const std::string& part) {
    const ToolRun result = files.tune(words);
    CHECK_MESSAGE(result.code != tj::tools::kExitOk, result.out);
    CHECK_MESSAGE(has(result.err, part), result.err);
  };
  refused({"--op", "gemm"}, "--graph is given with --op or flags of ops");
  refused({"--tune-only", "none"}, "'none' does not serve gelu");
  refused({"--folder", files.cache_dir() + "/none"}, "is no folder that can be read");
  const ToolRun alone = run_warm({"--graph", files.sample.folder() + "/gelu.json"});
  CHECK(alone.code == tj::tools::kExitBadUse);
  CHECK_MESSAGE(has(alone.err, "--tune"), alone.err);
}
