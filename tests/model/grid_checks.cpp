// Expectations of counters in global memory, by which the blocks of a grid tell each other, on whatever runs the
// primitives: tickets that each go out once, and partial sums that the last block merges. Shared by the tests of the
// model and of a device. Does not show that less would not do: the model's own test does.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "model/primitive_unit.hpp"

namespace tj::testing {
namespace {

// draws: tiles are drawn from a counter. sums: each block leaves a partial sum; the one that draws last adds all of
// them, in order. waits: a block waits for the one behind it. 3 and 4 break rules.
constexpr const char* kUnit = R"(
struct Params { int which; int tiles; u32 blocks; u32* ticket; u32* done; float* partial; float* out; };

TJ_DEVICE u32 drawn(u32* ticket) {
  u32 tile = 0;
  if (thread_index() == 0) tile = draw_global(ticket);
  return shuffle_from(tile, 0);
}

TJ_DEVICE void draws(const Params& p) {
  const u32 last = static_cast<u32>(p.tiles) + p.blocks - 1;  // each block draws one too many
  for (;;) {
    const u32 tile = drawn(p.ticket);
    if (thread_index() == 0 && tile == last) reset_global<1>(p.ticket);
    if (tile >= static_cast<u32>(p.tiles)) return;
    if (thread_index() == 0) store_global(p.out + tile, static_cast<float>(block_index()));
  }
}

TJ_DEVICE void sums(const Params& p) {
  const u32 tile = drawn(p.ticket);
  store_global(p.partial + tile * 64 + thread_index(), static_cast<float>(tile + 1));
  block_sync<2>();
  if (thread_index() == 0) signal_global<3>(p.done, 1);
  if (tile + 1 != p.blocks) return;  // all others have been drawn
  if (thread_index() == 0) wait_global<4>(p.done, p.blocks);
  block_sync<5>();
  float sum = 0;
  for (u32 i = 0; i < p.blocks; ++i) sum += load_global(p.partial + i * 64 + thread_index());
  store_global(p.out + thread_index(), sum);
  if (thread_index() == 0) {
    reset_global<6>(p.done);
    reset_global<7>(p.ticket);
  }
}

TJ_DEVICE void waits(const Params& p) {
  if (block_index() + 1 < p.blocks) wait_global<8>(p.done, p.blocks - 1 - block_index());
  if (thread_index() == 0) signal_global<9>(p.done, 1);
}

TJ_KERNEL(kernel, 64, Params, p) {
  switch (p.which) {
    case 0: draws(p); break;
    case 1: sums(p); break;
    case 2: waits(p); break;
    case 3: store_global(p.out + thread_index() / 2, 1.0f); break;
    case 4:
      if (thread_index() == 0) {
        signal_global<10>(p.done, 1);
        store_global(reinterpret_cast<float*>(p.done), 0.0f);
      }
      break;
  }
}
)";

}  // namespace

std::string_view counters_text() { return kUnit; }

void check_counters(PrimitiveUnit& unit, unsigned lanes) {
  constexpr unsigned kBlocks = 4, kTiles = 64;
  CountersParams params{0,
                        kTiles,
                        kBlocks,
                        unit.upload(std::vector<unsigned>{0}),
                        unit.upload(std::vector<unsigned>{0}),
                        unit.upload(std::vector<float>(kTiles * kBlocks, -1)),
                        unit.upload(std::vector<float>(kTiles, -1))};
  PrimitiveUnit::Start start;
  start.smem_bytes = 1024;
  start.blocks = kBlocks;
  start.across_blocks = 1;
  for (int again = 0; again < 3; ++again) {  // each launch leaves the counters as it found them
    params.which = 0;
    unit.run(params, lanes, start);
    const std::vector<float> blocks = unit.download(params.out, kTiles);
    CHECK(std::all_of(blocks.begin(), blocks.end(), [](float block) { return block >= 0 && block < kBlocks; }));
    params.which = 1;
    unit.run(params, lanes, start);
    CHECK(unit.download(params.out, lanes) == std::vector<float>(lanes, 10));
    CHECK(unit.download(params.ticket, 1)[0] == 0);
    CHECK(unit.download(params.done, 1)[0] == 0);
  }
}

}  // namespace tj::testing
