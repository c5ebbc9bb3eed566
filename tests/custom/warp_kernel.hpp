// A kernel of a user's own for the family whose products are a warp's. It makes D = A B^T, f16 to f32, one tile of 64 x
// 64, K in steps of 64. Its rings are filled by ordinary stores of a role of threads, so the same text is for every
// arch of the family.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include <tilejit/custom.hpp>

#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace tj::test {

class WarpKernel {
 public:
  /// `copies`: threads copy and do not wait; else they load and store.
  WarpKernel(const std::string& machine, bool copies) {
    std::filesystem::create_directory(folder());
    bodies =
        std::string("#pragma once\ninline constexpr bool kCopies = ") + (copies ? "true" : "false") + ";\n" + kBodies;
    testing::write_bytes(folder() + "/warp_product.cuh", bodies);
    description.name = "warp_product";
    description.graph = "{\"machine\": \"" + machine + "\", " + kGraph;
    if (copies) description.graph.replace(description.graph.find("\"none\""), 6, "\"threads\"");
    description.folder = folder();
  }
  std::string folder() const { return scratch_ / "bodies"; }

  struct Params {
    const void* a;
    const void* b;
    float* d;
    int k;
  };
  custom::Description description;
  std::string bodies;  ///< of warp_product.cuh

 private:
  static constexpr const char* kGraph = R"(
  "code": {"namespace": "user::product", "includes": ["tiles.cuh", "warp_product.cuh"], "params_type": "user::product::Params"},
  "instructions": [
    {"name": "load", "context": "Loader", "async": "none", "warps": 4, "cycles": 128, "fu": "LSU", "latency": 600, "variable_latency": true, "streaming": true},
    {"name": "begin.0", "body": "begin", "context": "Consumer", "scope": "tile_begin", "cycles": 8},
    {"name": "mma.0", "body": "mma", "context": "Consumer", "cycles": 256, "fu": "TC", "registers": 32},
    {"name": "store.0", "body": "store", "context": "Consumer", "scope": "tile_end", "cycles": 100}
  ],
  "values": [{"name": "tile", "slot_bytes": 16384, "min_slots": 2, "max_slots": 4}],
  "edges": [
    {"src": "load", "dst": "mma.0", "delay": 600, "value": "tile"},
    {"src": "begin.0", "dst": "mma.0", "delay": 0},
    {"src": "mma.0", "dst": "mma.0", "delay": 256, "delta": 1},
    {"src": "mma.0", "dst": "store.0", "delay": 256}
  ]
})";
  static constexpr const char* kBodies = R"(
namespace user::product {
namespace dev = tj::dev;
using dev::u32;

struct Params { const void* a; const void* b; float* d; int k; };
struct Tile { bool valid; int trip_count; };
template <class C> TJ_DEVICE Tile first_tile(const Params& params) { return {dev::block_index() == 0, (params.k + 63) / 64}; }
template <class C> TJ_DEVICE Tile next_tile(const Params&, const Tile&) { return {false, 0}; }

template <class C>
struct Loader {
  const Params& params;
  TJ_DEVICE Loader(const Params& p, int) : params(p) {}
};
template <class C>
struct Consumer {
  const Params& params;
  float sums[8][4];
  TJ_DEVICE Consumer(const Params& p, int) : params(p) {}
};

// 64 rows of A, then 64 of B; beyond K they are zeros.
template <class C>
TJ_DEVICE void load(Loader<C>& loader, const Tile&, int i, u32 slot) {
  const u32 thread = dev::warp_index() % 4u * 32u + dev::lane_index();
  for (u32 piece = thread; piece < 1024; piece += 128) {
    const u32 row = piece / 8 % 64, column = 64 * static_cast<u32>(i) + piece % 8 * 8;
    const char* from = static_cast<const char*>(piece < 512 ? loader.params.a : loader.params.b);
    const u32 k = static_cast<u32>(loader.params.k), to = dev::piece_address(slot + piece / 512 * 8192, row, piece % 8);
    if constexpr (kCopies) {
      dev::copy_async<16>(to, from + (column < k ? 2ll * (row * k + column) : 0), column < k ? 16 : 0);
    } else {
      u32 words[4] = {};
      if (column < k) dev::load_global(from + 2ll * (row * k + column), words);
      dev::store_shared(to, words);
    }
  }
}
template <class C>
TJ_DEVICE void begin(Consumer<C>& consumer, const Tile&) {
  for (auto& block : consumer.sums)
    for (float& sum : block) sum = 0.0f;
}
template <class C>
TJ_DEVICE void mma(Consumer<C>& consumer, const Tile&, int, u32 tile) {
  const u32 rows = dev::warp_index() % 4u * 16u;
#pragma unroll
  for (u32 k = 0; k < 4; ++k) {
    u32 a[4], b[4];
    dev::load_matrices(dev::piece_address(tile, rows + dev::down_row(), 2 * k + dev::down_piece()), a);
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
      dev::load_matrices(dev::piece_address(tile + 8192, 16 * j + dev::across_row(), 2 * k + dev::across_piece()), b);
      dev::mma_m16n8k16(dev::F16{}, consumer.sums[2 * j], a, b[0], b[1]);
      dev::mma_m16n8k16(dev::F16{}, consumer.sums[2 * j + 1], a, b[2], b[3]);
    }
  }
}
template <class C>
TJ_DEVICE void store(Consumer<C>& consumer, const Tile&) {
  const u32 row = dev::warp_index() % 4u * 16u + dev::lane_index() / 4u, column = dev::lane_index() % 4u * 2u;
#pragma unroll
  for (u32 j = 0; j < 8; ++j) {
    dev::store_global(consumer.params.d + row * 64 + 8 * j + column, consumer.sums[j][0], consumer.sums[j][1]);
    dev::store_global(consumer.params.d + (row + 8) * 64 + 8 * j + column, consumer.sums[j][2], consumer.sums[j][3]);
  }
}
}  // namespace user::product
)";
  testing::Scratch scratch_;
};

}  // namespace tj::test
