// Protects that the number of tiles, and what stands at a place, may be read from device memory in every walk. There
// may be no entry, one, fewer than blocks, as many, many more. Counters are left at 0 whatever the number is. The model
// reports a number that a block changes while others read it.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "custom/listed_kernel.hpp"
#include "custom/listed_problem.hpp"
#include "support/full.hpp"

namespace {

using namespace tj;
using test::ListedKernel;
using test::ListedProblem;
using test::ListedWorkspace;
using Loads = test::ListedKernel::Loads;

constexpr Device kListCpu{DeviceKind::cpu, 0};
constexpr unsigned kListBlocks = 6;
constexpr int kMostEntries = 27, kListSteps = 8;
const char* const kListWalks[] = {"one_tile", "persistent", "dynamic", "split"};
const std::string kListTarget = "sm_90a";

Options list_options(const std::string& arch, const testing::Scratch& scratch, ListedWorkspace& workspace) {
  Options options;
  options.target = "model:" + arch;
  options.cache_dir = scratch / "cache";
  options.dump_dir = scratch / "dump";
  options.log_level = LogLevel::off;
  options.allocator = workspace.allocator();
  return options;
}

/// The grid has room for all entries that there may be where a block has one tile.
unsigned list_blocks(const std::string& walk, int cluster) {
  if (walk == "sliced") return static_cast<unsigned>((kMostEntries + 1) * cluster);
  return walk == "one_tile" ? kMostEntries + 1 : kListBlocks;
}

struct ListForm {
  std::string arch;
  Loads loads;
  int cluster = 1;
  bool ahead = false, completes = false;
  int slices = 0;
};

/// All numbers twice, one after the other in the same workspace.
int check_numbers(ListedProblem& problem, const custom::Kernel& kernel, unsigned blocks) {
  const std::vector<int> numbers = {0, 1, 3, static_cast<int>(kListBlocks), 7, 13, kMostEntries, -5, 1};
  int launches = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    for (int again = 0; again < 2; ++again) {
      if (testing::thinned_out(static_cast<int>(i) + again)) continue;
      CAPTURE(numbers[i]);
      problem.set_count(numbers[i]);
      problem.run(kernel, blocks);
      CHECK(problem.wrong(numbers[i]) == 0);
      ++launches;
    }
  return launches;
}

/// Every role has waited for the grids before, where grids may overlap, when it reads anything: the length may be
/// theirs.
void check_waits(const std::string& unit, bool overlapped) {
  const std::size_t waits = unit.find("dev::wait_for_grids_before<"), reads = unit.find("(params");
  CHECK((waits != std::string::npos) == overlapped);
  REQUIRE(reads != std::string::npos);
  CHECK((!overlapped || waits < reads));
  CHECK((!overlapped || waits < unit.find("if (warp ")));
}

void check_list(const std::string& walk, const ListForm& form) {
  INFO(walk, ", ", form.arch, ", clusters of ", form.cluster);
  const testing::Scratch scratch;
  const ListedKernel source(form.arch, walk, form.loads, form.cluster, form.slices);
  if (form.ahead) source.read_ahead();
  if (form.completes) source.complete_apart();
  for (const int seed : {1, 2}) {
    if (seed > 1 && (form.loads != Loads::engine || testing::kSanitized) && !testing::full_run()) continue;
    CAPTURE(seed);
    ListedWorkspace workspace;
    if (walk == "split") workspace.pieces = kListBlocks * test::kListedPieceBytes;
    Options options = list_options(form.arch, scratch, workspace);
    options.model_seed = seed;
    Runtime runtime(options);
    const custom::Kernel kernel(runtime, source.description);
    if (seed == 1)
      check_waits(testing::read_bytes(kernel.prepare(kListCpu).source_path), form.arch.starts_with("sm_90"));
    ListedProblem problem(runtime, kListCpu, kMostEntries, kListSteps);
    const int launches = check_numbers(problem, kernel, list_blocks(walk, form.cluster));
    CHECK(workspace.launches == (walk == "dynamic" || walk == "split" ? launches : 0));
    CHECK(workspace.left_at_zero == workspace.launches);
  }
}

/// A list whose rows a thread asks the copy engine for, with all that its launches need.
struct EngineList {
  explicit EngineList(const std::string& walk)
      : source(kListTarget, walk, Loads::engine),
        runtime(list_options(kListTarget, scratch, workspace)),
        kernel(runtime, source.description),
        problem(runtime, kListCpu, kMostEntries, kListSteps) {}
  testing::Scratch scratch;
  ListedKernel source;
  ListedWorkspace workspace;
  Runtime runtime;
  custom::Kernel kernel;
  ListedProblem problem;
};

}  // namespace

TEST_CASE("a list and its length are on the device: a thread copies, in every walk") {
  for (const char* walk : kListWalks) check_list(walk, {kListTarget, Loads::engine});
  check_list("persistent", {kListTarget, Loads::engine, 1, true});
}

TEST_CASE("the same in clusters, where the last one has a block without an entry" *
          doctest::skip(testing::left_out())) {
  for (const char* walk : kListWalks) check_list(walk, {kListTarget, Loads::engine, 2});
}

TEST_CASE("entries that the blocks of a cluster do together, each some of its steps") {
  for (const int blocks : {2, 4}) check_list("sliced", {kListTarget, Loads::engine, blocks});
  check_list("sliced", {"sm_90", Loads::engine, 2});
}

TEST_CASE("a cluster does several entries, each in slices; of the last one, not all may exist" *
          doctest::skip(testing::left_out())) {
  check_list("sliced", {.arch = kListTarget, .loads = Loads::engine, .cluster = 4, .slices = 2});
  check_list("sliced", {.arch = "sm_90", .loads = Loads::engine, .cluster = 6, .slices = 2});
  check_list("sliced", {.arch = "sm_90", .loads = Loads::engine, .cluster = 6, .slices = 3});
}

TEST_CASE("the same where a role loads and stores, and where one role does everything") {
  for (const std::string walk : kListWalks) {
    check_list(walk, {"sm_80", Loads::threads});
    if (walk != "persistent") check_list(walk, {"gfx1100", Loads::itself});
  }
}

TEST_CASE("complete_tile says what tile_at leaves out" * doctest::skip(testing::left_out())) {
  for (const std::string walk : {"one_tile", "persistent", "dynamic"}) {
    check_list(walk, {kListTarget, Loads::engine, 1, false, true});
    if (walk != "persistent") check_list(walk, {"gfx1100", Loads::itself, 1, false, true});
  }
}

TEST_CASE("tiles without iterations" * doctest::skip(testing::left_out())) {
  for (const std::string walk : kListWalks) {
    CAPTURE(walk);
    const testing::Scratch scratch;
    const ListedKernel source("sm_80", walk, Loads::threads);
    ListedWorkspace workspace;
    Runtime runtime(list_options("sm_80", scratch, workspace));
    const custom::Kernel kernel(runtime, source.description);
    ListedProblem problem(runtime, kListCpu, kMostEntries, 0, false);
    check_numbers(problem, kernel, list_blocks(walk, 1));
  }
}

TEST_CASE("the length is what a kernel before has written") {
  for (const std::string walk : {"persistent", "dynamic"}) {
    CAPTURE(walk);
    EngineList list(walk);
    for (const int chunks : {5, 0, kMostEntries}) {
      std::vector<int> lengths = {0, chunks * kChunkTokens}, rows(2 * kMostEntries);
      ChunkIndicesArgs lister;
      lister.cu_seqlens = Tensor::contiguous(lengths.data(), kListCpu, DType::i32, {2});
      lister.chunk_indices = Tensor::contiguous(rows.data(), kListCpu, DType::i32, {kMostEntries, 2});
      lister.total_chunks = Tensor::contiguous(list.problem.count_memory(), kListCpu, DType::i32, {1});
      list.runtime.run(lister);
      list.problem.run(list.kernel, kListBlocks);
      CHECK(list.problem.wrong(chunks) == 0);
    }
  }
}

TEST_CASE("entries outside the table: the body leaves out those below 0, the copy engine finds zeros for the others") {
  EngineList list("dynamic");
  for (const int row : {-1, ListedProblem::kRows, 1 << 20}) {
    list.problem.set_row(4, row);
    list.problem.set_count(kMostEntries);
    list.problem.run(list.kernel, kListBlocks);
    CHECK(list.problem.wrong(kMostEntries) == 0);
  }
}

TEST_CASE("the model reports a length that a block changes while others read it") {
  for (const char* walk : {"dynamic", "split"}) {
    CAPTURE(walk);
    EngineList list(walk);
    list.problem.set_count(kMostEntries);
    const Error error = testing::error_of([&] { list.problem.run(list.kernel, kListBlocks, true); });
    CHECK(error.stage == Stage::model);
    CHECK(error.code == Code::model_fault);
    CHECK_MESSAGE(testing::has(error.message, " global address "), error.message);
    CHECK_MESSAGE(testing::has(error.message, "and nothing orders the two"), error.message);
  }
}
