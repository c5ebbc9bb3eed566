// Protects Ladder::record(): a rung's calls become one graph, whose replays are timed, on a driver that is none. What
// cannot be recorded is refused by name.
#include <doctest/doctest.h>

#include <functional>

#include <tilejit/ladder.hpp>

#include "runtime/runtime_fixture.hpp"

namespace {

using namespace tj::test;

TEST_CASE("calls are recorded once and replayed, and a replay's time is that of all of them") {
  Machine machine;
  machine.cuda.set_param_bytes(0);  // kernels of several kinds
  machine.cuda.set_block_ms(0.5);
  tj::Runtime runtime(machine.options());
  tj::Ladder ladder(runtime);
  const tj::GemmArgs args = square_product(512);
  ladder.run(args, 5);
  const std::function<double()> one = ladder.record(args, 5, 1), three = ladder.record(args, 5, 3);
  CHECK(one() > 0);
  CHECK(three() == doctest::Approx(3 * one()));
  CHECK(three() == doctest::Approx(3 * one()));  // as often as one likes
}

TEST_CASE("no calls, an op without a ladder, a rung that is none and the model are refused by name") {
  Machine machine;
  tj::Runtime runtime(machine.options());
  tj::Ladder ladder(runtime);
  CHECK(has(error_of([&] { ladder.record(square_product(512), 5, 0); }).message, "calls is 0; allowed: 1 and up"));
  CHECK(has(error_of([&] { ladder.record(square_product(512), 77, 1); }).message, "77"));
  tj::Options options = machine.options();
  options.target = "model:sm_90a";
  tj::Runtime model(options);
  tj::GemmArgs args = square_product(512);
  for (tj::Tensor* each : {&args.a, &args.b, &args.d}) each->device = {tj::DeviceKind::cpu, 0};
  const tj::Error error = error_of([&] { tj::Ladder(model).record(args, 5, 1); });
  CHECK(error.code == tj::Code::unsupported);
  CHECK(has(error.message, "launches on the CPU model cannot be recorded"));
}

}  // namespace
