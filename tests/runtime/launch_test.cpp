// Protects the launches that reach the driver: grid, threads, shared memory, the one parameter with its tensor maps for
// both layouts. Nothing is made during a graph capture.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "ops/fmha/params.cuh"
#include "ops/gemm/params.cuh"
#include "runtime/runtime_fixture.hpp"

namespace {

using namespace tj::test;
using tj::FmhaArgs;
using tj::Runtime;
using tj::ops::fmha::Params;

constexpr int kSmCount = 132;

std::string last_launch(const FakeCuda& cuda) {
  std::string found;
  std::istringstream lines(cuda.log());
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("cuLaunchKernelEx")) found = line;
  return found;
}

/// Runs it and gives the parameter that the kernel got.
Params launched(Machine& machine, Runtime& runtime, const FmhaArgs& args) {
  machine.cuda.set_param_bytes(sizeof(Params));
  runtime.run(args);
  Params params{};
  REQUIRE(machine.cuda.last_params(&params, sizeof(params)) == sizeof(params));
  return params;
}

/// A tensor map as the fake driver keeps it.
struct Map {
  std::uint64_t base = 0;
  int rank = 0;
  std::array<std::uint64_t, 4> dims{}, boxes{}, stride_bytes{};  ///< D, S, H, B; no stride for D
};
Map map_of(const tj::TensorMap& bytes) {
  std::array<std::uint64_t, 16> words{};
  static_assert(sizeof(words) == sizeof(bytes));
  std::memcpy(words.data(), &bytes, sizeof(words));
  Map map;
  map.base = words[0];
  map.rank = static_cast<int>(words[1] >> 8 & 0xff);
  for (std::size_t d = 0; d < 4; ++d) {
    map.dims[d] = words[2 + d] >> 16;
    map.boxes[d] = words[2 + d] >> 4 & 0xfff;
    map.stride_bytes[d] = d > 0 ? words[7 + d] : 0;
  }
  return map;
}

using Four = std::array<std::uint64_t, 4>;

TEST_CASE("tensor maps follow the strides of both layouts") {
  Machine machine;
  Runtime runtime(machine.options());
  const Shape s{2, 6, 3, 300, 500, 128};
  for (const Layout layout : {Layout::bhsd, Layout::bshd}) {
    CAPTURE(static_cast<int>(layout));
    const FmhaArgs args = attention(s, true, layout);
    const Params params = launched(machine, runtime, args);
    const Map q = map_of(params.q), k = map_of(params.k), v = map_of(params.v);
    CHECK(q.base == reinterpret_cast<std::uint64_t>(args.q.data));
    CHECK(k.base == reinterpret_cast<std::uint64_t>(args.k.data));
    CHECK(v.base == reinterpret_cast<std::uint64_t>(args.v.data));
    CHECK(q.rank == 4);
    CHECK(q.dims == Four{128, 300, 6, 2});
    CHECK(k.dims == Four{128, 500, 3, 2});
    CHECK(v.dims == k.dims);
    CHECK(v.stride_bytes == k.stride_bytes);
    if (layout == Layout::bhsd) {
      CHECK(q.stride_bytes == Four{0, 256, 300 * 256, 6 * 300 * 256});
      CHECK(k.stride_bytes == Four{0, 256, 500 * 256, 3 * 500 * 256});
      CHECK(params.o_stride_row == 128);
      CHECK(params.o_stride_head == 300 * 128);
    } else {
      CHECK(q.stride_bytes == Four{0, 6 * 256, 256, 300 * 6 * 256});
      CHECK(k.stride_bytes == Four{0, 3 * 256, 256, 500 * 3 * 256});
      CHECK(params.o_stride_row == 6 * 128);
      CHECK(params.o_stride_head == 128);
    }
    CHECK(params.o_stride_batch == 6 * 300 * 128);
    CHECK(q.boxes[0] == 64);  // 128 bytes, the swizzle
    CHECK(k.boxes == v.boxes);
    CHECK(q.boxes[1] % 64 == 0);
    CHECK(q.boxes[2] * q.boxes[3] * k.boxes[2] * k.boxes[3] == 1);
  }
}

TEST_CASE("the parameter holds sizes, scale and outputs") {
  Machine machine;
  Runtime runtime(machine.options());
  const Shape s{2, 6, 3, 300, 500, 128};
  FmhaArgs args = attention(s);
  Params params = launched(machine, runtime, args);
  CHECK(params.o == args.o.data);
  CHECK(params.lse == nullptr);
  CHECK(params.batches == 2);
  CHECK(params.heads == 6);
  CHECK(params.heads_per_kv_head == 2);
  CHECK(params.queries == 300);
  CHECK(params.keys == 500);
  CHECK(params.wide_stores == 1);
  CHECK(params.scale == doctest::Approx(1 / std::sqrt(128.0)));
  CHECK(params.sign == 1.0f);
  args.lse = lse_of(s);
  args.scale = 0.25f;
  args.o.strides[2] = 129;  // rows that are not multiples of 16 bytes apart
  args.o.strides[1] = 300 * 129;
  args.o.strides[0] = 6 * 300 * 129;
  params = launched(machine, runtime, args);
  CHECK(params.lse == args.lse->data);
  CHECK(params.lse_stride_batch == 6 * 300);
  CHECK(params.lse_stride_head == 300);
  CHECK(params.lse_stride_row == 1);
  CHECK(params.wide_stores == 0);
  CHECK(params.scale == 0.25f);
  CHECK(machine.nvrtc.compiles() == 1);  // all of that is one kernel
}

TEST_CASE(
    "a kernel in clusters is launched in whole ones, as many as run at once; the driver is asked when it is loaded") {
  Machine machine;
  Runtime runtime(machine.options());
  machine.cuda.set_param_bytes(sizeof(tj::ops::gemm::Params));
  const auto run = [&](std::int64_t rows, std::int64_t columns) {
    const auto matrix = [&](std::uint64_t place, std::int64_t m, std::int64_t n) {
      return tj::Tensor::contiguous(address(kFirstAddress + place * kAddressStep), {tj::DeviceKind::cuda, 0},
                                    tj::DType::f16, {m, n});
    };
    tj::GemmArgs args;  // rows of K that are no whole lines: blocks share their copies
    args.a = matrix(0, rows, 4104);
    args.b = matrix(1, columns, 4104);
    args.d = matrix(2, rows, columns);
    runtime.run(args);
    return last_launch(machine.cuda);
  };
  CHECK(has(run(4104, 4104), "grid 132x1x1"));
  CHECK(has(last_launch(machine.cuda), " cluster 2"));
  CHECK_MESSAGE(has(run(450, 2056), "grid 108x1x1"), last_launch(machine.cuda));  // 3 x 9 clusters of four 96 x 128
  CHECK(has(last_launch(machine.cuda), " cluster 4"));
  CHECK(count_calls(machine.cuda, "cuOccupancyMaxActiveClusters") == machine.nvrtc.compiles());
}

TEST_CASE("host and device must agree on the size of the parameter") {
  Machine machine;
  Runtime runtime(machine.options());
  machine.cuda.set_param_bytes(sizeof(Params) + 64);
  const tj::Error error = error_of([&] { runtime.run(attention()); });
  CHECK(error.stage == tj::Stage::launch);
  CHECK_MESSAGE(has(error.message, std::to_string(sizeof(Params))), error.message);
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 0);
}

TEST_CASE("causal with few tiles: a block a tile; others: a block an SM, or a tile where there are fewer") {
  Machine machine;
  Runtime runtime(machine.options());
  const auto blocks = [&](std::int64_t heads, std::int64_t queries, bool causal) {
    const Params params = launched(machine, runtime, attention({2, heads, heads, queries, 500, 128}, causal));
    const auto rows = map_of(params.q).boxes[1];
    CHECK(params.row_blocks == static_cast<int>((static_cast<std::uint64_t>(queries) + rows - 1) / rows));
    CHECK(params.tiles == params.row_blocks * heads * 2);
    const std::string line = last_launch(machine.cuda);
    const std::string grid = line.substr(line.find("grid ") + 5);
    CHECK(has(grid, "x1x1 threads "));
    return std::pair(std::stoi(grid), params.tiles);
  };
  for (const auto& sizes : {std::pair<int, int>{1, 65}, {4, 300}, {3, 4097}}) {
    CAPTURE(sizes.first);
    const auto causal = blocks(sizes.first, std::min(sizes.second, 3000), true),
               full = blocks(sizes.first, sizes.second, false);
    CHECK(causal.first == causal.second);
    CHECK(full.first == std::min(full.second, kSmCount));
  }
  machine.cuda.set_param_bytes(0);  // a kernel that draws tiles has a parameter of its own
  runtime.run(attention({2, 16, 16, 4097, 500, 128}, true));
  CHECK(has(last_launch(machine.cuda), "grid " + std::to_string(kSmCount) + "x1x1"));
}

TEST_CASE("threads and shared memory are the kernel's, raised before the first launch") {
  Machine machine;
  std::string fresh;
  for (const char* origin : {"compiled", "disk"}) {
    CAPTURE(origin);
    machine.cuda.reset();
    Runtime runtime(machine.options());
    runtime.run(attention());
    const std::string line = last_launch(machine.cuda);
    const int threads = std::stoi(line.substr(line.find("threads ") + 8));
    const std::string smem = std::to_string(std::stoi(line.substr(line.find("smem ") + 5)));
    CHECK(line.ends_with(" waits itself"));  // sm_90a: every emitted unit waits for the grids before it
    CHECK(threads % 128 == 0);
    CHECK(threads >= 256);
    CHECK(threads <= 1024);
    CHECK(std::stoi(smem) > 49152);
    CHECK(has(machine.cuda.log(), "cuFuncSetAttribute " + smem + "\n"));
    if (fresh.empty()) fresh = line;
    CHECK(line == fresh);
  }
}

TEST_CASE("each device gets a module of its own, and launches go there") {
  Machine machine;
  machine.cuda.set_devices(2);
  Runtime runtime(machine.options());
  FmhaArgs args = attention();
  runtime.run(args);
  for (tj::Tensor* tensor : {&args.q, &args.k, &args.v, &args.o}) tensor->device.index = 1;
  runtime.run(args);
  runtime.run(args);
  CHECK(count_calls(machine.cuda, "cuModuleLoadData") == 2);
  CHECK(count_calls(machine.cuda, "cuDevicePrimaryCtxRetain") == 2);
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 3);
}

TEST_CASE("a runtime gives back all that it took from the driver") {
  Machine machine;
  {
    Runtime runtime(machine.options());
    runtime.run(attention());
    runtime.run(attention({2, 4, 2, 300, 500, 64}));
  }
  CHECK(std::string(machine.cuda.leaks()) == "");
}

TEST_CASE("in a capture a cold kernel is an error that makes nothing; a prepared one is launched") {
  Machine machine;
  {
    Runtime runtime(machine.options());
    machine.cuda.set_capture(1);
    const tj::Error error = error_of([&] { runtime.run(attention()); });
    CHECK(error.code == tj::Code::cold_in_capture);
    CHECK(error.stage == tj::Stage::load);
    CHECK_MESSAGE(has(error.message, "fmha_f16_d128"), error.message);
    CHECK(has(error.message, "prepare"));
    CHECK(machine.nvrtc.compiles() == 0);
    CHECK(count_calls(machine.cuda, "cuModuleLoadData") == 0);
    CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 0);
    CHECK_FALSE(std::filesystem::exists(machine.cache_dir()));
    runtime.prepare(attention());  // allowed at any time, the same thread's capture included
    runtime.run(attention());
    CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 1);
    // Another form of the kernel is as cold as the first was.
    CHECK(error_of([&] { runtime.run(attention({2, 4, 2, 300, 500, 64})); }).code == tj::Code::cold_in_capture);
  }
  // On disk is not loaded.
  Runtime second(machine.options());
  CHECK(error_of([&] { second.run(attention()); }).code == tj::Code::cold_in_capture);
  CHECK(count_calls(machine.cuda, "cuModuleLoadData") == 1);
}

}  // namespace
