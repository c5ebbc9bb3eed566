// Protects max_sms: no launch of a call, steps and plans included, has more blocks than fit on so many multiprocessors;
// 0 and more than there are change nothing, and values below 0 are refused by name.
#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <tilejit/ladder.hpp>

#include "runtime/runtime_fixture.hpp"

namespace {

using namespace tj::test;

constexpr tj::Device kGpuOfLimits{tj::DeviceKind::cuda, 0};

tj::Tensor placed(int place, tj::DType dtype, std::initializer_list<std::int64_t> shape) {
  return tj::Tensor::contiguous(address(kFirstAddress + static_cast<std::uint64_t>(place) * kAddressStep), kGpuOfLimits,
                                dtype, shape);
}
tj::GemmArgs product(std::int64_t m, std::int64_t n, std::int64_t k) {
  tj::GemmArgs args;
  args.a = placed(0, tj::DType::f16, {m, k});
  args.b = placed(1, tj::DType::f16, {n, k});
  args.d = placed(2, tj::DType::f16, {m, n});
  return args;
}
tj::ChunkOArgs chunks() {
  tj::ChunkOArgs args;
  args.q = placed(0, tj::DType::bf16, {64000, 2, 128});
  args.k = placed(1, tj::DType::bf16, {64000, 2, 128});
  args.v_new = placed(2, tj::DType::bf16, {64000, 4, 128});
  args.h = placed(3, tj::DType::bf16, {1000, 4, 128, 128});
  args.o = placed(4, tj::DType::bf16, {64000, 4, 128});
  args.seq_length = 640;
  return args;
}
tj::ChunkIndicesArgs lists() {
  return {placed(0, tj::DType::i32, {100001}), placed(1, tj::DType::i32, {200000, 2}), placed(2, tj::DType::i32, {1})};
}

/// Blocks of each launch that `work` makes.
template <class Work>
std::vector<int> grids(Machine& machine, const Work& work) {
  const std::size_t before = std::string(machine.cuda.log()).size();
  work();
  std::istringstream lines(std::string(machine.cuda.log()).substr(before));
  std::vector<int> blocks;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("cuLaunchKernelEx")) blocks.push_back(std::stoi(line.substr(line.find("grid ") + 5)));
  return blocks;
}

/// The launches of a call and of its plan obey the limit; beyond the device's multiprocessors it is none.
template <class Args>
void check_grids(Args args, std::size_t launches, int all) {
  Machine machine;
  tj::Runtime runtime(machine.options());
  for (const int limit : {1, 2, 100, 0, 132, 5000}) {
    args.max_sms = limit;
    CAPTURE(limit);
    const std::vector<int> called = grids(machine, [&] { runtime.run(args); });
    CHECK(called.size() == launches);
    CHECK(called == grids(machine, [&] {
            const tj::Plan plan = runtime.plan(args);
            std::vector<void*> addresses;
            for (std::size_t i = 0; i < plan.tensors().size(); ++i)
              addresses.push_back(address(kFirstAddress + i * kAddressStep));
            plan.run(addresses);
          }));
    if (limit == 0 || called.empty()) continue;
    for (const int blocks : called) CHECK(blocks <= (limit < 132 ? limit : 16 * 132));
    if (limit < 132) CHECK(called.back() == std::min(limit, all));
  }
}

TEST_CASE("grids obey max_sms, whatever the op") {
  SUBCASE("causal attention, which has a block a tile otherwise") {
    check_grids(attention({2, 16, 16, 4097, 500, 128}), 1, 132);
  }
  SUBCASE("full attention") { check_grids(attention({2, 16, 16, 4097, 500, 128}, false), 1, 132); }
  SUBCASE("a product in clusters of blocks") {
    tj::GemmArgs args = product(8192, 8192, 8192);
    Machine machine;
    tj::Runtime runtime(machine.options());
    for (const int limit : {1, 2, 3, 100}) {
      args.max_sms = limit;
      const std::vector<int> blocks = grids(machine, [&] { runtime.run(args); });
      REQUIRE(blocks.size() == 1);
      CHECK(blocks.front() <= limit);
      CHECK(blocks.front() >= limit - 1);
    }
  }
  SUBCASE("chunk output") { check_grids(chunks(), 1, 132); }
  SUBCASE("the list of chunks") { check_grids(lists(), 1, 391); }
}

TEST_CASE("steps of a product obey max_sms, too") {
  Machine machine;
  tj::Runtime runtime(machine.options());
  tj::GemmArgs args = product(2000, 2000, 333);
  for (const int limit : {1, 7}) {
    args.max_sms = limit;
    const std::vector<int> blocks = grids(machine, [&] { runtime.run(args); });
    CHECK(blocks.size() >= 3);  // a and b are copied first
    for (const int each : blocks) CHECK(each <= limit);
  }
  args = product(64, 64, 65536);
  args.max_sms = 16;
  const std::vector<int> blocks = grids(machine, [&] { runtime.run(args); });
  CHECK(blocks.size() == 2);  // sums over parts of K
  for (const int each : blocks) CHECK(each <= 16);
}

template <class Args>
std::string refusal(Args args) {
  Machine machine;
  tj::Runtime runtime(machine.options());
  args.max_sms = -1;
  return error_of([&] { runtime.run(args); }).message;
}

TEST_CASE("max_sms below 0 is refused by name, and so is any with a rung") {
  const std::string wanted = ": max_sms is -1; allowed: 0, for all multiprocessors, or 1 and more";
  CHECK(refusal(attention()) == "fmha" + wanted);
  CHECK(refusal(product(64, 64, 64)) == "gemm" + wanted);
  CHECK(refusal(chunks()) == "chunk_o" + wanted);
  CHECK(refusal(lists()) == "chunk_indices" + wanted);
  Machine machine;
  tj::Runtime runtime(machine.options());
  tj::GemmArgs args = product(64, 64, 64);
  args.max_sms = 3;
  CHECK(error_of([&] { tj::Ladder(runtime).run(args, 3); }).message ==
        "gemm: max_sms is 3 and rung is v3; allowed with a rung: 0, for all multiprocessors");
}

}  // namespace
