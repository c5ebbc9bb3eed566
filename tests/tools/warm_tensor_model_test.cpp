// Protects tj-warm for the model of archs with tensor memory. Calls find the kernels that it makes ahead. An op that
// such an arch does not serve is left out of a default set. Where it was asked for, it is refused with what is allowed.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include <tilejit/ladder.hpp>
#include <tilejit/tilejit.hpp>

#include "support/scratch.hpp"
#include "tools/options.hpp"
#include "tools/run_tool.hpp"
#include "tools/warm.hpp"

namespace {

using tj::test::ToolRun;
using namespace tj;
using testing::Scratch;

ToolRun make_for(std::vector<std::string> words, const std::string& cache, const char* target) {
  words.insert(words.end(), {"--cache-dir", cache, "--target", target, "--json"});
  return tj::test::run_warm(words);
}

}  // namespace

TEST_CASE("calls find what was made ahead") {
  const Scratch folder;
  const std::string cache = folder / "cache";
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--op", "fmha", "--dtype", "f16", "--head-dim", "64", "--causal", "true"},
                                             {"--op", "gemm", "--dtype", "f16", "--rung", "v8"},
                                             {"--op", "chunk_o", "--head-ratio", "2"}}) {
    const ToolRun made = make_for(words, cache, "model:sm_100a");
    REQUIRE_MESSAGE(made.code == tools::kExitOk, made.err);
    const auto json = nlohmann::json::parse(made.out);
    REQUIRE(json["kernels"].size() == 1);
    CHECK(json["kernels"][0]["origin"] == "compiled");
    CHECK(json["kernels"][0]["target"] == "model:sm_100a");
  }
  Options options;
  options.cache_dir = cache;
  options.target = "model:sm_100a";
  Runtime runtime(options);
  const Device cpu{DeviceKind::cpu, 0};
  CHECK(runtime.prepare(FmhaConfig{DType::f16, 64, true, false}, cpu).origin == KernelOrigin::disk);
  CHECK(Ladder(runtime).prepare(GemmConfig{}, 8, cpu).origin == KernelOrigin::disk);
  CHECK(runtime.prepare(ChunkOConfig{}, cpu).origin == KernelOrigin::disk);
}

TEST_CASE("what the arch does not serve: left out of what was not named, else refused by what is allowed") {
  const Scratch folder;
  const auto refused = [&](const std::vector<std::string>& words, const char* part) {
    const ToolRun result = make_for(words, folder / "cache", "model:sm_100a");
    CHECK(result.code != tools::kExitOk);
    CHECK_MESSAGE((result.err + result.out).find(part) != std::string::npos, result.err, result.out);
  };
  refused({"--op", "gemm", "--dtype", "e4m3", "--tile", "128x128x128"},
          "a.dtype is e4m3; allowed on sm_100a: f16, bf16");
  refused({"--op", "gemm", "--dtype", "f16", "--tile", "16x64x128"},
          "tile is 16x64x128; allowed on sm_100a: 128x256x64");
  refused({"--op", "chunk_o", "--head-ratio", "3", "--item-heads", "3"},
          "--item-heads is '3'; allowed on sm_100a: auto, 1, 2");
  refused({"--op", "fmha", "--rung", "2"},
          "does not run on 'sm_100a'; rungs are for archs whose products are a warp's");
  const ToolRun some =
      make_for({"--op", "gemm", "--dtype", "f16", "--tile", "128x64x64,16x64x128"}, folder / "cache", "model:sm_100a");
  CHECK_MESSAGE(some.code == tools::kExitOk, some.err);
  CHECK_MESSAGE(some.err == "left out, as model:sm_100a does not serve them: gemm_f16_kk_16x64x128\n", some.err);
}
