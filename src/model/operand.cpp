// See operand.hpp.
#include "model/operand.hpp"

#include <array>

#include "support/fail.hpp"

namespace tj::model {

void read_operand(Monitor& monitor, SharedMemory& shared, const Thread& thread, Shadow::Id access,
                  const OperandRead& read, Shadow::Reading& met) {
  struct Row {
    std::uint32_t bytes = 0, unwritten = 0, address = 0;
  };
  std::array<Row, kMaxMatrixColumns> rows{};
  std::uint32_t written = 0;
  for_each_chunk(read.operand, read.element, read.count, read.mn_major,
                 [&](int at, std::uint32_t address, std::uint32_t bytes) {
                   shared.at(thread, address, bytes, "a matrix operand's read");
                   met.unwritten = 0;
                   monitor.read(thread, access, address, bytes, &met);
                   Row& row = rows[static_cast<std::size_t>(at)];
                   row.bytes += bytes;
                   row.unwritten += met.unwritten;
                   if (met.unwritten > 0) row.address = address;
                   written += bytes - met.unwritten;
                 });
  // Rows outside the tensor need not be there: their results are not stored. Parts of a row, or no row at all, are a
  // fault.
  for (const Row& row : rows)
    if (row.unwritten > 0 && (row.unwritten < row.bytes || written == 0))
      monitor.unwritten(thread, access, row.address, 16);
  for (const Shadow::Id writer : met.writers) {
    const Access& by = monitor.at(writer);
    if (by.by == Access::By::bulk_copy && by.swizzle_bytes != Access::kAnySwizzle &&
        by.swizzle_bytes != read.operand.swizzle_bytes)
      fault(thread, support::cat("matrix_multiply: the descriptor ", hex(read.descriptor), " says a swizzle of ",
                                 read.operand.swizzle_bytes, " bytes, the copy that brought the operand had one of ",
                                 int{by.swizzle_bytes}));
  }
}

}  // namespace tj::model
