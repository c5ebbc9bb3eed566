// Protects tj-check as a user runs it on ops: exit codes, its words about a kernel with a barrier less, JSON alone with
// --json, and mistakes named.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "support/expect.hpp"
#include "tests/support/scratch.hpp"
#include "tools/check.hpp"
#include "tools/options.hpp"

using namespace tj;

namespace {

using tj::testing::has;
struct Done {
  int code = 0;
  std::string out, err;
};

Done run(const std::string& line, bool terminal = false) {
  std::istringstream split(line);
  std::vector<std::string> words;
  for (std::string word; split >> word;) words.push_back(word);
  std::ostringstream out, err;
  Done done;
  done.code = tools::check(words, out, err, terminal);
  done.out = out.str();
  done.err = err.str();
  return done;
}

const std::string kGemm = "--op gemm --tile 64x32x128 --target model:sm_90a ";

/// The number of the first site whose text has all of these parts.
std::string site_with(const std::string& listing, const std::vector<std::string>& parts) {
  std::istringstream lines(listing);
  for (std::string line; std::getline(lines, line);)
    if (std::all_of(parts.begin(), parts.end(), [&](const std::string& part) { return has(line, part); }))
      return line.substr(0, line.find('\t'));
  FAIL("no site has ", parts.front());
  return {};
}

}  // namespace

TEST_CASE("a kernel without a fault is clean, for an architecture as for its model") {
  for (const char* target : {"sm_90a", "model:sm_90a"}) {
    const Done done = run("--op gemm --tile 64x32x128 --seeds 3 --target " + std::string(target));
    CHECK(done.code == tools::kExitOk);
    CHECK(has(done.out, "clean: gemm_f16_kk_64x32x128 on model:sm_90a, M 128 N 64 K 640"));
    CHECK(has(done.out, "3 problems, 3 seeds from 1, values of seed 1: clean"));
    CHECK(done.err == "");
  }
}

TEST_CASE("rings of two slots, which less shared memory leaves, are clean") {
  const Done done = run("--op gemm --tile 128x64x64 --seeds 2 --target model:sm_90a+smem=64K");
  CHECK(done.code == tools::kExitOk);
  CHECK_MESSAGE(has(done.out, "3 problems, 2 seeds from 1, values of seed 1: clean"), done.out);
}

TEST_CASE(
    "sites are listed a line each, and one that is switched off is found, named, and shown again by the command that "
    "is printed") {
  const Done listed = run(kGemm + "--list-sites");
  CHECK(listed.code == tools::kExitOk);
  const std::string release = site_with(listed.out, {"release ring a"});
  const Done broken = run(kGemm + "--seeds 4 --disable-site " + release);
  CHECK(broken.code == tools::kExitFailures);
  CHECK(has(broken.out, "finding 1 of "));
  CHECK(has(broken.out, "gemm_f16_kk_64x32x128: "));
  CHECK(has(broken.out, "waits since step"));
  const std::string mark = "again:\n  tj-check ";
  REQUIRE(has(broken.out, mark));
  const std::size_t begin = broken.out.find(mark) + mark.size();
  const Done again = run(broken.out.substr(begin, broken.out.find('\n', begin) - begin));
  CHECK(again.code == tools::kExitFailures);
  // All but the counts of seeds is the same.
  const auto message = [](const std::string& text) {
    return text.substr(text.find("gemm_f16_kk_64x32x128: "),
                       text.find("threads have ended") - text.find("gemm_f16_kk_64x32x128: "));
  };
  CHECK(message(again.out) == message(broken.out));
}

TEST_CASE("a headline says which role, at which node, and whose arrivals a barrier counts") {
  const std::string gemm = kGemm + "--m 64 --n 32 --k 1704 ", listed = run(gemm + "--list-sites").out;
  const std::string overrun = run(gemm + "--seeds 1 --disable-site " + site_with(listed, {"wait ring a empty"})).out;
  CHECK_MESSAGE(has(overrun, ", role load0, in or after node load_a"), overrun);
  CHECK_MESSAGE(has(overrun, "gets one arrival more"), overrun);
  const std::string announces = site_with(listed, {"expect bytes of ring b"});
  const std::string half = run(gemm + "--seeds 1 --weaken-site " + announces).out;
  CHECK_MESSAGE(has(half, "fewer bytes were announced than are copied; arrivals here are of site " + announces +
                              " (role load1, "),
                half);
  const std::string silent = run(gemm + "--seeds 1 --disable-site " + announces).out;
  CHECK_MESSAGE(has(silent, " arrivals and 8192 bytes came that nobody announced"), silent);
  const std::string releases = site_with(listed, {"epilogue", "release ring a"});
  const std::string kept = run(kGemm + "--m 64 --n 32 --k 256 --seeds 1 --disable-site " + releases).out;
  CHECK_MESSAGE(has(kept, "a release is missing; arrivals here are of site "), kept);
  CHECK_MESSAGE(has(kept, "site " + releases + " (role compute0, epilogue: release ring a)"), kept);
}

TEST_CASE("half of what a pair of blocks copies is announced: the report says so first, and whose bytes count") {
  const std::string gemm = "--op gemm --tile 128x256x64c2x1 --target model:sm_100a --batch 1 --m 256 --n 256 --k 200 ",
                    listed = run(gemm + "--list-sites").out;
  const std::string half = run(gemm + "--seeds 1 --weaken-site " + site_with(listed, {"expect bytes of ring a"})).out;
  CHECK_MESSAGE(has(half,
                    " for the 2. time: either the filling before was published while it went on (fewer bytes announced "
                    "than copied; a pair's barrier counts those of both blocks), or this thread has"),
                half);
}

TEST_CASE(
    "of a role that fills a ring and reads it, the report of an empty barrier lists what hands slots back, and no "
    "announcement") {
  const std::string fmha =
                        "--op fmha --head-dim 128 --causal true --target model:sm_120a --batch 1 --heads 2 --kv-heads "
                        "1 --seq-q 130 --seq-k 600 ",
                    listed = run(fmha + "--list-sites").out;
  const std::string out =
      run(fmha + "--seeds 1 --disable-site " + site_with(listed, {"fast variants", "release ring k"})).out;
  REQUIRE_MESSAGE(has(out, ": empty barrier "), out);
  std::istringstream lines(out);
  bool empty = false;
  for (std::string line; std::getline(lines, line);) {
    if (has(line, " waits for role ")) empty = has(line, ": empty barrier ");
    if (empty && has(line, "arrives by site ")) CHECK_MESSAGE(has(line, "release ring"), line);
  }
  const std::regex lanes(R"(lane [0-9 -]*-[0-9 -]*: waits since step \d+ for the other lanes of the warp)");
  CHECK_MESSAGE(std::regex_search(out, lanes), out);  // all but the elected one
}

TEST_CASE("a kernel that reads and writes by boxes alone is found too when it does not wait for the grids before it") {
  const std::string boxes = "--op gemm --tile 128x128x64 --m 128 --n 128 --k 64 --target model:sm_90a ";
  const std::string grids = site_with(run(boxes + "--list-sites").out, {"grids"});
  const Done broken = run(boxes + "--seeds 1 --disable-site " + grids);
  CHECK(broken.code == tools::kExitFailures);
  CHECK(has(broken.out,
            "copy of global memory, which a grid before this one may still use: wait_for_grids_before is missing"));
}

TEST_CASE("a role that runs without the registers that it is made for is found") {
  const std::string roles = "--op gemm --tile 128x128x64 --m 128 --n 128 --k 64 --target model:sm_90a ";
  const std::string grows = site_with(run(roles + "--list-sites").out, {"registers of compute0"});
  const Done broken = run(roles + "--seeds 1 --disable-site " + grows);
  CHECK(broken.code == tools::kExitFailures);
  CHECK(has(broken.out, "registers a thread, of 232 that it is made for: registers_grow is missing"));
}

TEST_CASE("--json prints one document, whatever was found") {
  const auto sites = nlohmann::json::parse(run(kGemm + "--list-sites --json").out);
  REQUIRE(sites.size() == 1);
  REQUIRE(!sites[0]["sites"].empty());
  CHECK(sites[0]["kernel"] == "gemm_f16_kk_64x32x128");
  const auto clean = nlohmann::json::parse(run(kGemm + "--seeds 1 --json").out);
  CHECK(clean["findings"] == 0);
  const std::string release = site_with(run(kGemm + "--list-sites").out, {"release ring b"});
  const Done broken = run(kGemm + "--seeds 2 --json --disable-site " + release, true);
  CHECK(broken.code == tools::kExitFailures);
  const auto document = nlohmann::json::parse(broken.out);
  CHECK(document["findings"].get<int>() >= 1);
  for (const char* field : {"kernel", "code", "message", "log", "first_seed", "seeds", "command"})
    CHECK(document["cases"][0]["findings"][0].contains(field));
}

TEST_CASE(
    "a site that is known to change nothing is told with its reason, not as clean; with another one beside it the "
    "kernel is judged as ever") {
  // Whichever of these kernels has such a fence: that is for the schedule to say.
  std::string fmha, listed;
  for (const char* form : {"--head-dim 128 --causal false", "--head-dim 128 --causal true",
                           "--head-dim 64 --causal false", "--head-dim 64 --causal true"}) {
    fmha =
        std::string(
            "--op fmha --dtype f16 --batch 1 --heads 1 --kv-heads 1 --seq-q 130 --seq-k 600 --target model:sm_90a ") +
        form + " ";
    listed = run(fmha + "--list-sites").out;
    if (has(listed, "steady: fence before pv.0\n")) break;
  }
  const std::string fence = site_with(listed, {"steady: fence before pv.0"}),
                    other = site_with(listed, {"release ring k"});
  const Done known = run(fmha + "--seeds 2 --disable-site " + fence);
  CHECK(known.code == tools::kExitOk);
  CHECK_MESSAGE(has(known.out, "equivalent: fmha_f16_d"), known.out);
  CHECK_MESSAGE(has(known.out, "site " + fence + " off: "), known.out);
  CHECK_MESSAGE(
      has(known.out,
          "steady: fence before pv.0: known to change nothing, as the fence before the product in front of it covers"),
      known.out);
  CHECK_MESSAGE(has(known.out, "values of seed 1: equivalent\n"), known.out);
  CHECK_FALSE(has(known.out, "clean"));
  const auto document = nlohmann::json::parse(run(fmha + "--seeds 1 --json --disable-site " + fence).out);
  CHECK(document["findings"] == 0);
  REQUIRE(document["cases"][0]["equivalent"].size() == 1);
  for (const char* field : {"kernel", "mutant", "argument"})
    CHECK(document["cases"][0]["equivalent"][0].contains(field));
  const Done both = run(fmha + "--seeds 1 --disable-site " + fence + "," + other);
  CHECK(both.code == tools::kExitFailures);
  CHECK_FALSE(has(both.out, "equivalent"));
  CHECK_FALSE(nlohmann::json::parse(run(fmha + "--seeds 1 --json").out)["cases"][0].contains("equivalent"));
}

TEST_CASE("the kernels of a call that is served in steps are named, and their sites with them") {
  const std::string parts = "--op gemm --dtype f16 --tile 64x64x128 --parts true --target model:sm_90a ";
  CHECK(run(parts + "--seeds 1").code == tools::kExitOk);
  const Done listed = run(parts + "--list-sites");
  CHECK(has(listed.out, "_parts:1\t"));
  const std::string release = site_with(listed.out, {"release ring a"});
  CHECK(has(release, "gemm_f16_f32_kk_64x64x128_parts:"));
  CHECK(run(parts + "--seeds 4 --disable-site " + release).code == tools::kExitFailures);
}

TEST_CASE("mutants: a table with a score, and an exit code that tells whether one survived") {
  const Done done = run("--op copy_rows --target model:sm_90a --mutate --seeds 2 --json");
  const auto document = nlohmann::json::parse(done.out);
  CHECK(document["all"]["mutants"].get<int>() == document["all"]["caught"].get<int>() +
                                                     document["all"]["equivalent"].get<int>() +
                                                     document["all"]["survived"].get<int>());
  CHECK(done.code == (document["all"]["survived"] == 0 ? tools::kExitOk : tools::kExitFailures));
  CHECK(has(run("--op copy_rows --target model:sm_90a --mutate --seeds 2").out,
            " mutants  caught  equivalent  survived    score"));
}

TEST_CASE("a line for each problem, and a row for each mutated kernel, as soon as it is done") {
  // Both streams are one, so that the progress of the second tells when the first was written.
  const auto together = [](const std::string& line) {
    std::istringstream split(line);
    std::vector<std::string> words;
    for (std::string word; split >> word;) words.push_back(word);
    std::ostringstream both;
    CHECK(tools::check(words, both, both, true) == tools::kExitOk);
    return both.str();
  };
  const std::string problems = together(kGemm + "--seeds 2");
  const std::size_t clean = problems.find("clean: gemm_f16_kk_64x32x128 on model:sm_90a, M 128 N 64 K 640\n"),
                    progress = problems.find("M 192 N 96 K 128: 1 of 2");
  REQUIRE(clean != std::string::npos);
  REQUIRE(progress != std::string::npos);
  CHECK(clean < progress);
  const std::string rows = together("--op sum_parts --out f16,bf16 --target model:sm_90a --mutate --seeds 2");
  const std::size_t row = rows.find("sum_parts_f16 model:sm_90a"), next = rows.find("sum_parts_bf16 on model:sm_90a");
  REQUIRE(row != std::string::npos);
  REQUIRE(next != std::string::npos);
  CHECK(row < next);
}

TEST_CASE("progress is for terminals") {
  CHECK(has(run(kGemm + "--seeds 2", true).err, "1 of 2"));
  CHECK(run(kGemm + "--seeds 2", false).err == "");
}

TEST_CASE("bad use: the argument, its value, what is allowed, exit code 2") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "--op, --graph, --all"},
      {"--op gem", "allowed: fmha, gemm"},
      {"--op fmha --seq-q zero", "--seq-q is 'zero'"},
      {"--op fmha --target sm_1", "sm_1"},
      {"--op fmha --seeds 0", "--seeds"},
      {"--op fmha --colour red", "--colour means nothing to fmha"},
      {"--op chunk_states --target sm_80", "sm_80"},
      {"--all --seq-q 3", "--seq-q belongs to no op"},
      {"--bogus", "--bogus belongs to no op, and is no flag"},
      {"--bogus -- true", "--bogus belongs to no op, and is no flag"},
      {"--op gemm --seed -1", "'-1'; allowed: 0 to 9223372036854775807"},
      {"--op gemm --seed 18446744073709551616", "'18446744073709551616'; allowed: 0 to"},
      {"--op gemm --data-seed -1", "'-1'; allowed: 0 to"},
      {kGemm + "--disable-site x", "--disable-site is 'x'"},
      {kGemm + "--disable-site 0", "--disable-site is '0'; allowed: a site's number from 1 on"},
      {kGemm + "--disable-site 9999", "has the sites 1 to "},
      {"--op chunk_indices --target model:sm_80 --disable-site 1", "chunk_indices has no site (--list-sites)"},
      {kGemm + "--disable-site other:1", "the kernels are gemm_f16_kk_64x32x128"},
      {kGemm + "--disable-site 1 --mutate", "--disable-site and --weaken-site are given with --mutate"},
      {"--", "-- is followed by nothing"},
      {"--mutate -- true", "--mutate is given with a program"},
      {"-- /nowhere/at/all", "/nowhere/at/all"},
      {"-- true", "launched no kernel"},
  };
  for (const auto& [given, part] : cases) {
    const std::string line = given;  // clang 14 captures no part of a binding
    CAPTURE(line);
    const Done done = run(line);
    CHECK(done.code == tools::kExitBadUse);
    CHECK(done.out == "");
    CHECK_MESSAGE(has(done.err, part), done.err);
  }
  const Done help = run("--help");
  CHECK(help.code == tools::kExitOk);
  for (const char* part : {"--list-sites", "--mutate", "TJ_MODEL_SEED", "Exit codes"}) CHECK(has(help.out, part));
}
