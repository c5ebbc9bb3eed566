// Protects the recipe "new arch" at run time. The arch is a target, attention is scheduled for its numbers, and the CPU
// model runs the emitted unit.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "common/fmha_reference.hpp"
#include "common/random.hpp"
#include "ops/fmha/fmha.hpp"
#include "pipeline.hpp"
#include "support/scratch.hpp"

using namespace tj;

namespace {

const ops::Request kRequest = ops::fmha_request(FmhaConfig{DType::f16, 64, true, false});

/// [1, H, S, 64] with memory of its own, aligned as on a device.
struct Tensor4 {
  Tensor4(std::int64_t heads, std::int64_t length, std::vector<std::uint16_t> values) : memory(std::move(values)) {
    memory.insert(memory.end(), 64, 0);
    std::size_t skip = 0;
    while (reinterpret_cast<std::uintptr_t>(memory.data() + skip) % 16 != 0) ++skip;
    std::rotate(memory.begin(), memory.end() - static_cast<std::ptrdiff_t>(skip), memory.end());
    view = Tensor::contiguous(memory.data() + skip, {DeviceKind::cpu, 0}, DType::f16, {1, heads, length, 64});
  }
  std::vector<std::uint16_t> memory;
  Tensor view;
};

}  // namespace

TEST_CASE("the arch is listed, found by name and by device, and a target on the device and on the model") {
  const arch::Arch* fake = arch::find("sm_95z");
  REQUIRE(fake != nullptr);
  CHECK(arch::for_device("nvidia", 9, 5) == fake);
  CHECK(arch::parse_target("sm_95z").arch == fake);
  CHECK(arch::parse_target("model:sm_95z").model);
  CHECK(arch::all().front()->name == "sm_90a");  // what a machine without a GPU stands for stays what it was
}

TEST_CASE("schedules follow its numbers, and what does not fit is refused with them") {
  const ops::Op& op = ops::fmha_op();
  const arch::Arch &fake = *arch::find("sm_95z"), &real = *arch::find("sm_90a");
  const Choice here = choose(op, kRequest, fake), there = choose(op, kRequest, real);
  CHECK(sched::verify(here.candidate.graph, here.schedule).empty());
  CHECK(here.schedule.ii < there.schedule.ii);
  const std::string text = codegen::emit(here.candidate.graph, here.schedule, fake.primitives).text;
  CHECK(text.find("arch/sm95.cuh") != std::string::npos);
  CHECK(text.find("ops/fmha/sm90.cuh") != std::string::npos);
  CHECK(text.find("registers_") == std::string::npos);  // it cannot move registers between roles
  try {
    choose(op, ops::fmha_request(FmhaConfig{DType::f16, 128, false, false}), fake);
    FAIL("192 registers a thread were put into 168");
  } catch (const Error& e) {
    CHECK(e.stage == Stage::schedule);
    CHECK(e.message.find("possible without the limit on registers") !=
          std::string::npos);  // three groups that cannot exchange theirs
  }
}

TEST_CASE("attention on its model is right") {
  const testing::Scratch scratch;
  Options options;
  options.cache_dir = scratch.path() + "/cache";
  options.target = "model:sm_95z";
  Runtime runtime(options);
  const std::uint64_t seed = samples::fresh_seed();
  CAPTURE(seed);
  const std::int64_t queries = 65 + static_cast<std::int64_t>(seed % 100), keys = queries + 70;
  const auto random = [&](std::int64_t heads, std::int64_t length, std::uint64_t stream) {
    return Tensor4(heads, length,
                   samples::random_normal(static_cast<std::size_t>(heads * length * 64), DType::f16, seed + stream));
  };
  const Tensor4 q = random(2, queries, 1), k = random(1, keys, 2), v = random(1, keys, 3);
  const Tensor4 o(2, queries, std::vector<std::uint16_t>(static_cast<std::size_t>(2 * queries * 64), 0x7e00));
  FmhaArgs args;
  args.q = q.view;
  args.k = k.view;
  args.v = v.view;
  args.o = o.view;
  args.causal = true;
  CHECK(runtime.target_of({DeviceKind::cpu, 0}) == "model:sm_95z");
  runtime.run(args);
  const auto comparison = samples::compare_fmha(args);
  INFO(comparison.text(DType::f16));
  CHECK(comparison.within(DType::f16));
}
