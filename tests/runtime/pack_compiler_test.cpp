// Protects packs on machines whose compiler is not the one that packed them: they serve, behind what the machine's own
// compiler made; what was found is said and counted; a process stays with the binaries that it took; and who insists on
// the own compiler gets that alone.
#include <doctest/doctest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cache/cache.hpp"
#include "runtime/runtime_fixture.hpp"
#include "support/variable.hpp"

namespace {

using namespace tj::test;
using tj::Counters;
using tj::KernelOrigin;
using tj::PackCompiler;
using tj::Runtime;

/// A pack, and a machine with another compiler than the one that made it.
struct Node : Machine {
  std::string pack = scratch / "model.tjp", own = scratch / "own";
  std::optional<FakeNvrtc> other;  ///< the node's compiler

  Node() {
    Runtime(options()).prepare(attention());
    REQUIRE(tj::cache::Store(cache_dir(), 0, {}).pack(pack, nullptr).problem.empty());
    other.emplace();
  }
  tj::Options on_node(PackCompiler compiler = PackCompiler::any) {
    tj::Options options = this->options();
    options.cache_dir = own + ":" + pack;
    options.pack_compiler = compiler;
    return options;
  }
  /// Has the node's own compiler make the kernel, beside the pack.
  void make_own() { CHECK(Runtime(on_node(PackCompiler::own)).prepare(attention()).origin == KernelOrigin::compiled); }
};

TEST_CASE(
    "a pack that another compiler made serves under every policy; that is counted and said, and no compiler is asked") {
  Node node;
  for (const tj::MissPolicy policy : {tj::MissPolicy::wait, tj::MissPolicy::error, tj::MissPolicy::quick}) {
    tj::Options options = node.on_node();
    options.on_miss = policy;
    options.log_level = tj::LogLevel::info;
    Runtime runtime(options);
    runtime.run(attention());
    const Counters counters = runtime.counters();
    CHECK(counters.other_compiler_hits == 1);
    CHECK(counters.layers[1].hits == 1);
    CHECK(counters.alias_hits == 1);
    CHECK(counters.misses + counters.compiles + counters.quick_kernels + counters.stores == 0);
    CHECK(has(counters.json(), "\"other_compiler_hits\": 1"));
    CHECK(has(counters.prometheus(), "\ntilejit_cache_other_compiler_hits_total 1\n"));
    REQUIRE(node.warnings.size() == 1);
    CHECK_MESSAGE(has(node.warnings[0], "fmha_f16_d128 for sm_90a: found in a pack, as another compiler made it (13.0"),
                  node.warnings[0]);
    node.warnings.clear();
  }
  CHECK(node.other->compiles() + node.other->quick_compiles() == 0);
  CHECK_FALSE(std::filesystem::exists(node.own));
}

TEST_CASE("another build finds it by its text, and leaves an alias that leads there") {
  Node node;
  for (const auto& item : tj::cache::Store(node.cache_dir(), 0, {}).list())
    if (item.alias) std::filesystem::remove(item.path);
  REQUIRE(tj::cache::Store(node.cache_dir(), 0, {}).pack(node.pack, nullptr).problem.empty());
  for (const std::uint64_t missed : {1, 0}) {
    Runtime runtime(node.on_node());
    CHECK(runtime.prepare(attention()).origin == KernelOrigin::disk);
    CHECK(runtime.counters().alias_misses == missed);
    CHECK(runtime.counters().other_compiler_hits == 1);
  }
  CHECK(node.other->compiles() == 0);
}

TEST_CASE("what the own compiler made goes first, in whichever layer it lies") {
  Node node;
  node.make_own();
  {
    Runtime runtime(node.on_node());
    CHECK(runtime.prepare(attention()).origin == KernelOrigin::disk);
    CHECK(runtime.counters().other_compiler_hits == 0);
    CHECK(runtime.counters().layers[0].hits == 1);
  }
  tj::Options options = node.on_node();
  options.cache_dir = node.scratch / "new" + ":" + node.pack + ":" + node.own;
  Runtime runtime(options);
  runtime.prepare(attention());
  CHECK(runtime.counters().layers[2].hits == 1);
  CHECK(node.other->compiles() == 1);
}

TEST_CASE("who insists on the own compiler gets nothing else, by option or variable") {
  Node node;
  tj::Options options = node.on_node(PackCompiler::own);
  options.on_miss = tj::MissPolicy::error;
  CHECK(error_of([&] { Runtime(options).run(attention()); }).code == tj::Code::not_in_cache);
  options.pack_compiler.reset();
  const tj::testing::Variable insisted("TJ_PACK_COMPILER", "own");
  CHECK(error_of([&] { Runtime(options).run(attention()); }).code == tj::Code::not_in_cache);
  options.pack_compiler = PackCompiler::any;
  Runtime(options).run(attention());
  CHECK(node.other->compiles() == 0);
}

TEST_CASE("a folder with another compiler's entries serves nobody else: it is no pack") {
  Node node;
  tj::Options options = node.on_node();
  options.cache_dir = node.own + ":" + node.cache_dir();
  Runtime runtime(options);
  CHECK(runtime.prepare(attention()).origin == KernelOrigin::compiled);
  CHECK(runtime.counters().other_compiler_hits == 0);
}

TEST_CASE("a binary of a pack that the driver refuses is made anew by the own compiler, and that one serves then") {
  Node node;
  constexpr int kNoBinary = 209;
  node.cuda.fail("cuModuleLoadData", 2, kNoBinary);  // the first was that of the machine that packed
  {
    Runtime runtime(node.on_node());
    CHECK(runtime.prepare(attention()).origin == KernelOrigin::compiled);
    CHECK(runtime.counters().other_compiler_hits == 1);
    CHECK(runtime.counters().compiles == 1);
  }
  Runtime runtime(node.on_node());
  CHECK(runtime.prepare(attention()).origin == KernelOrigin::disk);
  CHECK(runtime.counters().other_compiler_hits == 0);
  CHECK(node.other->compiles() == 1);
}

/// A pack with binaries of two compilers, and a node with a third.
struct NodeOfTwo : Node {
  NodeOfTwo() {
    Runtime(options()).prepare(attention());  // by what was the node's compiler
    REQUIRE(tj::cache::Store(cache_dir(), 0, {}).pack(pack, nullptr).problem.empty());
    cuda.reset();  // its counts
    other.reset();
    other.emplace();
  }
};
constexpr int kRefused = 209;  // no binary for the device

TEST_CASE("where the driver refuses one of a pack's binaries, that of the next compiler serves, whatever the policy") {
  for (const tj::MissPolicy policy : {tj::MissPolicy::wait, tj::MissPolicy::error, tj::MissPolicy::quick}) {
    NodeOfTwo node;
    node.cuda.fail("cuModuleLoadData", 1, kRefused);
    tj::Options options = node.on_node();
    options.on_miss = policy;
    Runtime runtime(options);
    runtime.run(attention());
    const Counters counters = runtime.counters();
    CHECK(counters.other_compiler_hits == 1);
    CHECK(counters.layers[1].hits == 1);
    CHECK(counters.loads == 1);
    CHECK(counters.misses + counters.compiles + counters.refused + counters.stores == 0);
    REQUIRE(node.warnings.size() == 1);
    CHECK_MESSAGE(has(node.warnings[0], "does not load and that of another compiler is tried: "), node.warnings[0]);
    CHECK(runtime.trim().kernels == 1);
    runtime.run(attention());  // the same one, which is not refused again
    CHECK(count_calls(node.cuda, "cuModuleLoadData") == 3);
    CHECK(node.warnings.size() == 1);
    CHECK(node.other->compiles() + node.other->quick_compiles() == 0);
  }
}

TEST_CASE(
    "where the driver refuses all binaries of a pack, the own compiler makes the kernel, or the call is refused") {
  NodeOfTwo node;
  for (const int nth : {1, 2}) node.cuda.fail("cuModuleLoadData", nth, kRefused);
  tj::Options options = node.on_node();
  options.on_miss = tj::MissPolicy::error;
  {
    Runtime runtime(options);
    CHECK(error_of([&] { runtime.run(attention()); }).code == tj::Code::not_in_cache);
    CHECK(runtime.counters().refused == 1);
    CHECK(node.other->compiles() == 0);
  }
  node.cuda.reset();
  for (const int nth : {1, 2}) node.cuda.fail("cuModuleLoadData", nth, kRefused);
  {
    Runtime runtime(node.on_node());
    CHECK(runtime.prepare(attention()).origin == KernelOrigin::compiled);
    CHECK(runtime.counters().misses == 0);
  }
  CHECK(node.other->compiles() == 1);
  Runtime runtime(options);
  runtime.run(attention());
  CHECK(runtime.counters().layers[0].hits == 1);
}

TEST_CASE("where the driver refuses the own binary, a pack's serves, and nothing is compiled") {
  Node node;
  node.make_own();
  node.cuda.reset();
  node.cuda.fail("cuModuleLoadData", 1, kRefused);
  Runtime runtime(node.on_node());
  runtime.run(attention());
  CHECK(runtime.counters().other_compiler_hits == 1);
  CHECK(node.other->compiles() == 1);
}

TEST_CASE("under the policy error a pack serves in the place of an own binary that was taken and is gone") {
  Node node;
  node.make_own();
  tj::Options options = node.on_node();
  options.on_miss = tj::MissPolicy::error;
  Runtime runtime(options);
  runtime.run(attention());
  CHECK(runtime.counters().other_compiler_hits == 0);
  std::filesystem::remove_all(node.own);  // as an eviction does
  CHECK(runtime.trim().kernels == 1);
  runtime.run(attention());
  const Counters counters = runtime.counters();
  CHECK(counters.other_compiler_hits == 1);
  CHECK(counters.misses + counters.refused == 0);
  CHECK(node.other->compiles() == 1);
}

TEST_CASE("under the policy error a binary that the driver refuses is refused like a miss, and no compiler is asked") {
  Node node;
  constexpr int kNoBinary = 209;
  node.cuda.fail("cuModuleLoadData", 2, kNoBinary);
  tj::Options options = node.on_node();
  options.on_miss = tj::MissPolicy::error;
  Runtime runtime(options);
  const tj::Error error = error_of([&] { runtime.run(attention()); });
  CHECK(error.code == tj::Code::not_in_cache);
  CHECK_MESSAGE(has(error.message, "the cache entry of fmha_f16_d128 for sm_90a does not load ("), error.message);
  CHECK(runtime.counters().refused == 1);
  CHECK(node.other->compiles() == 0);
  runtime.run(attention());  // the driver takes it now
}

TEST_CASE("equal calls of a process give equal bits: the binary that was taken is taken again, whatever came or went") {
  Node node;
  {
    Runtime runtime(node.on_node());
    runtime.run(attention());
    node.make_own();
    CHECK(runtime.trim().kernels == 1);
    runtime.run(attention());
    CHECK(runtime.counters().other_compiler_hits == 2);
    CHECK(runtime.counters().layers[0].hits == 0);
  }
  Runtime runtime(node.on_node());
  runtime.run(attention());
  CHECK(runtime.counters().layers[0].hits == 1);
  std::filesystem::remove_all(node.own);
  CHECK(runtime.trim().kernels == 1);
  runtime.run(attention());
  CHECK(runtime.counters().other_compiler_hits == 0);
  CHECK(runtime.counters().compiles == 1);
}

}  // namespace
