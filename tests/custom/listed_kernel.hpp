// A kernel of a user's own whose work is a list in device memory. Entry e names a row of a table, and out[e] is the sum
// of that row's steps. The number of entries is in device memory, too.
//
// One text for every way by which a block's roles learn of a tile: a thread that copies, a role that loads and stores,
// one role without barriers; clusters. All numbers are small and whole, so that sums are exact in any order.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include <tilejit/custom.hpp>

#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace tj::test {

inline constexpr int kListedWidth = 512;        ///< floats of a step
inline constexpr int kListedPieceBytes = 2048;  ///< sums of a block: 128 threads, four of each

struct ListedParams {
  TensorMap steps;     ///< 1, all steps, 2, 256: where the copy engine loads
  const float* table;  ///< rows of `row_steps` steps
  const int* count;    ///< entries of the list: the device reads it
  const int* list;     ///< rows
  float* out;          ///< a step for each entry
  int* changed;        ///< where the entry of row 0 stores 1 at its end; null: nowhere
  int row_steps;
};

class ListedKernel {
 public:
  /// Who loads: a thread by the copy engine, a role of threads, or each thread for itself in a block of one role.
  enum class Loads { engine, threads, itself };

  /// slices: of an entry, where the walk is sliced; 0: each block of the cluster does one.
  ListedKernel(const std::string& machine, const std::string& walk, Loads loads, int cluster = 1, int slices = 0) {
    std::filesystem::create_directory(folder());
    testing::write_bytes(folder() + "/listed.cuh", kBodies);
    description.name = "listed_" + walk;
    description.folder = folder();
    const bool sliced = walk == "sliced", split = walk == "split" || sliced, own = loads == Loads::itself;
    const std::string blocks = std::to_string(cluster), add = own ? "add_loaded" : "add",
                      entries = std::to_string(!sliced       ? cluster
                                               : slices == 0 ? 1
                                                             : cluster / slices);
    std::string& graph = description.graph;
    graph = "{\"machine\": \"" + machine + "\", \"walk\": \"" + walk + "\", \"cluster\": " + blocks + ",";
    if (split) graph += "\"piece_bytes\": " + std::to_string(kListedPieceBytes) + ",";
    if (slices != 0) graph += "\"slices\": " + std::to_string(slices) + ",";
    graph += R"("code": {"namespace": "user::listed", "includes": ["listed.cuh"],
      "params_type": "user::listed::Params", "config": {"kCluster": )" +
             entries + "}}, \"instructions\": [";
    if (loads == Loads::engine) graph += R"({"name": "load", "body": "copy", "fu": "TMA",)";
    if (loads == Loads::threads) graph += R"({"name": "load", "async": "none", "warps": 4, "fu": "ALU",)";
    if (!own)
      graph += R"("context": "Loader", "cycles": 64, "latency": 600, "variable_latency": true, "streaming": true},)";
    graph += R"({"name": "begin", "context": "Adder", "scope": "tile_begin", "warps": 4, "cycles": 8},
      {"name": "add", "body": ")" +
             add + R"(", "context": "Adder", "warps": 4, "cycles": 64, "fu": "ALU", "registers": 8},
      {"name": "finish", "context": "Adder", "scope": "tile_end", "warps": 4, "cycles": 64)" +
             (split ? ", \"merges\": true}]," : "}],");
    if (!own) graph += R"("values": [{"name": "step", "slot_bytes": 2048, "min_slots": 2, "max_slots": 3}],)";
    graph += "\"edges\": [";
    if (!own) graph += R"({"src": "load", "dst": "add", "delay": 600, "value": "step"},)";
    graph += R"({"src": "begin", "dst": "add", "delay": 0}, {"src": "add", "dst": "finish", "delay": 64},
      {"src": "add", "dst": "add", "delay": 64, "delta": 1}]})";
  }

  /// A persistent walk of its own: the number is read once, and an entry while the tile before it is done.
  void read_ahead() const {
    const std::string tiles = "template <class C_>\nstruct Loader";
    edit("using dev::first_tile;\nusing dev::next_tile;\n", "");
    edit(tiles, kReadAhead + tiles);
  }
  /// `tile_at` leaves the steps out, and `complete_tile` says them.
  void complete_apart() const {
    const std::string iterations = "template <class C>\nTJ_DEVICE int tile_iterations";
    edit("  tile.trip_count = params.row_steps;\n", "");
    edit(iterations, kCompletes + iterations);
  }
  /// Replaces the first occurrence in listed.cuh.
  void edit(const std::string& piece, const std::string& other) const {
    std::string text = testing::read_bytes(folder() + "/listed.cuh");
    const std::size_t at = text.find(piece);
    REQUIRE_MESSAGE(at != std::string::npos, piece);
    testing::write_bytes(folder() + "/listed.cuh", text.replace(at, piece.size(), other));
  }

  std::string folder() const { return scratch_ / "bodies"; }
  custom::Description description;

 private:
  static constexpr const char* kBodies = R"(#pragma once
#include "piece.cuh"
namespace user::listed {
namespace dev = tj::dev;
using dev::cut_tile;
using dev::first_tile;
using dev::next_tile;
using dev::u32;

struct Params {
  tj::TensorMap steps;
  const float* table;
  const int *count, *list;
  float* out;
  int* changed;
  int row_steps;
};
struct Tile {
  int index;
  bool valid;
  int row;    // -1: the cluster has an entry, this block has none
  int first;  // step
  int trip_count;
  dev::Piece piece;
  int count, next_row;  // of a walk that reads ahead
};

template <class C>
TJ_DEVICE int tile_count(const Params& params) {
  return static_cast<int>(dev::load_global_u32(params.count));
}
template <class C>
TJ_DEVICE Tile tile_at(const Params& params, int index) {
  const int count = tile_count<C>(params);
  Tile tile{};
  tile.index = index;
  tile.valid = index / C::kCluster * C::kCluster < count;  // the same in all blocks of a cluster
  tile.row = index < count ? static_cast<int>(dev::load_global_u32(params.list + index)) : -1;
  tile.trip_count = params.row_steps;
  return tile;
}
template <class C>
TJ_DEVICE int tile_iterations(const Params& params) {
  return params.row_steps;
}

TJ_DEVICE int thread_of_role() { return static_cast<int>(dev::warp_index() % 4u * 32u + dev::lane_index()); }

template <class C_>
struct Loader {
  using C = C_;
  const Params& params;
  TJ_DEVICE Loader(const Params& p, int) : params(p) {}
};
template <class C_>
struct Adder {
  using C = C_;
  const Params& params;
  float sums[4];
  TJ_DEVICE Adder(const Params& p, int) : params(p) {}
};

template <class C>
TJ_DEVICE void copy(Loader<C>& loader, const Tile& tile, int i, u32 slot, u32 full) {
  dev::copy_box_4d(slot, &loader.params.steps, full, 0, 0, tile.row * loader.params.row_steps + tile.first + i, 0);
}
TJ_DEVICE void load_step(const Params& params, const Tile& tile, int i, float (&four)[4]) {
  const long long step = static_cast<long long>(tile.row) * params.row_steps + tile.first + i;
  for (float& each : four) each = 0.0f;
  if (tile.row >= 0) dev::load_global(params.table + step * 512 + 4 * thread_of_role(), four);
}
template <class C>
TJ_DEVICE void load(Loader<C>& loader, const Tile& tile, int i, u32 slot) {
  float four[4];
  load_step(loader.params, tile, i, four);
  dev::store_shared(slot + 16 * static_cast<u32>(thread_of_role()), four);
}
template <class C>
TJ_DEVICE void begin(Adder<C>& adder, const Tile&) {
  for (float& sum : adder.sums) sum = 0.0f;
}
template <class C>
TJ_DEVICE void add(Adder<C>& adder, const Tile&, int, u32 slot) {
  float four[4];
  dev::load_shared(slot + 16 * static_cast<u32>(thread_of_role()), four);
  for (int e = 0; e < 4; ++e) adder.sums[e] += four[e];
}
template <class C>
TJ_DEVICE void add_loaded(Adder<C>& adder, const Tile& tile, int i) {
  float four[4];
  load_step(adder.params, tile, i, four);
  for (int e = 0; e < 4; ++e) adder.sums[e] += four[e];
}
template <class C>
TJ_DEVICE void finish(Adder<C>& adder, const Tile& tile) {
  const Params& params = adder.params;
  const int warp = static_cast<int>(dev::warp_index() % 4u);
  if (tile.piece.valid && !tile.piece.last) return dev::leave_sums<32>(tile.piece, warp, adder.sums);
  if (tile.piece.valid) {
    float earlier[4];
    dev::read_sums<32>(tile.piece, warp, earlier);
    for (int e = 0; e < 4; ++e) adder.sums[e] += earlier[e];
  }
  if (tile.row < 0) return;
  dev::store_global(params.out + static_cast<long long>(tile.index) * 512 + 4 * thread_of_role(), adder.sums);
  if (params.changed != nullptr && tile.row == 0 && thread_of_role() == 0)
    dev::store_global(static_cast<void*>(params.changed), 1u);
}
}  // namespace user::listed
)";
  inline static const std::string kCompletes = R"(template <class C>
TJ_DEVICE void complete_tile(C, const Params& params, Tile& tile) {
  tile.trip_count = params.row_steps;
}
)";
  inline static const std::string kReadAhead = R"(
template <class C>
TJ_DEVICE int row_at(const Params& params, int index, int count) {
  return index < count ? static_cast<int>(dev::load_global_u32(params.list + index)) : -1;
}
template <class C>
TJ_DEVICE Tile next_tile(const Params& params, Tile tile) {
  tile.index += static_cast<int>(dev::grid_blocks());
  tile.valid = tile.index / C::kCluster * C::kCluster < tile.count;
  tile.row = tile.next_row;
  tile.next_row = row_at<C>(params, tile.index + static_cast<int>(dev::grid_blocks()), tile.count);
  return tile;
}
template <class C>
TJ_DEVICE Tile first_tile(const Params& params) {
  Tile tile = tile_at<C>(params, static_cast<int>(dev::block_index()));
  tile.count = tile_count<C>(params);
  tile.next_row = row_at<C>(params, tile.index + static_cast<int>(dev::grid_blocks()), tile.count);
  return tile;
}
)";
  testing::Scratch scratch_;
};

}  // namespace tj::test
