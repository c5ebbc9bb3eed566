// Operands of matrix instructions in shared memory, held against what the thread may rely on.
//
// Decides which bytes an operand is, that they are inside and written, and that the copy which brought them had the
// descriptor's swizzle. Does not decide when the instruction runs, nor its arithmetic.
#pragma once

#include <cstdint>

#include "model/matrix_math.hpp"
#include "model/monitor.hpp"

namespace tj::model {

struct OperandRead {
  MatrixOperand operand;
  std::uint64_t descriptor;  ///< for reports
  tj_model_element element;
  int count;  ///< rows of the left operand, columns of the right one
  bool mn_major;
};

/// Adds what the read meets to `met`. Throws tj::Error(model_fault).
void read_operand(Monitor& monitor, SharedMemory& shared, const Thread& thread, Shadow::Id access,
                  const OperandRead& read, Shadow::Reading& met);

}  // namespace tj::model
