// Units of tensor memory that tests run on the model and compile for devices: order of work in a block and in a pair.
// Their texts alone.
#include "model/primitive_texts.hpp"

namespace tj::testing {

// All elements of the operands in shared memory are 1. Products of one lane of warp 4: s = a b, a stage ahead of o += p
// b. Warps 0 to 3 load s and store p, all of 1, in its place beside it.
std::string_view tensor_order_text() {
  return R"(
struct Params { float* out; int count, which; };
constexpr u32 kFull = 0, kEmpty = 8, kStored = 16, kDone = 24, kPlace = 32, kA = 1024, kB = kA + 16384;
constexpr u32 kSums = 0, kP = 32, kOut = 64, kColumns = 128;

TJ_DEVICE u32 begin(u32 threads) {
  const u32 shared = shared_base();
  if (warp_index() == 0) tensor_allocate(shared + kPlace, kColumns);
  if (thread_index() == 0) {
    mbarrier_init(shared + kFull, 1);
    mbarrier_init(shared + kEmpty, 4);
    mbarrier_init(shared + kStored, 128);
    mbarrier_init(shared + kDone, 1);
    mbarrier_init_done();
  }
  for (u32 i = thread_index(); i < (16384 + 4096) / 4; i += threads) store_shared(shared + kA + 4 * i, 0x3c003c00u);
  proxy_fence<1>();
  block_sync();
  return load_shared<u32>(shared + kPlace);
}
TJ_DEVICE void end(u32 tensor) {
  block_sync();
  if (warp_index() == 0) tensor_free(tensor, kColumns);
}

TJ_DEVICE void issue_sums(u32 tensor) {
  constexpr u32 kInstruction = matrix_instruction<128, 32, 0>(F16{});
  const u32 shared = shared_base();
  matrix_multiply_steps<MatrixSteps<4, 32, 32>>(tensor + kSums, matrix_operand(shared + kA, 16, 1024), matrix_operand(shared + kB, 16, 1024), kInstruction, false);
}
TJ_DEVICE void issue(const Params& p, u32 tensor) {
  constexpr u32 kInstruction = matrix_instruction<128, 32, 0>(F16{});
  const u32 shared = shared_base();
  issue_sums(tensor);
  matrix_commit<2>(shared + kFull);
  for (u32 i = 0; i < static_cast<u32>(p.count); ++i) {
    mbarrier_wait<3>(shared + kEmpty, i & 1);
    tensor_after_sync<4>();
    if (i + 1 < static_cast<u32>(p.count)) {
      issue_sums(tensor);
      matrix_commit<5>(shared + kFull);
    }
    mbarrier_wait<6>(shared + kStored, i & 1);
    tensor_after_sync<7>();
    matrix_multiply_tensor_steps<MatrixSteps<2, 0, 32>>(tensor + kOut, tensor + kP, matrix_operand(shared + kB, 16, 1024), kInstruction, i > 0);
    matrix_commit<8>(shared + kDone);
  }
}
TJ_DEVICE void rows(const Params& p, u32 tensor) {
  const u32 shared = shared_base(), mine = tensor_lanes(tensor);
  float v[32];
  for (u32 i = 0; i < static_cast<u32>(p.count); ++i) {
    mbarrier_wait<9>(shared + kFull, i & 1);
    tensor_after_sync<10>();
    tensor_load(mine + kSums, v);
    tensor_load_wait<11>();
    tensor_before_sync<12>();
    warp_sync<13>();
    if (lane_index() == 0) mbarrier_arrive<14>(shared + kEmpty);
    if (i > 0) {
      mbarrier_wait<15>(shared + kDone, (i - 1) & 1);
      tensor_after_sync<16>();
    }
    u32 words[16];
    for (u32 c = 0; c < 16; ++c) words[c] = pack(F16{}, v[2 * c] / 64.0f, v[2 * c + 1] / 64.0f);
    tensor_store(mine + kP, words);
    tensor_store_wait<17>();
    tensor_before_sync<18>();
    mbarrier_arrive<19>(shared + kStored);
  }
  mbarrier_wait<20>(shared + kDone, static_cast<u32>(p.count - 1) & 1);
  tensor_after_sync<21>();
  tensor_load(mine + kOut, v);
  tensor_load_wait<22>();
  for (u32 c = 0; c < 32; ++c) p.out[thread_index() * 32 + c] = v[c];
}

TJ_KERNEL(loop, 160, Params, p) {
  const u32 tensor = begin(160);
  if (warp_index() < 4) rows(p, tensor);
  else if (elect_one()) issue(p, tensor);
  end(tensor);
}

TJ_KERNEL(rules, 160, Params, p) {
  const u32 tensor = begin(160), shared = shared_base(), mine = tensor_lanes(tensor);
  float v[32] = {};
  const bool one = warp_index() == 4 && elect_one();
  constexpr u32 kInstruction = matrix_instruction<128, 32, 0>(F16{}), kWide = matrix_instruction<128, 64, 0>(F16{});
  const u64 a = matrix_operand(shared + kA, 16, 1024), b = matrix_operand(shared + kB, 16, 1024);
  if (p.which == 0 && warp_index() < 4) tensor_load(mine, v);
  if (p.which == 1 && one) matrix_multiply(tensor, a, b, kInstruction, true);
  if (p.which == 2 && (one || thread_index() == 0)) matrix_multiply(tensor, a, b, kInstruction, false);
  if (p.which == 3 && one) {
    matrix_multiply(tensor, a, b, kInstruction, false);
    matrix_multiply(tensor, a, a, kWide, false);
  }
  if (p.which == 4 && one) matrix_multiply(tensor, a, b, kInstruction, false);
  if (p.which >= 5 && p.which <= 8 && warp_index() < 4) {
    tensor_store(mine, v);
    if (p.which != 5) tensor_store_wait<30>();
    if (p.which != 8) tensor_load(mine, v);
    if (p.which == 6) tensor_store(mine, v);
    tensor_load_wait<31>();
    tensor_store_wait<32>();
    if (p.which == 8 && lane_index() == 0) tensor_before_sync<33>();
  }
  if (p.which == 7 || p.which == 8) {
    if (p.which == 7) tensor_before_sync<34>();
    block_sync();
    tensor_after_sync<35>();
    if (one) matrix_multiply(tensor, a, b, kInstruction, true);
    if (one) matrix_commit<36>(shared + kDone);
    if (p.which == 7 && warp_index() == 0) mbarrier_wait<37>(shared + kDone, 0);
  }
  if (p.which == 9 || p.which == 10) {
    if (one) {
      matrix_multiply(tensor, a, b, kInstruction, false);
      matrix_commit<38>(shared + kDone);
    }
    if (p.which == 10) mbarrier_wait<39>(shared + kDone, 0);
    block_sync();
    store_shared(shared + kA + 4 * thread_index(), 0u);
    if (p.which == 9) mbarrier_wait<40>(shared + kDone, 0);
  }
  end(tensor);
}
)";
}

std::string_view tensor_pair_text() {
  return R"(
struct alignas(64) Params {
  tj::TensorMap a, b;
  const unsigned* left;
  float* out;
  int in_tensor, which;
};
constexpr u32 kCopied = 0, kReady = 8, kStored = 16, kDone = 24, kPlace = 32, kA = 1024, kB = kA + 16384, kLeftColumn = 64;

TJ_DEVICE void issue(const Params& p, u32 tensor) {
  constexpr u32 kInstruction = matrix_instruction<256, 64, 0>(F16{});
  using Steps = MatrixSteps<4, 32, 32>;
  const u32 shared = shared_base();
  const u64 a = matrix_operand(shared + kA, 16, 1024), b = matrix_operand(shared + kB, 16, 1024);
  if (p.which != 5) mbarrier_wait<5>(shared + kReady, 0);
  if (p.in_tensor) {
    mbarrier_wait<6>(shared + kStored, 0);
    tensor_after_sync<7>();
    matrix_multiply_tensor_steps<Steps, 2>(tensor, tensor + kLeftColumn, b, kInstruction, false);
  } else {
    matrix_multiply_steps<Steps, 2>(tensor, a, b, kInstruction, false);
  }
  matrix_commit_multicast<8, 2>(shared + kDone, 3);
}
TJ_DEVICE void copy_for_pair(const Params& p, u32 tensor) {
  const u32 shared = shared_base(), rank = cluster_rank();
  if (rank == 0) mbarrier_expect<2>(shared + kCopied, 2 * (16384 + 4096));
  copy_box_4d_for_pair(shared + kA, &p.a, shared + kCopied, 0, static_cast<int>(128 * rank), 0, 0);
  copy_box_4d_for_pair(shared + kB, &p.b, shared + kCopied, 0, static_cast<int>(32 * rank), 0, 0);
  if (rank != 0) return;
  mbarrier_wait<3>(shared + kCopied, 0);
  issue(p, tensor);
}
TJ_DEVICE void copy(const Params& p, u32 tensor) {
  const u32 shared = shared_base(), rank = cluster_rank();
  if (p.which == 5) return copy_for_pair(p, tensor);
  mbarrier_expect<2>(shared + kCopied, 16384 + 4096);
  copy_box_4d(shared + kA, &p.a, shared + kCopied, 0, static_cast<int>(128 * rank), 0, 0);
  copy_box_4d(shared + kB, &p.b, shared + kCopied, 0, static_cast<int>(32 * rank), 0, 0);
  mbarrier_wait<3>(shared + kCopied, 0);
  if (p.which == 1 && rank == 1) matrix_multiply_steps<MatrixSteps<4, 32, 32>, 2>(tensor, matrix_operand(shared + kA, 16, 1024), matrix_operand(shared + kB, 16, 1024), matrix_instruction<256, 64, 0>(F16{}), false);
  mbarrier_arrive_at<4>(shared + kReady, 0);
  if (rank == 0) issue(p, tensor);
}
TJ_DEVICE void rows(const Params& p, u32 tensor) {
  const u32 shared = shared_base(), row = 128 * cluster_rank() + thread_index(), mine = tensor_lanes(tensor);
  if (p.in_tensor) {
    u32 words[32];
    for (u32 i = 0; i < 32; ++i) words[i] = p.left[row * 32 + i];
    tensor_store(mine + kLeftColumn, words);
    tensor_store_wait<9>();
    tensor_before_sync<10>();
    mbarrier_arrive_at<11>(shared + kStored, 0);
  }
  if (p.which == 6 && cluster_rank() == 1) return;
  mbarrier_wait<12>(shared + kDone, 0);
  tensor_after_sync<13>();
  float v[64];
  tensor_load(mine, v);
  tensor_load_wait<14>();
  for (u32 c = 0; c < 64; ++c) p.out[row * 64 + c] = v[c];
}

TJ_KERNEL(kernel, 192, Params, p) {
  const u32 shared = shared_base();
  if (warp_index() == 5 && (p.which != 3 || cluster_rank() == 0)) tensor_allocate<2>(shared + kPlace, p.which == 4 ? 64 + 64 * cluster_rank() : 128);
  if (thread_index() == 0) {
    mbarrier_init(shared + kCopied, 1);
    mbarrier_init(shared + kReady, 2);
    mbarrier_init(shared + kStored, 256);
    mbarrier_init(shared + kDone, 1);
    mbarrier_init_done();
  }
  block_sync();
  cluster_sync<1>();
  const u32 tensor = load_shared<u32>(shared + kPlace);
  if (warp_index() == 4) {
    if (elect_one()) copy(p, tensor);
  } else if (warp_index() < 4) {
    rows(p, tensor);
  }
  if (p.which == 7) block_sync();
  else cluster_sync_all<15>();
  if (warp_index() == 5) {
    tensor_relinquish<2>();
    tensor_free<2>(tensor, 128);
  }
}
)";
}

}  // namespace tj::testing
