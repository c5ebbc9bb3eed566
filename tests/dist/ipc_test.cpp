// Protects what a group asks of CUDA's driver: handles are exchanged once, and copies go by the side stream with a word
// behind them. All ranks send messages where one cannot open a buffer. The fake driver does not run kernels.
#include <doctest/doctest.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <thread>

#include <tilejit/tilejit.hpp>

#include "dist/fake_ranks.hpp"

using namespace tj;
using test::FakeNccl;
using test::has;
using test::kCalls;
using test::Machine;
using test::Ranks;

namespace {

/// Streams that were given work or waits behind which the default stream does not wait, in a log's lines.
std::string unjoined(const std::vector<std::string>& lines) {
  std::string found;
  for (const std::string stream : {"stream 1", "stream 2", "stream 3", "stream 4"}) {
    bool open = false;
    std::string event;
    for (const std::string& line : lines) {
      if (line.starts_with("cuEventRecord ") && line.ends_with(" in " + stream))
        event = line.substr(14, line.size() - 14 - 4 - stream.size());
      else if (line.ends_with(" in " + stream) || line.starts_with("cuStreamWaitEvent " + stream + " behind"))
        open = true, event.clear();
      else if (!event.empty() && line == "cuStreamWaitEvent default behind " + event)
        open = false;
    }
    if (open) found += stream + " ";
  }
  return found;
}

/// The log's lines that name a stream, without the rest.
std::vector<std::string> copies_in(const std::string& log, const std::string& stream) {
  std::vector<std::string> found;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("cuMemcpyDtoDAsync") && line.ends_with(" in " + stream)) found.push_back(line);
  return found;
}

}  // namespace

TEST_CASE("handles are exchanged once; behind a rank's bytes goes a word; nothing is allocated again") {
  const FakeNccl nccl;
  Machine machine;
  Runtime runtime(machine.options());
  Ranks ranks(runtime);
  CHECK(ranks.said == std::array<std::string, 2>());
  CHECK(has(ranks.members[0]->description(), "not open yet"));
  ranks.attend();
  CHECK(ranks.said == std::array<std::string, 2>());
  CHECK(has(ranks.members[0]->description(), "CUDA IPC, 2 slots of 2097152 bytes"));
  CHECK(count_calls(machine.cuda, "cuIpcGetMemHandle") == 4);  // words and bytes of each rank
  CHECK(count_calls(machine.cuda, "cuIpcOpenMemHandle") == 4);
  CHECK(has(machine.cuda.log(), " flags 1"));  // peer access is enabled when it is needed
  const std::string word = "cuMemcpyDtoDAsync 4 in ";
  const auto of_streams = [&] {  // each rank has two, of which copies take one
    std::vector<std::vector<std::string>> found;
    for (const std::string stream : {"stream 1", "stream 2", "stream 3", "stream 4"})
      if (auto own = copies_in(machine.cuda.log(), stream); !own.empty()) found.push_back(std::move(own));
    return found;
  };
  std::size_t copies = 0;
  REQUIRE(of_streams().size() == 2);
  for (const auto& own : of_streams()) {
    REQUIRE(own.size() >= 3);  // keys, values and the word behind them
    for (const std::string& copy : own) CHECK(copy.starts_with(word) == (&copy == &own.back()));
    copies += own.size();
  }
  CHECK(copies == 6);  // rank 0 needs both pieces of rank 1, which lie behind each other, and rank 1 needs one
  const int allocated = count_calls(machine.cuda, "cuMemAlloc");
  ranks.attend();
  CHECK(count_calls(machine.cuda, "cuIpcOpenMemHandle") == 4);
  CHECK(of_streams().size() == 2);
  CHECK(of_streams()[0].size() + of_streams()[1].size() == 2 * copies);
  CHECK(count_calls(machine.cuda, "cuMemAlloc") - allocated <= 2);  // of results in f32
  ranks.members.clear();
  CHECK(count_calls(machine.cuda, "cuIpcCloseMemHandle") == 4);
}

TEST_CASE("a forked child that drops its parent's members asks the driver and NCCL for nothing") {
  const FakeNccl nccl;
  Machine machine;
  Runtime runtime(machine.options());
  Ranks ranks(runtime);
  ranks.attend();
  CHECK(ranks.said == std::array<std::string, 2>());
  CHECK(testing::wait_for(testing::start_child([&] {
          ::alarm(60);
          const std::string before = machine.cuda.log();
          const int comms = nccl.comms();
          const std::string said = testing::said_by([&] { ranks.members[0]->check(); });
          ranks.members.clear();
          if (!has(said, "a child of fork() has no group")) return 1;
          return machine.cuda.log() == before && nccl.comms() == comms && nccl.aborts() == 0 ? 0 : 2;
        })) == 0);
  ranks.attend();
  CHECK(ranks.said == std::array<std::string, 2>());
}

TEST_CASE("where a rank cannot share or open a buffer all send messages, and say why") {
  const FakeNccl nccl;
  for (const char* call : {"cuIpcGetMemHandle", "cuIpcOpenMemHandle"}) {
    Machine machine;
    Runtime runtime(machine.options());
    Ranks ranks(runtime);
    machine.cuda.fail(call, 2, 201);
    ranks.attend();
    CHECK(ranks.said == std::array<std::string, 2>());
    for (const auto& member : ranks.members) {
      const std::string told = member->description();
      CHECK_MESSAGE(has(told, "messages, as buffers cannot be opened: rank "), told);
      CHECK_MESSAGE(has(told, std::string(call) + " failed with"), told);
    }
    const int asked = count_calls(machine.cuda, call);
    ranks.attend();
    CHECK(ranks.said == std::array<std::string, 2>());
    CHECK(count_calls(machine.cuda, call) == asked);
    ranks.members.clear();
  }
}

TEST_CASE("where buffers cannot grow, large calls send messages, and small ones go on using those that are open") {
  const FakeNccl nccl;
  constexpr std::int64_t kBetween = 4096, kMany = 16384, kMore = 32768;
  for (const char* call : {"cuIpcGetMemHandle", "cuIpcOpenMemHandle"}) {
    Machine machine;
    Runtime runtime(machine.options());
    Ranks ranks(runtime);
    const auto copies = [&] { return count_calls(machine.cuda, "cuMemcpyDtoDAsync"); };
    ranks.attend();
    const int first = copies();
    ranks.attend();
    const int of_call = copies() - first;
    CHECK(of_call > 0);
    machine.cuda.fail(call, 6, 201);  // four were for words and bytes
    for (const std::int64_t rows : {kMany, kMany, kMore}) {
      const int before = copies();
      ranks.attend(rows);
      CHECK(ranks.said == std::array<std::string, 2>());
      CHECK(copies() == before);
    }
    CHECK(count_calls(machine.cuda, call) == 6);
    for (const auto& member : ranks.members) {
      const std::string told = member->description();
      CHECK_MESSAGE(has(told, "CUDA IPC, 2 slots of 2097152 bytes; slots of 16777216 bytes cannot be opened"), told);
      CHECK_MESSAGE(has(told, std::string(call) + " failed with"), told);
    }
    const int before = copies();
    ranks.attend();
    CHECK(ranks.said == std::array<std::string, 2>());
    CHECK(copies() - before == of_call);
    ranks.attend(kBetween);
    CHECK(ranks.said == std::array<std::string, 2>());
    for (const auto& member : ranks.members) {
      const std::string told = member->description();
      CHECK_MESSAGE(has(told, "CUDA IPC, 2 slots of 4194304 bytes; slots of 16777216 bytes cannot be opened"), told);
    }
    ranks.members.clear();
  }
}

TEST_CASE("a graph takes copies where buffers are large enough, else messages, and records no wait for earlier work") {
  const FakeNccl nccl;
  Machine machine;
  Runtime runtime(machine.options());
  Ranks ranks(runtime);
  machine.cuda.set_capture(1);
  ranks.each([&](int rank) { ranks.prepare(rank); });
  ranks.attend();
  CHECK(ranks.said == std::array<std::string, 2>());
  CHECK(has(ranks.members[0]->description(), "a graph was recorded that needs slots of "));
  CHECK(count_calls(machine.cuda, "cuIpcGetMemHandle") == 0);
  machine.cuda.set_capture(0);
  ranks.attend();
  CHECK(has(ranks.members[0]->description(), "CUDA IPC, 2 slots"));
  const auto lines = [&](const char* call) { return count_calls(machine.cuda, call); };
  const int plain_waits = lines("cuStreamWaitEvent"), plain_copies = lines("cuMemcpyDtoDAsync");
  ranks.attend();
  const int waits = lines("cuStreamWaitEvent") - plain_waits, copies = lines("cuMemcpyDtoDAsync") - plain_copies;
  machine.cuda.set_capture(1);
  const int before = lines("cuStreamWaitEvent"), copied = lines("cuMemcpyDtoDAsync");
  ranks.attend();
  CHECK(ranks.said == std::array<std::string, 2>());
  CHECK(lines("cuMemcpyDtoDAsync") - copied == copies);
  CHECK(lines("cuStreamWaitEvent") - before == waits - 4);  // two a rank: for earlier calls, and for later ones
  machine.cuda.set_capture(0);
  ranks.members.clear();
}

TEST_CASE("a group whose exchange timed out ends NCCL's work before it frees memory, and does not wait") {
  const FakeNccl nccl;
  Machine machine;
  Options options = machine.options();
  options.wait_limit_s = 1;
  Runtime runtime(options);
  Ranks ranks(runtime);
  nccl.on_abort([](void* user) { static_cast<Machine*>(user)->cuda.set_busy(0); }, &machine);
  machine.cuda.set_busy(1);
  ranks.attend();
  for (const std::string& said : ranks.said)
    CHECK_MESSAGE(has(said, "a rank did not come to the exchange of buffers within 1 s (TJ_WAIT_LIMIT)"), said);
  ranks.each([&](int rank) { ranks.members[static_cast<std::size_t>(rank)].reset(); });
  CHECK(nccl.aborts() == 2);
  CHECK(machine.cuda.frees_while_busy() == 0);
}

TEST_CASE("a launch that fails in the middle of a call leaves no stream that the caller's does not wait for") {
  const FakeNccl nccl;
  for (const std::string name : kCalls) {
    int failed = 0;
    for (int n = 1; n <= 20; ++n) {
      CAPTURE(name);
      CAPTURE(n);
      Machine machine;
      Runtime runtime(machine.options());
      Ranks ranks(runtime);
      ranks.each([&](int rank) { make_call(ranks, rank, name); });
      CHECK(ranks.said == std::array<std::string, 2>());
      machine.cuda.set_capture(1);
      const std::size_t before = std::string(machine.cuda.log()).size();
      machine.cuda.fail("cuLaunchKernelEx", count_calls(machine.cuda, "cuLaunchKernelEx") + n, 719);
      ranks.each([&](int rank) { make_call(ranks, rank, name); });
      const bool fails = ranks.said != std::array<std::string, 2>();
      std::vector<std::string> lines;
      std::istringstream log(std::string(machine.cuda.log()).substr(before));
      for (std::string line; std::getline(log, line);) lines.push_back(line);
      CHECK(unjoined(lines) == "");
      machine.cuda.set_capture(0);
      ranks.members.clear();
      if (!fails) break;
      ++failed;
    }
    CHECK(failed >= 6);  // of each of two ranks: its begin, a product, its end
    CHECK(failed < 20);
  }
}
