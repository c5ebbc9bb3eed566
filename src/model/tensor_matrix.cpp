// See tensor_matrix.hpp.
#include "model/tensor_matrix.hpp"

#include <algorithm>
#include <cstring>

#include "model/cluster.hpp"
#include "model/operand.hpp"
#include "support/fail.hpp"

namespace tj::model {
namespace {

using support::cat;

constexpr unsigned kRows = 128;  ///< lanes of a block
constexpr unsigned kFewRows = 64,
                   kSpread = 16;  ///< or so many rows, each 16 in lanes that begin 32 after those before

template <class Decode>
auto decoded(const Thread& thread, const char* what, Decode&& decode) {
  try {
    return decode();
  } catch (const Error& e) {
    fault(thread, cat("matrix_multiply, ", what, ": ", e.message));
  }
}

/// The cells of all rows of a block's part of a product.
TensorRange cells(const Block& block, const Thread& thread, const TensorInstruction& of, std::uint32_t tensor,
                  unsigned columns, const char* what) {
  if (of.rows != kFewRows) return block.tensor.range(thread, tensor, kRows, columns, what);
  TensorRange range = block.tensor.range(thread, tensor, 2 * kFewRows - kSpread, columns, what);
  if (range.lane % kSpread != 0)
    fault(thread, cat(what, " of 64 rows from lane ", range.lane, " of tensor memory on; allowed are 0 and ", kSpread));
  range.apart = true;
  return range;
}

/// The lane of a row.
unsigned lane_of(const TensorRange& range, unsigned row) {
  return range.lane + row + (range.apart ? row / kSpread * kSpread : 0);
}

/// Rows in one block.
unsigned rows_of(const TensorInstruction& of) { return std::min(of.rows, kRows); }

void transpose(const float* from, unsigned rows, unsigned columns, float* to) {
  for (unsigned i = 0; i < rows; ++i)
    for (unsigned j = 0; j < columns; ++j) to[j * rows + i] = from[i * columns + j];
}

}  // namespace

TensorInstruction TensorInstruction::decode(std::uint32_t descriptor, unsigned blocks) {
  const auto field = [&](int bit, int bits) { return descriptor >> bit & ((1u << bits) - 1u); };
  // Not known: sparsity (0-2), saturation (3), negation (13, 14), shift (30-31); 6, 23 and 29 are reserved.
  constexpr std::uint32_t kKnown = 3u << 4 | 7u << 7 | 7u << 10 | 3u << 15 | 0x3fu << 17 | 0x1fu << 24;
  if ((descriptor & ~kKnown) != 0)
    fault(cat("the descriptor ", hex(descriptor),
              " has bits set that the model does not know: ", hex(descriptor & ~kKnown)));
  if (field(4, 2) != 1)
    fault(cat("the descriptor ", hex(descriptor), " has sums of type ", field(4, 2), "; allowed is 1, f32"));
  if (field(7, 3) > 1 || field(10, 3) != field(7, 3))
    fault(cat("the descriptor ", hex(descriptor), " has operands of types ", field(7, 3), " and ", field(10, 3),
              "; allowed are two of 0, f16, or two of 1, bf16"));
  const unsigned rows = field(24, 5) << 4, columns = field(17, 6) << 3, step = rows / 8;
  if (rows != kRows * blocks && (rows != kFewRows || blocks != 1))
    fault(cat("the descriptor ", hex(descriptor), " has ", rows, " rows; allowed are ",
              blocks == 1 ? "64 and 128 for one block" : "256 for a pair of blocks"));
  if (columns == 0 || columns > static_cast<unsigned>(kMaxMatrixColumns) || columns % step != 0)
    fault(cat("the descriptor ", hex(descriptor), " has ", columns, " columns; allowed are multiples of ", step,
              " up to ", kMaxMatrixColumns));
  return {field(7, 3) == 0 ? TJ_MODEL_F16 : TJ_MODEL_BF16, field(15, 1) != 0, field(16, 1) != 0, rows, columns};
}

MatrixOperand decode_tensor_operand(std::uint64_t descriptor) {
  const auto field = [&](int bit) { return static_cast<std::uint32_t>(descriptor >> bit & 0x3fffu) << 4; };
  // Bits 49-51 are a base offset, needed only where a swizzle pattern does not begin at a multiple of its size. Bit 52
  // makes the leading offset an address, for 48 bytes of K.
  constexpr std::uint64_t kKnown = 0x3fffull | 0x3fffull << 16 | 0x3fffull << 32 | 7ull << 46 | 7ull << 61;
  if ((descriptor & ~kKnown) != 0)
    fault(cat("the descriptor ", hex(descriptor),
              " has bits set that the model does not know: ", hex(descriptor & ~kKnown)));
  if ((descriptor >> 46 & 7u) != 1)
    fault(cat("the descriptor ", hex(descriptor), " has ", descriptor >> 46 & 7u,
              " in bits 46 to 48; allowed is 1, which tells it from sm_90's"));
  const auto mode = static_cast<unsigned>(descriptor >> 61);
  std::uint32_t swizzle = 0;
  switch (mode) {
    case 0:
      break;
    case 2:
      swizzle = 128;
      break;
    case 4:
      swizzle = 64;
      break;
    case 6:
      swizzle = 32;
      break;
    default:
      fault(cat("the descriptor ", hex(descriptor), " has swizzle mode ", mode,
                "; allowed are 0 (none), 2 (128 bytes), 4 (64) and 6 (32)"));
  }
  return {field(0), field(16), field(32), swizzle};
}

TensorMatrixUnit::TensorMatrixUnit(Block& block) : block_(block), scheduler_(block.scheduler) {}

// ---- issue --------------------------------------------------------------------------------------

TensorMatrixUnit::Queue& TensorMatrixUnit::queue_of(const Thread& thread) {
  const auto found =
      std::find_if(queues_.begin(), queues_.end(), [&](const Queue& queue) { return queue.thread == thread.index(); });
  if (found != queues_.end()) return *found;
  queues_.push_back({thread.index(), {}});
  return queues_.back();
}

std::vector<Block*> TensorMatrixUnit::blocks_of(const Thread& thread, unsigned count) {
  if (count == 1) return {&block_};
  if (block_.rank % 2 != 0)
    fault(thread, cat("matrix_multiply of a pair of blocks in the block of rank ", block_.rank,
                      "; allowed is that of the lower rank"));
  return {&block_, &TensorMemory::other_of_pair(thread, "matrix_multiply")};
}

void TensorMatrixUnit::issue(Thread& thread, const tj_model_tensor_matrix& instruction) {
  const auto blocks = static_cast<unsigned>(instruction.blocks);
  Work product;
  product.blocks = blocks;
  product.instruction =
      decoded(thread, "instruction", [&] { return TensorInstruction::decode(instruction.instruction, blocks); });
  product.right = decoded(thread, "right operand", [&] { return decode_tensor_operand(instruction.descriptor_b); });
  product.left_in_tensor = instruction.left_in_tensor != 0;
  product.accumulate = instruction.accumulate != 0;
  if (!product.left_in_tensor)
    product.left = decoded(thread, "left operand", [&] { return decode_tensor_operand(instruction.descriptor_a); });
  else if (product.instruction.transpose_a)
    fault(thread, "matrix_multiply with a left operand in tensor memory that is MN-major; allowed is K-major");
  product.done = block_.tensor_order.next(thread);
  for (Block* block : blocks_of(thread, blocks)) {
    product.sums = cells(*block, thread, product.instruction, instruction.sums, product.instruction.columns,
                         "matrix_multiply's sums");
    if (product.left_in_tensor)
      product.left_tensor = cells(*block, thread, product.instruction, instruction.a_tensor, kLeftColumns,
                                  "matrix_multiply's left operand");
    if (product.left_in_tensor && product.left_tensor.lane != product.sums.lane)
      fault(thread,
            cat("matrix_multiply with sums in ", text_of(product.sums), " of tensor memory and a left operand in ",
                text_of(product.left_tensor), "; allowed are the same lanes"));
    check_operands(*block, thread, product, instruction);
  }
  queue_of(thread).work.push_back(product);
}

void TensorMatrixUnit::check_operands(Block& block, const Thread& thread, const Work& product,
                                      const tj_model_tensor_matrix& instruction) {
  const TensorInstruction& of = product.instruction;
  block.tensor_order.product(thread, product.done, product.sums, product.accumulate,
                             product.left_in_tensor ? &product.left_tensor : nullptr);
  const Shadow::Id access =
      block.monitor.begin(thread, Access::By::matrix, false, product.done.agent, product.done.time);
  Shadow::Reading met;
  if (!product.left_in_tensor)
    read_operand(block.monitor, block.shared, thread, access,
                 {product.left, instruction.descriptor_a, of.element, static_cast<int>(rows_of(of)), of.transpose_a},
                 met);
  met = {};
  read_operand(block.monitor, block.shared, thread, access,
               {product.right, instruction.descriptor_b, of.element, static_cast<int>(of.columns / product.blocks),
                of.transpose_b},
               met);
}

void TensorMatrixUnit::commit(Thread& thread, std::uint32_t barrier, std::uint32_t mask) {
  if (mask != kThisBlock && (mask == 0 || mask >> block_.cluster.size() != 0))
    fault(thread, cat("matrix_commit_multicast with the mask ", hex(mask), "; allowed are 1 to ",
                      hex((1u << block_.cluster.size()) - 1), ", a bit for each block of the cluster"));
  if (mask == kThisBlock && block_.mbarriers.find(barrier) == nullptr)
    fault(thread, cat("matrix_commit to ", hex(barrier), ", where no mbarrier was initialised"));
  if (mask == kThisBlock) block_.mbarriers.check_announced(thread, barrier, "matrix_commit", "matrix unit");
  Work work;
  work.commits = true;
  work.barrier = barrier;
  work.mask = mask;
  work.done = block_.tensor_order.issued(thread);
  queue_of(thread).work.push_back(work);
}

// ---- execution ----------------------------------------------------------------------------------

std::size_t TensorMatrixUnit::ready() const {
  return incoming_.size() +
         static_cast<std::size_t>(
             std::count_if(queues_.begin(), queues_.end(), [](const Queue& queue) { return !queue.work.empty(); }));
}

void TensorMatrixUnit::complete(std::size_t which) {
  for (Queue& queue : queues_) {
    if (queue.work.empty() || which-- != 0) continue;
    const Work work = queue.work.front();
    queue.work.pop_front();
    if (work.commits) return arrive(queue, work);
    return multiply(queue, work);
  }
  const Arrival arrival = incoming_[which];
  incoming_.erase(incoming_.begin() + static_cast<std::ptrdiff_t>(which));
  block_.mbarriers.arrive_after(*arrival.thread, arrival.barrier, arrival.done.agent, arrival.done.time,
                                "matrix_commit_multicast", arrival.done.before);
}

void TensorMatrixUnit::arrive(const Queue& queue, const Work& commit) {
  Thread& thread = scheduler_.thread(queue.thread);
  if (commit.mask == kThisBlock || (commit.mask >> block_.rank & 1u) != 0)
    block_.mbarriers.arrive_after(thread, commit.barrier, commit.done.agent, commit.done.time, "matrix_commit",
                                  commit.done.before);
  for (unsigned rank = 0; commit.mask != kThisBlock && rank < block_.cluster.size(); ++rank)
    if (rank != block_.rank && (commit.mask >> rank & 1u) != 0)
      block_.cluster.peer(thread, rank, "matrix_commit_multicast")
          .tensor_matrix()
          .incoming_.push_back({&thread, commit.barrier, commit.done});
}

void TensorMatrixUnit::load_left(Block& block, const Work& product) {
  const tj_model_element element = product.instruction.element;
  const unsigned rows = rows_of(product.instruction);
  left_.resize(rows * kDepth);
  if (product.left_in_tensor) {
    for (unsigned i = 0; i < rows; ++i) {
      const std::uint32_t* words = block.tensor.row(lane_of(product.left_tensor, i)) + product.left_tensor.column;
      for (unsigned k = 0; k < kDepth; ++k)
        left_[i * kDepth + k] = to_float(static_cast<std::uint16_t>(words[k / 2] >> (k % 2 * 16)), element);
    }
    return;
  }
  if (!product.instruction.transpose_a)
    return load_k_major(block.shared, product.left, element, static_cast<int>(rows), left_.data());
  transposed_.resize(rows * kDepth);
  load_mn_major(block.shared, product.left, element, static_cast<int>(rows), transposed_.data());
  transpose(transposed_.data(), kDepth, rows, left_.data());
}

// Each block of a pair has half of the columns.
void TensorMatrixUnit::load_right(Block& block, const Work& product, unsigned part) {
  const unsigned all = product.instruction.columns, columns = all / product.blocks;
  const tj_model_element element = product.instruction.element;
  right_.resize(all * kDepth);
  half_.resize(columns * kDepth);
  if (product.instruction.transpose_b) {
    load_mn_major(block.shared, product.right, element, static_cast<int>(columns), half_.data());
  } else {
    transposed_.resize(columns * kDepth);
    load_k_major(block.shared, product.right, element, static_cast<int>(columns), transposed_.data());
    transpose(transposed_.data(), columns, kDepth, half_.data());
  }
  for (unsigned k = 0; k < kDepth; ++k)
    std::memcpy(right_.data() + k * all + part * columns, half_.data() + k * columns, columns * sizeof(float));
}

void TensorMatrixUnit::multiply(const Queue& queue, const Work& product) {
  const std::vector<Block*> blocks = blocks_of(scheduler_.thread(queue.thread), product.blocks);
  for (unsigned part = 0; part < product.blocks; ++part) load_right(*blocks[part], product, part);
  for (Block* block : blocks) multiply_in(*block, product);
}

void TensorMatrixUnit::multiply_in(Block& block, const Work& product) {
  load_left(block, product);
  const unsigned columns = product.instruction.columns, rows = rows_of(product.instruction);
  const auto sums = [&](unsigned i) { return block.tensor.row(lane_of(product.sums, i)) + product.sums.column; };
  sums_.assign(std::size_t{rows} * columns, 0.0f);
  const std::size_t bytes = columns * sizeof(float);
  if (product.accumulate)
    for (unsigned i = 0; i < rows; ++i) std::memcpy(sums_.data() + std::size_t{i} * columns, sums(i), bytes);
  multiply_rows(left_.data(), right_.data(), sums_.data(), static_cast<int>(columns), static_cast<int>(rows));
  for (unsigned i = 0; i < rows; ++i) std::memcpy(sums(i), sums_.data() + std::size_t{i} * columns, bytes);
}

}  // namespace tj::model
