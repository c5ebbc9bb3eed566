// Protects tj-warm's work on the model target: kernels are made once, by several threads, kept on disk, found again. A
// kernel that could not be kept is a failure.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/scratch.hpp"
#include "support/variable.hpp"
#include "tools/run_tool.hpp"
#include "tools/warm.hpp"

namespace {

using tj::test::ToolRun;
using tj::testing::Scratch;
using tj::testing::Variable;

ToolRun make_op(std::vector<std::string> words, const std::string& cache_dir, bool terminal = false) {
  words.insert(words.end(), {"--cache-dir", cache_dir, "--target", "model:sm_90a", "--dtype", "f16"});
  return tj::test::run_warm(words, terminal);
}
ToolRun make(std::vector<std::string> words, const std::string& cache_dir, bool terminal = false) {
  words.insert(words.end(), {"--op", "fmha", "--head-dim", "64", "--walk", "usual"});  // not those for many tiles, too
  return make_op(std::move(words), cache_dir, terminal);
}

TEST_CASE("kernels are made once, kept, and found again") {
  const Scratch folder;
  const std::string dir = folder / "cache";
  const ToolRun first = make({"--causal", "both", "--jobs", "2", "--json"}, dir);
  REQUIRE_MESSAGE(first.code == tj::tools::kExitOk, first.err);
  const auto json = nlohmann::json::parse(first.out);
  CHECK(json["failures"] == 0);
  REQUIRE(json["kernels"].size() == 2);
  for (const auto& kernel : json["kernels"]) {
    CHECK(kernel["ok"] == true);
    CHECK(kernel["origin"] == "compiled");
    CHECK(kernel["target"] == "model:sm_90a");
  }

  const ToolRun again = make({"--causal", "both"}, dir);
  CHECK(again.code == tj::tools::kExitOk);
  CHECK_MESSAGE(again.out.find("[2/2]") != std::string::npos, again.out);
  CHECK(again.out.find("0 compiled, 2 already in the cache, 0 failed") != std::string::npos);
  CHECK(again.out.find('\r') == std::string::npos);

  const ToolRun terminal = make({"--causal", "both"}, dir, true);
  CHECK(terminal.code == tj::tools::kExitOk);
  CHECK(terminal.out.find("\r") != std::string::npos);
  CHECK(terminal.out.substr(terminal.out.rfind('\r')).find("2 kernels:") !=
        std::string::npos);  // the last line stands alone
}

TEST_CASE("what a target does not serve is left out in words, if anything else is asked for") {
  const Scratch folder;
  const auto warm = [&](const std::string& tiles) {
    std::ostringstream out, err;
    const int code = tj::tools::warm({"--cache-dir", folder / "cache", "--op", "gemm", "--dtype", "f16", "--tile",
                                      tiles, "--target", "model:gfx1100"},
                                     out, err, false);
    return ToolRun{code, out.str(), err.str()};
  };
  const ToolRun some = warm("64x32x128,128x192x64");
  CHECK_MESSAGE(some.code == tj::tools::kExitOk, some.err);
  CHECK_MESSAGE(some.err == "left out, as model:gfx1100 does not serve them: gemm_f16_kk_128x192x64\n", some.err);
  CHECK(some.out.find("1 kernels: 1 compiled") != std::string::npos);
  const ToolRun none = warm("128x192x64");
  CHECK(none.code == tj::tools::kExitFailures);
  CHECK_MESSAGE(none.err.find("tile is 128x192x64; allowed on gfx1100: 128x64x64") != std::string::npos, none.err);
}

TEST_CASE("rungs of the ladder are kernels of their own; the last is the op's own") {
  const Scratch folder;
  const std::string dir = folder / "cache";
  const ToolRun rungs = make_op({"--op", "gemm", "--rung", "v1,v4,v10", "--json"}, dir);
  REQUIRE_MESSAGE(rungs.code == tj::tools::kExitOk, rungs.err);
  const auto json = nlohmann::json::parse(rungs.out);
  REQUIRE(json["kernels"].size() == 3);
  for (const auto& kernel : json["kernels"]) CHECK(kernel["origin"] == "compiled");
  const std::string last = json["kernels"][2]["name"];  // "gemm_f16_kk_<tile>"
  const ToolRun own = make_op({"--op", "gemm", "--tile", last.substr(last.rfind('_') + 1)}, dir);
  CHECK_MESSAGE(own.out.find("0 compiled, 1 already in the cache") != std::string::npos, own.out);
}

TEST_CASE("chunk output is made for a ratio of heads, found again, and listed under its name") {
  const Scratch folder;
  const std::vector<std::string> words = {"--op",           "chunk_o",  "--head-ratio", "1",     "--cache-dir",
                                          folder / "cache", "--target", "model:sm_90a", "--json"};
  for (const char* origin : {"compiled", "cached"}) {
    std::ostringstream out, err;
    REQUIRE(tj::tools::warm(words, out, err, false) == tj::tools::kExitOk);
    const auto json = nlohmann::json::parse(out.str());
    REQUIRE(json["kernels"].size() == 1);
    CHECK(json["kernels"][0]["name"] == "chunk_o_r1");
    CHECK(json["kernels"][0]["origin"] == origin);
  }
}

/// Nothing can be written to files while it lives.
class NoRoom {
 public:
  NoRoom() : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit none{0, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &none);
  }
  ~NoRoom() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  NoRoom(const NoRoom&) = delete;
  NoRoom& operator=(const NoRoom&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST_CASE("where nothing can be kept nothing is made, and the reason is told once for all kernels") {
  const Scratch folder;
  const std::string file = folder / "file", link = folder / "link";
  std::ofstream(file) << "no directory";
  std::filesystem::create_directory_symlink(folder.path(), link);
  const std::vector<std::pair<std::string, std::string>> cases = {{file, "Not a directory"},
                                                                  {"/dev/null", "Not a directory"},
                                                                  {link, "it is a symbolic link"},
                                                                  {"/proc/none", "cannot make it"}};
  for (const auto& [given, why] : cases) {
    const std::string dir = given, reason = why;
    CAPTURE(dir);
    const ToolRun result = make({"--causal", "both", "--json"}, dir);
    CHECK(result.code == tj::tools::kExitFailures);
    const std::string said = "nothing can be kept in the cache at '" + dir + "', so it was not made: " + reason;
    const std::size_t at = result.err.find(said);
    REQUIRE_MESSAGE(at != std::string::npos, result.err);
    CHECK_MESSAGE(result.err.find(said, at + 1) == std::string::npos, result.err);
    CHECK_MESSAGE(result.err.find("1 kernel more: fmha_f16_d64_causal for model:sm_90a\n") != std::string::npos,
                  result.err);
    const auto json = nlohmann::json::parse(result.out);
    CHECK(json["failures"] == 2);
    for (const auto& kernel : json["kernels"]) {
      CHECK(kernel["total_ms"] == 0);
      CHECK(kernel["error"].get<std::string>().find(reason) != std::string::npos);
    }
  }
}

TEST_CASE("a cache that can only be read serves what it has; the rest is not made") {
  const Scratch folder;
  const std::string dir = folder / "cache";
  REQUIRE(make({"--causal", "false"}, dir).code == tj::tools::kExitOk);
  ToolRun some, all;
  {
    const NoRoom full;
    some = make({"--causal", "both"}, dir);
    all = make({"--causal", "false"}, dir);
  }
  CHECK(some.code == tj::tools::kExitFailures);
  CHECK_MESSAGE(some.out.find("2 kernels: 0 compiled, 1 already in the cache, 1 failed") != std::string::npos,
                some.out);
  CHECK_MESSAGE(some.err.find("fmha_f16_d64_causal for model:sm_90a: nothing can be kept in the cache at '" + dir +
                              "', so it was not made: cannot write a first entry: File too large") != std::string::npos,
                some.err);
  CHECK_MESSAGE(all.code == tj::tools::kExitOk, all.err);
}

TEST_CASE("what was evicted under a bound is a failure as what never fitted is, in words of its own") {
  const Scratch folder;
  std::uintmax_t largest = 0;
  REQUIRE(make({"--causal", "both"}, folder / "all").code == tj::tools::kExitOk);
  for (const auto& file : std::filesystem::directory_iterator(folder / "all"))
    largest = std::max(largest, file.file_size());
  const auto warm = [&](std::uintmax_t bound, const char* name) {
    const Variable size("TJ_CACHE_MAX_SIZE", std::to_string(bound));
    return make({"--causal", "both", "--jobs", "1"}, folder / name);
  };
  const ToolRun one = warm(largest + largest / 4, "one");
  CHECK(one.code == tj::tools::kExitFailures);
  CHECK_MESSAGE(one.err.find("was made and then removed from the cache at '") != std::string::npos, one.err);
  CHECK_MESSAGE(one.err.find("raise TJ_CACHE_MAX_SIZE (0: no bound)") != std::string::npos, one.err);
  CHECK(one.out.find("2 kernels: 1 compiled, 0 already in the cache, 1 failed") != std::string::npos);
  const ToolRun none = warm(1000, "none");
  CHECK(none.code == tj::tools::kExitFailures);
  CHECK_MESSAGE(none.err.find("was made and is not in the cache: kernel cache: an entry of ") != std::string::npos,
                none.err);
  CHECK(none.out.find("2 failed") != std::string::npos);
}

}  // namespace
