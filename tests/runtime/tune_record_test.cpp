// Protects records of measured choices against damage: no changed byte and no cut of one leads a call to another kernel
// than the library's own choice or the measured one, and the next measurement heals it. A log sink that is told of one
// waits for nobody.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

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

/// A record that no build reads any more, so that the log is told of it while records are read.
struct DamagedMachine : TunedMachine {
  DamagedMachine() {
    std::string bytes = tj::testing::read_bytes(record);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    tj::testing::write_bytes(record, bytes);
  }
};

/// A child whose log sink does this when the record is told of. Its exit status.
int when_told(DamagedMachine& machine, void (*does)(Runtime&, const tj::GemmArgs&)) {
  return tj::testing::wait_for(tj::testing::start_child([&] {
    ::alarm(100);
    static Runtime* runtime = nullptr;
    static bool told = false;
    static tj::GemmArgs args;
    args = machine.args;
    tj::Options options = machine.options();
    options.log_sink = [does](tj::LogLevel, std::string_view text) {
      if (!has(std::string(text), "is not used") || std::exchange(told, true)) return;
      does(*runtime, args);
    };
    runtime = new Runtime(options);
    const std::string name = runtime->prepare(args).name;
    if (!told) return 3;
    return has(name, kMeasured) ? 1 : 0;
  }));
}

TEST_CASE("a log sink that is told of a damaged record may call, measure, and end the process") {
  DamagedMachine machine;
  CHECK(when_told(machine, [](Runtime& runtime, const tj::GemmArgs& args) { runtime.prepare(args); }) == 0);
  CHECK(when_told(machine, [](Runtime& runtime, const tj::GemmArgs& args) {
          static Runtime* of = nullptr;
          static tj::GemmArgs asked;
          of = &runtime;
          asked = args;
          std::atexit([] { ::_exit(of->prepare(asked).name.empty() ? 7 : 4); });
          std::exit(2);
        }) == 4);
  CHECK(when_told(machine, [](Runtime& runtime, const tj::GemmArgs& args) {
          tj::TuneOptions how;
          how.rounds = 1;
          how.only = {kMeasured};
          if (!runtime.tune(args, how).kept) ::_exit(5);
        }) == 1);
}

}  // namespace
