// Protects units that record. Their text is that of the unit without marks and lines of marks, no more. Each role marks
// each of its nodes and waits. A unit built that way has a key and a name of its own. The marks of each unit here stand
// in data/marks.txt, so that no mark comes, goes or loses its iteration unseen.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "codegen/emit.hpp"
#include "codegen/record.hpp"
#include "compile/compiler.hpp"
#include "ops/op.hpp"
#include "pipeline.hpp"
#include "support/expect.hpp"
#include "support/hash.hpp"
#include "support/pinned.hpp"

using namespace tj;
using codegen::Mark;
using codegen::MarkKind;

namespace {

using tj::testing::has;
struct Case {
  const char* arch;
  const char* op;
  std::map<std::string, std::vector<std::string>> flags;
};

/// Roles of all kinds: families with turns, products in tensor memory by one thread, copies by threads, one role of a
/// whole block, and pairs of blocks.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"sm_90a", "fmha", {{"dtype", {"f16"}}, {"head-dim", {"128"}}, {"causal", {"true"}}}},
      {"sm_90a", "gemm", {{"dtype", {"bf16"}}, {"tile", {"128x256x64"}}}},
      {"sm_90a", "chunk_o", {{"head-ratio", {"2"}}}},
      {"sm_100a", "fmha", {{"dtype", {"f16"}}, {"head-dim", {"64"}}, {"causal", {"false"}}}},
      {"sm_100a", "gemm", {{"dtype", {"f16"}}, {"tile", {"all"}}}},
      {"sm_80", "fmha", {{"dtype", {"f16"}}, {"head-dim", {"64"}}, {"causal", {"false"}}}},
      {"gfx90a", "fmha", {{"dtype", {"f16"}}, {"head-dim", {"64"}}, {"causal", {"false"}}}},
  };
  return all;
}

/// Calls use(choice, arch) for each kernel of a case.
template <class Use>
void for_kernels(Use&& use) {
  for (const Case& each : cases()) {
    const arch::Arch& arch = *arch::find(each.arch);
    const ops::Op& op = *ops::find(each.op);
    auto flags = each.flags;
    if (flags.count("tile") != 0 && flags["tile"].front() == "all") flags.erase("tile");
    const std::vector<ops::Request> requests = op.requests_for(flags, arch);
    CHECK(!requests.empty());
    for (const ops::Request& request : requests) {
      CAPTURE(request.name);
      CAPTURE(each.arch);
      use(choose(op, request, arch), arch);
    }
  }
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}
/// Takes the lines of marks away, and gives the parameter its name back.
std::string without_marks(const std::string& text, const std::string& params_type) {
  std::string out;
  bool in_params = false;
  // A kernel that draws its tiles has the op's parameter inside its own.
  const bool draws = has(text, "const auto& given = recorded.params;");
  for (std::string line : lines_of(text)) {
    if (has(line, "struct RecordedParams")) in_params = true;
    const bool skip = in_params || has(line, "dev::record<") || has(line, "next_record = dev::record_begin(") ||
                      has(line, "#include \"recording.cuh\"") || has(line, " = recorded.params;");
    if (in_params && has(line, "};")) in_params = false;
    if (skip) continue;
    const std::string parameter = "RecordedParams, recorded)";
    if (const auto at = line.find(parameter); at != std::string::npos)
      line.replace(at, parameter.size(), draws ? "WalkedParams, given)" : params_type + ", params)");
    out += line + "\n";
  }
  return out;
}

std::size_t count(const codegen::Unit& unit, MarkKind kind, int role, int node) {
  return static_cast<std::size_t>(std::count_if(unit.marks.begin(), unit.marks.end(), [&](const Mark& mark) {
    const auto member = std::find(mark.roles.begin(), mark.roles.end(), role);
    return mark.kind == kind && member != mark.roles.end() && !mark.nodes.empty() &&
           mark.nodes[static_cast<std::size_t>(member - mark.roles.begin())] == node;
  }));
}

}  // namespace

TEST_CASE("marks are lines of their own: without them the text is that of the unit that does not record") {
  for_kernels([](const Choice& choice, const arch::Arch& arch) {
    const codegen::Unit plain = codegen::emit(choice.candidate.graph, choice.schedule, arch.primitives),
                        recording =
                            codegen::emit(choice.candidate.graph, choice.schedule, arch.primitives, {.record = true});
    CHECK(plain.marks.empty());
    CHECK(!has(plain.text, "record"));
    CHECK(without_marks(recording.text, choice.candidate.graph.params_type) == plain.text);
    CHECK(recording.shape.threads == plain.shape.threads);
    CHECK(recording.shape.smem_bytes == plain.shape.smem_bytes);
    CHECK(recording.sites.size() == plain.sites.size());
    CHECK(recording.notes == plain.notes);
  });
}

TEST_CASE("each node has one begin and one end in its role, products of a role's own an end that it has seen") {
  for_kernels([](const Choice& choice, const arch::Arch& arch) {
    const graph::Graph& graph = choice.candidate.graph;
    const codegen::Unit unit = codegen::emit(graph, choice.schedule, arch.primitives, {.record = true});
    for (int node = 0; node < static_cast<int>(graph.nodes.size()); ++node) {
      CAPTURE(graph.nodes[static_cast<std::size_t>(node)].name);
      const int role = choice.schedule.role[static_cast<std::size_t>(node)];
      CHECK(count(unit, MarkKind::node_begin, role, node) == 1);
      CHECK(count(unit, MarkKind::node_end, role, node) == 1);
      CHECK(count(unit, MarkKind::node_done, role, node) ==
            (graph.nodes[static_cast<std::size_t>(node)].async == graph::Async::matrix ? 1 : 0));
    }
    // Every mark that begins something is followed in the text by its end, before anything else of the role begins.
    int open = 0;
    std::set<int> seen;
    for (const std::string& line : lines_of(unit.text)) {
      const auto at = line.find("dev::record<");
      if (at == std::string::npos) continue;
      const int id = std::stoi(line.substr(at + std::string("dev::record<").size()));
      REQUIRE(id >= 1);
      REQUIRE(id <= static_cast<int>(unit.marks.size()));
      seen.insert(id);
      const Mark& mark = unit.marks[static_cast<std::size_t>(id - 1)];
      if (mark.kind == MarkKind::node_begin || mark.kind == MarkKind::wait_begin) CHECK(++open == 1);
      if (mark.kind == MarkKind::node_end || mark.kind == MarkKind::wait_end) CHECK(--open == 0);
    }
    CHECK(seen.size() == unit.marks.size());
  });
}

TEST_CASE("marks and the iterations that they give are those that are pinned") {
  std::vector<std::string> pinned;
  for_kernels([&](const Choice& choice, const arch::Arch& arch) {
    const codegen::Unit unit =
        codegen::emit(choice.candidate.graph, choice.schedule, arch.primitives, {.record = true});
    std::string text;
    for (const std::string& line : lines_of(unit.text))
      if (has(line, "dev::record<")) text += line.substr(line.find_first_not_of(' ')) + "\n";
    const auto iterating =
        std::count_if(unit.marks.begin(), unit.marks.end(), [](const Mark& m) { return m.iterates; });
    for (const Mark& mark : unit.marks)
      for (const std::string& what : mark.what) text += std::to_string(mark.id) + " " + what + "\n";
    pinned.push_back(arch.name + " " + choice.candidate.graph.name + ": " + std::to_string(unit.marks.size()) +
                     " marks, " + std::to_string(iterating) + " in iterations, " +
                     support::to_hex(support::sha256(text)).substr(0, 16));
  });
  testing::check_pinned("tests/codegen/data/marks.txt", pinned);
}

TEST_CASE("waits are marked with what they are for, of each member of a family its own") {
  const Choice choice =
      choose(*ops::find("gemm"), ops::find("gemm")->requests({{"dtype", {"f16"}}, {"tile", {"128x128x64"}}}).front(),
             *arch::find("sm_90a"));
  const codegen::Unit unit = codegen::emit(choice.candidate.graph, choice.schedule, "sm90", {.record = true});
  std::set<std::string> waits;
  for (const Mark& mark : unit.marks)
    if (mark.kind == MarkKind::wait_end)
      for (std::size_t member = 0; member < mark.roles.size(); ++member)
        waits.insert(choice.schedule.roles[static_cast<std::size_t>(mark.roles[member])].name + " " +
                     mark.what.at(member));
  for (const std::string& wait : std::vector<std::string>{
           "load0 a empty", "load1 b empty", "compute0 a full", "compute1 b full", "compute0 products",
           "compute0 d0 empty", "compute1 d1 empty", "store d0 full", "store d1 full", "store stores have read"}) {
    CAPTURE(wait);
    CHECK(waits.count(wait) == 1);
  }
  CHECK(waits.count("compute1 d0 empty") == 0);
}

TEST_CASE("a recording build is another kernel to the cache, to dumps and to reports") {
  const arch::Target target{arch::find("sm_90a"), true};
  const auto compiler = compile::make_compiler("host", {});
  const ops::Request request = ops::find("fmha")->requests({{"dtype", {"f16"}}}).front(),
                     recording = recording_request(request);
  CHECK(recording.name != request.name);
  CHECK(key_of(recording, target, *compiler).request_hex != key_of(request, target, *compiler).request_hex);
}

TEST_CASE("a graph whose context has a name of the marks' is refused with them alone") {
  Choice choice = choose(*ops::find("copy_rows"), ops::find("copy_rows")->requests({}).front(), *arch::find("sm_90a"));
  for (graph::Node& node : choice.candidate.graph.nodes) node.context = "Recorded";
  CHECK(!codegen::emit(choice.candidate.graph, choice.schedule, "sm90").text.empty());
  CHECK(testing::error_of([&] {
          codegen::emit(choice.candidate.graph, choice.schedule, "sm90", {.record = true});
        }).code == Code::unsupported);
}
