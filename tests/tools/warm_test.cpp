// Protects tj-warm's manners: exit codes, what is refused and how, what --list, --verify and --json print. Nothing but
// JSON goes to standard output with --json. No kernel is made here.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cache/cache.hpp"
#include "support/scratch.hpp"
#include "support/variable.hpp"
#include "tools/run_tool.hpp"
#include "tools/warm.hpp"

namespace {

using tj::test::run_warm;
using tj::test::ToolRun;
using tj::testing::Variable;

using tj::testing::Scratch;

void bad_use(const std::vector<std::string>& words, const std::string& part) {
  const ToolRun result = run_warm(words);
  CHECK_MESSAGE(result.code == tj::tools::kExitBadUse, result.err);
  CHECK_MESSAGE(result.err.find(part) != std::string::npos, part, " is not in: ", result.err);
  CHECK(result.out.empty());
}

/// An entry as a runtime makes it; the kernel is an ELF header with nothing in it.
tj::cache::Entry entry_of(const std::string& name, const std::string& target) {
  return {{{"name", name},
           {"target", target},
           {"symbol", "kernel"},
           {"threads", "128"},
           {"cluster", "1"},
           {"blocks_per_sm", "1"},
           {"smem_bytes", "1024"},
           {"registers", "168"},
           {"across_blocks", "0"},
           {"block_counters", "0"},
           {"piece_bytes", "0"},
           {"schedule", "{}"}},
          "\x7f"
          "ELF\x02" +
              std::string(5000, '\0')};
}

/// Stores an entry the way a runtime does.
tj::cache::Key store(const std::string& directory, const std::string& name, const std::string& target) {
  tj::cache::Store cache(directory, 0, {});
  const tj::cache::Key key = tj::cache::make_key({{"name", name}, {"target", target}}, {{"kind", "test"}});
  REQUIRE(cache.store(key, entry_of(name, target)));
  return key;
}

TEST_CASE("bad use is told apart from failure, by exit code and text") {
  const Scratch folder;
  const std::string dir = folder / "cache";
  bad_use({"--cache-dir", dir, "--op", "conv"}, "--op is 'conv'; allowed: fmha");
  bad_use({"--cache-dir", dir, "--target", "sm_1"}, "sm_1");
  bad_use({"--cache-dir", dir, "--target", "sm_90a", "--op", "fmha", "--dtype", "f64"}, "f64");
  bad_use({"--cache-dir", dir, "--target", "sm_90a", "--op", "fmha", "--head-dim=84"}, "84");
  bad_use({"--cache-dir", dir, "--target", "sm_90a", "--op", "fmha", "--causal", "maybe"}, "maybe");
  bad_use({"--cache-dir", dir, "--target", "sm_90a", "--op", "fmha", "--colour", "red"},
          "--colour means nothing to fmha");
  bad_use({"--cache-dir", dir, "--target", "sm_90a", "--dtype", "f16"},
          "--dtype belongs to no op, and is no flag of tj-warm's own; give --op");
  bad_use({"--cache-dir", dir, "--opp", "gemm"},
          "--opp belongs to no op, and is no flag of tj-warm's own; give --op, or leave it out (--help lists the "
          "flags); did you mean --op?");
  bad_use({"--cache-dir", dir, "--dtype"}, "--dtype needs a value");
  bad_use({"--cache-dir", dir, "--dtype", "--causal", "true"}, "--dtype needs a value");
  bad_use({"--cache-dir", dir, "--dtype", "--op", "fmha"}, "--dtype needs a value");
  bad_use({"--cache-dir", dir, "--dtype="}, "--dtype needs a value");
  bad_use({"--cache-dir", "--dtype", "f16"}, "--cache-dir");
  bad_use({"--cache-dir", dir, "--op", "--dtype", "f16"}, "--op");
  bad_use({"--cache-dir", dir, "--target", "--dtype", "f16"}, "--target");
  bad_use({"--cache-dir", dir, "fmha"}, "'fmha' is not understood");
  bad_use({"--cache-dir", dir, "--op", "chunk_o", "--target", "sm_90a", "--head-ratio", "4"},
          "--head-ratio is '4'; allowed are 2, 1, 3, 6");
  bad_use({"--cache-dir", dir, "--op", "chunk_o", "--target", "sm_90a", "--dtype", "f16"},
          "--dtype means nothing to chunk_o");
  bad_use({"--cache-dir", dir, "--op", "chunk_o", "--target", "sm_90a", "--head-ratio", "3", "--item-heads", "2"},
          "--item-heads is '2'");
  bad_use({"--cache-dir", dir, "--op", "chunk_indices", "--target", "sm_90a", "--head-ratio", "2"}, "--head-ratio");
  bad_use({"--jobs", "0"}, "0");
  bad_use({"--jobs", "many"}, "many");
  bad_use({"--list", "--verify", "--cache-dir", dir}, "--list");
  bad_use({"--list", "--verify", "--cache-dir", dir}, " are given; give one of them\n");
  bad_use({"--list", "--op", "fmha", "--cache-dir", dir}, "--op is given with --list or --verify, which take");
  bad_use({"--verify", "--jobs", "3", "--cache-dir", dir}, "--jobs is given with --list or --verify, which take");
  bad_use({"--tune-rounds", "3", "--cache-dir", dir}, "--tune-rounds is given without --tune; give both, or neither\n");
  bad_use({"--op", "\xff", "--cache-dir", dir}, "--op is '\\xff'; allowed");
  CHECK_FALSE(std::filesystem::exists(dir));
}

TEST_CASE("a target that the op has no node bodies for is a failure that says where the op runs") {
  const Scratch folder;
  for (const char* target : {"sm_80", "model:sm_120a"}) {
    const ToolRun result = run_warm({"--cache-dir", folder / "cache", "--op", "chunk_states", "--target", target});
    CHECK(result.code != tj::tools::kExitOk);
    CHECK(result.code != tj::tools::kExitBadUse);
    CHECK_MESSAGE(result.err.find("it runs on sm_90a, model:sm_90a") != std::string::npos, result.err);
  }
}

TEST_CASE("help lists each flag that an op knows") {
  const std::string help = run_warm({"--help"}).out;
  for (const char* op :
       {"fmha", "gemm", "grouped_gemm", "quantise", "combine", "sum_parts", "chunk_o", "gated_delta_rule"}) {
    const std::size_t line = help.find(std::string("\n  ") + op + ": ");
    REQUIRE(line != std::string::npos);
    std::size_t end = help.find('\n', line + 1);
    while (help.compare(end, 4, "\n   ") == 0) end = help.find('\n', end + 1);  // the item goes on
    const std::string error = run_warm({"--op", op, "--none", "1"}).err;
    // Of products sizes are listed behind; those of --tune stand apart.
    std::istringstream words(
        error.substr(error.find("allowed are "), error.find(", and where sizes") - error.find("allowed are ")));
    for (std::string word; words >> word;) {
      if (!word.starts_with("--")) continue;
      if (word.back() == ',') word.pop_back();
      CHECK_MESSAGE(help.substr(line, end - line).find(word) != std::string::npos, op, " has ", word);
    }
  }
}

TEST_CASE("help explains the default set and the exit codes") {
  const ToolRun result = run_warm({"--help"});
  CHECK(result.code == tj::tools::kExitOk);
  CHECK(result.out.find("at most 16 kernels") != std::string::npos);
  CHECK(result.out.find("products of 2048 to 16384 rows, columns and K take on the target") != std::string::npos);
  CHECK(result.out.find("every tile") == std::string::npos);
  CHECK(result.out.find("default: TJ_TARGET, else") != std::string::npos);
  CHECK(result.out.find("Exit codes") != std::string::npos);
  for (const char* flag : {"--rung v1", "--d-aligned"}) CHECK(result.out.find(flag) != std::string::npos);
  CHECK(result.out.find("chunk_o: ratios 1, 2 and 3  with gates  any lengths  h as V x K") != std::string::npos);
}

TEST_CASE("a cache that cannot be looked at is a failure, with the reason; nothing is made") {
  const Scratch folder;
  const std::string absent = folder / "absent", open = folder / "open", link = folder / "link", file = folder / "file";
  std::filesystem::create_directory(open);
  std::filesystem::permissions(open, std::filesystem::perms::all);
  std::filesystem::create_directory_symlink(open, link);
  std::ofstream(file) << "no directory";
  const std::vector<std::pair<std::string, std::string>> cases = {{absent, "it does not exist"},
                                                                  {open, "others can write it; run chmod go-w"},
                                                                  {link, "it is a symbolic link"},
                                                                  {file, "Not a directory"},
                                                                  {"/dev/null", "Not a directory"}};
  for (const auto& [given, why] : cases) {
    const std::string dir = given, reason = why;
    CAPTURE(dir);
    for (const char* mode : {"--list", "--verify"}) {
      const ToolRun result = run_warm({mode, "--cache-dir", dir});
      CHECK(result.code == tj::tools::kExitFailures);
      CHECK(result.out.empty());
      CHECK_MESSAGE(result.err.find("the cache at '" + dir + "' cannot be looked at: " + reason) != std::string::npos,
                    result.err);
      CHECK(result.err.find("Give --cache-dir") != std::string::npos);
      const ToolRun as_json = run_warm({mode, "--json", "--cache-dir", dir});
      CHECK(as_json.code == tj::tools::kExitFailures);
      CHECK(nlohmann::json::parse(as_json.out)["problem"].get<std::string>().find(reason) == 0);
    }
  }
  CHECK_FALSE(std::filesystem::exists(absent));
  std::filesystem::permissions(open, std::filesystem::perms::owner_all);
  const ToolRun empty = run_warm({"--list", "--cache-dir", open});
  CHECK(empty.code == tj::tools::kExitOk);
  CHECK(empty.out.find("0 kernels, 0 damaged") != std::string::npos);
}

TEST_CASE("a misspelt flag, op or target is answered by the one that was probably meant") {
  const Scratch folder;
  const std::string dir = folder / "cache";
  bad_use({"--cache-dir", dir, "--ops", "gemm"}, "did you mean --op?");
  bad_use({"--cache-dir", dir, "--jbos", "3"}, "did you mean --jobs?");
  bad_use({"--cache-dir", dir, "--jsno"}, "did you mean --json?");
  bad_use({"--cache-dir", dir, "--lst"}, "did you mean --list?");
  bad_use({"--cache-dir", dir, "--list", "--jbos", "3"}, "did you mean --jobs?");
  bad_use({"--cache-dir", dir, "--op", "gem"},
          "--op is 'gem'; allowed: fmha, gemm, grouped_gemm, quantise, combine, copy_rows, sum_parts, merge_states, "
          "chunk_indices, chunk_cumsum, chunk_solve, chunk_wu, chunk_states, chunk_o, gated_delta_rule, delta_chunks; "
          "did you mean "
          "'gemm'?");
  bad_use({"--cache-dir", dir, "--op", "fmha", "--haed-dim", "64", "--target", "sm_90a"}, "did you mean --head-dim?");
  bad_use({"--cache-dir", dir, "--op", "fmha", "--dtype", "pf16", "--target", "sm_90a"},
          "--dtype is 'pf16'; allowed are f16, bf16; did you mean 'f16'?");
  bad_use({"--cache-dir", dir, "--target", "sm90a"}, "target 'sm90a' is unknown; did you mean 'sm_90a'? Allowed are ");
  bad_use({"--cache-dir", dir, "--target", "GFX1100"}, "did you mean 'gfx1100'?");
  bad_use({"--cache-dir", dir, "--target", "gfx1030"},
          "target 'gfx1030' is unknown: 'gfx1030' has no matrix instructions");
  CHECK(run_warm({"--cache-dir", dir, "--target", "sm90a"}).err.size() < 700);
}

TEST_CASE("a value cannot pass for another line, and a long one is cut") {
  const Scratch folder;
  const std::string dir = folder / "cache", fake = "sm_90a\n[info] fake\x1b[2J", large(100000, 'x');
  const std::vector<std::vector<std::string>> lines = {{"--target", fake},
                                                       {"--op", fake},
                                                       {"--dtype", fake},
                                                       {"--" + fake, "1"},
                                                       {fake},
                                                       {"--jobs", fake},
                                                       {"--cache-dir", folder / fake, "--list"},
                                                       {"--target", large},
                                                       {"--op", large},
                                                       {"--dtype", large},
                                                       {"--" + large, "1"},
                                                       {large},
                                                       {"--jobs", large},
                                                       {"--cache-dir", large, "--list"}};
  for (const std::vector<std::string>& line : lines) {
    CAPTURE(line[0].substr(0, 30));
    std::vector<std::string> words = line;
    if (line[0] != "--cache-dir") words.insert(words.end(), {"--cache-dir", dir});
    const ToolRun result = run_warm(words);
    CHECK(result.code != tj::tools::kExitOk);
    CHECK_MESSAGE(result.err.size() < 4000, result.err.size());
    CHECK(result.err.find("\n[info]") == std::string::npos);
    CHECK(result.err.find('\x1b') == std::string::npos);
  }
}

TEST_CASE("without a compiler the reason is told once, with the kernels that lack it") {
  const Scratch folder;
  const Variable path("PATH", folder / "bin"), rocm("ROCM_PATH", folder / "rocm"), hip("HIP_PATH", folder / "rocm"),
      compiler("TJ_HIP_COMPILER", "clang");
  const ToolRun result =
      run_warm({"--cache-dir", folder / "cache", "--op", "sum_parts", "--target", "gfx1100", "--jobs", "1"});
  CHECK(result.code == tj::tools::kExitFailures);
  const std::size_t at = result.err.find("failed: sum_parts_f16 for gfx1100: ");
  REQUIRE_MESSAGE(at != std::string::npos, result.err);
  const std::string why = result.err.substr(at + 35, 60);
  CHECK_MESSAGE(why.find("clang") != std::string::npos, why);
  CHECK_MESSAGE(
      result.err.find("2 kernels more: sum_parts_bf16 for gfx1100, sum_parts_f32 for gfx1100\n") != std::string::npos,
      result.err);
  CHECK_MESSAGE(std::count(result.err.begin(), result.err.end(), '\n') == 2, result.err);
  CHECK(result.out.find("3 kernels: 0 compiled, 0 already in the cache, 3 failed") != std::string::npos);
}

TEST_CASE("the version") {
  const ToolRun result = run_warm({"--version"});
  CHECK(result.code == tj::tools::kExitOk);
  CHECK(result.out == std::string("tj-warm ") + tj::version() + "\n");
}

TEST_CASE("list shows name, target, size and last use") {
  const Scratch folder;
  store(folder.path(), "fmha_f16_d128_causal", "sm_90a");
  store(folder.path(), "fmha_bf16_d64", "model:sm_90a");
  const ToolRun result = run_warm({"--list", "--cache-dir", folder.path()});
  CHECK(result.code == tj::tools::kExitOk);
  for (const char* part : {"last use", "fmha_f16_d128_causal  sm_90a", "fmha_bf16_d64         model:sm_90a", "KiB",
                           "2 kernels, 0 damaged"})
    CHECK_MESSAGE(result.out.find(part) != std::string::npos, std::string(part), " is not in: ", result.out);

  const auto json = nlohmann::json::parse(run_warm({"--list", "--json", "--cache-dir", folder.path()}).out);
  CHECK(json["kernels"] == 2);
  CHECK(json["entries"].size() == 2);
  CHECK(json["entries"][0]["bytes"].get<int>() > 5000);
}

TEST_CASE("an entry under a right checksum that is no kernel is damaged, and says why") {
  const std::pair<const char*, std::function<void(tj::cache::Entry&)>> changes[] = {
      {"it has no field 'name'", [](auto& entry) { entry.metadata.clear(); }},
      {"its field 'smem_bytes' is '-1'; allowed: 0 to 232448", [](auto& entry) { entry.metadata[6].second = "-1"; }},
      {"its field 'threads' is missing; allowed: multiples of 32, 32 to 1024",
       [](auto& entry) { entry.metadata.erase(entry.metadata.begin() + 3); }},
      {"it has no kernel in it", [](auto& entry) { entry.payload.clear(); }},
      {"its kernel is not whole: it is no 64-bit ELF file", [](auto& entry) { entry.payload = "garbage"; }},
      {"its kernel is not whole: it is no 64-bit ELF file (40 bytes)", [](auto& entry) { entry.payload.resize(40); }}};
  for (const auto& [said, change] : changes) {
    const Scratch folder;
    tj::cache::Entry entry = entry_of("fmha_f16_d64", "model:sm_90a");
    change(entry);
    const tj::cache::Key key = tj::cache::make_key({{"name", "x"}}, {{"kind", "test"}});
    REQUIRE(tj::cache::Store(folder.path(), 0, {}).store(key, entry));
    const ToolRun result = run_warm({"--verify", "--cache-dir", folder.path()});
    CHECK(result.code == tj::tools::kExitFailures);
    CHECK_MESSAGE(result.out.find(said) != std::string::npos, result.out);
    CHECK(result.out.find("0 kernels, 1 damaged") != std::string::npos);
  }
}

TEST_CASE("names from entries stand on one line, and are cut") {
  const Scratch folder;
  store(folder.path(), "\x1b[31mred\x07\n9 kernels\xff", "sm_90a");
  store(folder.path(), std::string(1000000, 'n'), std::string(1000000, 't'));
  const ToolRun result = run_warm({"--list", "--cache-dir", folder.path()});
  CHECK(result.code == tj::tools::kExitOk);
  CHECK_MESSAGE(result.out.find("\\x1b[31mred\\x07\\n9 kernels\\xff") != std::string::npos, result.out);
  CHECK(result.out.find("nnn... (1000000 bytes)") != std::string::npos);
  CHECK(result.out.find("ttt... (1000000 bytes)") != std::string::npos);
  CHECK(result.out.size() < 2000);
}

TEST_CASE("a damaged entry is named and changes the exit code") {
  const Scratch folder;
  store(folder.path(), "good", "sm_90a");
  CHECK(run_warm({"--verify", "--cache-dir", folder.path()}).code == tj::tools::kExitOk);
  store(folder.path(), "bad", "sm_90a");
  std::string damaged;
  for (const tj::cache::ListedEntry& entry : tj::cache::Store(folder.path(), 0, {}).list())
    if (*entry.entry->find("name") == "bad") damaged = entry.path;
  REQUIRE_FALSE(damaged.empty());
  {
    std::fstream file(damaged, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-100, std::ios::end);
    file.put('y');
  }
  for (const char* mode : {"--list", "--verify"}) {
    const ToolRun result = run_warm({mode, "--cache-dir", folder.path()});
    CHECK(result.code == tj::tools::kExitFailures);
    CHECK_MESSAGE(result.out.find("damaged: " + damaged) != std::string::npos, result.out);
    CHECK(result.out.find("1 kernels, 1 damaged") != std::string::npos);
    const ToolRun as_json = run_warm({mode, "--json", "--cache-dir", folder.path()});
    CHECK(as_json.code == tj::tools::kExitFailures);
    const auto json = nlohmann::json::parse(as_json.out);
    CHECK(json["damaged"] == 1);
    CHECK(json["entries"].size() == (std::string(mode) == "--list" ? 2 : 1));
  }
}

}  // namespace
