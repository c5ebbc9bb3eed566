// Protects records of measured choices against damage: no changed byte and no cut of one leads a call to another kernel
// than the library's own choice or the measured one, and the next measurement heals it.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include <tilejit/tilejit.hpp>

#include "cache/cache.hpp"
#include "runtime/runtime_fixture.hpp"
#include "support/full.hpp"

namespace {

using namespace tj::test;
using tj::Runtime;

constexpr const char* kMeasured = "64x64x128";

/// A machine with one record, whose kernel is also on disk as the library's own choice is.
struct TunedMachine : Machine {
  tj::GemmArgs args;
  std::string record;  ///< its path
  TunedMachine() {
    cuda.set_param_bytes(0);  // kernels of several kinds
    cuda.set_block_ms(0.001);
    args.a = args.b = args.d = tj::Tensor::contiguous(nullptr, {tj::DeviceKind::cuda, 0}, tj::DType::f16, {1024, 1024});
    Runtime(options()).prepare(args);
    measure();
    for (const auto& item : tj::cache::Store(cache_dir(), 0, {}).list())
      if (!item.alias && item.entry && item.entry->payload.empty()) record = item.path;
    REQUIRE(!record.empty());
  }
  void measure() {
    tj::TuneOptions how;
    how.rounds = 1;
    how.only = {kMeasured};
    REQUIRE(Runtime(options()).tune(args, how).kept);
  }
  std::string taken() { return Runtime(options()).prepare(args).name; }
};

TEST_CASE("each byte of a record of a measured choice that is changed, and each cut, is no choice; measuring heals") {
  TunedMachine machine;
  const std::string whole = tj::testing::read_bytes(machine.record);
  const std::string chosen = machine.taken();
  REQUIRE(has(chosen, kMeasured));
  REQUIRE(std::filesystem::remove(machine.record));
  const std::string usual = machine.taken();
  REQUIRE(usual != chosen);
  const int compiles = machine.nvrtc.compiles();
  const std::size_t step = tj::testing::full_run() ? 1 : 3;
  for (std::size_t at = 0; at < whole.size(); at += step) {
    CAPTURE(at);
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ (1 << (at / step % 8)));
    for (const std::string& bytes : {changed, whole.substr(0, at)}) {
      tj::testing::write_bytes(machine.record, bytes);
      CHECK(machine.taken() == usual);
    }
  }
  CHECK(machine.nvrtc.compiles() == compiles);
  CHECK(machine.warnings.size() >= whole.size() / step);
  machine.measure();
  CHECK(machine.taken() == chosen);
  CHECK(tj::cache::Store(machine.cache_dir(), 0, {}).list().size() > 0);
}

}  // namespace
