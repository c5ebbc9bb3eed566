// The matrix unit that works on tensor memory: products and commits are issued by single threads, and run later.
//
// Decides what a product's descriptors say. A product runs after those which the same thread issued before; products of
// different threads run in any order. A commit is an arrival when all that its thread issued before it has run.
// Invariant: operands are found through the descriptors' bits alone, as the hardware does; sums are f32, by fused
// multiply-adds. Source: PTX ISA 9.0, "tcgen05.mma", "tcgen05.commit", "Shared memory descriptor", "Instruction
// descriptor", "Pipelined tcgen05 Instructions".
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "model/matrix_math.hpp"
#include "model/scheduler.hpp"
#include "model/tensor_memory.hpp"
#include "model/tensor_order.hpp"

namespace tj::model {

/// A 32-bit instruction descriptor, unpacked.
struct TensorInstruction {
  tj_model_element element = TJ_MODEL_F16;
  bool transpose_a = false, transpose_b = false;
  unsigned rows = 0, columns = 0;
  /// Throws tj::Error(model_fault) for bits that this model does not know and shapes that the instruction does not
  /// have.
  static TensorInstruction decode(std::uint32_t descriptor, unsigned blocks);
};
/// Decodes a descriptor of sm_100, as MatrixOperand::decode does one of sm_90.
MatrixOperand decode_tensor_operand(std::uint64_t descriptor);

class TensorMatrixUnit final : public AsyncUnit {
 public:
  static constexpr unsigned kDepth = 16, kLeftColumns = kDepth / 2;  ///< depth in K; columns of a left operand in
                                                                     ///< tensor memory
  static constexpr std::uint32_t kThisBlock = ~0u;

  explicit TensorMatrixUnit(Block& block);
  void reset() { queues_.clear(), incoming_.clear(); }

  /// Both throw tj::Error(model_fault) for misuse.
  void issue(Thread& thread, const tj_model_tensor_matrix& instruction);
  /// mask: the blocks of the cluster; kThisBlock: this one alone.
  void commit(Thread& thread, std::uint32_t barrier, std::uint32_t mask);

  /// Arrivals of other blocks' units that are on their way here.
  std::size_t incoming() const { return incoming_.size(); }
  std::size_t ready() const override;
  void complete(std::size_t which) override;

 private:
  struct Work {
    bool commits = false;
    std::uint32_t barrier = 0, mask = 0;
    TensorInstruction instruction;
    MatrixOperand left, right;
    bool left_in_tensor = false, accumulate = false;
    TensorRange sums, left_tensor;
    unsigned blocks = 1;
    TensorOrder::Done done;  ///< a product's own; a commit's: all that it is for
  };
  struct Queue {
    unsigned thread = 0;
    std::deque<Work> work;
  };

  /// An arrival from another block's unit. Arrivals that come to a block on two ways come in no order.
  struct Arrival {
    Thread* thread;
    std::uint32_t barrier;
    TensorOrder::Done done;
  };

  void check_operands(Block& block, const Thread& thread, const Work& product,
                      const tj_model_tensor_matrix& instruction);
  std::vector<Block*> blocks_of(const Thread& thread, unsigned count);
  Queue& queue_of(const Thread& thread);
  void arrive(const Queue& queue, const Work& commit);
  void multiply(const Queue& queue, const Work& product);
  void multiply_in(Block& block, const Work& product);
  void load_left(Block& block, const Work& product);
  void load_right(Block& block, const Work& product, unsigned part);

  Block& block_;
  Scheduler& scheduler_;
  std::vector<Queue> queues_;
  std::vector<Arrival> incoming_;
  std::vector<float> left_, right_, half_, transposed_, sums_;
};

}  // namespace tj::model
