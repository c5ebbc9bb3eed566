// Units of tensor memory that tests run on the model and compile for devices: the effect of each primitive. Their texts
// alone.
#include "model/primitive_texts.hpp"

namespace tj::testing {

// Warps 0 to 3 store the left operand and read the sums, each its lanes. One lane of warp 4 copies and multiplies; warp
// 5 allocates.
std::string_view tensor_matrix_text() {
  return R"(
struct alignas(64) Params {
  tj::TensorMap a, b;
  const unsigned* left;
  float* out;
  int columns, bf16, in_tensor, right_mn, left_mn, fragments, few, which;  // few: the first 64 rows, in the lower or (2) the upper lanes
};
constexpr u32 kCopied = 0, kDone = 8, kStored = 16, kPlace = 24, kA = 1024, kB = kA + 16384;
constexpr u32 kLeftColumn = 256;

TJ_DEVICE void copy(const Params& p) {
  const u32 shared = shared_base();
  const u32 across = p.right_mn ? (static_cast<u32>(p.columns) + 63) / 64 : 1;
  const u32 down = p.left_mn ? 2 : 1;
  mbarrier_expect<1>(shared + kCopied, 16384u + (p.right_mn ? across * 8192u : static_cast<u32>(p.columns) * 128u));
  if (p.which == 10) copy_box_4d(shared + kB + 8192, &p.b, shared + kCopied, 32, 0, 0, 0);
  for (u32 i = 0; i < down; ++i) copy_box_4d(shared + kA + i * 8192, &p.a, shared + kCopied, static_cast<int>(64 * i), 0, 0, 0);
  for (u32 i = 0; i < across; ++i) copy_box_4d(shared + kB + i * 8192, &p.b, shared + kCopied, static_cast<int>(64 * i), 0, 0, 0);
}

template <int MnMajor>
TJ_DEVICE void multiply(const Params& p, u32 tensor, u32 instruction) {
  using Steps = MatrixSteps<4, (MnMajor & kLeftMn) != 0 ? 2048 : 32, (MnMajor & kRightMn) != 0 ? 2048 : 32>;
  const u32 shared = shared_base();
  const u64 left = matrix_operand(shared + kA, (MnMajor & kLeftMn) != 0 ? 8192 : 16, 1024);
  const u64 right = matrix_operand(shared + kB, (MnMajor & kRightMn) != 0 ? 8192 : 16, 1024);
  const u64 odd = p.which == 1 ? u64{1} << 49 : p.which == 2 ? u64{1} << 47 : p.which == 3 ? u64{1} << 61 : p.which == 4 ? u64{0x2000} : 0;
  if (p.which == 5) instruction += 1u << 25;
  if (p.which == 6) instruction |= 1u << 13;
  if (p.which == 7) instruction ^= 1u << 10;
  if (p.which == 8) instruction += 2u << 4;
  if (p.which == 9) instruction += 64u << 17;
  if (p.few == 2) tensor = tensor_place(tensor, 16, 0);
  if (p.in_tensor) matrix_multiply_tensor_steps<Steps>(tensor, tensor_place(tensor, p.which == 11 ? 16 : 0, kLeftColumn), right + odd, instruction, false);
  else matrix_multiply_steps<Steps>(tensor, left, right + odd, instruction, false);
}
template <int Rows, int Columns, class Tag>
TJ_DEVICE void by_order(const Params& p, u32 tensor) {
  if (p.left_mn && p.right_mn) multiply<kLeftMn | kRightMn>(p, tensor, matrix_instruction<Rows, Columns, kLeftMn | kRightMn>(Tag{}));
  else if (p.left_mn) multiply<kLeftMn>(p, tensor, matrix_instruction<Rows, Columns, kLeftMn>(Tag{}));
  else if (p.right_mn) multiply<kRightMn>(p, tensor, matrix_instruction<Rows, Columns, kRightMn>(Tag{}));
  else multiply<0>(p, tensor, matrix_instruction<Rows, Columns, 0>(Tag{}));
}
template <int Columns, int Rows = 128>
TJ_DEVICE void by_type(const Params& p, u32 tensor) {
  if (p.bf16) by_order<Rows, Columns, Bf16>(p, tensor);
  else by_order<Rows, Columns, F16>(p, tensor);
}

TJ_DEVICE void issue(const Params& p, u32 tensor) {
  const u32 shared = shared_base();
  copy(p);
  mbarrier_wait<2>(shared + kCopied, 0);
  if (p.in_tensor) {
    mbarrier_wait<3>(shared + kStored, 0);
    tensor_after_sync<4>();
  }
  switch (p.columns) {
    case 16: by_type<16>(p, tensor); break;
    case 48: by_type<48>(p, tensor); break;
    case 96: p.few ? by_type<96, 64>(p, tensor) : by_type<96>(p, tensor); break;
    case 128: by_type<128>(p, tensor); break;
    case 256: by_type<256>(p, tensor); break;
  }
  matrix_commit<5>(shared + kDone);
}

TJ_DEVICE void store_left(const Params& p, u32 tensor) {
  u32 words[32];
  for (u32 i = 0; i < 32; ++i) words[i] = p.left[thread_index() * 32 + i];
  if (p.few) {
    for (u32 i = 0; i < 32; ++i) words[i] = i < 16 ? p.left[(16 * warp_index() + lane_index() / 4 + 8 * (i % 2)) * 32 + 4 * (i / 2) + lane_index() % 4] : 0;
    tensor_store_operand(tensor_place(tensor_lanes(tensor), p.few == 2 ? 16 : 0, kLeftColumn), words);
  } else {
    tensor_store(tensor_place(tensor_lanes(tensor), 0, kLeftColumn), words);
  }
  tensor_store_wait<6>();
  tensor_before_sync<7>();
  mbarrier_arrive<8>(shared_base() + kStored);
}
TJ_DEVICE void read_rows(const Params& p, u32 tensor) {
  const u32 row = thread_index();
  for (int c = 0; c < p.columns; c += 16) {
    float v[16];
    tensor_load(tensor_place(tensor_lanes(tensor), 0, static_cast<u32>(c)), v);
    tensor_load_wait<9>();
    for (int i = 0; i < 16; ++i) p.out[static_cast<int>(row) * p.columns + c + i] = v[i];
  }
}
TJ_DEVICE void read_fragments(const Params& p, u32 tensor) {
  for (u32 half = p.few == 2; half < (p.few == 1 ? 1 : 2); ++half)
    for (int c = 0; c < p.columns; c += 16) {
      float v[8];
      tensor_load_fragment(tensor_place(tensor_lanes(tensor), 16 * half, static_cast<u32>(c)), v);
      tensor_load_wait<10>();
      for (int i = 0; i < 8; ++i) {
        const u32 row = (p.few ? 16 * warp_index() : 32 * warp_index() + 16 * half) + lane_index() / 4 + 8 * (i % 4 / 2), column = c + 8 * (i / 4) + 2 * (lane_index() % 4) + i % 2;
        p.out[row * p.columns + column] = v[i];
      }
    }
}

TJ_KERNEL(kernel, 192, Params, p) {
  const u32 shared = shared_base();
  if (warp_index() == 5) tensor_allocate(shared + kPlace, 512);
  if (thread_index() == 0) {
    mbarrier_init(shared + kCopied, 1);
    mbarrier_init(shared + kDone, 1);
    mbarrier_init(shared + kStored, 128);
    mbarrier_init_done();
  }
  block_sync();
  const u32 tensor = load_shared<u32>(shared + kPlace);
  if (warp_index() == 4) {
    if (elect_one()) issue(p, tensor);
  } else if (warp_index() < 4) {
    if (p.in_tensor) store_left(p, tensor);
    mbarrier_wait<11>(shared + kDone, 0);
    tensor_after_sync<12>();
    if (p.fragments) read_fragments(p, tensor);
    else read_rows(p, tensor);
  }
  block_sync();
  if (warp_index() == 5) {
    tensor_relinquish();
    tensor_free(tensor, 512);
  }
}
)";
}

std::string_view tensor_memory_text() {
  return R"unit(
struct Params { unsigned* out; int which; };

TJ_DEVICE u32 allocated(u32 columns) {
  const u32 place = shared_base() + 8;
  if (warp_index() == 0) tensor_allocate(place, columns);
  block_sync();
  return load_shared<u32>(place);
}
TJ_DEVICE void freed(u32 tensor, u32 columns) {
  block_sync();
  if (warp_index() == 0) tensor_free(tensor, columns);
}

// Each cell of 64 columns gets lane * 1000 + column, written in one shape and read in the other, by another warp of the same lanes.
TJ_KERNEL(shapes, 256, Params, p) {
  const u32 tensor = allocated(64), lane = lane_index(), base = 32 * (warp_index() % 4), mine = tensor_lanes(tensor);
  const bool writes = p.which < 2 ? warp_index() < 4 : warp_index() >= 4, in_rows = p.which % 2 == 0;
  if (writes && in_rows) {
    u32 v[64];
    for (u32 c = 0; c < 64; ++c) v[c] = (base + lane) * 1000 + c;
    tensor_store(mine, v);
  } else if (writes) {
    for (u32 half = 0; half < 2; ++half) {
      u32 v[32];
      for (u32 i = 0; i < 32; ++i) v[i] = (base + 16 * half + lane / 4 + 8 * (i % 4 / 2)) * 1000 + 8 * (i / 4) + 2 * (lane % 4) + i % 2;
      tensor_store_fragment(tensor_place(mine, 16 * half, 0), v);
    }
  }
  tensor_store_wait<1>();
  tensor_before_sync<2>();
  block_sync();
  tensor_after_sync<3>();
  if (!writes && in_rows) {
    for (u32 half = 0; half < 2; ++half) {
      u32 v[32];
      tensor_load_fragment(tensor_place(mine, 16 * half, 0), v);
      tensor_load_wait<4>();
      for (u32 i = 0; i < 32; ++i) p.out[(base + 16 * half + lane / 4 + 8 * (i % 4 / 2)) * 64 + 8 * (i / 4) + 2 * (lane % 4) + i % 2] = v[i];
    }
  } else if (!writes) {
    u32 v[64];
    tensor_load(mine, v);
    tensor_load_wait<5>();
    for (u32 c = 0; c < 64; ++c) p.out[(base + lane) * 64 + c] = v[c];
  }
  freed(tensor, 64);
}

// Cells in the shape of a left operand, against rows.
TJ_KERNEL(operands, 256, Params, p) {
  const u32 tensor = allocated(64), lane = lane_index(), base = 32 * (warp_index() % 4), mine = tensor_lanes(tensor);
  const bool writes = warp_index() < 4, in_rows = p.which % 2 == 0;
  u32 v[64], part[32];
  if (writes && in_rows) {
    for (u32 c = 0; c < 64; ++c) v[c] = (base + lane) * 1000 + c;
    tensor_store(mine, v);
  } else if (writes) {
    for (u32 half = 0; half < 2; ++half) {
      for (u32 i = 0; i < 32; ++i) part[i] = (base + 16 * half + lane / 4 + 8 * (i % 2)) * 1000 + 4 * (i / 2) + lane % 4;
      tensor_store_operand(tensor_place(mine, 16 * half, 0), part);
    }
  }
  tensor_store_wait<1>();
  tensor_before_sync<2>();
  block_sync();
  tensor_after_sync<3>();
  if (!writes && in_rows) {
    for (u32 half = 0; half < 2; ++half) {
      tensor_load_operand(tensor_place(mine, 16 * half, 0), part);
      tensor_load_wait<4>();
      for (u32 i = 0; i < 32; ++i) p.out[(base + 16 * half + lane / 4 + 8 * (i % 2)) * 64 + 4 * (i / 2) + lane % 4] = part[i];
    }
  } else if (!writes) {
    tensor_load(mine, v);
    tensor_load_wait<5>();
    for (u32 c = 0; c < 64; ++c) p.out[(base + lane) * 64 + c] = v[c];
  }
  freed(tensor, 64);
}

// Two warps that want all columns take turns: the second waits until the first has freed them.
TJ_KERNEL(turns, 64, Params, p) {
  const u32 place = shared_base() + 4 * warp_index();
  tensor_allocate(place, 512);
  warp_sync();
  const u32 tensor = load_shared<u32>(place);
  u32 v[1] = {7 + warp_index()};
  tensor_store(tensor_lanes(tensor), v);
  tensor_store_wait<1>();
  tensor_load(tensor_lanes(tensor), v);
  tensor_load_wait<2>();
  p.out[thread_index()] = v[0];
  tensor_free(tensor, 512);
}

TJ_KERNEL(allocations, 64, Params, p) {
  const u32 place = shared_base();
  if (warp_index() == 1) return;
  u32 columns = 64;
  if (p.which == 0) columns = 48;
  if (p.which == 1) columns = 16;
  if (p.which == 2) columns = 1024;
  if (p.which == 3) columns = lane_index() < 31 ? 64 : 32;
  tensor_allocate(place, columns);
  warp_sync();
  const u32 tensor = load_shared<u32>(place);
  if (p.which == 4) tensor_allocate(place + 4, 128);
  if (p.which == 5) tensor_relinquish();
  if (p.which == 5) tensor_allocate(place + 4, 32);
  if (p.which == 6) return;
  if (p.which == 10) {
    u32 v[64] = {};
    tensor_allocate(place + 4, 32);
    warp_sync();
    tensor_store(load_shared<u32>(place + 4), v);
  }
  if (p.which == 7) tensor_free(tensor, 32);
  if (p.which == 8) tensor_free(tensor + 32, 64);
  tensor_free(tensor, 64);
  if (p.which == 9) tensor_free(tensor, 64);
}

TJ_KERNEL(deadlock, 32, Params, p) {
  tensor_allocate(shared_base(), 512);
  tensor_allocate(shared_base() + 4, static_cast<u32>(p.which));
}
TJ_NOTES(deadlock, R"({"name": "k", "sites": [], "rings": [], "calls": [], "waits": [], "entry_registers": 32,
  "roles": [{"name": "taker", "first_warp": 0, "warps": 1, "single_thread": false, "registers": 32}]})")

TJ_KERNEL(accesses, 128, Params, p) {
  const u32 tensor = allocated(64), mine = tensor_lanes(tensor);
  float v[32] = {}, one[1] = {};
  tensor_store(mine, v);
  tensor_store(tensor_place(mine, 0, 32), v);
  tensor_store_wait<1>();
  if (p.which == 0) tensor_load(tensor_place(mine, 0, 40), v);
  if (p.which == 1) tensor_load(tensor - 64, v);
  if (p.which == 2) tensor_load(tensor, v);
  if (p.which == 3) tensor_load(tensor_place(mine, 16, 0), v);
  if (p.which == 4) tensor_load_fragment(tensor_place(mine, 8, 0), v);
  if (p.which == 5) tensor_load(tensor_place(mine, 0, lane_index() / 31), one);
  if (p.which == 6 && lane_index() < 16) tensor_load(mine, v);
  if (p.which == 7) {
    if (lane_index() < 16) tensor_load(mine, v);
    else tensor_store(mine, v);
  }
  if (p.which == 8) {
    tensor_load(mine, v);
    v[3] = 0;
  }
  if (p.which == 9) {
    tensor_load(mine, v);
    return;
  }
  if (p.which == 10) {
    tensor_store(mine, v);
    return;
  }
  if (p.which == 11) {
    u32 words[32];
    tensor_load(mine, words);
    p.out[thread_index()] = words[5];
  }
  if (p.which == 14 || p.which == 15) tensor_load(mine, v);
  if (p.which == 14) tensor_load(mine, v);
  if (p.which == 15) tensor_store(tensor_place(mine, 0, 32), v);
  if (p.which == 12) tensor_store(tensor_place(tensor, 128, 0), one);
  tensor_load_wait<2>();
  freed(tensor, 64);
  if (p.which != 13) return;
  block_sync();
  tensor_load(mine, v);
}
)unit";
}

}  // namespace tj::testing
