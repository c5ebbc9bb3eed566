// Protects the layout of the documents that tools print and write: a line a value, two blanks a level, and names as
// they are given, whatever their letters. The commands in them can be pasted into a shell.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "bench_fixture.hpp"
#include "description.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"
#include "support/variable.hpp"
#include "tools/check.hpp"
#include "tools/run_tool.hpp"

namespace {

using namespace tj::test;
namespace tools = tj::tools;

const std::string kFolder = "gr\u00f6\u00dfe";

/// The text is what its values are in lines, and has the folder's name.
void check_layout(const std::string& text, const std::string& end = "\n", const std::string& name = kFolder) {
  CAPTURE(text);
  const auto values = nlohmann::ordered_json::parse(text, nullptr, false);
  REQUIRE_FALSE(values.is_discarded());
  CHECK(text == values.dump(2) + end);
  CHECK(has(text, "\n  "));
  CHECK(has(text, name));
}

struct FakeBench : BenchMachine {
  std::string folder() const { return scratch / kFolder; }
};

std::string checked(const tools::CheckSettings& settings) {
  std::ostringstream out, err;
  tools::CheckProgress progress(err, false);
  tools::check_program(settings, progress, out);
  return out.str();
}

TEST_CASE("a cache's list, kernels that were made, and problems that were tuned") {
  FakeBench machine;
  const std::vector<std::string> kernel = {"--op", "copy_rows", "--target", "sm_90a", "--cache-dir", machine.folder()};
  const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  check_layout(run_warm(with(kernel, {"--json"})).out);
  check_layout(run_warm({"--list", "--json", "--cache-dir", machine.folder()}).out);
  check_layout(run_warm({"--verify", "--json", "--cache-dir", machine.folder()}).out);
  check_layout(run_warm({"--tune", "--op", "gemm", "--m", "256", "--n", "256", "--k", "256", "--dtype", "f16",
                         "--tune-rounds", "1", "--cache-dir", machine.folder(), "--json"})
                   .out);
}

TEST_CASE("times of calls, a schedule, and what the library says of itself") {
  FakeBench machine;
  std::ostringstream out, err;
  const std::string file = machine.folder() + ".json";
  tools::bench({"--op", "chunk_indices", "--rounds", "1", "--cache-dir", machine.cache_dir(), "--json", file}, out, err,
               {});
  check_layout(tj::testing::read_bytes(file), "\n", "Fake H200");
  const ToolRun scheduled = run_schedule({"--graph-example", "fa_hopper", "--json"});
  check_layout(scheduled.out, "\n", "fa_hopper");
  const tj::testing::Variable cache("TJ_CACHE_DIR", machine.folder());
  check_layout(tj::description(), "");
}

TEST_CASE("sites and findings of a program, and the command that shows them again") {
  tools::CheckSettings settings;
  settings.target = "model:sm_90a";
  settings.seeds.count = 1;
  settings.json = true;
  const std::string report = R"(echo '{"kernel": ")" + kFolder +
                             R"(", "sites": [{"id": 3, "kind": "wait", "text": "x"}]}' >> $TJ_MODEL_REPORT; exit 3)";
  settings.program = {"sh", "-c", report, "plain-Word_1+=./:,@%", "", "it's", "a b"};
  const std::string found = checked(settings);
  check_layout(found, "\n", "ended with status 3");
  const std::string command = nlohmann::json::parse(found)["cases"][0]["findings"][0]["command"];
  CHECK_MESSAGE(command.starts_with("tj-check --target model:sm_90a --"), command);
  CHECK_MESSAGE(command.find(R"(plain-Word_1+=./:,@% '' 'it'\''s' 'a b')") != std::string::npos, command);
  CHECK_MESSAGE(command.find(" -- sh -c 'echo '\\''{\"kernel\"") != std::string::npos, command);
  settings.list_sites = true;
  const std::string sites = checked(settings);
  check_layout(sites);
  CHECK(nlohmann::json::parse(sites)[0]["sites"][0]["weakens"] == false);
  settings.json = false;
  CHECK(checked(settings) == "3\twait\tx\n");
  settings.program[2] = R"(printf '{"kernel": "a", "sites": [{"id": 3, "kind": "group_wait", "text": "x"}]}\n)"
                        R"({"kernel": "b", "sites": [{"id": 3, "kind": "turn", "text": "y"}]}\n' > $TJ_MODEL_REPORT)";
  CHECK(checked(settings) == "a:3\tgroup_wait\tx\nb:3\tturn\ty\n");
}

}  // namespace
