// Protects the reader of manifests against any text: seeded damage to lines that a run wrote, always the same.
#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "runtime/runtime_fixture.hpp"
#include "support/full.hpp"
#include "support/fuzz.hpp"

namespace {

using namespace tj::test;

TEST_CASE("a line is wanted, bad in words, or says nothing, whatever it is") {
  Machine machine;
  tj::Options options = machine.options();
  options.record_file = machine.scratch / "run.tjm";
  {
    tj::Runtime runtime(options);
    runtime.prepare(config_of(true), {tj::DeviceKind::cuda, 0});
    runtime.prepare(square_product(512));
  }
  const std::string good = tj::testing::read_bytes(*options.record_file);
  const std::string others[] = {
      R"({"tuning":"gemm","arch":"sm_90a","device":"d","sm_count":132,"fields":{"m":"1"},"choice":"128x256x64"})",
      R"({"kernel":"custom","target":"sm_90a","fields":{"name":"mine"}})",
      "null",
      "{\"kernel\":[",
      "\xff\xfe",
      "1e999"};
  std::mt19937 random(31);
  const auto below = [&](std::size_t bound) { return bound == 0 ? 0 : random() % bound; };
  const int rounds = tj::testing::full_run() ? 30000 : 1500;
  for (int i = 0; i < rounds; ++i) {
    std::string text = good + others[below(std::size(others))];
    for (std::size_t edits = below(4); edits > 0; --edits) {
      const std::size_t at = below(text.size()), count = below(std::min<std::size_t>(30, text.size() - at));
      if (below(3) == 0)
        text[at] = static_cast<char>(random());
      else if (below(2) == 0)
        text.erase(at, count);
      else
        text.insert(at, text.substr(below(text.size()), count));
    }
    tj::testing::fuzz_manifest(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  }
}

}  // namespace
