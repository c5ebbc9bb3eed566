// Protects tj-warm's work on the model target: kernels are made once, by several threads, kept on disk, found again;
// what could not be kept is a failure.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/scratch.hpp"
#include "tools/warm.hpp"

namespace {

using tj::testing::Scratch;

struct Run {
  int code = 0;
  std::string out, err;
};

Run run_op(std::vector<std::string> words, const std::string& cache_dir, bool terminal = false) {
  words.insert(words.end(), {"--cache-dir", cache_dir, "--target", "model:sm_90a", "--dtype", "f16"});
  std::ostringstream out, err;
  const int code = tj::tools::warm(words, out, err, terminal);
  return {code, out.str(), err.str()};
}
Run run(std::vector<std::string> words, const std::string& cache_dir, bool terminal = false) {
  words.insert(words.end(), {"--op", "fmha", "--head-dim", "64"});
  return run_op(std::move(words), cache_dir, terminal);
}

TEST_CASE("kernels are made once, kept, and found again") {
  const Scratch folder;
  const std::string dir = folder / "cache";
  const Run first = run({"--causal", "both", "--jobs", "2", "--json"}, dir);
  REQUIRE_MESSAGE(first.code == tj::tools::kExitOk, first.err);
  const auto json = nlohmann::json::parse(first.out);
  CHECK(json["failures"] == 0);
  REQUIRE(json["kernels"].size() == 2);
  for (const auto& kernel : json["kernels"]) {
    CHECK(kernel["ok"] == true);
    CHECK(kernel["origin"] == "compiled");
    CHECK(kernel["target"] == "model:sm_90a");
  }

  const Run again = run({"--causal", "both"}, dir);
  CHECK(again.code == tj::tools::kExitOk);
  CHECK_MESSAGE(again.out.find("[2/2]") != std::string::npos, again.out);
  CHECK(again.out.find("0 compiled, 2 already in the cache, 0 failed") != std::string::npos);
  CHECK(again.out.find('\r') == std::string::npos);

  const Run terminal = run({"--causal", "both"}, dir, true);
  CHECK(terminal.code == tj::tools::kExitOk);
  CHECK(terminal.out.find("\r") != std::string::npos);
  CHECK(terminal.out.substr(terminal.out.rfind('\r')).find("2 kernels:") != std::string::npos);  // the last line stands alone
}

TEST_CASE("what a target does not serve is left out in words, if anything else is asked for") {
  const Scratch folder;
  const auto warm = [&](const std::string& tiles) {
    std::ostringstream out, err;
    const int code = tj::tools::warm({"--cache-dir", folder / "cache", "--op", "gemm", "--dtype", "f16", "--tile", tiles, "--target", "model:gfx1100"}, out, err, false);
    return Run{code, out.str(), err.str()};
  };
  const Run some = warm("64x32x128,128x192x64");
  CHECK_MESSAGE(some.code == tj::tools::kExitOk, some.err);
  CHECK_MESSAGE(some.err == "left out, as model:gfx1100 does not serve them: gemm_f16_kk_128x192x64\n", some.err);
  CHECK(some.out.find("1 kernels: 1 compiled") != std::string::npos);
  const Run none = warm("128x192x64");
  CHECK(none.code == tj::tools::kExitFailures);
  CHECK_MESSAGE(none.err.find("tile is 128x192x64; allowed on gfx1100: 128x64x64") != std::string::npos, none.err);
}

TEST_CASE("rungs of the ladder are kernels of their own; the last is the op's own") {
  const Scratch folder;
  const std::string dir = folder / "cache";
  const Run rungs = run_op({"--op", "gemm", "--rung", "v1,v4,v10", "--json"}, dir);
  REQUIRE_MESSAGE(rungs.code == tj::tools::kExitOk, rungs.err);
  const auto json = nlohmann::json::parse(rungs.out);
  REQUIRE(json["kernels"].size() == 3);
  for (const auto& kernel : json["kernels"]) CHECK(kernel["origin"] == "compiled");
  const std::string last = json["kernels"][2]["name"];  // "gemm_f16_kk_<tile>"
  const Run own = run_op({"--op", "gemm", "--tile", last.substr(last.rfind('_') + 1)}, dir);
  CHECK_MESSAGE(own.out.find("0 compiled, 1 already in the cache") != std::string::npos, own.out);
}

TEST_CASE("chunk output is made for a ratio of heads, found again, and listed under its name") {
  const Scratch folder;
  const std::vector<std::string> words = {"--op", "chunk_o", "--head-ratio", "1", "--cache-dir", folder / "cache", "--target", "model:sm_90a", "--json"};
  for (const char* origin : {"compiled", "cached"}) {
    std::ostringstream out, err;
    REQUIRE(tj::tools::warm(words, out, err, false) == tj::tools::kExitOk);
    const auto json = nlohmann::json::parse(out.str());
    REQUIRE(json["kernels"].size() == 1);
    CHECK(json["kernels"][0]["name"] == "chunk_o_r1");
    CHECK(json["kernels"][0]["origin"] == origin);
  }
}

TEST_CASE("a cache that cannot be used is a failure that names it") {
  const Scratch folder;
  const std::string file = folder / "file";
  std::ofstream(file) << "no directory";
  const Run result = run({"--causal", "false", "--json"}, file);
  CHECK(result.code == tj::tools::kExitFailures);
  CHECK_MESSAGE(result.err.find(file) != std::string::npos, result.err);
  CHECK(nlohmann::json::parse(result.out)["failures"] == 1);
}

}  // namespace
