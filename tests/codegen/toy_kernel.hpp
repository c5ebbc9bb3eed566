// A kernel whose one role hands words from thread to thread through shared memory, for tests of barriers: its graph,
// its bodies, and runs on the CPU model that are compared with the same sums here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tilejit/error.hpp>

#include "codegen/emit.hpp"
#include "codegen/load_unit.hpp"
#include "graph/json_reader.hpp"
#include "model/model.hpp"
#include "sched/schedule.hpp"

namespace tj::test {

inline constexpr int kThreads = 128;

// load -> put -> mix over other warps' words -> hand -> take over other lanes' words. Besides, a table at the tile's
// begin and a stage at its end.
inline std::string toy_graph(int load_latency, int slots) {
  const std::string latency = std::to_string(load_latency), depth = std::to_string(slots);
  return R"({"machine": {"functional_units": {"ALU": 1}, "memory": {"SMEM": 65536}, "shared_barriers": false},
  "code": {"namespace": "user::toy", "includes": ["toy.cuh"], "params_type": "user::toy::Params"},
  "instructions": [
    {"name": "table", "context": "Worker", "scope": "tile_begin", "cycles": 10},
    {"name": "load", "context": "Worker", "cycles": 60, "fu": "ALU", "latency": )" +
         latency + R"(, "warp_cycles": 60},
    {"name": "put", "context": "Worker", "cycles": 40, "fu": "ALU", "warp_cycles": 40},
    {"name": "mix", "context": "Worker", "cycles": 100, "fu": "ALU", "warp_cycles": 100},
    {"name": "hand", "context": "Worker", "cycles": 30, "fu": "ALU", "warp_cycles": 30},
    {"name": "take", "context": "Worker", "cycles": 90, "fu": "ALU", "warp_cycles": 90},
    {"name": "stage", "context": "Worker", "scope": "tile_end", "cycles": 10},
    {"name": "out", "context": "Worker", "scope": "tile_end", "cycles": 10}
  ],
  "values": [{"name": "t", "slot_bytes": 512, "alignment": 16, "scope": "tile_begin", "max_slots": 1},
    {"name": "a", "slot_bytes": 512, "alignment": 16, "min_slots": )" +
         depth + R"(, "max_slots": )" + depth + R"(},
    {"name": "w", "slot_bytes": 512, "alignment": 16, "max_slots": 1, "within_warp": true},
    {"name": "s", "slot_bytes": 512, "alignment": 16, "scope": "tile_end", "max_slots": 1}],
  "edges": [
    {"src": "table", "dst": "mix", "delay": 10, "value": "t"},
    {"src": "load", "dst": "put", "delay": )" +
         latency + R"(}, {"src": "put", "dst": "load", "delay": 1, "delta": 1},
    {"src": "put", "dst": "mix", "delay": 40, "value": "a"}, {"src": "mix", "dst": "hand", "delay": 100},
    {"src": "hand", "dst": "take", "delay": 30, "value": "w"}, {"src": "take", "dst": "mix", "delay": 90, "delta": 1},
    {"src": "take", "dst": "stage", "delay": 90}, {"src": "stage", "dst": "out", "delay": 10, "value": "s"}
  ]})";
}

inline constexpr const char* kToyBodies = R"(#pragma once
namespace user::toy {
namespace dev = tj::dev;
using dev::u32;
struct Params { const u32* in; u32* out; int tiles, n; };
struct Tile { bool valid; int index, trip_count; };
template <class C> TJ_DEVICE Tile tile_at(const Params& params, int index) { return {index < params.tiles, index, params.n + index % 2}; }
template <class C> TJ_DEVICE Tile first_tile(const Params& params) { return tile_at<C>(params, 0); }
template <class C> TJ_DEVICE Tile next_tile(const Params& params, const Tile& tile) { return tile_at<C>(params, tile.index + 1); }
template <class C> struct Worker {
  const Params& params;
  u32 loaded, mixed, sum;
  TJ_DEVICE Worker(const Params& p, int) : params(p), loaded(0), mixed(0), sum(0) {}
};
TJ_DEVICE u32 word(u32 slot, u32 index) { return dev::load_shared<u32>(slot + 4u * index); }
TJ_DEVICE u32 other(u32 by) { return (dev::thread_index() + by) % 128u; }
template <class C> TJ_DEVICE void table(Worker<C>& w, const Tile& tile, u32 slot) {
  w.sum = 0;
  dev::store_shared(slot + 4u * dev::thread_index(), 7u * dev::thread_index() + static_cast<u32>(tile.index));
}
template <class C> TJ_DEVICE void load(Worker<C>& w, const Tile& tile, int i) { w.loaded = dev::load_global_u32(w.params.in + (tile.index * 64 + i) * 128 + static_cast<int>(other(32))); }
// Another warp's words, so that nothing but barriers orders it with that warp's reads of what was there.
template <class C> TJ_DEVICE void put(Worker<C>& w, const Tile&, int, u32 slot) { dev::store_shared(slot + 4u * other(32), w.loaded); }
template <class C> TJ_DEVICE void mix(Worker<C>& w, const Tile&, int, u32 t, u32 a) { w.mixed = word(a, other(32)) * 3u + word(a, other(95)) + word(t, other(64)) + w.sum; }
template <class C> TJ_DEVICE void hand(Worker<C>& w, const Tile&, int, u32 slot) { dev::store_shared(slot + 4u * dev::thread_index(), w.mixed); }
template <class C> TJ_DEVICE void take(Worker<C>& w, const Tile&, int, u32 slot) {
  const u32 first = dev::thread_index() / 32u * 32u, lane = dev::thread_index() % 32u;
  w.sum = w.sum * 5u + word(slot, first + (lane + 1u) % 32u) + word(slot, first + (lane + 17u) % 32u);
}
template <class C> TJ_DEVICE void stage(Worker<C>& w, const Tile&, u32 slot) { dev::store_shared(slot + 4u * dev::thread_index(), w.sum); }
template <class C> TJ_DEVICE void out(Worker<C>& w, const Tile& tile, u32 slot) { dev::store_global(w.params.out + tile.index * 128 + static_cast<int>(dev::thread_index()), word(slot, other(33))); }
}
)";

struct ToyParams {
  const std::uint32_t* in;
  std::uint32_t* out;
  int tiles, n;
};

struct ToyOptions {
  int load_latency = 600, slots = 1;
  bool persistent = false;
  int max_stages = 0;
  bool shared_barriers = false;
  std::vector<std::pair<std::string, std::string>> lies_in{};  ///< values, and those in whose places they lie
};

class ToyKernel {
 public:
  explicit ToyKernel(const ToyOptions& toy) : graph(graph::read_json(toy_graph(toy.load_latency, toy.slots))) {
    graph.walk = toy.persistent ? graph::Walk::persistent : graph::Walk::one_tile;
    graph.machine.overlapped_launch = false;
    graph.machine.shared_barriers = toy.shared_barriers;
    const auto value = [&](const std::string& name) {
      return std::find_if(graph.values.begin(), graph.values.end(), [&](const auto& v) { return v.name == name; }) -
             graph.values.begin();
    };
    for (const auto& [name, place] : toy.lies_in)
      graph.values[static_cast<std::size_t>(value(name))].lies_in = static_cast<int>(value(place));
    sched::Options options;
    options.max_stages = toy.max_stages;
    options.mixed_roles = true;
    options.max_roles = 1;
    schedule = sched::schedule(graph, options);
    unit = codegen::emit(graph, schedule, "sm80");
    kernel_ = test::load_unit(*driver_, unit, "sm_80", {{"toy.cuh", kToyBodies}});
  }
  /// "" when the run was right; else the fault, or what is wrong.
  std::string run(std::uint64_t seed, std::vector<int> disabled, int tiles, int n) {
    model::ModelOptions options;
    options.seed = seed;
    options.disabled_sites = std::move(disabled);
    driver_->set_options(options);
    std::vector<std::uint32_t> in(static_cast<std::size_t>(tiles) * 64 * kThreads),
        out(static_cast<std::size_t>(tiles) * kThreads, 0xabababab);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint32_t>(i * 2654435761u + seed);
    const ToyParams params{in.data(), out.data(), tiles, n};
    try {
      driver_->launch(0, *kernel_, {{1, 1, 1}, unit.shape}, &params, sizeof(params), {});
    } catch (const Error& e) {
      return e.message;
    }
    return out == expected(in, tiles, n) ? "" : "wrong words";
  }
  graph::Graph graph;
  sched::Schedule schedule;
  codegen::Unit unit;

 private:
  static std::vector<std::uint32_t> expected(const std::vector<std::uint32_t>& in, int tiles, int n) {
    using Words = std::vector<std::uint32_t>;
    Words out;
    for (int tile = 0; tile < tiles; ++tile) {
      Words sum(kThreads, 0), mixed(kThreads);
      const auto index = [](int i) { return static_cast<std::size_t>(i); };
      const auto table = [&](int t) { return static_cast<std::uint32_t>(7 * (t % kThreads) + tile); };
      for (int i = 0; i < n + tile % 2; ++i) {
        const auto a = [&](int t) { return in[index((tile * 64 + i) * kThreads + t % kThreads)]; };
        for (int t = 0; t < kThreads; ++t) mixed[index(t)] = a(t + 32) * 3 + a(t + 95) + table(t + 64) + sum[index(t)];
        for (int t = 0; t < kThreads; ++t)
          sum[index(t)] =
              sum[index(t)] * 5 + mixed[index(t / 32 * 32 + (t + 1) % 32)] + mixed[index(t / 32 * 32 + (t + 17) % 32)];
      }
      for (int t = 0; t < kThreads; ++t) out.push_back(sum[index((t + 33) % kThreads)]);
    }
    return out;
  }
  std::shared_ptr<model::ModelDriver> driver_ = model::open_model_driver();
  std::shared_ptr<launch::Kernel> kernel_;
};

}  // namespace tj::test
