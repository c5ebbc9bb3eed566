// Units for the primitives of a wave, on whatever runs them: texts alone, which the tests of the model run and others
// compile.
#include "model/primitive_texts.hpp"

namespace tj::testing {
namespace {

// d = left right for one tile. Then d, rounded, as the right operand of left and as the left operand of right, and what
// each lane owns of it. Then d as the right operand once more, with K as sums come, of left in that order.
constexpr const char* kProducts = R"(
struct Params { const char* left; const char* right; float* out; unsigned short* own; int bf16, wrong_lane, wrong_element; };

TJ_DEVICE void store_sums(float* out, const float (&d)[kSums]) {
#pragma unroll
  for (int v = 0; v < kSums; ++v) store_global(out + sum_row(v) * 16 + sum_column(), d[v]);
}
TJ_DEVICE void load_operand(const char* from, u32 (&words)[kOperandWords]) {  // lines of 16 elements, K in order
#pragma unroll
  for (u32 w = 0; w < kOperandWords; ++w) words[w] = load_global_u32(from + operand_row() * 32 + operand_k() * 2 + 4 * w);
}
TJ_DEVICE void load_as_sums_come(const char* from, u32 (&words)[kOperandWords]) {
#pragma unroll
  for (u32 w = 0; w < kOperandWords; ++w) {
    const char* line = from + operand_row() * 32;
    words[w] = load_global_u16(line + 2 * row_at(operand_k() + 2 * w)) | load_global_u16(line + 2 * row_at(operand_k() + 2 * w + 1)) << 16;
  }
}
template <class Tag>
TJ_DEVICE void products(const Params& p) {
  u32 a[kOperandWords], b[kOperandWords], chained[kOperandWords], own[kOwnWords], turned[kOperandWords];
  load_operand(p.left, a);
  load_operand(p.right, b);
#pragma unroll
  for (int e = 0; e < 2 * kOperandWords; ++e)
    if (static_cast<int>(lane_index()) == p.wrong_lane && e == p.wrong_element) a[e / 2] ^= 0x0400u << (e % 2 * 16);
  float d[kSums] = {}, from_right[kSums] = {}, from_left[kSums] = {}, from_own[kSums] = {};
  mma_m16n16k16(Tag{}, d, a, b);
  store_sums(p.out, d);
  sums_as_operand(Tag{}, d, chained);
  mma_m16n16k16(Tag{}, from_right, a, chained);
  mma_m16n16k16(Tag{}, from_left, chained, b);
  store_sums(p.out + 256, from_right);
  store_sums(p.out + 512, from_left);
  load_as_sums_come(p.left, turned);
  sums_as_own_operand(Numbers<Tag>{}, d, chained);
  mma_m16n16k16(Tag{}, from_own, turned, chained);
  store_sums(p.out + 768, from_own);
  sums_as_operand(Numbers<Tag>{}, d, chained);
  own_part(chained, own);
#pragma unroll
  for (u32 w = 0; w < kOwnWords; ++w) store_global(p.own + operand_row() * 16 + own_k() + 2 * w, own[w]);
}

TJ_KERNEL(kernel, kWave, Params, p) {
  if (p.bf16) products<Bf16>(p);
  else products<F16>(p);
}
)";

// d += left right for one tile of e4m3, 32 of K.
constexpr const char* kNarrow = R"(
struct Params { const char* left; const char* right; float* out; };
TJ_DEVICE void load_operand(const char* from, u32 (&words)[kOperandWords]) {
#pragma unroll
  for (u32 w = 0; w < kOperandWords; ++w) words[w] = load_global_u32(from + operand_row() * 32 + operand_k() * 2 + 4 * w);
}
TJ_KERNEL(kernel, kWave, Params, p) {
  u32 a[kOperandWords], b[kOperandWords];
  load_operand(p.left, a);
  load_operand(p.right, b);
  float d[kSums];
#pragma unroll
  for (int v = 0; v < kSums; ++v) d[v] = load_global(p.out + sum_row(v) * 16 + sum_column());
  mma_m16n16k32(E4m3{}, d, a, b);
#pragma unroll
  for (int v = 0; v < kSums; ++v) store_global(p.out + sum_row(v) * 16 + sum_column(), d[v]);
}
)";

// Exchange in a wave, by every primitive, and accesses to shared memory of every size.
constexpr const char* kExchange = R"(
struct Params { u32* out; int lane; };

TJ_DEVICE u32 accesses(u32 base) {
  const u32 mine = base + 64 * lane_index(), value = 0x01010101u * lane_index();
  u32 eight[8], four[4], two[2], one[1];
#pragma unroll
  for (u32 w = 0; w < 8; ++w) eight[w] = value + w;
  store_shared(mine, eight);
  load_shared(mine + 16, four);
  load_shared(mine + 8, two);
  load_shared(mine + 28, one);
  store_shared(mine + 32, four);
  store_shared(mine + 48, two);
  store_shared(mine + 56, one);
  store_shared_u16(mine + 60, one[0]);
  store_shared_u16(mine + 62, load_shared_u16(mine + 48));
  load_shared(mine + 32, eight);
  u32 wrong = 0;
#pragma unroll
  for (u32 w = 0; w < 4; ++w) wrong += eight[w] != value + 4 + w;
  wrong += eight[4] != value + 2;
  wrong += eight[5] != value + 3;
  wrong += eight[6] != value + 7;
  wrong += eight[7] != low_halves(value + 7, value + 2);
  wrong += high_halves(eight[0], eight[1]) != ((value + 4) >> 16 | ((value + 5) & 0xffff0000u));
  wrong += load_shared<u32>(mine + 4) != value + 1;
  float numbers[4];
  load_shared(mine, numbers);
  store_shared(mine + 16, numbers);
  store_shared(mine + 32, load_shared<float>(mine + 16));
  wrong += load_shared<u32>(mine + 32) != value;
  return wrong;
}

TJ_KERNEL(kernel, kWave, Params, p) {
  u32* out = p.out + lane_index();
  const u32 lane = lane_index(), value = 1000 + lane;
  store_global(out + 0 * kWave, shuffle_xor(value, 5));
  store_global(out + 1 * kWave, shuffle_xor<16>(value));
  store_global(out + 2 * kWave, shuffle_xor<static_cast<int>(kWave) / 2>(value));
  store_global(out + 3 * kWave, shuffle_from(value, static_cast<int>(kWave - 1 - lane)));
  store_global(out + 4 * kWave, any_in_warp(static_cast<int>(lane) == p.lane) ? 1u : 0u);
  u32 low = lane, high = 100 + lane;
  trade<8>(low, high);
  store_global(out + 5 * kWave, low);
  store_global(out + 6 * kWave, high);
  store_global(out + 7 * kWave, warp_index());
  store_global(out + 8 * kWave, accesses(shared_base()));
  store_global(out + 9 * kWave, shuffle_xor<1>(1.0f + static_cast<float>(lane)) == 1.0f + static_cast<float>(lane ^ 1u) ? 1u : 0u);
}
)";

// Each wave writes what the next one reads; each lane what its neighbour reads.
constexpr const char* kBarriers = R"(
struct Params { u32* out; int turns; };
TJ_KERNEL(kernel, 256, Params, p) {
  const u32 base = shared_base(), mine = thread_index(), next = (mine + kWave) % 256, neighbour = mine ^ 1u;
  u32 wrong = 0;
  store_shared(base + 4 * mine, 0u);
  store_shared(base + 1024 + 4 * mine, 0u);
  block_sync();
  for (u32 turn = 0; turn < static_cast<u32>(p.turns); ++turn) {
    store_shared(base + 4 * mine, 1000 * turn + mine);
    store_shared(base + 1024 + 4 * mine, 1000 * turn + mine);
    warp_sync<1>();
    wrong += load_shared<u32>(base + 1024 + 4 * neighbour) != 1000 * turn + neighbour;
    block_sync<2>();
    wrong += load_shared<u32>(base + 4 * next) != 1000 * turn + next;
    block_sync<3>();
  }
  store_global(p.out + mine, wrong);
}
)";

}  // namespace

std::string_view narrow_wave_text() { return kNarrow; }
std::string_view wave_products_text() { return kProducts; }
std::string_view wave_exchange_text() { return kExchange; }
std::string_view wave_barriers_text() { return kBarriers; }

}  // namespace tj::testing
