// Protects on a real device what device_count_model_test.cpp protects on the model: lists and their lengths in device
// memory, in every walk. A length that a launch before has written is read only when that launch has ended, and stays
// until its readers have ended: none of them waits for the host.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "custom/listed_kernel.hpp"
#include "custom/listed_problem.hpp"
#include "gpu/gpu_device.hpp"

namespace {

using namespace tj;
using test::ListedKernel;
using test::ListedProblem;
using Loads = test::ListedKernel::Loads;

constexpr int kListEntries = 1000, kListRowSteps = 9;

unsigned device_list_blocks(const std::string& walk, unsigned blocks, int cluster) {
  if (walk == "sliced") return static_cast<unsigned>(kListEntries * cluster);
  return walk == "one_tile" ? kListEntries : blocks;
}

void check_device_list(const arch::Arch& arch, Device device, Loads loads, int cluster) {
  Runtime& runtime = Runtime::instance();
  for (const std::string walk : {"one_tile", "persistent", "dynamic", "split", "sliced"}) {
    if (walk == "sliced" && (cluster == 1 || loads != Loads::engine)) continue;
    INFO(walk, ", clusters of ", cluster, ", loads ", static_cast<int>(loads));
    const ListedKernel source(arch.name, walk, loads, cluster);
    const custom::Kernel kernel(runtime, source.description);
    ListedProblem problem(runtime, device, kListEntries, kListRowSteps, arch.has_unit("TMA"));
    for (const unsigned blocks : {8u, 132u, 264u})
      for (const int count : {0, 1, 3, 7, 8, 9, 131, 132, 133, 264, 265, 999, kListEntries, -3})
        for (int again = 0; again < 2; ++again) {
          CAPTURE(count);
          CAPTURE(blocks);
          problem.set_count(count);
          problem.run(kernel, device_list_blocks(walk, blocks, cluster));
          CHECK(problem.wrong(count) == 0);
        }
  }
}

/// The shortest of some times of a launch, in microseconds.
double launch_us(ListedProblem& problem, const custom::Kernel& kernel, unsigned blocks) {
  constexpr int kRounds = 7, kLaunches = 20;
  const auto out = problem.poisoned();
  double best = 1e9;
  for (int round = 0; round <= kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kLaunches; ++i) problem.launch(kernel, blocks, out.get());
    problem.wait();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    if (round > 0) best = std::min(best, time.count() / kLaunches);
  }
  return best;
}

}  // namespace

TEST_CASE("a list and its length on a device, in every walk") {
  const Device device = test::nvidia_gpu();
  const arch::Arch& arch = arch::parse_arch(Runtime::instance().target_of(device));
  for (const int cluster : {1, 2, 4}) {
    if (cluster > arch.max_cluster) continue;
    if (arch.has_unit("TMA")) check_device_list(arch, device, Loads::engine, cluster);
    check_device_list(arch, device, Loads::threads, cluster);
  }
  check_device_list(arch, device, Loads::itself, 1);
}

TEST_CASE("launches write the length and read it by turns, without the host") {
  constexpr int kLaunches = 60;
  const Device device = test::nvidia_gpu();
  Runtime& runtime = Runtime::instance();
  const arch::Arch& arch = arch::parse_arch(runtime.target_of(device));
  for (const std::string walk : {"one_tile", "persistent", "dynamic", "split"}) {
    CAPTURE(walk);
    const ListedKernel source(arch.name, walk, Loads::threads);
    const custom::Kernel kernel(runtime, source.description);
    ListedProblem problem(runtime, device, kListEntries, kListRowSteps, arch.has_unit("TMA"));
    problem.run(kernel, 1);
    std::vector<std::shared_ptr<void>> lengths, outs;
    const auto count_of = [](int i) { return i % 5 == 0 ? 0 : i * 373 % (kListEntries + 1); };
    for (int i = 0; i < kLaunches; ++i) {
      lengths.push_back(problem.upload(std::vector<int>{0, count_of(i) * kChunkTokens}));
      outs.push_back(problem.poisoned());
    }
    const auto rows = runtime.allocate(device, 2 * kListEntries * sizeof(int));
    ChunkIndicesArgs lister;
    lister.chunk_indices = Tensor::contiguous(rows.get(), device, DType::i32, {kListEntries, 2});
    lister.total_chunks = Tensor::contiguous(problem.count_memory(), device, DType::i32, {1});
    for (int i = 0; i < kLaunches; ++i) {
      const auto at = static_cast<std::size_t>(i);
      lister.cu_seqlens = Tensor::contiguous(lengths[at].get(), device, DType::i32, {2});
      runtime.run(lister);
      problem.launch(kernel, device_list_blocks(walk, 132, 1), outs[at].get());
    }
    for (int i = 0; i < kLaunches; ++i) {
      CAPTURE(i);
      problem.read(outs[static_cast<std::size_t>(i)].get());
      CHECK(problem.wrong(count_of(i)) == 0);
    }
  }
}

TEST_CASE("prints what it costs to read the length, and an entry, of each tile") {
  constexpr int kManyEntries = 40000;
  const Device device = test::nvidia_gpu();
  Runtime& runtime = Runtime::instance();
  const arch::Arch& arch = arch::parse_arch(runtime.target_of(device));
  const Loads loads = arch.has_unit("TMA") ? Loads::engine : Loads::threads;
  for (const std::string walk : {"persistent", "dynamic", "split"})
    for (const int steps : {2, 16}) {
      std::vector<double> us;
      for (const char* const known : {"", "count", "list"}) {  // each leaves out what those before it do, too
        ListedKernel source(arch.name, walk, loads);
        if (known[0] != '\0')
          source.edit("static_cast<int>(dev::load_global_u32(params.count))", std::to_string(kManyEntries));
        if (known[0] == 'l')
          source.edit("static_cast<int>(dev::load_global_u32(params.list + index))", "1 + index % 6");
        const custom::Kernel kernel(runtime, source.description);
        ListedProblem problem(runtime, device, kManyEntries, steps, arch.has_unit("TMA"));
        problem.set_count(kManyEntries);
        us.push_back(launch_us(problem, kernel, 2 * kernel.sm_count(device)));
        if (us.size() == 3) {
          const double tiles = kManyEntries / (2.0 * kernel.sm_count(device));  // of a block
          std::printf("%s, %d steps: %.1f us, a tile %.0f ns; its share of the length %.0f ns, of the entry %.0f ns\n",
                      walk.c_str(), steps, us[0], 1e3 * us[0] / tiles, 1e3 * (us[0] - us[1]) / tiles,
                      1e3 * (us[1] - us[2]) / tiles);
        }
      }
    }
}
