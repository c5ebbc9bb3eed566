// Protects: memory that runs out while a document is read or written is std::bad_alloc, and the process goes on. Every
// allocation from the n-th on fails, also those that an exception's unwinding would make. Where one allocation alone
// fails, texts are whole or not there.
#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <tilejit/graph.hpp>
#include <vector>

#include "custom/custom.hpp"
#include "custom/sample_kernel.hpp"
#include "support/allocations.hpp"
#include "support/code_object.hpp"
#include "support/fail.hpp"
#include "support/installations.hpp"
#include "support/json.hpp"
#include "support/made_code_object.hpp"
#include "support/private_directory.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"
#include "support/text_stream.hpp"
#include "support/variable.hpp"
#include "support/workers.hpp"

namespace {

/// Returns after how many allocations the work has all that it needs. Steps grow with n.
long runs_dry(const std::function<void()>& work) {
  for (long n = 0;; n += 1 + n / 50) {
    CAPTURE(n);
    bool failed = false;
    tj::testing::fail_allocations_from(n);
    try {
      work();
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    tj::testing::fail_allocations_from(-1);
    if (!failed) return n;
  }
}

/// Fails the n-th allocation alone, for each n: the work has the same result as ever, or none. Returns how many fail.
long whole_or_not_there(const std::function<std::string()>& work) {
  const std::string whole = work();
  for (long n = 0;; ++n) {
    CAPTURE(n);
    std::string text;
    bool failed = false;
    const long before = tj::testing::thread_allocations();
    tj::testing::fail_allocation_after(n);
    try {
      text = work();
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    tj::testing::fail_allocation_after(-1);
    if (!failed) CHECK(text == whole);
    if (tj::testing::thread_allocations() - before <= n) return n;
  }
}

// Builds that check assertions check nlohmann's own: it asserts that a value is whole whose making ran out of memory.
#ifdef NDEBUG
constexpr bool kAsserts = false;
#else
constexpr bool kAsserts = true;
#endif

constexpr const char* kGraph = R"({"name": "two", "machine": "hopper",
  "instructions": [{"name": "load", "cycles": 1, "fu": "TMA", "variable_latency": true, "memory": {"SMEM": 4}},
                   {"name": "a product with a long name", "rrt": {"TC": [1, 1]}}],
  "values": [{"name": "a value with a long name", "slot_bytes": 1024}],
  "edges": [{"src": "load", "dst": "a product with a long name", "delay": 1, "value": "a value with a long name"},
            {"src": "a product with a long name", "dst": "a product with a long name", "delay": 2, "delta": 1}]})";

}  // namespace

TEST_CASE("work in the background ends where there is no memory: tasks that wait go, and one under way is waited for") {
  std::atomic<bool> begun{false}, open{false};
  std::atomic<int> done{0};
  const auto kept = std::make_shared<int>(1);
  tj::support::Workers workers;
  const auto queue = workers.queue(1);
  REQUIRE(queue->add([&] {
    begun = true;
    while (!open) std::this_thread::yield();
    ++done;
  }));
  for (int i = 0; i < 3; ++i) REQUIRE(queue->add([&done, kept] { ++done; }));
  std::thread opener([&] {
    while (!begun || kept.use_count() > 1) std::this_thread::yield();
    open = true;
  });
  while (!begun) std::this_thread::yield();
  tj::testing::fail_allocations_from(0);
  workers.stop();
  tj::testing::fail_allocations_from(-1);
  opener.join();
  CHECK(done == 1);
}

TEST_CASE("a document is dropped without memory, whatever its depth and wherever its making ended" *
          doctest::skip(kAsserts)) {
  using tj::support::Json;
  using tj::support::SortedJson;
  const std::string text = R"({"a": [1, {"b": [[], {}, [2, "text that needs memory of its own"]]}, [[[3]]]], "c": {}})";
  CHECK(runs_dry([&] { (void)tj::support::parse_shallow(text); }) > 20);
  CHECK(runs_dry([&] { (void)tj::support::parse_shallow<SortedJson>(text); }) > 20);
  CHECK(runs_dry([] {
          Json made;
          for (int i = 0; i < 3; ++i) made["a list with a long name"].push_back({{"number", i}, {"list", {1, 2}}});
          const Json copy = made;
          (void)copy.dump();
        }) > 20);
}

TEST_CASE("a text that is deeper than a reader may go loses what is deeper") {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  int depth = 0;
  const auto tree = tj::support::parse_shallow(deep);
  for (const auto* at = &tree; at->is_array() && !at->empty(); at = &at->front()) ++depth;
  CHECK(depth > 16);
  CHECK(depth <= tj::support::kMostJsonDepth);
  constexpr std::size_t kMost = tj::support::kMostJsonDepth;
  const std::string deepest = std::string(kMost, '[') + "7" + std::string(kMost, ']');
  CHECK(tj::support::parse_shallow(deepest).dump() == deepest);
  CHECK(tj::support::parse_shallow("[" + deepest + "]").dump().find('7') == std::string::npos);
}

TEST_CASE("a graph, its text and its schedule's text survive a want of memory at every place" *
          doctest::skip(kAsserts)) {
  const tj::Graph graph = tj::Graph::parse(kGraph);
  const tj::Schedule schedule = tj::schedule(graph);
  CHECK(runs_dry([] { (void)tj::Graph::parse(kGraph); }) > 100);
  CHECK(runs_dry([&] { (void)graph.json(); }) > 100);
  CHECK(runs_dry([&] { (void)schedule.json(); }) > 50);
  CHECK(runs_dry([&] { (void)tj::schedule(graph); }) > 100);
}

// A stream of the C++ library swallows std::bad_alloc and goes on without the piece that it had no memory for.
TEST_CASE("a text that is joined from pieces is whole or not there, whichever allocation fails") {
  const auto joined = [] {
    std::string text;
    for (int i = 0; i < 30; ++i) text = tj::support::cat(text, " piece ", i, " of ", 1.5, '\n');
    return text;
  };
  CHECK(whole_or_not_there(joined) > 30);
}

TEST_CASE("a graph's text and its schedule's are whole or not there, whichever allocation fails" *
          doctest::skip(kAsserts)) {
  const tj::Graph graph = tj::Graph::parse(kGraph);
  const tj::Schedule schedule = tj::schedule(graph);
  CHECK(whole_or_not_there([&] { return graph.text(); }) > 3);
  CHECK(whole_or_not_there([&] { return schedule.text(); }) > 2);
}

TEST_CASE("a text that is read word by word is read to its end or not at all, whichever allocation fails") {
  const std::string text = "a line with a long name\nanother line with a long name\na third line with a long name";
  const auto read = [&] {
    std::string all;
    tj::support::TextReader lines(text);
    for (std::string line; std::getline(lines, line);) all += line + '\n';
    return all;
  };
  CHECK(whole_or_not_there(read) > 3);
}

TEST_CASE("a search for files survives a want of memory at every place") {
  CHECK(runs_dry([] { (void)tj::support::matching("/*/l*/*"); }) > 10);
  CHECK(runs_dry([] { (void)tj::read_templates(tj::test::kSampleFolder); }) > 10);
}

TEST_CASE("a compile's folder is removed without memory, with all that is in it") {
  const tj::testing::Scratch base;
  const tj::testing::Variable place("TMPDIR", base.path());
  auto directory = std::make_unique<tj::support::PrivateDirectory>();
  directory->write("include/a.cuh", "text");
  directory->write("include/ops/b.cuh", "text");
  tj::testing::fail_allocations_from(0);
  directory.reset();
  tj::testing::fail_allocations_from(-1);
  CHECK(tj::testing::names_in(base.path()).empty());
}

TEST_CASE("what a killed process left in the temporary folder is looked for without memory") {
  const tj::testing::Scratch base;
  std::filesystem::create_directory(base / "tilejit-abcdef");
  CHECK(runs_dry([&] { tj::support::sweep_private_directories(base.path()); }) > 3);
}

TEST_CASE(
    "a program is ended and reaped where who starts it and waits for it runs out of memory, whichever allocation "
    "fails") {
  bool failed = true;
  long count = 0;
  for (; failed; ++count) {
    tj::support::ProgramOutput output;
    REQUIRE(output.error() == 0);
    pid_t child = 0;
    bool over = false;
    failed = false;
    tj::testing::fail_allocation_after(count);
    try {
      if (tj::support::start_process({"sh", "-c", "echo text; sleep 1000"}, {"PATH=/usr/bin:/bin"}, output.into(),
                                     child, tj::support::ProcessGroup::own) == 0)
        tj::support::wait_for_process(child, 0.05, over, &output);
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    tj::testing::fail_allocation_after(-1);
    CAPTURE(count);
    CHECK(over != failed);
    REQUIRE(::waitpid(-1, nullptr, WNOHANG) == -1);  // neither it nor what watches over it
    CHECK(errno == ECHILD);
  }
  CHECK(count > 3);
}
