// Protects that a kernel of a user's own is what its folder says. It is right on odd sizes, and another kernel when a
// body is edited. A body that does not compile gives the compiler's words. Many threads that ask at once have it made
// once.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <tilejit/graph.hpp>

#include "custom/sample_kernel.hpp"
#include "custom/sample_problem.hpp"
#include "support/full.hpp"

namespace {

using namespace tj;
using test::kMaxSampleError;
using test::SampleKernel;
using test::SampleProblem;
using testing::error_of;
using testing::has;

constexpr Device kCpu{DeviceKind::cpu, 0};

Options options(const testing::Scratch& scratch) {
  Options options;
  options.target = "model:sm_90a";
  options.cache_dir = scratch / "cache";
  options.dump_dir = scratch / "dump";
  options.log_level = LogLevel::off;
  return options;
}

}  // namespace

TEST_CASE("the folder's bodies are what runs") {
  const testing::Scratch scratch;
  Runtime runtime(options(scratch));
  const SampleKernel sample;
  SampleProblem problem(runtime, kCpu, 70, 41, 200, 11);
  const custom::Kernel kernel(runtime, sample.description);
  problem.run(kernel, 1);
  CHECK(problem.error() < kMaxSampleError);
  sample.edit("sums[0] + bias0", "sums[0] - bias0");
  const custom::Kernel edited(runtime, sample.description);
  problem.run(edited, 1);
  CHECK(problem.error() > 1e-2);
  problem.run(kernel, 3);  // the first one has not changed; blocks without a tile do nothing
  CHECK(problem.error() < kMaxSampleError);
}

TEST_CASE("other schedules of the same graph are right too") {
  const testing::Scratch scratch;
  Runtime runtime(options(scratch));
  for (int form = 0; form < 3; ++form) {
    CAPTURE(form);
    SampleKernel sample;
    if (form == 0) sample.description.max_slots = 2;
    if (form == 1) sample.description.turns = false;
    if (form == 2) sample.description.max_stages = 1;
    SampleProblem problem(runtime, kCpu, 130, 300, 328, 12);
    problem.run(custom::Kernel(runtime, sample.description), 2);
    CHECK(problem.error() < kMaxSampleError);
  }
}

TEST_CASE("a graph in code is what runs: one tile a block, of a few iterations, with fewer slots") {
  const testing::Scratch scratch;
  Runtime runtime(options(scratch));
  SampleKernel sample;
  Graph graph = Graph::parse(sample.description.graph);
  graph.name = "one tile a block";
  graph.walk = tj::Graph::Walk::one_tile;
  graph.least_smem_bytes = 200000;
  for (Graph::Value& value : graph.values) value.max_slots = 2;
  sample.description.graph = graph.json();
  SampleProblem problem(runtime, kCpu, 130, 300, 328, 13);  // 2 x 2 tiles
  const custom::Kernel kernel(runtime, sample.description);
  problem.run(kernel, 4);
  CHECK(problem.error() < kMaxSampleError);
  const KernelReport report = kernel.prepare(kCpu);
  CHECK(has(report.schedule_json, "\"walk\": \"one_tile\""));
  CHECK(has(report.schedule_json, "\"slots\": 2"));
}

TEST_CASE("blocks draw their tiles: the same bits for any number of blocks and any order") {
  const testing::Scratch scratch;
  SampleKernel sample;
  sample.edit_graph("\"machine\": \"sm_90a\",", "\"machine\": \"sm_90a\", \"walk\": \"dynamic\",");
  std::vector<std::uint16_t> bits;
  for (const int seed : {1, 2, 3}) {
    Options seeded = options(scratch);
    seeded.model_seed = seed;
    Runtime runtime(seeded);
    const custom::Kernel kernel(runtime, sample.description);
    SampleProblem problem(runtime, kCpu, 300, 600, 200, 15);  // 3 x 3 tiles
    for (const unsigned blocks : {1u, 2u, 5u, 9u, 20u}) {
      if (!bits.empty() && testing::sampled_out(seed + static_cast<int>(blocks))) continue;
      CAPTURE(blocks);
      problem.run(kernel, blocks);
      CHECK(problem.error() < kMaxSampleError);
      if (bits.empty()) bits = problem.result();
      CHECK(problem.result() == bits);
    }
    CHECK(has(kernel.prepare(kCpu).schedule_json, "\"walk\": \"dynamic\""));
    struct Large {
      char bytes[4040];
    };
    CHECK(has(error_of([&] { kernel.launch(kCpu, Large{}, 1); }).message,
              "is of 4040 bytes; the kernel's params_type has at most 4032 bytes where blocks draw their tiles"));
    const Error size = error_of([&] { kernel.launch(kCpu, 1.0, 1); });
    CHECK_MESSAGE(has(size.message, "params of 'gemm_gelu' is of 8 bytes; the kernel's params_type has "),
                  size.message);
  }
}

TEST_CASE("blocks share tiles: the same bits for a number of blocks in any order, and counters as they were") {
  const testing::Scratch scratch;
  SampleKernel sample;
  sample.edit_graph("\"machine\": \"sm_90a\",",
                    "\"machine\": \"sm_90a\", \"walk\": \"split\", \"piece_bytes\": 131072,");
  for (const char* end : {"\"bias_gelu.0\", \"body\"", "\"bias_gelu.1\", \"body\""})
    sample.edit_graph(end, std::string(end).insert(std::string(end).find(','), ", \"merges\": true"));
  sample.edit("#include \"gemm_gelu_params.cuh\"", "#include \"gemm_gelu_params.cuh\"\n#include \"piece.cuh\"");
  sample.edit("  int trip_count;\n};", "  int trip_count;\n  dev::Piece piece;\n};");
  sample.edit("template <class C_>\nstruct Loader {",
              "template <class C>\nTJ_DEVICE int tile_iterations(const Params& params) {\n"
              "  return (params.k + C::kBlockK - 1) / C::kBlockK;\n}\n"
              "template <class C>\nTJ_DEVICE Tile cut_tile(Tile tile, const dev::Piece& piece) {\n"
              "  tile.trip_count = piece.count;\n  tile.piece = piece;\n  return tile;\n}\n\n"
              "template <class C_>\nstruct Loader {");
  for (const char* row : {"i * C::kBlockK, tile.row", "i * C::kBlockK, tile.column"})
    sample.edit(row, "(tile.piece.first + " + std::string(row).replace(1, 0, ")"));
  sample.edit(
      "  const bool pairs = params.n % 2 == 0;",
      "  for (int j = 0; j < C::kBlockN / 8; ++j) {\n"
      "    const int place = (consumer.copy * 4 + static_cast<int>(dev::warp_index() & 3u)) * (C::kBlockN / 8) + j;\n"
      "    float four[4];\n"
      "    for (int e = 0; e < 4; ++e) four[e] = consumer.sums[4 * j + e];\n"
      "    if (!tile.piece.last) {\n"
      "      dev::leave_sums<32>(tile.piece, place, four);\n"
      "    } else {\n"
      "      dev::read_sums<32>(tile.piece, place, four);\n"
      "      for (int e = 0; e < 4; ++e) consumer.sums[4 * j + e] += four[e];\n"
      "    }\n"
      "  }\n"
      "  if (!tile.piece.last) return;\n"
      "  const bool pairs = params.n % 2 == 0;");
  std::map<unsigned, std::vector<std::uint16_t>> bits;
  for (const int seed : {1, 2}) {
    Options seeded = options(scratch);
    seeded.model_seed = seed;
    Runtime runtime(seeded);
    const custom::Kernel kernel(runtime, sample.description);
    SampleProblem problem(runtime, kCpu, 250, 500, 648, 15);  // 2 x 2 tiles of 11 iterations
    for (const unsigned blocks : {3u, 7u}) {
      if (seed != 1 && blocks != 7 && !testing::full_run()) continue;
      CAPTURE(blocks);
      problem.run(kernel, blocks);
      CHECK(problem.error() < kMaxSampleError);
      if (bits[blocks].empty()) bits[blocks] = problem.result();
      CHECK(problem.result() == bits[blocks]);
    }
    CHECK(has(kernel.prepare(kCpu).schedule_json, "\"walk\": \"split\""));
  }
}

TEST_CASE("blocks of a cluster bring half of b each; a grid that they do not divide is refused") {
  const testing::Scratch scratch;
  Runtime runtime(options(scratch));
  SampleKernel sample;
  sample.edit_graph("\"machine\": \"sm_90a\",", "\"machine\": \"sm_90a\", \"cluster\": 2,");
  sample.edit_graph("\"slot_bytes\": 32768,", "\"slot_bytes\": 32768, \"shared_by\": 2,");
  sample.edit(
      "template <class C>\nTJ_DEVICE void load_b(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full) {\n"
      "  dev::copy_box_4d(slot, &loader.params.b, full, i * C::kBlockK, tile.column, 0, 0);",
      "template <class C, class Share>\nTJ_DEVICE void load_b(Loader<C>& loader, const Tile& tile, int i, u32 slot, "
      "u32 full, Share share) {\n"
      "  const u32 row = share.part * C::kBlockN / Share::kParts;\n"
      "  dev::copy_box_4d_multicast(slot + row * kRowBytes, &loader.params.b, full, share.mask, i * C::kBlockK, "
      "tile.column + static_cast<int>(row), 0, 0);");
  const custom::Kernel kernel(runtime, sample.description);
  SampleProblem problem(runtime, kCpu, 200, 600, 328, 13);  // 2 x 3 tiles: a cluster's are below each other
  for (const unsigned blocks : {2u, 4u, 6u}) {
    problem.run(kernel, blocks, 128);
    CHECK(problem.error() < kMaxSampleError);
  }
  const Error error = error_of([&] { problem.run(kernel, 3, 128); });
  CHECK(error.stage == Stage::argument);
  CHECK_MESSAGE(has(error.message, "blocks of 'gemm_gelu' is 3; it must be a multiple of 2, the blocks of a cluster"),
                error.message);
  Runtime again(options(scratch));  // from the disk: the entry keeps the cluster
  SampleProblem other(again, kCpu, 200, 600, 328, 14);
  other.run(custom::Kernel(again, sample.description), 2, 128);
  CHECK(other.error() < kMaxSampleError);
}

TEST_CASE("a body that does not compile, and a parameter of another size") {
  const testing::Scratch scratch;
  Runtime runtime(options(scratch));
  const SampleKernel sample;
  const custom::Kernel kernel(runtime, sample.description);
  const Error size = error_of([&] { kernel.launch(kCpu, 1.0, 1); });
  CHECK(size.stage == Stage::argument);
  CHECK_MESSAGE(has(size.message, "params of 'gemm_gelu' is of 8 bytes; the kernel's params_type has " +
                                      std::to_string(sizeof(sample::gemm_gelu::Params)) + " bytes"),
                size.message);
  sample.edit("dev::hold(consumer.sums);", "dev::holt(consumer.sums);");
  const Error error = error_of([&] { custom::Kernel(runtime, sample.description).prepare(kCpu); });
  CHECK(error.stage == Stage::compile);
  CHECK(error.code == Code::compile_failed);
  CHECK_MESSAGE(has(error.message, "holt"), error.message);
  CHECK(has(error.log, "gemm_gelu.cuh"));
  CHECK(std::filesystem::exists(error.source_path));
  CHECK(has(error.message, error.source_path));
}

TEST_CASE("many threads make one kernel, and launch it side by side") {
  const testing::Scratch scratch;
  Runtime runtime(options(scratch));
  const SampleKernel sample;
  constexpr int kThreads = 4;
  std::vector<std::unique_ptr<SampleProblem>> problems;
  for (int t = 0; t < kThreads; ++t)
    problems.push_back(std::make_unique<SampleProblem>(runtime, kCpu, 40, 24, 64, 20 + t));
  std::vector<KernelOrigin> origins(kThreads, KernelOrigin::compiled);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      const custom::Kernel kernel(runtime, sample.description);
      origins[t] = kernel.prepare(kCpu).origin;
      problems[t]->run(kernel, 1);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(std::count(origins.begin(), origins.end(), KernelOrigin::compiled) == 1);
  for (const auto& problem : problems) CHECK(problem->error() < kMaxSampleError);
}
