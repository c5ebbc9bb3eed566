// A kernel of a user's own for AMD GPUs: out[i] = 2 in[i], 128 floats a step, each block some steps. Needs nothing but
// what every arch has, so the same text is for all of them.
#pragma once

#include <filesystem>
#include <string>

#include <tilejit/custom.hpp>

#include "support/scratch.hpp"

namespace tj::test {

class AmdKernel {
 public:
  explicit AmdKernel(const std::string& machine) {
    std::filesystem::create_directory(folder());
    testing::write_bytes(folder() + "/doubled.cuh", kBodies);
    description.name = "doubled";
    description.graph = "{\"machine\": \"" + machine + "\", " + kGraph;
    description.folder = folder();
  }
  std::string folder() const { return scratch_ / "bodies"; }

  struct Params {
    const float* in;
    float* out;
    int n, steps;
  };
  custom::Description description;

 private:
  static constexpr const char* kGraph = R"(
  "code": {"namespace": "user::doubled", "includes": ["doubled.cuh"], "params_type": "user::doubled::Params"},
  "instructions": [{"name": "twice", "context": "Worker", "warps": 2, "cycles": 64, "fu": "ALU", "registers": 8}],
  "edges": []
})";
  static constexpr const char* kBodies = R"(#pragma once
namespace user::doubled {
namespace dev = tj::dev;

struct Params { const float* in; float* out; int n, steps; };
struct Tile { bool valid; int trip_count; };
template <class C> TJ_DEVICE Tile first_tile(const Params& params) { return {true, params.steps}; }
template <class C> TJ_DEVICE Tile next_tile(const Params&, const Tile&) { return {false, 0}; }

template <class C>
struct Worker {
  const Params& params;
  TJ_DEVICE Worker(const Params& p, int) : params(p) {}
};
template <class C>
TJ_DEVICE void twice(Worker<C>& worker, const Tile&, int step) {
  const int threads = 2 * dev::kWave;
  for (int i = static_cast<int>(dev::thread_index()); i < 128; i += threads) {
    const int at = (static_cast<int>(dev::block_index()) * worker.params.steps + step) * 128 + i;
    if (at < worker.params.n) worker.params.out[at] = 2 * worker.params.in[at];
  }
}
}  // namespace user::doubled
)";
  tj::testing::Scratch scratch_;
};

}  // namespace tj::test
