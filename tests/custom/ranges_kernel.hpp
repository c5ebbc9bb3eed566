// A kernel of a user's own whose bodies have a variant in a range of iterations, and say which variant ran. Each tile's
// loop runs `head` and, some steps behind it, `tail`; a role of its own fills the ring that `head` reads.
#pragma once

#include <filesystem>
#include <string>

#include <tilejit/custom.hpp>

#include "support/scratch.hpp"

namespace tj::test {

class RangesKernel {
 public:
  struct Params {
    int* ran;     ///< tile * 100000 + node * 10000 + variant * 1000 + iteration, in the order in which they ran
    float* sums;  ///< one a tile
    int trip_count, begin, end;
  };
  static constexpr int kTiles = 2;

  /// depth: so many stages `tail` runs behind `head`. `range` are members of both: the variant and its bounds.
  RangesKernel(const std::string& ranges, int depth, const std::string& range) {
    std::filesystem::create_directory(folder());
    testing::write_bytes(folder() + "/ranges.cuh", kBodies);
    description.name = "ranges";
    description.graph = "{\"ranges\": \"" + ranges + "\"," + kGraph;
    replace("DELAY", std::to_string(depth == 0 ? 100 : 200 * depth + 50));
    for (int node = 0; node < 2; ++node) replace("RANGE", range);
    description.folder = folder();
  }
  std::string folder() const { return scratch_ / "bodies"; }

  custom::Description description;

 private:
  void replace(const std::string& word, const std::string& text) {
    description.graph.replace(description.graph.find(word), word.size(), text);
  }

  static constexpr const char* kGraph = R"(
  "machine": "sm_80",
  "code": {"namespace": "user::ranges", "includes": ["ranges.cuh"], "params_type": "user::ranges::Params"},
  "instructions": [
    {"name": "load", "context": "Loader", "async": "none", "cycles": 64, "fu": "LSU", "latency": 200, "variable_latency": true, "streaming": true},
    {"name": "begin", "context": "Worker", "scope": "tile_begin", "cycles": 8},
    {"name": "head", "context": "Worker", "cycles": 100, "fu": "TC", RANGE},
    {"name": "tail", "context": "Worker", "cycles": 100, "fu": "TC", RANGE},
    {"name": "store", "context": "Worker", "scope": "tile_end", "cycles": 20}
  ],
  "values": [{"name": "cell", "slot_bytes": 1024, "min_slots": 2, "max_slots": 2}],
  "edges": [
    {"src": "load", "dst": "head", "delay": 200, "value": "cell"},
    {"src": "begin", "dst": "head", "delay": 0},
    {"src": "head", "dst": "tail", "delay": DELAY},
    {"src": "head", "dst": "head", "delay": 100, "delta": 1},
    {"src": "tail", "dst": "tail", "delay": 100, "delta": 1},
    {"src": "tail", "dst": "store", "delay": 100}
  ]
})";
  static constexpr const char* kBodies = R"(#pragma once
namespace user::ranges {
namespace dev = tj::dev;
using dev::u32;

struct Params { int* ran; float* sums; int trip_count, begin, end; };
struct Tile { int index; bool valid; int trip_count; };
template <class C> TJ_DEVICE Tile first_tile(const Params& params) { return {0, dev::block_index() == 0, params.trip_count}; }
template <class C> TJ_DEVICE Tile next_tile(const Params& params, const Tile& tile) {
  return {tile.index + 1, tile.index + 1 < 2, params.trip_count};
}

struct Whole {};
TJ_DEVICE int number(dev::General) { return 0; }
TJ_DEVICE int number(dev::Fast) { return 1; }
TJ_DEVICE int number(Whole) { return 2; }

template <class C>
struct Loader {
  TJ_DEVICE Loader(const Params&, int) {}
};
template <class C>
struct Worker {
  const Params& params;
  int place = 0;
  float sum = 0;
  TJ_DEVICE Worker(const Params& p, int) : params(p) {}
  TJ_DEVICE bool leads() const { return dev::warp_index() % 4u == 0 && dev::lane_index() == 0; }
  TJ_DEVICE void ran(const Tile& tile, int node, int variant, int i) {
    if (leads()) params.ran[place++] = tile.index * 100000 + node * 10000 + variant * 1000 + i;
  }
};
template <class C> TJ_DEVICE int whole_begin(const Worker<C>& worker, const Tile&) { return worker.params.begin; }
template <class C> TJ_DEVICE int whole_end(const Worker<C>& worker, const Tile&) { return worker.params.end; }

template <class C>
TJ_DEVICE void load(Loader<C>&, const Tile& tile, int i, u32 slot) {
  const u32 words[4] = {static_cast<u32>(100 * tile.index + i), 0, 0, 0};
  if (dev::warp_index() % 4u == 0 && dev::lane_index() == 0) dev::store_shared(slot, words);
}
template <class C>
TJ_DEVICE void begin(Worker<C>& worker, const Tile&) { worker.sum = 1; }
template <class C, class Variant>
TJ_DEVICE void head(Worker<C>& worker, const Tile& tile, int i, u32 slot, Variant variant) {
  worker.ran(tile, 0, number(variant), i);
  worker.sum = worker.sum * 0.75f + static_cast<float>(dev::load_shared<u32>(slot));
}
template <class C, class Variant>
TJ_DEVICE void tail(Worker<C>& worker, const Tile& tile, int i, Variant variant) {
  worker.ran(tile, 1, number(variant), i);
  worker.sum = worker.sum * 1.25f - static_cast<float>(i);
}
template <class C>
TJ_DEVICE void store(Worker<C>& worker, const Tile& tile) {
  if (worker.leads()) worker.params.sums[tile.index] = worker.sum;
}
}  // namespace user::ranges
)";
  testing::Scratch scratch_;
};

}  // namespace tj::test
