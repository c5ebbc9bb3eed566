// Protects tj-bench --timeline on a machine of fakes: the launches that a GPU sees, what is said where nothing is
// recorded, and bad use. Records themselves are read, and what is wrong with them is named.
#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "runtime/runtime_fixture.hpp"
#include "tools/options.hpp"
#include "tools/run_tool.hpp"
#include "tools/timeline.hpp"

namespace {

using tj::test::run_timeline;
using tj::test::ToolRun;

using namespace tj;
using codegen::Mark;
using codegen::MarkKind;
using codegen::Record;
using tj::testing::error_of;
using tj::testing::has;

const std::vector<std::string> kSmall = {"--op", "copy_rows", "--rows", "8", "--columns", "64"};
std::vector<std::string> small(std::vector<std::string> more) {
  more.insert(more.begin(), kSmall.begin(), kSmall.end());
  return more;
}

/// Records of one role with a node and a wait, made by hand.
struct HandMade {
  Recording recording;
  std::vector<Record> records = std::vector<Record>(64);
  std::size_t next = 0;

  HandMade() {
    const ops::Op& op = *ops::find("copy_rows");
    recording.choice = choose(op, op.requests({}).front(), *arch::find("sm_90a"));
    recording.unit =
        codegen::emit(recording.choice.candidate.graph, recording.choice.schedule, "sm90", {.record = true});
  }
  int id(MarkKind kind) const {
    for (const Mark& mark : recording.unit.marks)
      if (mark.kind == kind) return mark.id;
    return 0;
  }
  HandMade& add(MarkKind kind, int number, std::uint32_t clock) {
    records[next++] = {
        static_cast<std::uint32_t>(id(kind)) << codegen::kMarkNumberBits | static_cast<std::uint32_t>(number), clock};
    return *this;
  }
  tools::BlockSpans read() const {
    return tools::read_block(recording.choice.candidate.graph, recording.unit, recording.choice.schedule, 0, records,
                             records.size());
  }
};

}  // namespace

TEST_CASE("a GPU sees the launches without marks, those with marks, and one more that is looked at") {
  test::Machine machine;
  machine.cuda.set_param_bytes(0);
  const ToolRun result = run_timeline(small({"--target", "sm_90a", "--launches", "3"}));
  CHECK(result.code == tools::kExitFailures);  // kernels of the fake do nothing
  CHECK_MESSAGE(has(result.err, "wrote no record"), result.err);
  const std::string log = machine.cuda.log();
  std::size_t launches = 0;
  for (std::size_t at = 0; (at = log.find("cuLaunchKernelEx", at)) != std::string::npos; ++at) ++launches;
  CHECK(launches == 2 * (1 + 3) + 1);
}

TEST_CASE("bad use names the flag, its value and what is allowed") {
  test::Machine machine;
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "--op"},
      {{"--op", "nothing"}, "nothing"},
      {small({"--records", "100"}), "no power of two"},
      {small({"--records", "32"}), "--records"},
      {small({"--blocks", "0"}), "--blocks"},
      {small({"--trace", "--svg"}), "--trace"},
      {small({"--rows", "9"}), "--rows"},
      {{"--op", "fmha", "--nonsense", "1"}, "nonsense"},
  };
  for (const auto& [words, named] : cases) {
    const std::string& part = named;  // clang 14 captures no binding
    const ToolRun result = run_timeline(words);
    CAPTURE(part);
    CHECK(result.code == tools::kExitBadUse);
    CHECK_MESSAGE(has(result.err, part), result.err);
  }
}

TEST_CASE("records become spans; the clock may pass its end; a role that filled its places ends in an open tile") {
  HandMade made;
  made.add(MarkKind::role_begin, 7, 0xfffffff0u)
      .add(MarkKind::tile_begin, 1, 0xfffffff4u)
      .add(MarkKind::node_begin, 0, 0xfffffff8u)
      .add(MarkKind::node_end, 0, 8);
  const tools::BlockSpans block = made.read();
  REQUIRE(block.roles.size() == 1);
  CHECK(block.roles[0].processor == 7);
  CHECK(block.roles[0].end < 0);
  REQUIRE(block.roles[0].tiles.size() == 1);
  CHECK(!block.roles[0].tiles[0].whole());
  REQUIRE(block.roles[0].tiles[0].spans.size() == 1);
  CHECK(block.roles[0].tiles[0].spans[0].begin == 8);
  CHECK(block.roles[0].tiles[0].spans[0].end == 24);
  CHECK(tools::check_block(made.recording.choice.candidate.graph, made.recording.choice.schedule, block).empty());
}

TEST_CASE("what no unit can have written is named") {
  CHECK(has(error_of([] { HandMade().read(); }).message, "there are no records"));
  CHECK(
      has(error_of([] { HandMade().add(MarkKind::role_begin, 0, 100).add(MarkKind::role_end, 0, 50).read(); }).message,
          "clock goes back"));
  CHECK(has(error_of([] { HandMade().add(MarkKind::tile_begin, 1, 0).add(MarkKind::node_end, 0, 1).read(); }).message,
            "without its begin"));
  CHECK(has(
      error_of([] {
        HandMade().add(MarkKind::tile_begin, 1, 0).add(MarkKind::node_begin, 0, 1).add(MarkKind::node_end, 1, 2).read();
      }).message,
      "without its begin"));
  CHECK(has(error_of([] {
              HandMade()
                  .add(MarkKind::tile_begin, 1, 0)
                  .add(MarkKind::node_begin, 0, 1)
                  .add(MarkKind::node_begin, 0, 2)
                  .read();
            }).message,
            "inside another"));
  CHECK(has(error_of([] { HandMade().add(MarkKind::tile_end, 0, 1).read(); }).message, "outside of a tile"));
  HandMade another;  // whose end comes in the place of the one that began
  std::vector<Mark>& marks = another.recording.unit.marks;
  Mark end = marks[static_cast<std::size_t>(another.id(MarkKind::node_end) - 1)];
  REQUIRE(!end.nodes.empty());
  for (int& node : end.nodes) ++node;
  end.id = static_cast<int>(marks.size()) + 1;
  marks.push_back(end);
  another.add(MarkKind::tile_begin, 1, 0).add(MarkKind::node_begin, 0, 1);
  another.records[another.next++] = {static_cast<std::uint32_t>(end.id) << codegen::kMarkNumberBits, 2};
  CHECK(has(error_of([&] { another.read(); }).message, "without its begin"));
  HandMade unknown;
  unknown.records[0] = {4095u << codegen::kMarkNumberBits, 1};
  CHECK(has(error_of([&] { unknown.read(); }).message, "mark 4095 is unknown"));
}

TEST_CASE("an order that is not the schedule's is named, as is what is missing") {
  HandMade twice;
  twice.add(MarkKind::tile_begin, 2, 0);
  for (const int iteration : {1, 0})
    twice.add(MarkKind::node_begin, iteration, 1).add(MarkKind::node_end, iteration, 1);
  twice.add(MarkKind::tile_end, 0, 3);
  const auto& choice = twice.recording.choice;
  CHECK(has(tools::check_block(choice.candidate.graph, choice.schedule, twice.read()),
            "was recorded where the schedule has"));
  HandMade less;
  less.add(MarkKind::tile_begin, 2, 0)
      .add(MarkKind::node_begin, 0, 1)
      .add(MarkKind::node_end, 0, 2)
      .add(MarkKind::tile_end, 0, 3);
  CHECK(has(tools::check_block(choice.candidate.graph, choice.schedule, less.read()), "was not recorded"));
}
